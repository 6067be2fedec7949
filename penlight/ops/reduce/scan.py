"""scan: cumsum, cumprod and logcumsumexp along a dim; scan_extreme: cummax and cummin, with indices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.reduce.reduce import kernel_dtype
from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

scan = Op(
    "scan", "x: tensor, dim: int, mode: str", dtypes=("f32", "f64", "i64"),
    doc="Sum, product or log-sum-exp (mode sum, prod, logsumexp) of the elements along dim up to each.",
)  # fmt: skip
scan_extreme = Op(
    "scan_extreme", "x: tensor, dim: int, largest: bool", outputs=2, tolerance=0.0, dtypes=("f32", "f64", "i64"),
    doc="The extreme of the elements along dim up to each, and the last index where it is.",
)  # fmt: skip


def _scan(g: Emitter, x: Value, dim: int, mode: str) -> Value:
    from penlight.ir.types import TensorType

    dtype = kernel_dtype(g, g.out.dtype)
    x = g.cast(g.cast(x, g.out.dtype), dtype)
    if x.rank == 0:
        return g.cast(x, g.out.dtype)
    y = g.emit("scan", x, type=TensorType(dtype, x.shape), dim=dim % x.rank, mode=mode)
    return g.cast(y, g.out.dtype)


@scan.from_aten("cumsum")
def _(g: Emitter, x: Value, dim: int, dtype: str | None) -> Value:
    return _scan(g, x, dim, "sum")


@scan.from_aten("cumprod")
def _(g: Emitter, x: Value, dim: int, dtype: str | None) -> Value:
    return _scan(g, x, dim, "prod")


@scan.from_aten("logcumsumexp")
def _(g: Emitter, x: Value, dim: int) -> Value:
    return _scan(g, x, dim, "logsumexp")


def _extreme(g: Emitter, x: Value, dim: int, largest: bool) -> tuple[Value, Value]:
    from penlight.ir.types import TensorType

    if x.rank == 0:
        return x, g.constant(0, "i64")
    dtype = kernel_dtype(g, x.dtype)
    types = TensorType(dtype, x.shape), TensorType("i64", x.shape)
    values, indices = g.emit("scan_extreme", g.cast(x, dtype), types=types, dim=dim % x.rank, largest=largest)
    return g.cast(values, x.dtype), indices


@scan_extreme.from_aten("cummax")
def _(g: Emitter, x: Value, dim: int) -> tuple[Value, Value]:
    return _extreme(g, x, dim, True)


@scan_extreme.from_aten("cummin")
def _(g: Emitter, x: Value, dim: int) -> tuple[Value, Value]:
    return _extreme(g, x, dim, False)


def _inputs() -> Iterator[tuple[str, Any, int]]:
    import torch

    rand = torch.Generator().manual_seed(0)
    special = torch.randn(6, 40, generator=rand)
    special[0, 3] = special[0, 7] = float("nan")
    special[1, 5] = float("inf")
    special[2, 5] = float("-inf")
    special[3] = float("-inf")
    special[4, 1:3] = special[4, 0]
    yield "last", torch.randn(3, 33, generator=rand), -1
    yield "first", torch.randn(40, 70, generator=rand), 0
    yield "middle", torch.randn(3, 9, 5, generator=rand), 1
    yield "nan, inf in rows", special, 1
    yield "nan, inf in columns", special, 0
    yield "permuted", torch.randn(4, 5, 6, generator=rand).permute(1, 2, 0), 1
    yield "nothing", torch.randn(3, 0), 1
    yield "ints", torch.randint(-3, 4, (5, 9), generator=rand), 1


@scan.samples
def _() -> Iterator[Sample]:
    import torch

    def all_of(x: Any, dim: int) -> Any:
        floats = x.is_floating_point()
        return [x.cumsum(dim), x.cumprod(dim)] + ([torch.logcumsumexp(x, dim)] if floats else [])

    for name, x, dim in _inputs():
        yield Sample(lambda x, dim=dim: all_of(x, dim), (x,), name)
    yield Sample(lambda x: (x > 0).cumsum(1), (torch.randn(3, 9),), "bools")
    yield Sample(
        lambda x: x.cumsum(1), (torch.randn(3, 9),), "dynamic", dynamic=({1: torch.export.Dim("n", min=2, max=99)},)
    )


@scan_extreme.samples
def _() -> Iterator[Sample]:
    import torch

    for name, x, dim in _inputs():
        yield Sample(lambda x, dim=dim: (*torch.cummax(x, dim), *torch.cummin(x, dim)), (x,), name)
    parts: Any = lambda x: torch.cat([x[:, :3].cummax(1).values, x[:, 3:].cummin(1).values], 1)  # noqa: E731
    yield Sample(parts, (torch.randn(1, 9),), "computed inside a cat")
