"""as_strided_scatter: x with some of it replaced; assignments to slices, rows and diagonals all become this one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Window:
    """A part of a tensor, as slices and single indices show it."""

    places: tuple[tuple[int, Dim], ...]  # of each dim that it has: the tensor's dim, and the step along it
    starts: tuple[Dim, ...]  # of each dim of the tensor

    def inside(self, outer: Window) -> Window:
        """This one, of the tensor that `outer` is a window of."""
        starts = list(outer.starts)
        for (dim, step), start in zip(outer.places, self.starts, strict=True):
            starts[dim] = combine("+", starts[dim], combine("*", start, step))
        places = [(outer.places[d][0], combine("*", outer.places[d][1], step)) for d, step in self.places]
        return Window(tuple(places), tuple(starts))


def _slice_window(x: Value, dim: int, start: Dim, step: Dim) -> Window:
    starts = [_from_start(start, x.shape[d]) if d == dim else 0 for d in range(x.rank)]
    return Window(tuple((d, step if d == dim else 1) for d in range(x.rank)), tuple(starts))


def _select_window(x: Value, dim: int, index: Dim) -> Window:
    if isinstance(index, int) and index < 0:
        index = combine("+", x.shape[dim], index)
    return Window(
        tuple((d, 1) for d in range(x.rank) if d != dim), tuple(index if d == dim else 0 for d in range(x.rank))
    )


def _shows(view: Value, x: Value, window: Window) -> bool:
    """Whether `view` is this window of x."""
    node = view.producer
    if node is None or not node.inputs or node.inputs[0] is not x:
        return False
    attrs: Any = node.attrs
    if node.op == "slice":
        return _slice_window(x, attrs["dim"] % x.rank, attrs["start"], attrs["step"]) == window
    return node.op == "select" and _select_window(x, attrs["dim"] % x.rank, attrs["index"]) == window


def _put(g: Emitter, x: Value, src: Value, window: Window) -> Value:
    """x with src in a window. `cache[:b, p:q] = k` comes as a row of calls: the slice [:b] with k in it is put into cache. Only k changes
    anything, so only k is put, and a cache that is the model's state is not copied for it."""
    src = g.cast(src, x.dtype)
    inner = g.windows.get(src)
    if inner is not None and _shows(inner[0], x, window):
        _, src, part = inner
        window = part.inside(window)
    stride = _strides(x.shape)
    offset: Dim = 0
    for start, step in zip(window.starts, stride, strict=True):
        offset = combine("+", offset, combine("*", start, step))
    made = _emit(g, x, src, [combine("*", stride[d], step) for d, step in window.places], offset)
    g.windows[made] = (x, src, window)
    return made


@as_strided_scatter.from_aten("slice_scatter")
def _(g: Emitter, x: Value, src: Value, dim: int, start: Dim | None, end: Dim | None, step: Dim) -> Value:
    if src.shape == x.shape and step == 1:
        return g.cast(src, x.dtype)
    return _put(g, x, src, _slice_window(x, dim % x.rank, start or 0, step))


@as_strided_scatter.from_aten("select_scatter")
def _(g: Emitter, x: Value, src: Value, dim: int, index: Dim) -> Value:
    return _put(g, x, src, _select_window(x, dim % x.rank, index))


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

    def nested(x: Any, row: Any) -> Any:
        y, z = x * 2, x + 1
        y[1:4, 2:8:2, 3] = row[:3, :3]
        y[-2][3:, ::5] = 3
        y[2:, 1:][:2, 4:6, 2:] = row[:2, None, 2:]
        z[0][1, 2] = 5
        part = z[1:]
        part[:, 0] = row[1:]
        z[0] = 1
        part[1:, 1] += row[2:]
        return y, z, part

    yield Sample(nested, (x, row), "windows of windows", 1e-6)
    n = torch.export.Dim("n", min=3, max=99)
    yield Sample(
        lambda x, row: [x.select_scatter(row, 1, 2), x.slice_scatter(x[:, :1] + 1, 1, -1)],
        (x, row), "dynamic", dynamic=({0: n}, {0: n}),
    )  # fmt: skip
