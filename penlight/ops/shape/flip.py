"""flip: dims backwards; roll, which is two slices and a cat, stands here too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    import numpy as np

    from penlight.ir.dims import Dim
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter


def _fold(x: np.ndarray, *, dims: tuple[int, ...]) -> np.ndarray:
    import numpy as np

    return np.flip(x, dims)


flip = Op(
    "flip",
    "x: tensor, dims: int[]",
    layout="follow",
    tolerance=0.0,
    key_by="size",
    quantized="same",
    fold=_fold,
    doc="x with dims backwards.",
)


@flip.from_aten("flip")
def _(g: Emitter, x: Value, dims: Sequence[int]) -> Value:
    turned = tuple(d % x.rank for d in dims if x.rank and x.shape[d] != 1)
    return g.emit("flip", x, dims=turned) if turned else x


@flip.from_aten("roll")
def _(g: Emitter, x: Value, shifts: Sequence[Dim], dims: Sequence[int]) -> Value:
    if not dims:
        flat = g.reshape(x, (-1,))
        return g.reshape(_roll(g, flat, shifts, [0]), x.shape)
    return _roll(g, x, shifts, dims)


def _roll(g: Emitter, x: Value, shifts: Sequence[Dim], dims: Sequence[int]) -> Value:
    from penlight.ir.dims import combine
    from penlight.ir.types import TensorType

    for shift, dim in zip(shifts, dims, strict=True):
        if x.rank == 0 or 0 in x.shape:
            return x
        dim, size = dim % x.rank, x.shape[dim]
        shift = combine("%", shift, size)
        if shift == 0:
            continue
        cut = combine("-", size, shift)

        def part(start: Dim, end: Dim, length: Dim, x: Value = x, dim: int = dim) -> Value:
            type = TensorType(x.dtype, (*x.shape[:dim], length, *x.shape[dim + 1 :]))
            made: Value = g.emit("slice", x, type=type, dim=dim, start=start, end=end, step=1)
            return made

        x = g.emit("cat", part(cut, size, shift), part(0, cut, cut), type=x.tensor, dim=dim)
    return x


@flip.samples
def _() -> Iterator[Sample]:
    import torch

    x = torch.randn(3, 17, 33)
    yield Sample(
        lambda x: [x.flip(0), x.flip(-1), x.flip(1, 2), x.flip(0, 1, 2), x.mT.flip(2), x[:, ::2, 1:].flip(2), x[:0].flip(1),
                   x.fliplr(), x[0].rot90(), x[0].rot90(3), x.bool().flip(2), (x * 9).to(torch.int64).flip(2)],
        (x,), "dims",
    )  # fmt: skip
    image = torch.randn(2, 5, 7, 9).contiguous(memory_format=torch.channels_last)
    yield Sample(lambda x: [x.flip(3) * 2, x.flip(1), x.flip(2, 3)], (image,), "channels last")
    yield Sample(lambda x: x.flip(0, 1), (torch.randn(130, 257),), "several tasks")
    yield Sample(
        lambda x: [x.roll(2, 1), x.roll((-3, 5), (1, 2)), x.roll(40), x.roll(0, 0), x.roll(-20, 2), x[:0].roll(1, 0)],
        (x,), "roll",
    )  # fmt: skip
    n = torch.export.Dim("n", min=2, max=99)
    yield Sample(lambda x: [x.flip(1), x.roll(-3, 1), x.roll(4, 1)], (x,), "dynamic", dynamic=({1: n},))
