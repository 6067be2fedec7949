"""permute: dims in another order, as a view; transpose, t, movedim and mT are all this one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penlight.ops.registry import Op, Sample, Selection

if TYPE_CHECKING:
    import numpy as np

    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter


def _fold(x: np.ndarray, *, dims: tuple[int, ...]) -> np.ndarray:
    return x.transpose(dims)


permute = Op(
    "permute",
    "x: tensor, dims: int[]",
    layout="view",
    quantized="same",
    tolerance=0.0,
    mixed=("x",),
    select=lambda node: Selection("permute.view"),
    fold=_fold,
    doc="Dim i of the result is dim dims[i] of x. Always a view.",
)


@permute.from_aten("permute", "permute_copy")
def _(g: Emitter, x: Value, dims: Sequence[int]) -> Value:
    return g.permute(x, dims)


@permute.from_aten("transpose.int", "swapaxes", "swapdims", "transpose_copy.int")
def _(g: Emitter, x: Value, a: int, b: int) -> Value:
    order = list(range(x.rank))
    if x.rank:
        order[a], order[b] = order[b], order[a]
    return g.permute(x, order)


@permute.from_aten("t", "mT", "adjoint", "matrix_H", "mH", "t_copy")
def _(g: Emitter, x: Value) -> Value:
    order = list(range(x.rank))
    return g.permute(x, order if x.rank < 2 else [*order[:-2], order[-1], order[-2]])


@permute.from_aten("numpy_T")
def _(g: Emitter, x: Value) -> Value:
    return g.permute(x, range(x.rank)[::-1])


@permute.from_aten("movedim.int", "movedim.intlist", "moveaxis.int", "moveaxis.intlist")
def _(g: Emitter, x: Value, source: Any, target: Any) -> Value:
    source, target = ([v % x.rank for v in ([d] if isinstance(d, int) else d)] for d in (source, target))
    rest = iter(d for d in range(x.rank) if d not in source)
    return g.permute(x, [source[target.index(d)] if d in target else next(rest) for d in range(x.rank)])


@permute.samples
def _() -> Iterator[Sample]:
    import torch

    x = torch.randn(2, 3, 4, 5)
    yield Sample(
        lambda x: [
            x.permute(0, 2, 3, 1),
            x.permute(-1, 0, 1, 2),
            x.transpose(1, -1),
            x[0, 0].t(),
            x.mT,
            x[0, 0, 0].t(),
            x.movedim(1, -1),
            x.movedim((0, 1), (2, 0)),
            x.swapaxes(0, 1),
        ],
        (x,),
        "orders",
    )
    yield Sample(
        lambda x: [
            x.permute(3, 2, 1, 0) + 1,
            x.transpose(0, 1)[1:].transpose(1, 2) * 2,
            x.permute(1, 0, 2, 3).mT.exp(),
        ],
        (x,),
        "then computed with",
        1e-6,
    )
    yield Sample(
        lambda x: [x.permute(0, 2, 3, 1) * 2, x.transpose(1, 2)],
        (x.contiguous(memory_format=torch.channels_last),),
        "channels last",
    )
    yield Sample(lambda x: [x.permute(2, 0, 1, 3), x.bool().mT], ((x * 9).to(torch.int64),), "i64, bool")
