"""sort, topk, kth and mode: numbers in order along a dim, NaN the largest, and the indices where they lie.

Where torch leaves the index of equal numbers open (sort without stable, topk, kthvalue, median), it is the first ones here;
samples with equal numbers therefore compare values only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.ir.dims import Dim
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

_DTYPES = ("f32", "f64", "i32", "i64")
sort = Op(
    "sort", "x: tensor, dim: int, descending: bool", outputs=2, tolerance=0.0, dtypes=_DTYPES, nan="the largest",
    doc="Values along dim in order, equal ones in the order they had; and their indices.",
)  # fmt: skip
topk = Op(
    "topk", "x: tensor, k: int, dim: int, largest: bool", outputs=2, tolerance=0.0, dtypes=_DTYPES, nan="the largest",
    doc="The k largest (or smallest) along dim, in order, and their indices.",
)  # fmt: skip
kth = Op(
    "kth", "x: tensor, k: int, dim: int, keepdim: bool, nan: str", outputs=2, tolerance=0.0, dtypes=_DTYPES,
    nan="the largest, or by the attribute",
    doc='The k-th smallest along dim and its index. nan: "last", "wins" or "left out" (then it is the median of the rest).',
)  # fmt: skip
mode = Op(
    "mode", "x: tensor, dim: int, keepdim: bool", outputs=2, tolerance=0.0, dtypes=_DTYPES, nan="each is a value of its own",
    doc="The most frequent value along dim, the smallest of those, and the last index where it is.",
)  # fmt: skip


def _ordered(g: Emitter, op: str, x: Value, dim: int, shape: tuple[Dim, ...], **attrs: Any) -> tuple[Value, Value]:
    """Values and indices of a call; a dtype without kernels of its own travels as a wider one."""
    from penlight.ir.types import TensorType

    carrier = x.dtype if x.dtype in _DTYPES else "f32" if x.dtype in ("f16", "bf16") else "i32"
    wide = g.cast(x, carrier)
    if x.rank == 0:
        wide, shape = g.reshape(wide, (1,)), shape or (1,)
    types = TensorType(carrier, shape), TensorType("i64", shape)
    values, indices = g.emit(op, wide, types=types, dim=dim % max(x.rank, 1), **attrs)
    if x.rank == 0:
        values, indices = g.reshape(values, g.out[0].shape), g.reshape(indices, g.out[1].shape)
    return g.cast(values, x.dtype), indices


@sort.from_aten("sort")
def _(g: Emitter, x: Value, dim: int, descending: bool) -> tuple[Value, Value]:
    return _ordered(g, "sort", x, dim, x.shape, descending=descending)


@sort.from_aten("sort.stable")
def _(g: Emitter, x: Value, stable: bool | None, dim: int, descending: bool) -> tuple[Value, Value]:
    return _ordered(g, "sort", x, dim, x.shape, descending=descending)


@topk.from_aten("topk")
def _(g: Emitter, x: Value, k: Dim, dim: int, largest: bool, sorted: bool) -> tuple[Value, Value]:
    at = dim % max(x.rank, 1)
    shape = tuple(k if i == at else d for i, d in enumerate(x.shape)) or (k,)
    return _ordered(g, "topk", x, dim, shape, k=k, largest=largest)


def _reduced(x: Value, dim: int, keepdim: bool) -> tuple[Dim, ...]:
    dim %= max(x.rank, 1)
    return tuple(1 if i == dim else d for i, d in enumerate(x.shape) if keepdim or i != dim)


def _kth(g: Emitter, x: Value, k: Dim, dim: int, keepdim: bool, nan: str) -> tuple[Value, Value]:
    keepdim = keepdim or x.rank == 0
    return _ordered(g, "kth", x, dim, _reduced(x, dim, keepdim), k=k, keepdim=keepdim, nan=nan)


def _middle(n: Dim) -> Dim:
    """The lower of two middles, counted from 1."""
    from penlight.ir.dims import combine

    return combine("//", combine("+", n, 1), 2)


@kth.from_aten("kthvalue")
def _(g: Emitter, x: Value, k: Dim, dim: int, keepdim: bool) -> tuple[Value, Value]:
    return _kth(g, x, k, dim, keepdim, "last")


def _median(g: Emitter, x: Value, dim: int, keepdim: bool, nan: str) -> tuple[Value, Value]:
    return _kth(g, x, _middle(x.shape[dim]) if x.rank else 1, dim, keepdim, nan)


@kth.from_aten("median.dim")
def _(g: Emitter, x: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
    return _median(g, x, dim, keepdim, "wins")


@kth.from_aten("nanmedian.dim")
def _(g: Emitter, x: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
    return _median(g, x, dim, keepdim, "left out")


def _whole(g: Emitter, x: Value, nan: str) -> Value:
    from penlight.ir.dims import product

    if 0 in x.shape:  # torch's median of nothing
        return g.constant(float("nan") if x.dtype.startswith(("f", "b")) else -(2**63), x.dtype)
    return _median(g, g.reshape(x, (product(x.shape),)), 0, False, nan)[0]


@kth.from_aten("median")
def _(g: Emitter, x: Value) -> Value:
    return _whole(g, x, "wins")


@kth.from_aten("nanmedian")
def _(g: Emitter, x: Value) -> Value:
    return _whole(g, x, "left out")


@mode.from_aten("mode")
def _(g: Emitter, x: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
    keepdim = keepdim or x.rank == 0
    return _ordered(g, "mode", x, dim, _reduced(x, dim, keepdim), keepdim=keepdim)


def _inputs() -> Iterator[tuple[str, Any, int]]:
    """Name, tensor, dim; without equal numbers in a row, except for those that say so."""
    import torch

    rand = torch.Generator().manual_seed(0)

    def r(*shape: int) -> Any:
        return torch.randn(*shape, generator=rand)

    yield "short rows", r(9, 7), 1
    yield "rows of 33", r(5, 33), -1
    yield "merged", r(3, 333), 1
    yield "by bytes", r(2, 1025), 1
    yield "columns", r(70, 19), 0
    yield "permuted", r(4, 6, 30).permute(2, 0, 1), 0
    yield "ints", torch.stack([torch.randperm(600, generator=rand) for _ in range(3)]) - 300, 1
    yield "wide ints", torch.randint(-(2**62), 2**62, (2, 500), generator=rand), 1
    yield "i32", torch.randperm(500, generator=rand).to(torch.int32)[None] * 8_000_000 - 2_000_000_000, 1
    yield "u8", torch.randperm(200, generator=rand).to(torch.uint8), 0
    special = r(2, 40)
    special[0, :4] = torch.tensor([float("inf"), float("-inf"), float("nan"), -0.0])
    yield "inf, one nan", special, 1


def _ties() -> Any:
    import torch

    rand = torch.Generator().manual_seed(0)
    x = torch.randint(0, 5, (3, 700), generator=rand).float()
    x[0, ::7] = float("nan")
    x[1, ::5] = -0.0
    return x


@sort.samples
def _() -> Iterator[Sample]:
    import torch

    for name, x, dim in _inputs():
        yield Sample(lambda x, dim=dim: (*x.sort(dim), *x.sort(dim, descending=True)), (x,), name)
    # With stable, torch says all of it.
    yield Sample(
        lambda x: [o for down in (False, True) for o in torch.sort(x, stable=True, dim=1, descending=down)],
        (_ties(),),
        "ties, stable",
    )
    yield Sample(lambda x: torch.sort(x > 0, stable=True, dim=0), (torch.randn(9, 5),), "bools")
    yield Sample(lambda x: (torch.argsort(x), torch.msort(x)), (torch.randn(9, 5),), "argsort, msort")
    yield Sample(lambda x: x.sort(1), (torch.randn(3, 0),), "nothing")
    yield Sample(
        lambda x: x.sort(1), (torch.randn(3, 50),), "dynamic", dynamic=({1: torch.export.Dim("n", min=2, max=9999)},)
    )


@topk.samples
def _() -> Iterator[Sample]:
    import torch

    for name, x, dim in _inputs():
        for k in (1, 6):
            yield Sample(lambda x, k=k, dim=dim: (*x.topk(k, dim), *x.topk(k, dim, False)), (x,), f"{name}, k {k}")
    yield Sample(
        lambda x: [x.topk(k, 1, down).values for k in (3, 200, 700) for down in (False, True)], (_ties(),), "ties"
    )
    yield Sample(lambda x: (*x.topk(0), *x.topk(3, 0)), (torch.randn(3, 4),), "none and all")
    many = torch.randn(3, 5000, generator=torch.Generator().manual_seed(1))
    yield Sample(lambda x: (*x.topk(5), *x.topk(300), *x[:, ::2].topk(7, largest=False)), (many,), "of many")
    parts: Any = lambda x: torch.cat([x[:1, :9].topk(3).indices, x[:1, 9:20].topk(4).indices], 1)  # noqa: E731
    yield Sample(parts, (many,), "computed inside a cat")
    yield Sample(lambda x: x.sort(1).values.topk(40), (many[:1],), "rising")  # each beats all before it
    yield Sample(
        lambda x: x.topk(2), (many[:, :50].clone(),), "dynamic", dynamic=({1: torch.export.Dim("n", min=3, max=9999)},)
    )


@kth.samples
def _() -> Iterator[Sample]:
    import torch

    for name, x, dim in _inputs():
        if x.dim() > 1:
            yield Sample(lambda x, dim=dim: (*x.kthvalue(3, dim), *x.median(dim), *x.nanmedian(dim, True)), (x,), name)
    yield Sample(
        lambda x: (x.median(), x.nanmedian(), x.kthvalue(350, 1).values, x.median(1).values), (_ties(),), "ties"
    )
    nans = torch.full((2, 9), float("nan"))
    nans[1, 3:] = torch.arange(6.0)
    yield Sample(lambda x: (x.nanmedian(1).values, x.median(1)), (nans,), "nan")
    yield Sample(
        lambda x: x.median(1), (torch.randn(3, 50),), "dynamic", dynamic=({1: torch.export.Dim("n", min=2, max=9999)},)
    )


@mode.samples
def _() -> Iterator[Sample]:
    import torch

    rand = torch.Generator().manual_seed(0)
    yield Sample(lambda x: x.mode(1), (torch.randint(0, 4, (5, 13), generator=rand).float(),), "rows")
    yield Sample(lambda x: x.mode(0), (torch.randint(0, 4, (15, 4), generator=rand),), "columns, i64")
    yield Sample(lambda x: x.mode(1, True).values, (torch.randint(0, 90, (3, 800), generator=rand).float(),), "many")
    yield Sample(lambda x: x.mode(), (torch.tensor([2, 1, 1, 2, 3], dtype=torch.uint8),), "u8")
