"""Bundled inputs: arguments that a model carries in its file, with the results expected for them and how far others may be off.

The results come from the original module. The tolerance is measured, not chosen: the module is run again in f64, and what f32 loses
by rounding, times a factor for another order of additions, is allowed. A .ptl file has arguments only.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import numpy as np

from penlight.errors import CaptureError, RunError
from penlight.ir.script import Bundle
from penlight.ir.values import Quantizer, ScriptTensor, Storage

if TYPE_CHECKING:
    import torch

    from penlight.capture.lite.program import LiteProgram
    from penlight.capture.source import SourceProgram
    from penlight.ir.script import Script

Calls = Mapping[str, Sequence[tuple[Any, ...]]]  # arguments by method
Info = Mapping[str, list[str]]  # what is said of each, by method
Results = Callable[["list[Bundle]"], "list[Bundle]"]  # bundles, with what they should give
ORDER_FACTOR = 32  # by how much rounding may grow if sums are taken in another order
MAX_STEPS = 10_000_000  # instructions that a file may take to make its inputs
# A run in the VM: a minute of loops over small tensors, and some passes over all weights for each of some hundred inputs.
RUN_STEPS, RUN_STEPS_PER_BYTE, RUN_STEPS_PER_INPUT_BYTE = 1 << 28, 16, 256
FLOOR = 1e-6  # of the largest result: below this f32 tells no difference
UNKNOWN = 1e-4  # of the largest result, where f64 cannot be tried
QUANTIZED = 0.02  # the same for models with quantized layers: some steps


def bundles_of_module(script: torch.jit.ScriptModule) -> list[Bundle]:
    """Those that a ScriptModule carries, run through it."""
    info: Mapping[str, Mapping[str, list[str]]] = {}
    if hasattr(script, "get_bundled_inputs_functions_and_info"):
        info = script.get_bundled_inputs_functions_and_info()
    inputs = {name: getattr(script, about["get_inputs_function_name"][0])() for name, about in info.items()}
    if hasattr(script, "get_all_bundled_inputs") and not hasattr(script, "get_bundled_inputs_functions_and_info"):
        inputs = {"forward": script.get_all_bundled_inputs()}  # from before several methods could have some
    return with_results(script, inputs, {name: list(about["info"]) for name, about in info.items()})


def bundles_of_file(program: LiteProgram | SourceProgram, results: Results | None = None) -> list[Bundle]:
    """The inputs that a .ptl or a .pt carries, by running the methods that give them, in the VM, which only computes. What they should give is
    not in such a file: `results` tells."""
    if "get_all_bundled_inputs" not in program.methods:
        return []
    from penlight.capture.lite.program import LiteProgram
    from penlight.capture.lite.registers import to_script
    from penlight.model import Model

    try:
        model = Model(
            _image(to_script(program) if isinstance(program, LiteProgram) else program.script()), max_steps=MAX_STEPS
        )
        inputs = {"forward": model.run_method("get_all_bundled_inputs")}
        info: dict[str, Any] = {}
        if "get_bundled_inputs_functions_and_info" in program.methods:
            info = model.run_method("get_bundled_inputs_functions_and_info")
            inputs = {name: model.run_method(told["get_inputs_function_name"][0]) for name, told in info.items()}
        known = {name: list(told.get("info", [])) for name, told in info.items()}
        found = with_results(None, inputs, known)
    except (CaptureError, RunError, KeyError, IndexError, TypeError, AttributeError):
        # an operator that makes the inputs is missing: the methods stay, and say so when they are called; or the file's methods of these
        # names give something else
        return []
    return found if results is None else results(found)


def with_torch_results(program: SourceProgram, made: list[Bundle], say: Callable[[str], None]) -> list[Bundle]:
    """With what torch gives for them, where it may open the file: apart, as torch comes to no end where the file's code has none. Of a file
    that is trusted here, where its operators are."""
    from penlight.apart import ApartError, apart
    from penlight.capture.script import torch_file

    file = torch_file(program) if made else None
    if file is None:
        return made
    try:
        if program.trust:
            return _results_of_file(file, made)
        work = len(made) * (len(file) + sum(_bytes(bundle.args) for bundle in made))
        return apart(_results_of_file, file, made, work=work)  # type: ignore[no-any-return]
    except (ApartError, RuntimeError) as e:
        say(f"what torch gives for the bundled inputs is not known: {e}")
        return made


def _results_of_file(file: bytes, made: list[Bundle]) -> list[Bundle]:
    import torch

    from penlight.capture.script.machine import torch_value

    inputs: dict[str, list[Any]] = {}
    info: dict[str, list[str]] = {}
    for bundle in made:
        inputs.setdefault(bundle.method, []).append(torch_value(bundle.args))
        info.setdefault(bundle.method, []).append(bundle.info)
    return with_results(torch.jit.load(io.BytesIO(file), map_location="cpu"), inputs, info)


def _bytes(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return sum(map(_bytes, value)) if isinstance(value, (list, tuple)) else getattr(value, "nbytes", 0)


def check_run(script: Script, args: tuple[Any, ...]) -> None:
    """Raises where forward fails on these arguments in the VM, or does not end within its limits. What the VM lacks operators for is not run."""
    from penlight.model import Model
    from penlight.ops.vm_operators import operators

    if all(name in operators() for name in script.operators):
        image = _image(script)
        given = sum(arg.nbytes for arg in args if isinstance(getattr(arg, "nbytes", None), int))
        most = RUN_STEPS + RUN_STEPS_PER_BYTE * image.nbytes + RUN_STEPS_PER_INPUT_BYTE * given
        Model(image, max_steps=most).run_method("forward", *args)


def _image(script: Script) -> np.ndarray:
    """All of its code, interpreted."""
    from penlight.file.writer import to_array
    from penlight.ir.graph import Program

    return to_array(Program({}, {}, script))


def with_results(model: Any, inputs: Calls, info: Info | None = None) -> list[Bundle]:
    """Runs each call through the model, which is in eval mode, to learn the results and the tolerance; None: they stay unknown."""
    made = []
    for method, calls in inputs.items():
        told = (info or {}).get(method, [])
        if model is not None and not hasattr(model, method):
            raise CaptureError(f"bundled inputs of {method}: the model has no method of that name")
        for i, args in enumerate(calls):
            if not isinstance(args, tuple):
                raise CaptureError(
                    f"bundled inputs of {method}: expected a tuple of arguments, got {type(args).__name__}"
                )
            bundle = Bundle(method, stored(args), info=told[i] if i < len(told) else "")
            if model is not None:
                outputs, bundle.absolute = _run(model, method, args)
                bundle.outputs, bundle.has_outputs = stored(outputs), True
            made.append(bundle)
    return made


def _run(model: Any, method: str, args: tuple[Any, ...]) -> tuple[Any, float]:
    """What a method gives, and by how much another engine may be off."""
    import torch

    def call(module: Any, arguments: tuple[Any, ...]) -> Any:
        with torch.no_grad(), redirect_stdout(io.StringIO()):  # what code prints may come from a file
            return getattr(module, method)(*copy.deepcopy(arguments))

    outputs = call(copy.deepcopy(model).eval(), args)  # on a copy: a model with state stays as it was
    found = list(_floats(outputs))
    scale = max((float(t[torch.isfinite(t)].abs().max()) for t in found if torch.isfinite(t).any()), default=0.0)
    if not found or scale == 0.0:
        return outputs, FLOOR if found else 0.0
    if any(name.startswith("quantized::") for name in _operators(model)):
        return outputs, QUANTIZED * scale
    try:
        exact = list(_floats(call(copy.deepcopy(model).eval().double(), _double(args))))
        lost = max(
            float((a.double() - b).abs().nan_to_num(0, 0, 0).max())
            for a, b in zip(found, exact, strict=True)
            if a.numel()
        )
    except Exception:  # code that asks for f32 by name, or shapes that follow from rounded values
        return outputs, UNKNOWN * scale
    return outputs, ORDER_FACTOR * lost + FLOOR * scale


def _operators(model: Any) -> list[str]:
    import torch

    try:
        return list(torch.jit.export_opnames(model)) if isinstance(model, torch.jit.ScriptModule) else []
    except RuntimeError:  # torch cannot lower it to bytecode
        return []


def _floats(value: Any) -> Iterator[torch.Tensor]:
    import torch

    if isinstance(value, torch.Tensor):
        if value.is_quantized:
            value = value.dequantize()
        if value.is_floating_point():
            yield value.detach()
    elif isinstance(value, dict):
        for item in value.values():
            yield from _floats(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _floats(item)


def _double(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return value.double() if value.is_floating_point() else value
    if isinstance(value, dict):
        return {k: _double(v) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_double(v) for v in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_double(v) for v in value)
    return value


def stored(value: Any) -> Any:
    """A value with its tensors as the file's tables take them."""
    if hasattr(value, "detach"):
        return _stored_tensor(value.detach())
    if isinstance(value, dict):
        return {k: stored(v) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(stored(v) for v in value))
    if isinstance(value, (list, tuple)):
        return type(value)(stored(v) for v in value)
    return value


def _stored_tensor(t: torch.Tensor) -> Any:
    import torch

    t = t.resolve_neg()
    if t.dtype == torch.bfloat16:
        return _lite(t.contiguous().view(torch.int16), "bf16", None)
    if not t.is_quantized:
        return t.contiguous().numpy()
    if t.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        quantizer = Quantizer(t.q_scale(), t.q_zero_point())
    else:
        zeros = tuple(int(z) for z in t.q_per_channel_zero_points().tolist())
        quantizer = Quantizer(tuple(t.q_per_channel_scales().tolist()), zeros, t.q_per_channel_axis())
    numbers = t.int_repr().contiguous()
    return _lite(numbers, {torch.uint8: "u8", torch.int8: "i8", torch.int32: "i32"}[numbers.dtype], quantizer)


def _lite(numbers: torch.Tensor, dtype: str, quantizer: Quantizer | None) -> ScriptTensor:
    data = numbers.numpy().reshape(-1).view(np.uint8) if numbers.numel() else np.empty(0, np.uint8)
    return ScriptTensor(Storage(data), dtype, 0, tuple(numbers.shape), numbers.stride(), quantizer)
