"""Bundled inputs as a compiled model has them: arguments, with the results expected for them and how far others may be off.

The results come from the original module. The tolerance is measured, not chosen: the module is run again in f64, and what f32 loses
by rounding, times a factor for another order of additions, is allowed.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from penlight.ir.script import Bundle
from penlight.ir.values import Quantizer, ScriptTensor, Storage

if TYPE_CHECKING:
    from penlight.model import Model

ORDER_FACTOR = 32  # by how much rounding may grow if sums are taken in another order
FLOOR = 1e-6  # of the largest result: below this f32 tells no difference
UNKNOWN = 1e-4  # of the largest result, where f64 cannot be tried
QUANTIZED = 0.02  # the same for models with quantized layers: some steps


@dataclass(frozen=True)
class Bundled:
    """One call: its arguments, what the original module gave, and how far (absolute) another engine may be from it."""

    args: tuple[Any, ...]
    outputs: Any
    tolerance: float


@dataclass
class Bundles:
    """All bundled calls of a model, by method, and what is said of them."""

    calls: dict[str, list[Bundled]] = field(default_factory=dict)
    info: dict[str, list[str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.calls)

    def inputs(self, method: str) -> list[tuple[Any, ...]]:
        """The arguments, as copies: a caller may write into them."""
        return [copy.deepcopy(call.args) for call in self.calls[method]]

    def functions_and_info(self) -> dict[str, dict[str, list[str]]]:
        return {
            name: {
                "get_inputs_function_name": [f"get_all_bundled_inputs_for_{name}"],
                "info": list(self.info.get(name, [])),
            }
            for name in self.calls
        }

    def method_names(self) -> list[str]:
        """PyTorch's accessors that these bundles answer to."""
        if not self:
            return []
        names = [
            "get_bundled_inputs_functions_and_info",
            *(f"get_all_bundled_inputs_for_{name}" for name in self.calls),
        ]
        if "forward" in self.calls:
            names += ["get_all_bundled_inputs", "get_num_bundled_inputs", "run_on_bundled_input"]
        return names

    def method(self, module: Any, name: str) -> Callable[..., Any] | None:
        """The accessor of this name, for a module with these bundles."""
        if name not in self.method_names():
            return None
        if name == "get_bundled_inputs_functions_and_info":
            return self.functions_and_info
        if name == "run_on_bundled_input":
            return lambda index: module.forward(*self.inputs("forward")[index])
        if name == "get_num_bundled_inputs":
            return lambda: len(self.calls["forward"])
        if name == "get_all_bundled_inputs":
            return functools.partial(self.inputs, "forward")
        return functools.partial(self.inputs, name.removeprefix("get_all_bundled_inputs_for_"))


def bundles_of(script: torch.jit.ScriptModule) -> Bundles:
    """Those that a ScriptModule carries, run through it."""
    info: Mapping[str, Mapping[str, list[str]]] = {}
    if hasattr(script, "get_bundled_inputs_functions_and_info"):
        info = script.get_bundled_inputs_functions_and_info()
    inputs = {name: getattr(script, about["get_inputs_function_name"][0])() for name, about in info.items()}
    if hasattr(script, "get_all_bundled_inputs") and not hasattr(script, "get_bundled_inputs_functions_and_info"):
        inputs = {"forward": script.get_all_bundled_inputs()}  # from before several methods could have some
    return with_results(script, inputs, {name: list(about["info"]) for name, about in info.items()})


def with_results(script: torch.jit.ScriptModule, inputs: Mapping[str, Any], info: Mapping[str, list[str]]) -> Bundles:
    """Runs each call through the module, which is in eval mode, to learn the results and the tolerance."""
    calls = {}
    for name, all_args in inputs.items():
        calls[name] = [run(script, name, tuple(args)) for args in all_args]
    return Bundles(calls, dict(info))


