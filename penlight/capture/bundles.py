"""Example inputs that a model carries in its file, with what the original model gave for them and how exactly that is to be met.

The tolerance is measured, not chosen: the original runs again in f64, and what f32 loses by rounding, times a factor for another
order of additions, is allowed. A .ptl file carries inputs only: what they should give is not known.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from penlight.errors import CaptureError, RunError
from penlight.ir.script import Bundle
from penlight.ir.values import Quantizer, ScriptTensor, Storage

if TYPE_CHECKING:
    from penlight.capture.lite.program import LiteProgram

ORDER_FACTOR = 32  # by how much rounding may grow if sums are taken in another order
FLOOR = 1e-6  # of the largest result: below this f32 tells no difference
UNKNOWN = 1e-4  # of the largest result, where f64 cannot be tried
QUANTIZED = 0.02  # the same for models with quantized layers: some steps

Inputs = Mapping[str, Sequence[tuple[Any, ...]]]  # calls by method
Info = Mapping[str, Sequence[str]]  # what is said of them


def bundles_of(model: Any, inputs: Inputs, info: Info | None = None) -> list[Bundle]:
    """The arguments by method, run through the original model: an nn.Module, a ScriptModule; None: it cannot be run."""
    made = []
    for method, calls in inputs.items():
        told = list((info or {}).get(method, ()))
        for i, args in enumerate(calls):
            if not isinstance(args, tuple):
                raise CaptureError(
                    f"bundled inputs of {method}: expected a tuple of arguments, got {type(args).__name__}"
                )
            bundle = Bundle(method, stored(args), info=told[i] if i < len(told) else "")
            if model is not None:
                outputs, bundle.absolute = _results(model, method, args)
                bundle.outputs, bundle.has_outputs = stored(outputs), True
            made.append(bundle)
    return made


def inputs_in_script(script: Any) -> tuple[dict[str, list[tuple[Any, ...]]], dict[str, list[str]]]:
    """The calls that a ScriptModule carries, and what is said of them."""
    if hasattr(script, "get_bundled_inputs_functions_and_info"):
        info = script.get_bundled_inputs_functions_and_info()
        calls = {name: getattr(script, about["get_inputs_function_name"][0])() for name, about in info.items()}
        return _as_tuples(calls), {name: list(about["info"]) for name, about in info.items()}
    if hasattr(script, "get_all_bundled_inputs"):  # from before several methods could have some
        return _as_tuples({"forward": script.get_all_bundled_inputs()}), {}
    return {}, {}


def bundles_in_bytecode(program: LiteProgram) -> list[Bundle]:
    """The calls that a .ptl carries, by running the methods that give them."""
    if "get_all_bundled_inputs" not in program.methods:
        return []
    from penlight.capture.lite.registers import to_script
    from penlight.file.writer import to_array
    from penlight.ir.graph import Program
    from penlight.model import Model

    try:
        calls, info = inputs_in_script(Model(to_array(Program({}, {}, to_script(program)))))
    except (
        CaptureError,
        RunError,
    ):  # inflated by an operator that is not there: the methods stay, to say so when called
        return []
    return bundles_of(None, calls, info)


def _as_tuples(calls: Mapping[str, Sequence[Sequence[Any]]]) -> dict[str, list[tuple[Any, ...]]]:
    return {name: [tuple(args) for args in each] for name, each in calls.items()}


# --- what they give, and how exactly ---
def _results(model: Any, method: str, args: tuple[Any, ...]) -> tuple[Any, float]:
    """What the model gives, and how far (absolute) another engine may be from it."""
    import torch

    def call(convert: Any, arguments: tuple[Any, ...]) -> Any:
        trial = convert(copy.deepcopy(model).eval())  # a copy: a model with state stays as it was
        with torch.no_grad():
            return (trial if method == "forward" else getattr(trial, method))(*copy.deepcopy(arguments))

    outputs = call(lambda m: m, args)
    found = _floats(outputs)
    scale = max((float(t.abs().max()) for t in found if t.numel()), default=0.0)
    if not found or scale == 0.0 or not np.isfinite(scale):
        return outputs, FLOOR if found else 0.0
    if _is_quantized(model):
        return outputs, QUANTIZED * scale
    try:
        exact = _floats(call(lambda m: m.double(), _double(args)))
        lost = max(float((a.double() - b).abs().max()) for a, b in zip(found, exact, strict=True) if a.numel())
    except (RuntimeError, ValueError):  # code that asks for f32 by name, or shapes that follow from rounded values
        return outputs, UNKNOWN * scale
    return outputs, ORDER_FACTOR * lost + FLOOR * scale if np.isfinite(lost) else UNKNOWN * scale


def _is_quantized(model: Any) -> bool:
    import torch

    if not isinstance(model, torch.jit.ScriptModule):
        return any(".quantized." in type(m).__module__ for m in model.modules())
    try:
        return any(name.startswith("quantized::") for name in torch.jit.export_opnames(model))
    except RuntimeError:  # without forward
        return False


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _floats(value: Any) -> list[Any]:
    tensors = [t.detach() for t in _leaves(value) if hasattr(t, "detach")]
    real = [t.dequantize() if t.is_quantized else t for t in tensors]
    return [t for t in real if t.is_floating_point()]


def _double(value: Any) -> Any:
    return _mapped(value, lambda t: t.double() if t.is_floating_point() else t)


def _mapped(value: Any, change: Any) -> Any:
    """The same containers with every torch tensor changed."""
    if hasattr(value, "detach"):
        return change(value)
    if isinstance(value, Mapping):
        return {k: _mapped(v, change) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_mapped(v, change) for v in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(v, change) for v in value)
    return value


# --- in the file ---
def stored(value: Any) -> Any:
    """A value with its tensors as the file's tables take them."""
    return _mapped(value, _stored_tensor)


def _stored_tensor(t: Any) -> Any:
    import torch

    t = t.detach()
    if t.dtype == torch.bfloat16:
        return _script_tensor(t.contiguous().view(torch.int16), "bf16", None)
    if not t.is_quantized:
        return t.contiguous().numpy()
    if t.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        quantizer = Quantizer(t.q_scale(), t.q_zero_point())
    else:
        zeros = tuple(int(z) for z in t.q_per_channel_zero_points().tolist())
        quantizer = Quantizer(tuple(t.q_per_channel_scales().tolist()), zeros, t.q_per_channel_axis())
    held = t.int_repr().contiguous()
    return _script_tensor(held, {torch.uint8: "u8", torch.int8: "i8", torch.int32: "i32"}[held.dtype], quantizer)


def _script_tensor(held: Any, dtype: str, quantizer: Quantizer | None) -> ScriptTensor:
    data = held.numpy().reshape(-1).view(np.uint8) if held.numel() else np.empty(0, np.uint8)
    return ScriptTensor(Storage(data), dtype, 0, tuple(held.shape), held.stride(), quantizer)


def example_of(bundles: Sequence[Bundle], method: str = "forward") -> tuple[Any, ...] | None:
    """The arguments of the first call of a method, as torch tensors: inputs to plan with. None: there is none that could be."""
    from penlight.vm_module import as_torch

    for bundle in bundles:
        if bundle.method == method and not any(isinstance(v, ScriptTensor) for v in _leaves(bundle.args)):
            return tuple(as_torch(copy.deepcopy(bundle.args)))
    return None
