"""Single operators on tensors, by torch's names: each runs where its tensors live, and gives tensors there.

    penlight.functional.add(a, b)     # a, b: penlight.Tensor on "vulkan": computed there, with no way through the host

An operator is compiled as a model of one call when it is first called with tensors of these shapes and dtypes, which needs torch and takes
a moment; then it is kept. Names are those of torch.nn.functional, torch, torch.Tensor and torch.ops.aten, in this order; arguments are
theirs, with penlight.Tensors, arrays or torch tensors in the place of tensors. `dir(penlight.functional)` lists what GPUs have.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penlight.errors import InputError
from penlight.model import Model, _as_array, _is_torch
from penlight.tensor import Tensor

KEPT = 256  # compiled calls; the one used longest ago makes room

_calls: OrderedDict[Any, Model] = OrderedDict()
_lock = threading.Lock()  # of these
_compiling = threading.RLock()  # torch.export is for one thread at a time


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("__"):
        raise AttributeError(name)
    made = functools.partial(call, _torch_function(name))
    made.__doc__ = f"torch's {name}, where its tensors live."  # type: ignore[attr-defined]
    return made


def __dir__() -> list[str]:
    """What GPUs have, by aten's names."""
    from penlight import _runtime
    from penlight.ops import registry

    device = "vulkan" if "vulkan" in _runtime.backends() else "cpu"
    on_gpus = {key.partition(".")[0] for key in _runtime.backend_keys(device)}
    names = (aten for name, op in registry.load_all().items() if name in on_gpus for aten in op.converters)
    return sorted({aten.partition(".")[0] for aten in names if "::" not in aten and not aten.startswith("_")})


def _torch_function(name: str) -> Callable[..., Any]:
    try:
        import torch
    except ModuleNotFoundError as e:
        raise ModuleNotFoundError(
            f"penlight.functional.{name} needs torch, which compiles a call when it is first made (pip install torch);"
            " models that were compiled run without it: penlight.load"
        ) from e

    for place in (torch.nn.functional, torch, torch.Tensor, torch.ops.aten):
        found = getattr(place, name, None)
        if callable(found) and not isinstance(found, type):
            return found  # type: ignore[no-any-return]
    raise AttributeError(f"penlight.functional: torch has no function {name!r}")


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A function of torch on tensors, where they live."""
    name = getattr(function, "__name__", str(function))
    tensors: list[Any] = []
    form = _taken_out((args, dict(sorted(kwargs.items()))), tensors)
    devices = {t.device for t in tensors if isinstance(t, Tensor) and t.buffer is not None}
    if len(devices) > 1:
        raise InputError(
            f"{name}: expected tensors on one device, got {', '.join(sorted(devices))}; move some with .to()"
        )
    device = devices.pop() if devices else "cpu"
    kinds = tuple(_kind(t) for t in tensors)
    return _kept((function, device, kinds, repr(form)), form)(*tensors)


def _kept(key: tuple[Callable[..., Any], str, Any, str], form: Any) -> Model:
    model = _found(key)
    if model is None:
        with _compiling:
            model = _found(key) or _compiled(*key[:3], form)  # another thread may have made it by now
            with _lock:
                _calls[key] = model
                if len(_calls) > KEPT:
                    _calls.popitem(last=False)
    return model


def _found(key: Any) -> Model | None:
    with _lock:
        if key in _calls:
            _calls.move_to_end(key)
        return _calls.get(key)


class _Place:
    """Where a tensor stood among the arguments."""

    def __init__(self, index: int) -> None:
        self.index = index

    def __repr__(self) -> str:
        return f"<{self.index}>"


def _taken_out(value: Any, tensors: list[Any]) -> Any:
    if isinstance(value, (Tensor, np.ndarray)) or (_is_torch(value) and hasattr(value, "detach")):
        tensors.append(value)
        return _Place(len(tensors) - 1)
    if isinstance(value, (list, tuple)):
        return type(value)([_taken_out(v, tensors) for v in value])
    if isinstance(value, dict):
        return {k: _taken_out(v, tensors) for k, v in value.items()}
    return value


def _put_back(form: Any, tensors: Any) -> Any:
    if isinstance(form, _Place):
        return tensors[form.index]
    if isinstance(form, (list, tuple)):
        return type(form)([_put_back(v, tensors) for v in form])
    if isinstance(form, dict):
        return {k: _put_back(v, tensors) for k, v in form.items()}
    return form


def _kind(value: Any) -> tuple[str, tuple[int, ...]]:
    if isinstance(value, Tensor):
        return str(np.dtype(_numpy_name(value.dtype))), value.shape
    array = _as_array(value)
    return str(array.dtype).removeprefix("torch."), tuple(array.shape)


def _numpy_name(dtype: str) -> str:
    from penlight.ir.types import DTYPES

    return DTYPES[dtype][1]


def _compiled(
    function: Callable[..., Any], device: str, kinds: Sequence[tuple[str, tuple[int, ...]]], form: Any
) -> Model:
    """A model of this call alone."""
    import torch

    import penlight

    class Call(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            args, kwargs = _put_back(form, tensors)
            return function(*args, **kwargs)

    examples = tuple(torch.ones(shape, dtype=getattr(torch, dtype)) for dtype, shape in kinds)
    made = penlight.optimize(Call(), examples)
    return made if device == "cpu" else Model(made.to_bytes(), device=device)
