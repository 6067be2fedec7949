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

from penlight.errors import InputError, RunError
from penlight.model import Model, _as_array, _is_torch
from penlight.tensor import Tensor

KEPT = 256  # compiled calls; the one used longest ago makes room

_calls: OrderedDict[Any, tuple[Model, Sequence[Any]]] = OrderedDict()
_packed: set[Any] = set()  # calls whose weights must be constants on their device
_lock = threading.Lock()


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
    import torch

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
    key = (function, device, kinds, repr(form))
    if key not in _packed:
        try:
            return _kept(key, lambda: _compiled(function, device, kinds, form), ())(*tensors)
        except RunError as e:
            if e.status != "kernel" or "pack." not in e.got:
                raise
            _packed.add(key)  # weights are packed while compiling, where the device cannot do it
    first, weights = tensors[0], tensors[1:]
    numbers = tuple(id(w) if isinstance(w, Tensor) else _as_array(w).tobytes() for w in weights)
    return _kept((*key, numbers), lambda: _compiled(function, device, kinds, form, weights), weights)(first)


def _kept(key: Any, compile_call: Callable[[], Model], weights: Sequence[Any]) -> Model:
    """`weights` live as long as the model that they are in: they are known by what they are."""
    with _lock:
        if key in _calls:
            _calls.move_to_end(key)
            return _calls[key][0]
    model = compile_call()
    with _lock:
        _calls[key] = model, weights
        if len(_calls) > KEPT:
            _calls.popitem(last=False)
    return model


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
    function: Callable[..., Any],
    device: str,
    kinds: Sequence[tuple[str, tuple[int, ...]]],
    form: Any,
    weights: Sequence[Any] = (),
) -> Model:
    """A model of this call alone; `weights`, its last tensors, are constants in it."""
    import torch

    import penlight

    class Call(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for i, weight in enumerate(weights):
                self.register_buffer(f"w{i}", Tensor(weight).torch())

        def forward(self, *tensors: Any) -> Any:
            args, kwargs = _put_back(form, (*tensors, *(getattr(self, f"w{i}") for i in range(len(weights)))))
            return function(*args, **kwargs)

    given = kinds[: len(kinds) - len(weights)]
    examples = tuple(torch.ones(shape, dtype=getattr(torch, dtype)) for dtype, shape in given)
    made = penlight.optimize(Call(), examples)
    return made if device == "cpu" else Model(made.to_bytes(), device=device)
