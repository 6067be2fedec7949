"""select: one index of a dim, which goes away, as a view; unbind is one for each index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penlight.ops.registry import Op, Sample, Selection

if TYPE_CHECKING:
    import numpy as np

    from penlight.ir.dims import Dim
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter


def _fold(x: np.ndarray, *, dim: int, index: int) -> np.ndarray:
    return x.take(index, axis=dim)


select = Op(
    "select",
    "x: tensor, dim: int, index: int",
    layout="view",
    quantized="same",
    tolerance=0.0,
    mixed=("x",),
    select=lambda node: Selection("select.view"),
    fold=_fold,
    doc="x[index] along dim; the index may be negative. Always a view.",
)


@select.from_aten("select.int", "select_copy.int")
def _(g: Emitter, x: Value, dim: int, index: Dim) -> Value:
    return g.emit("select", x, dim=dim % x.rank, index=index)


@select.from_aten("unbind.int", "unbind_copy.int")
def _(g: Emitter, x: Value, dim: int) -> tuple[Value, ...]:
    return tuple(g.emit("select", x, type=part, dim=dim % x.rank, index=i) for i, part in enumerate(g.out))


@select.samples
def _() -> Iterator[Sample]:
    import torch

    x = torch.randn(4, 3, 5)
    yield Sample(
        lambda x: [x[0], x[-1], x[:, 1], x[..., -2], x[1, 2, 3], x.select(1, -1), *x.unbind(1), *x[0].unbind()],
        (x,),
        "indices",
    )
    yield Sample(lambda x: [x[:, 1] * 2 + x[:, 2], x[2].t().exp(), x[:, :, 3].sum()], (x,), "then computed with", 1e-6)
    yield Sample(lambda x: [x[-1], x[:, 0] + 1], (x,), "dynamic", dynamic=({0: torch.export.Dim("n", min=2, max=9)},))
    yield Sample(
        lambda x: [x[:, 1], x[0] * 2],
        (torch.randn(2, 8, 3, 5).contiguous(memory_format=torch.channels_last),),
        "channels last",
    )
