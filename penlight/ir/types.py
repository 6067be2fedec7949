"""Types of IR values: tensors with symbolic shapes, and the scalars and containers that VM code passes around.

Shapes are logical (torch's order, NCHW); where the bytes lie is a value's `layout`, apart from its type. What the integers of a
quantized tensor stand for is part of its type.
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


LEVELS = {"u8": (0, 255), "i8": (-128, 127), "i32": (-(2**31), 2**31 - 1)}
"""The integers that a quantized tensor may hold, by its dtype."""


@dataclass(frozen=True)
class Quant:
    """What integers stand for: real = (stored - zero) * scale. One of each, or one for every place along `axis`."""

    scales: tuple[float, ...]
    zeros: tuple[int, ...]
    axis: int | None = None

    @staticmethod
    def of(scale: float, zero: int) -> Quant:
        return Quant((float(scale),), (int(zero),))

    @property
    def scale(self) -> float:
        """Of a tensor that has one."""
        if self.axis is not None:
            raise ValueError(f"expected one scale for the whole tensor, got {len(self.scales)} along dim {self.axis}")
        return self.scales[0]

    @property
    def zero(self) -> int:
        if self.axis is not None:
            raise ValueError(
                f"expected one zero point for the whole tensor, got {len(self.zeros)} along dim {self.axis}"
            )
        return self.zeros[0]

    def __str__(self) -> str:
        """As the text form has it; many scales are left out, like the data of large constants."""
        if self.axis is None:
            return f"q({self.scales[0]!r}, {self.zeros[0]})"
        if len(self.scales) > INLINE_SCALES:
            return f"q(axis={self.axis})"
        zeros = "0" if not any(self.zeros) else f"[{', '.join(map(str, self.zeros))}]"
        return f"q([{', '.join(map(repr, self.scales))}], {zeros}, axis={self.axis})"


INLINE_SCALES = 16


@dataclass(frozen=True)
class TensorType:
    dtype: str
    shape: tuple[Dim, ...]
    quant: Quant | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        return all(isinstance(d, int) for d in self.shape)

    def __str__(self) -> str:
        quant = "" if self.quant is None else f" {self.quant}"
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]{quant}"


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
