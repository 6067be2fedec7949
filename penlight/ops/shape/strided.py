"""as_strided, diagonal and unfold: views with strides that slices cannot give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penlight.ops.registry import Op, Sample, Selection

if TYPE_CHECKING:
    import numpy as np

    from penlight.ir.dims import Dim
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter


def _fold_strided(x: np.ndarray, *, size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> np.ndarray:
    import numpy as np

    flat = np.array(x, order="C").reshape(-1)
    places = np.full(size, offset, dtype=np.int64)
    for d, (n, step) in enumerate(zip(size, stride, strict=True)):
        places += (np.arange(n) * step).reshape([-1 if e == d else 1 for e in range(len(size))])
    return flat[places]


def _fold_diagonal(x: np.ndarray, *, offset: int, dim1: int, dim2: int) -> np.ndarray:
    return x.diagonal(offset, dim1, dim2)


def _fold_unfold(x: np.ndarray, *, dim: int, size: int, step: int) -> np.ndarray:
    import numpy as np

    windows = np.lib.stride_tricks.sliding_window_view(x, size, axis=dim)
    return windows[(*[slice(None)] * dim, slice(None, None, step))]


as_strided = Op(
    "as_strided",
    "x: tensor, size: int[], stride: int[], offset: int",
    layout="view",
    quantized="same",
    tolerance=0.0,
    mixed=("x",),
    select=lambda node: Selection("as_strided.view"),
    fold=_fold_strided,
    doc="The elements of a row-major x at other strides. A view of it.",
)
diagonal = Op(
    "diagonal",
    "x: tensor, offset: int, dim1: int, dim2: int",
    layout="view",
    quantized="same",
    tolerance=0.0,
    mixed=("x",),
    select=lambda node: Selection("diagonal.view"),
    fold=_fold_diagonal,
    doc="The diagonal of two dims, which go away, as the last dim; above the main one by offset. Always a view.",
)
unfold = Op(
    "unfold",
    "x: tensor, dim: int, size: int, step: int",
    layout="view",
    quantized="same",
    tolerance=0.0,
    mixed=("x",),
    select=lambda node: Selection("unfold.view"),
    fold=_fold_unfold,
    doc="Windows of a dim, `step` apart; `size` becomes the last dim. Always a view.",
)


def in_memory_order(g: Emitter, x: Value) -> tuple[Value, list[int], int]:
    """x with its dims as torch lays them, row-major, which dims these are, and where its memory begins: what as_strided
    counts from. Only where x fills its memory: else the result would depend on elements that x does not have."""
    fake = g.node.args[0].meta["val"]
    try:
        order = sorted(range(x.rank), key=lambda d: (-int(fake.stride(d)), -int(fake.shape[d])))
        expected = 1
        for d in reversed(order):
            if int(fake.shape[d]) > 1 and int(fake.stride(d)) != expected and fake.numel():
                g.fail("of a tensor with gaps or overlaps in memory: what it reads is not part of the tensor")
            expected *= int(fake.shape[d])
        return g.permute(x, order), order, int(fake.storage_offset())
    except TypeError:  # symbolic sizes
        pass
    if not fake.is_contiguous():
        g.fail("of a tensor that is not contiguous, with symbolic sizes")
    return x, list(range(x.rank)), 0


def checked_reach(g: Emitter, x: Value, size: Sequence[Dim], stride: Sequence[Dim], offset: Dim) -> None:
    import math

    sizes, strides, own = ([d for d in dims if isinstance(d, int)] for dims in (size, stride, x.shape))
    known = len(sizes) == len(size) and len(strides) == len(stride) and len(own) == x.rank
    if not known or not isinstance(offset, int) or 0 in sizes:
        return
    last = offset + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    if offset < 0 or last >= math.prod(own):
        g.fail("that reaches outside of the tensor, into memory that it is a part of")


@as_strided.from_aten("as_strided", "as_strided_copy")
def _(g: Emitter, x: Value, size: Sequence[Dim], stride: Sequence[Dim], offset: Dim | None) -> Value:
    from penlight.ir.dims import combine

    x, _, start = in_memory_order(g, x)
    offset = combine("-", start if offset is None else offset, start)
    checked_reach(g, x, size, stride, offset)
    return g.emit("as_strided", x, size=tuple(size), stride=tuple(stride), offset=offset)


@diagonal.from_aten("diagonal", "diagonal_copy")
def _(g: Emitter, x: Value, offset: int, dim1: int, dim2: int) -> Value:
    return g.emit("diagonal", x, offset=offset, dim1=dim1 % x.rank, dim2=dim2 % x.rank)


@unfold.from_aten("unfold", "unfold_copy")
def _(g: Emitter, x: Value, dim: int, size: int, step: int) -> Value:
    from penlight.ir.types import TensorType

    if x.rank == 0:
        one = g.reshape(x, (1,))
        return one if size == 1 else g.emit("slice", one, type=TensorType(x.dtype, (0,)), dim=0, start=0, end=0, step=1)
    return g.emit("unfold", x, dim=dim % x.rank, size=size, step=step)


@as_strided.samples
def _() -> Iterator[Sample]:
    import torch

    x = torch.randn(5, 7)
    yield Sample(
        lambda x: [x.as_strided((3, 4), (7, 2)), x.as_strided((3, 3), (1, 2), 5), x.as_strided((2, 0), (1, 1)),
                   x.as_strided((5, 5), (1, 1)) * 2, x.t().as_strided((7,), (2,), 1), x.as_strided((), (), 34)],
        (x,), "strides",
    )  # fmt: skip


@diagonal.samples
def _() -> Iterator[Sample]:
    import torch

    x = torch.randn(3, 5, 7)
    yield Sample(
        lambda x: [x[0].diagonal(), x.diagonal(2, 1, 2), x.diagonal(-1, 0, -1), x.diagonal(9, 1, 2), x[0].trace(),
                   x[:, ::2, 1:].diagonal(0, 2, 1) + 1, x[:, :0].diagonal(0, 0, 1), torch.diag(x[0, 0]), x[0].diag(-2)],
        (x,), "of dims", 1e-6,
    )  # fmt: skip
    n = torch.export.Dim("n", min=4, max=99)
    yield Sample(lambda x: [x.diagonal(1, 1, 2), x.diagonal(-1, 1, 2) * 2], (x,), "dynamic", dynamic=({1: n},))


@unfold.samples
def _() -> Iterator[Sample]:
    import torch

    x = torch.randn(3, 17, 5)
    yield Sample(
        lambda x: [x.unfold(1, 4, 2), x.unfold(-1, 5, 1), x.unfold(0, 1, 3) * 2, x[:, ::2].unfold(1, 3, 4),
                   x.unfold(1, 0, 1), x.unfold(1, 9, 3).sum(-1), x.unfold(1, 4, 4).unfold(2, 2, 1)],
        (x,), "windows", 1e-5,
    )  # fmt: skip
    n = torch.export.Dim("n", min=6, max=99)
    yield Sample(lambda x: x.unfold(1, 4, 2) + 1, (x,), "dynamic", dynamic=({1: n},))
