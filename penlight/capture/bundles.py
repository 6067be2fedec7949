"""Example inputs that a model carries in its file, with what the original model gave for them and how exactly that is to be met."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from penlight.errors import CaptureError
from penlight.ir.script import Bundle

RELATIVE = 1e-4  # of each number, and of the largest: f32 arithmetic in another order


def bundles_of(model: Any, inputs: Mapping[str, Sequence[tuple[Any, ...]]]) -> list[Bundle]:
    """The arguments by method, run through the original model where it can be run (not a .ptl file: its outputs are unknown)."""
    made = []
    for method, calls in inputs.items():
        for args in calls:
            if not isinstance(args, tuple):
                raise CaptureError(
                    f"bundled inputs of {method}: expected a tuple of arguments, got {type(args).__name__}"
                )
            bundle = Bundle(method, tuple(plain(a) for a in args))
            if callable(model):
                bundle.outputs, bundle.has_outputs = plain(_run(model, method, args)), True
                largest = max(
                    (float(np.abs(a[np.isfinite(a)]).max(initial=0)) for a in _floats(bundle.outputs)), default=0.0
                )
                bundle.absolute, bundle.relative = RELATIVE * largest, RELATIVE
            made.append(bundle)
    return made


def _run(model: Any, method: str, args: tuple[Any, ...]) -> Any:
    import copy

    import torch

    from penlight.capture.export.nn_module import evaluating

    call = model if method == "forward" else getattr(model, method)
    with torch.no_grad(), evaluating(model):
        return call(*copy.deepcopy(args))  # in-place operators shall not change what is kept


def plain(value: Any) -> Any:
    """torch tensors as arrays."""
    if hasattr(value, "detach"):
        tensor = value.detach()
        return (tensor.dequantize() if tensor.is_quantized else tensor).contiguous().numpy()
    if isinstance(value, tuple):
        items = [plain(v) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, Mapping):
        return {k: plain(v) for k, v in value.items()}
    return value


def _floats(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        yield value
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from _floats(v)
    elif isinstance(value, Mapping):
        for v in value.values():
            yield from _floats(v)
