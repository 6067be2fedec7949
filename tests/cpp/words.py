"""Values as words between blanks, for the programs that test bindings: tests/cpp/values.cc reads and writes the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from penlight.ir.types import DTYPES

_CODES = {np.dtype(kind): code for code, kind in DTYPES.values() if kind is not None}
_KINDS = {code: np.dtype(kind) for code, kind in DTYPES.values() if kind is not None}


def write(value: Any) -> str:
    if value is None:
        return "N"
    if isinstance(value, bool):
        return f"B {int(value)}"
    if isinstance(value, int):
        return f"I {value}"
    if isinstance(value, float):
        return f"F {value.hex()}"
    if isinstance(value, str):
        return f"S {value.encode().hex() or '-'}"
    if isinstance(value, Mapping):
        return " ".join([f"D {len(value)}", *(f"{write(k)} {write(v)}" for k, v in value.items())])
    if hasattr(value, "_fields"):
        return " ".join(
            [f"P {type(value).__name__}", several(value), *value._fields],
        )
    if isinstance(value, (list, tuple)):
        return f"{'L' if isinstance(value, list) else 'U'} {several(value)}"
    if np.iscomplexobj(value):
        array = np.asarray(value)
        return f"P complex {several([array.real.copy(), array.imag.copy()])} real imag"
    array = np.ascontiguousarray(value).reshape(np.shape(value))
    return " ".join(map(str, ["T", _CODES[array.dtype], array.ndim, *array.shape, array.tobytes().hex() or "-"]))


def several(values: Any) -> str:
    return " ".join([str(len(values)), *map(write, values)])


def read(line: str) -> Any:
    """Named tuples as (name, {field: value})."""
    words = iter(line.split())
    value = _read(words)
    assert next(words, None) is None, line
    return value


def _read(words: Iterator[str]) -> Any:
    kind = next(words)
    if kind == "N":
        return None
    if kind == "B":
        return next(words) == "1"
    if kind == "I":
        return int(next(words))
    if kind == "F":
        return float.fromhex(next(words))
    if kind == "S":
        return bytes.fromhex(next(words).replace("-", "")).decode()
    if kind == "T":
        dtype = _KINDS[int(next(words))]
        shape = [int(next(words)) for _ in range(int(next(words)))]
        return np.frombuffer(bytes.fromhex(next(words).replace("-", "")), dtype).reshape(shape)
    if kind == "D":
        return {_read(words): _read(words) for _ in range(int(next(words)))}
    name = next(words) if kind == "P" else ""
    items = [_read(words) for _ in range(int(next(words)))]
    if name:
        return name, {next(words): item for item in items}
    return items if kind == "L" else tuple(items)
