"""triangle: one side of a diagonal of the last two dims, zeros on the other: tril and triu."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    import numpy as np

    from penlight.ir.dims import Dim
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter


def _fold(x: np.ndarray, *, diagonal: int, upper: bool) -> np.ndarray:
    import numpy as np

    return np.triu(x, diagonal) if upper else np.tril(x, diagonal)


triangle = Op(
    "triangle",
    "x: tensor, diagonal: int, upper: bool",
    tolerance=0.0,
    key_by="size",
    fold=_fold,
    doc="x on one side of a diagonal and on it, zeros elsewhere; the main diagonal is 0, those above it count up.",
)


@triangle.from_aten("tril")
def _(g: Emitter, x: Value, diagonal: Dim) -> Value:
    return g.emit("triangle", x, diagonal=diagonal, upper=False)


@triangle.from_aten("triu")
def _(g: Emitter, x: Value, diagonal: Dim) -> Value:
    return g.emit("triangle", x, diagonal=diagonal, upper=True)


@triangle.samples
def _() -> Iterator[Sample]:
    import torch

    x = torch.randn(3, 17, 33)
    yield Sample(
        lambda x: [x.tril(), x.triu(), x.tril(-3), x.triu(20), x.triu(-99), x.tril(99), x.mT.tril(5), x[..., :0].triu(),
                   x[:, ::2].bool().triu(1), (x * 9).to(torch.int64).tril(1)],
        (x,), "diagonals",
    )  # fmt: skip
    yield Sample(lambda x: x.triu(1), (torch.full((130, 257), float("-inf")),), "several tasks")
    n = torch.export.Dim("n", min=2, max=99)
    yield Sample(lambda x: [x.tril(), x.triu(x.shape[1] - 3)], (x,), "dynamic", dynamic=({1: n},))
