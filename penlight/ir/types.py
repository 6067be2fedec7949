"""Types of IR values: tensors with symbolic shapes, and the scalars and containers that VM code passes around.

Shapes are logical (torch's order, NCHW); where the bytes lie is a value's `layout`, apart from its type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from penlight.ir.dims import Dim
from penlight.ir.dtypes import DTYPES as DTYPES

_FROM_NUMPY = {np.dtype(n): name for name, (_, n) in DTYPES.items() if name != "bf16"}


def numpy_dtype(dtype: str) -> np.dtype:
    return np.dtype(DTYPES[dtype][1])


def dtype_of(array: np.ndarray) -> str:
    """The Penlight name of an array's dtype; TypeError where there is none (complex, uint32, …)."""
    try:
        return _FROM_NUMPY[array.dtype]
    except KeyError:
        raise TypeError(f"dtype {array.dtype} has no Penlight type; supported: {', '.join(DTYPES)}") from None


def itemsize(dtype: str) -> int:
    return numpy_dtype(dtype).itemsize


@dataclass(frozen=True)
class TensorType:
    dtype: str
    shape: tuple[Dim, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        return all(isinstance(d, int) for d in self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class ScalarType:
    """kind: int, float, bool, str or none."""

    kind: str

    def __str__(self) -> str:
        return self.kind


@dataclass(frozen=True)
class ListType:
    element: Type

    def __str__(self) -> str:
        return f"list<{self.element}>"


@dataclass(frozen=True)
class TupleType:
    elements: tuple[Type, ...]

    def __str__(self) -> str:
        return f"tuple<{', '.join(map(str, self.elements))}>"


@dataclass(frozen=True)
class DictType:
    key: Type
    value: Type

    def __str__(self) -> str:
        return f"dict<{self.key}, {self.value}>"


Type: TypeAlias = TensorType | ScalarType | ListType | TupleType | DictType
SCALAR_KINDS = ("int", "float", "bool", "str", "none")