def run(script: torch.jit.ScriptModule, method: str, args: tuple[Any, ...]) -> Bundled:
    def call(module: Any, arguments: tuple[Any, ...]) -> Any:
        with torch.no_grad():
            return getattr(module, method)(*copy.deepcopy(arguments))

    outputs = call(copy.deepcopy(script), args)  # on a copy: a model with state stays as it was
    found = list(_floats(outputs))
    scale = max((float(t.abs().max()) for t in found if t.numel()), default=0.0)
    if not found or scale == 0.0 or not torch.isfinite(torch.tensor(scale)):
        return Bundled(args, outputs, FLOOR if found else 0.0)
    if any(name.startswith("quantized::") for name in _operators(script)):
        return Bundled(args, outputs, QUANTIZED * scale)
    try:
        exact = list(_floats(call(copy.deepcopy(script).double(), _double(args))))
        lost = max(float((a.double() - b).abs().max()) for a, b in zip(found, exact, strict=True) if a.numel())
        tolerance = ORDER_FACTOR * lost + FLOOR * scale
        return Bundled(args, outputs, tolerance if tolerance == tolerance else UNKNOWN * scale)
    except Exception:  # code that asks for f32 by name, or shapes that follow from rounded values
        return Bundled(args, outputs, UNKNOWN * scale)


def _operators(script: torch.jit.ScriptModule) -> list[str]:
    try:
        return list(torch.jit.export_opnames(script))
    except RuntimeError:
        return []


def _floats(value: Any) -> Iterator[torch.Tensor]:
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
    if isinstance(value, torch.Tensor):
        return value.double() if value.is_floating_point() else value
    if isinstance(value, dict):
        return {k: _double(v) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_double(v) for v in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_double(v) for v in value)
    return value


# --- in the file ---
def to_program(bundles: Bundles) -> list[Bundle]:
    """The rows of the file's table of bundled inputs."""
    made = []
    for name, calls in bundles.calls.items():
        told = bundles.info.get(name, [])
        for i, call in enumerate(calls):
            info = told[i] if i < len(told) else ""
            args, outputs = tuple(_stored(a) for a in call.args), _stored(call.outputs)
            made.append(Bundle(name, args, outputs, True, info, absolute=call.tolerance))
    return made


def bundles_in(model: Model) -> Bundles:
    """Those of a loaded model. Without torch, tensors come as numpy arrays."""
    bundles = Bundles()
    for name in model.methods:
        found = model.bundled_inputs(name, as_torch=True)
        if found:
            bundles.calls[name] = [Bundled(b.args, b.outputs, b.absolute) for b in found]
            bundles.info[name] = [b.info for b in found] if any(b.info for b in found) else []
    return bundles


def _stored(value: Any) -> Any:
    """A value with its tensors as the file's tables take them."""
    if isinstance(value, torch.Tensor):
        return _stored_tensor(value.detach())
    if isinstance(value, dict):
        return {k: _stored(v) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_stored(v) for v in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_stored(v) for v in value)
    return value


def _stored_tensor(t: torch.Tensor) -> Any:
    if t.dtype == torch.bfloat16:
        return _lite(t.contiguous().view(torch.int16), "bf16", None)
    if not t.is_quantized:
        return t.contiguous().numpy()
    if t.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        quantizer = Quantizer(t.q_scale(), t.q_zero_point())
    else:
        zeros = tuple(int(z) for z in t.q_per_channel_zero_points().tolist())
        quantizer = Quantizer(tuple(t.q_per_channel_scales().tolist()), zeros, t.q_per_channel_axis())
    stored = t.int_repr().contiguous()
    return _lite(stored, {torch.uint8: "u8", torch.int8: "i8", torch.int32: "i32"}[stored.dtype], quantizer)


def _lite(stored: torch.Tensor, dtype: str, quantizer: Quantizer | None) -> ScriptTensor:
    data = stored.numpy().reshape(-1).view(np.uint8) if stored.numel() else np.empty(0, np.uint8)
    return ScriptTensor(Storage(data), dtype, 0, tuple(stored.shape), stored.stride(), quantizer)
