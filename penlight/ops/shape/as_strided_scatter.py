"""as_strided_scatter: x with some of it replaced; assignments to slices, rows and diagonals all become this one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penlight.ir.dims import combine, product
from penlight.ops.registry import Op, Sample
from penlight.ops.shape.strided import checked_reach, in_memory_order

if TYPE_CHECKING:
    import numpy as np

    from penlight.ir.dims import Dim
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter


def _fold(x: np.ndarray, src: np.ndarray, *, stride: tuple[int, ...], offset: int) -> np.ndarray:
    import numpy as np

    places = np.full(src.shape, offset, dtype=np.int64)
    for d, step in enumerate(stride):
        places += (np.arange(src.shape[d]) * step).reshape([-1 if e == d else 1 for e in range(src.ndim)])
    y = np.array(x, order="C")
    y.reshape(-1)[places] = src
    return y


as_strided_scatter = Op(
    "as_strided_scatter",
    "x: tensor, src: tensor, stride: int[], offset: int",
    tolerance=0.0,
    key_by="size",
    fold=_fold,
    doc="x, row-major, with src at the places that begin at offset and are stride apart.",
)


def _strides(shape: tuple[Dim, ...]) -> list[Dim]:
    return [product(shape[d + 1 :]) for d in range(len(shape))]


def _emit(g: Emitter, x: Value, src: Value, stride: Sequence[Dim], offset: Dim) -> Value:
    made: Value = g.emit(
        "as_strided_scatter", x, g.cast(src, x.dtype), type=x.tensor, stride=tuple(stride), offset=offset
    )
    return made


def _from_start(index: Dim, size: Dim) -> Dim:
    """A bound as Python has it: negative from the end, never outside."""
    if isinstance(index, int):
        if index >= 2**62:
            return size
        index = combine("max", combine("+", size, index), 0) if index < 0 else index
        if index == 0:
            return 0
    return combine("min", index, size)


@as_strided_scatter.from_aten("slice_scatter")
def _(g: Emitter, x: Value, src: Value, dim: int, start: Dim | None, end: Dim | None, step: Dim) -> Value:
    if src.shape == x.shape and step == 1:
        return g.cast(src, x.dtype)
    dim %= x.rank
    stride = _strides(x.shape)
    offset = combine("*", _from_start(start or 0, x.shape[dim]), stride[dim])
    stride[dim] = combine("*", stride[dim], step)
    return _emit(g, x, src, stride, offset)


@as_strided_scatter.from_aten("select_scatter")
def _(g: Emitter, x: Value, src: Value, dim: int, index: Dim) -> Value:
    dim %= x.rank
    stride = _strides(x.shape)
    if isinstance(index, int) and index < 0:
        index = combine("+", x.shape[dim], index)
    return _emit(g, x, src, stride[:dim] + stride[dim + 1 :], combine("*", index, stride[dim]))


@as_strided_scatter.from_aten("diagonal_scatter")
def _(g: Emitter, x: Value, src: Value, offset: int, dim1: int, dim2: int) -> Value:
    row, column = dim1 % x.rank, dim2 % x.rank
    stride = _strides(x.shape)
    rest = [s for d, s in enumerate(stride) if d not in (row, column)]
    start = combine("*", stride[column] if offset >= 0 else stride[row], abs(offset))
    return _emit(g, x, src, [*rest, combine("+", stride[row], stride[column])], start)


@as_strided_scatter.from_aten("diag_embed")
def _(g: Emitter, x: Value, offset: int, dim1: int, dim2: int) -> Value:
    shape = g.out.shape
    row, column = dim1 % len(shape), dim2 % len(shape)
    stride = _strides(shape)
    rest = [s for d, s in enumerate(stride) if d not in (row, column)]
    start = combine("*", stride[column] if offset >= 0 else stride[row], abs(offset))
    zeros = g.emit("expand", g.constant(0, x.dtype), type=g.out, shape=shape)
    return _emit(g, zeros, x, [*rest, combine("+", stride[row], stride[column])], start)


@as_strided_scatter.from_aten("as_strided_scatter")
def _(g: Emitter, x: Value, src: Value, size: Any, stride: Sequence[Dim], offset: Dim | None) -> Value:
    x, order, start = in_memory_order(g, x)
    offset = combine("-", start if offset is None else offset, start)
    checked_reach(g, x, size, stride, offset)
    y = _emit(g, x, src, stride, offset)
    return g.permute(y, [order.index(d) for d in range(len(order))])


@as_strided_scatter.samples
def _() -> Iterator[Sample]:
    import torch

    x, row = torch.randn(5, 9, 6), torch.randn(5, 6)

    def assigned(x: Any, row: Any) -> Any:
        y = x * 2
        y[:, 3] = row
        y[1:4, ::3, 1] = 7
        y[..., -2:] += 1
        return y

    yield Sample(assigned, (x, row), "assignments", 1e-6)
    yield Sample(
        lambda x, row: [x.select_scatter(row, 1, -2), x.slice_scatter(x[:, :3] * 2, 1, 2, 8, 2), x.slice_scatter(x, 0),
                        x.permute(2, 0, 1).select_scatter(row.T, 2, 0), x.slice_scatter(x[:, :0], 1, 4, 4),
                        x.diagonal_scatter(row, -1, 1, 2), x.diagonal_scatter(row[:, :4], 2, 1, 2),
                        row.as_strided_scatter(row[:2, :3] + 1, (2, 3), (7, 2), 3), x.bool().select_scatter(row > 0, 1, 8),
                        torch.diag_embed(x, -2, 0, 2), torch.diag_embed(x), torch.diag_embed(row[0], 1)],
        (x, row), "scatters",
    )  # fmt: skip
    n = torch.export.Dim("n", min=3, max=99)
    yield Sample(
        lambda x, row: [x.select_scatter(row, 1, 2), x.slice_scatter(x[:, :1] + 1, 1, -1)],
        (x, row), "dynamic", dynamic=({0: n}, {0: n}),
    )  # fmt: skip
