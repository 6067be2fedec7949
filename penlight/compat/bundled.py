"""Bundled inputs as a compiled model has them: arguments, with the results expected for them and how far others may be off.

The results come from the original module. The tolerance is measured, not chosen: the module is run again in f64, and what f32 loses
by rounding, times a factor for another order of additions, is allowed.
"""

from __future__ import annotations

import base64
import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

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
            name: {"get_inputs_function_name": [f"get_all_bundled_inputs_for_{name}"], "info": list(self.info.get(name, []))}
            for name in self.calls
        }

    def method_names(self) -> list[str]:
        """PyTorch's accessors that these bundles answer to."""
        if not self:
            return []
        names = ["get_bundled_inputs_functions_and_info", *(f"get_all_bundled_inputs_for_{name}" for name in self.calls)]
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


def with_results(
    script: torch.jit.ScriptModule, inputs: Mapping[str, Any], info: Mapping[str, list[str]]
) -> Bundles:
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
# The compiled model keeps them in its metadata until the file has a table for them.
KEY = "bundled_inputs"


def to_metadata(bundles: Bundles) -> dict[str, Any]:
    """What a model's metadata should say of them."""
    calls = {name: [_pack((c.args, c.outputs, c.tolerance)) for c in made] for name, made in bundles.calls.items()}
    return {KEY: {"calls": calls, "info": bundles.info}} if bundles else {}


def bundles_in(model: Any) -> Bundles:
    """Those of a loaded model."""
    stored = model.metadata.get(KEY)
    if not stored:
        return Bundles()
    calls = {name: [Bundled(*_unpack(call)) for call in made] for name, made in stored["calls"].items()}
    return Bundles(calls, stored["info"])


def _pack(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        plain = value.detach().dequantize() if value.is_quantized else value.detach()
        data = plain.contiguous().reshape(-1).view(torch.uint8) if plain.numel() else torch.empty(0, dtype=torch.uint8)
        text = base64.b64encode(data.numpy().tobytes()).decode()
        return {"tensor": [str(plain.dtype).removeprefix("torch."), list(plain.shape), text]}
    if isinstance(value, dict):
        return {"dict": [[_pack(k), _pack(v)] for k, v in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_pack(v) for v in value]}
    if isinstance(value, list):
        return {"list": [_pack(v) for v in value]}
    if isinstance(value, float):
        return {"float": value.hex()}
    return value  # None, bool, int, str


def _unpack(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        dtype, shape, text = content
        data = bytearray(base64.b64decode(text))
        wanted = getattr(torch, dtype)
        return torch.frombuffer(data, dtype=wanted).reshape(shape) if data else torch.empty(shape, dtype=wanted)
    if kind == "dict":
        return {_unpack(k): _unpack(v) for k, v in content}
    if kind == "tuple":
        return tuple(_unpack(v) for v in content)
    if kind == "list":
        return [_unpack(v) for v in content]
    return float.fromhex(content)
