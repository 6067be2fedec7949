"""cat: tensors joined along a dim. Where the planner lets the producers write into the result directly, it is free."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    import numpy as np

    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter


def _fold(*xs: np.ndarray, dim: int) -> np.ndarray:
    import numpy as np

    return np.concatenate(xs, dim)


cat = Op(
    "cat",
    "xs: tensor[], dim: int",
    layout="follow",
    images=("xs",),
    tolerance=0.0,
    key_by="size",
    quantized="same",
    fold=_fold,
    doc="Tensors joined along dim.",
)


def _cat(g: Emitter, xs: Sequence[Value], dim: int) -> Value:
    dtype = g.out.dtype
    whole = [x for x in xs if x.shape != (0,)] or list(xs[:1])  # torch ignores empty tensors of rank 1
    if len(whole) == 1:
        return g.cast(whole[0], dtype)
    return g.emit("cat", *(g.cast(x, dtype) for x in whole), dim=dim + whole[0].rank if dim < 0 else dim)


@cat.from_aten("cat", "concat", "concatenate")
def _(g: Emitter, xs: Sequence[Value], dim: int) -> Value:
    return _cat(g, xs, dim)


@cat.from_aten("stack")
def _(g: Emitter, xs: Sequence[Value], dim: int) -> Value:
    at = dim + xs[0].rank + 1 if dim < 0 else dim
    return _cat(g, [g.reshape(x, (*x.shape[:at], 1, *x.shape[at:])) for x in xs], at)


@cat.from_aten("hstack")
def _(g: Emitter, xs: Sequence[Value]) -> Value:
    xs = [g.reshape(x, (1,)) if x.rank == 0 else x for x in xs]
    return _cat(g, xs, 0 if xs[0].rank == 1 else 1)


@cat.from_aten("vstack")
def _(g: Emitter, xs: Sequence[Value]) -> Value:
    return _cat(g, [g.reshape(x, (1, *(x.shape or (1,)))) if x.rank < 2 else x for x in xs], 0)


@cat.samples
def _() -> Iterator[Sample]:
    import torch

    rand = torch.Generator().manual_seed(0)

    def r(*shape: int) -> Any:
        return torch.randn(*shape, generator=rand)

    def join(dim: int) -> Any:
        return lambda *xs: torch.cat(xs, dim)

    yield Sample(join(1), (r(2, 17, 5, 7), r(2, 3, 5, 7), r(2, 16, 5, 7)), "channels")
    yield Sample(join(-1), (r(3, 4, 5), r(3, 4, 1), r(3, 4, 8)), "last dim")
    yield Sample(join(0), (r(1, 9), r(3, 9), r(0, 9)), "rows, one empty")
    yield Sample(
        join(2),
        (r(2, 3, 4, 5).transpose(2, 3), r(2, 3, 2, 4), r(2, 3, 1, 1).expand(2, 3, 3, 4)),
        "transposed, expanded",
    )
    yield Sample(lambda x: torch.cat([x, x * 2, x], 1), (r(2, 5, 6, 6),), "one input twice")
    yield Sample(lambda x: torch.cat([x.relu(), x[:, :4].relu() + 1, x[:, 2:]], 1), (r(2, 21, 9, 7),), "made for it")
    yield Sample(lambda x: torch.cat([x[:, :4], x[:, 4:]], 0), (r(2, 8, 3, 3),), "of channel slices")
    yield Sample(join(0), (torch.arange(5), torch.arange(3)), "i64")
    yield Sample(join(0), (torch.arange(5), r(3)), "mixed dtypes")
    yield Sample(join(1), (torch.tensor([[True, False]]), torch.tensor([[True]])), "bool")
    yield Sample(join(0), (torch.arange(7, dtype=torch.int16), torch.arange(2, dtype=torch.int16)), "i16")
    yield Sample(lambda x, y: torch.cat([torch.zeros(0), x, y], 1), (r(2, 3), r(2, 4)), "old empty tensor")
    yield Sample(lambda x, y: torch.stack([x, y], 1), (r(3, 5), r(3, 5)), "stack")
    yield Sample(lambda x, y: torch.stack([x, y], -1), (r(3, 5), r(3, 5)), "stack at the end")
    yield Sample(lambda x, y: torch.stack([x, y]), (torch.tensor(1.5), torch.tensor(2.5)), "stack rank 0")
    yield Sample(lambda x, y: torch.hstack([x, y]), (r(3), r(5)), "hstack rank 1")
    yield Sample(lambda x, y: torch.vstack([x, y]), (r(4), r(3, 4)), "vstack")
    n = torch.export.Dim("n")
    yield Sample(join(0), (r(3, 4), r(2, 4)), "dynamic", dynamic=({0: n}, {0: torch.export.Dim("m")}))
