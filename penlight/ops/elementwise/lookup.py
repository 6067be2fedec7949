"""lookup: a function of one quantized number, as a table of what every byte becomes. Any unary operator between a dequantize and a
quantize is one, and so is a change of scale (passes/tables.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penlight.ops.registry import Op

if TYPE_CHECKING:
    import numpy as np


def _fold(x: np.ndarray, table: np.ndarray) -> np.ndarray:
    return table[x]


lookup = Op(
    "lookup",
    "x: tensor, table: tensor",
    layout="follow",
    tolerance=0.0,
    dtypes=("q8",),
    mixed=("table",),
    quantized="kernels",
    fold=_fold,
    doc="table[x]: 256 bytes for what each of the 256 stored in x becomes.",
)
