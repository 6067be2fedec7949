"""Numbers and text of a script, computed by the VM's own operators: what is decided while a script is observed is what a run decides.

Python differs where nobody looks: 1.0 // 0.1 is 9 there and 10 in TorchScript, 2 ** 3 of ints is one int there, text has characters and not
bytes, and a NaN is in every list that holds the same object.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from penlight.errors import CaptureError
from penlight.ops.vm_operators import operators

_MEMORY = 1 << 30  # bytes that a call may take
_ONE_BY_ONE = (bool, int, float, str, type(None))
# Operators that go through a whole list anyway; others may be called for each of its elements, and a call copies it.
_OF_LISTS = {
    "__contains__", "all", "any", "count", "eq", "ge", "gt", "index", "join", "le", "lt", "max", "min", "ne", "percentFormat", "remove", "sort", "sorted", "sum",
}  # fmt: skip
_kept = threading.local()


def takes(name: str, args: Sequence[Any]) -> bool:
    """Whether the VM has an operator ("aten::floordiv.float") that takes plain values, and these are such."""
    known = operators().get(name)
    if known is None or "Device" in known.returns or is_of_tensors(name):
        return False
    lists = name.partition("::")[2].partition(".")[0] in _OF_LISTS
    return all(type(a) in _ONE_BY_ONE or (lists and _is_row(a)) for a in args)


def is_of_tensors(name: str) -> bool:
    """Whether it is an operator ("aten::mul.Tensor") of a tensor, first of all."""
    known = operators().get(name)
    return known is not None and bool(known.params) and known.params[0].kind == "tensor"


def _is_row(value: Any) -> bool:
    return type(value) in (list, tuple) and all(type(v) in _ONE_BY_ONE for v in value)


def call(name: str, args: Sequence[Any]) -> Any:
    """Its result; lists that it changes are changed."""
    results, after = _run(name, args)
    if "\ufffd" in repr(results):  # bytes of a text that are no character
        raise CaptureError(f"{name} gives text that is not UTF-8")
    for given, left in zip(args, after, strict=True):
        if isinstance(given, list):
            given[:] = left
    return results[0] if len(results) == 1 else tuple(results) or None


def call_on_sizes(name: str, args: Sequence[Any]) -> Any:
    """What a trace computes with sizes: to torch they are tensors without dims, whose fractions have 24 bits."""
    params = operators()[name].params
    given = [_tensor(a) if p.kind == "tensor" else a for p, a in zip(params, args, strict=False)]
    results, _ = _run(name, [str(a) if type(a).__name__ == "device" else a for a in given])
    array = getattr(results[0], "array", None) if len(results) == 1 else None
    if array is None:
        return results[0] if len(results) == 1 else None
    if array.shape or array.dtype not in _DTYPES:
        raise CaptureError(f"{name} of a size gives {array.dtype}{list(array.shape)}, which is not planned")
    return array.item()


def is_exact(args: Sequence[Any]) -> bool:
    """Whether products with these numbers are the same in f32 and in f64, for any size: they are whole, or 1/2, 1/4, …"""
    floats = [a for a in args if isinstance(a, float)]
    return all(math.isfinite(a) and (a.is_integer() or math.frexp(a)[0] in (0.5, -0.5)) for a in floats)


_DTYPES = [
    np.dtype(kind) for kind in ("float32", "int64", "int32", "bool")
]  # that a number alone tells, but for their ranges


def _tensor(value: Any) -> Any:
    kinds = {bool: np.bool_, int: np.int64, float: np.float32}
    return np.array(value, kinds[type(value)]) if type(value) in kinds else value


def _run(name: str, args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    from penlight import _runtime

    if not hasattr(_kept, "operators"):
        _kept.operators = _runtime.Operators()
        _kept.operators.create(1, _MEMORY)
    try:
        problem, results, after = _kept.operators.run(name, list(args), keep=True)
    except (TypeError, UnicodeError) as e:  # numbers of more than 64 bits, text that is not UTF-8
        raise CaptureError(f"{name}: {e}") from None
    if problem:
        raise CaptureError(problem["message"])
    return results, after
