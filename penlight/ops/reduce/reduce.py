"""sum, mean, amax, amin, prod over any dims. `dims` names each reduced dim, not negative; none reduces nothing.

Sums go in blocks (vector lanes, then blocks, then parts), so the error grows with the logarithm of the size rather
than with the size. NaN wins in amax and amin, as in torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.capture.emitter import Emitter
    from penlight.ir.graph import Value
    from penlight.ir.types import TensorType

_SCHEMA = "x: tensor, dims: int[], keepdim: bool"
_BOTH = ("f32", "i64")
sum_ = Op("sum", _SCHEMA, layout="follow", dtypes=_BOTH, doc="Sum over dims.")
mean = Op("mean", _SCHEMA, layout="follow", doc="Mean over dims.")
amax = Op("amax", _SCHEMA, layout="follow", dtypes=_BOTH, tolerance=0.0, doc="Maximum over dims.")
amin = Op("amin", _SCHEMA, layout="follow", dtypes=_BOTH, tolerance=0.0, doc="Minimum over dims.")
prod = Op("prod", _SCHEMA, layout="follow", dtypes=_BOTH, doc="Product over dims.")


def reduced_type(x: Value, dtype: str, dims: Sequence[int], keepdim: bool) -> TensorType:
    from penlight.ir.types import TensorType

    shape = (1 if i in dims else d for i, d in enumerate(x.shape) if keepdim or i not in dims)
    return TensorType(dtype, tuple(shape))


def kernel_dtype(g: Emitter, dtype: str) -> str:
    """The dtype in which a reduction of `dtype` values is computed."""
    if dtype == "f64":
        g.fail("of an f64 tensor: only f32 and integers are supported")
    return "f32" if dtype in ("f32", "f16", "bf16") else "i64"


def emit_reduction(
    g: Emitter, name: str, x: Value, dims: Sequence[int] | None, keepdim: bool, out: TensorType
) -> Value:
    """`x` as dtype `out`, reduced over dims (torch's: maybe negative; none or empty: all)."""
    if x.rank == 0:
        return g.cast(x, out.dtype)
    dims = tuple(sorted(d % x.rank for d in dims)) if dims else tuple(range(x.rank))
    dtype = kernel_dtype(g, out.dtype)
    type = reduced_type(x, dtype, dims, keepdim)
    return g.cast(g.emit(name, g.cast(x, dtype), type=type, dims=dims, keepdim=keepdim), out.dtype)


@sum_.from_aten("sum")
def _(g: Emitter, x: Value, dtype: str | None) -> Value:
    return emit_reduction(g, "sum", x, None, False, g.out)


@sum_.from_aten("sum.dim_IntList")
def _(g: Emitter, x: Value, dims: Sequence[int] | None, keepdim: bool, dtype: str | None) -> Value:
    return emit_reduction(g, "sum", x, dims, keepdim, g.out)


@mean.from_aten("mean")
def _(g: Emitter, x: Value, dtype: str | None) -> Value:
    return emit_reduction(g, "mean", x, None, False, g.out)


@mean.from_aten("mean.dim")
def _(g: Emitter, x: Value, dims: Sequence[int] | None, keepdim: bool, dtype: str | None) -> Value:
    return emit_reduction(g, "mean", x, dims, keepdim, g.out)


@prod.from_aten("prod")
def _(g: Emitter, x: Value, dtype: str | None) -> Value:
    return emit_reduction(g, "prod", x, None, False, g.out)


@prod.from_aten("prod.dim_int")
def _(g: Emitter, x: Value, dim: int, keepdim: bool, dtype: str | None) -> Value:
    return emit_reduction(g, "prod", x, (dim,), keepdim, g.out)


@amax.from_aten("amax")
def _(g: Emitter, x: Value, dims: Sequence[int], keepdim: bool) -> Value:
    return emit_reduction(g, "amax", x, dims, keepdim, g.out)


@amin.from_aten("amin")
def _(g: Emitter, x: Value, dims: Sequence[int], keepdim: bool) -> Value:
    return emit_reduction(g, "amin", x, dims, keepdim, g.out)


@amax.from_aten("max")
def _(g: Emitter, x: Value) -> Value:
    return emit_reduction(g, "amax", x, None, False, g.out)


@amin.from_aten("min")
def _(g: Emitter, x: Value) -> Value:
    return emit_reduction(g, "amin", x, None, False, g.out)


# any and all: the maximum and the minimum of truth values.
def _truth(g: Emitter, name: str, x: Value, dims: Sequence[int] | None, keepdim: bool) -> Value:
    from penlight.ir.types import TensorType

    truth = g.cast(g.cast(x, "bool"), "i64")
    return g.cast(emit_reduction(g, name, truth, dims, keepdim, TensorType("i64", g.out.shape)), g.out.dtype)


@amax.from_aten("any")
def _(g: Emitter, x: Value) -> Value:
    return _truth(g, "amax", x, None, False)


@amax.from_aten("any.dim")
def _(g: Emitter, x: Value, dim: int, keepdim: bool) -> Value:
    return _truth(g, "amax", x, (dim,), keepdim)


@amax.from_aten("any.dims")
def _(g: Emitter, x: Value, dims: Sequence[int] | None, keepdim: bool) -> Value:
    return _truth(g, "amax", x, dims, keepdim)


@amin.from_aten("all")
def _(g: Emitter, x: Value) -> Value:
    return _truth(g, "amin", x, None, False)


@amin.from_aten("all.dim")
def _(g: Emitter, x: Value, dim: int, keepdim: bool) -> Value:
    return _truth(g, "amin", x, (dim,), keepdim)


@amin.from_aten("all.dims")
def _(g: Emitter, x: Value, dims: Sequence[int] | None, keepdim: bool) -> Value:
    return _truth(g, "amin", x, dims, keepdim)


def _samples(name: str) -> Iterator[Sample]:
    import torch

    rand = torch.Generator().manual_seed(0)
    fn = getattr(torch, name)

    def reduce(x: Any, dims: Any, keepdim: bool) -> Any:
        if name != "prod":
            return fn(x, dims, keepdim)
        for d in sorted((d % x.dim() for d in dims), reverse=True):  # torch.prod takes one dim
            x = fn(x, d, keepdim)
        return x

    def case(label: str, dims: Any, *shape: int, keepdim: bool = False) -> Sample:
        x = torch.rand(*shape, generator=rand) + 0.5 if name == "prod" else torch.randn(*shape, generator=rand)
        return Sample(lambda x: reduce(x, dims, keepdim), (x,), label)

    yield case("plane", (2, 3), 2, 33, 7, 9, keepdim=True)
    yield case("plane, large", (2, 3), 1, 19, 113, 57)
    yield case("channels", (1,), 3, 17, 5, 6, keepdim=True)
    yield case("last", (-1,), 5, 67)
    yield case("last, short rows", (-1,), 65, 3)
    yield case("first", (0,), 31, 17)
    yield case("middle", (1,), 4, 9, 15)
    yield case("outer two", (0, 1), 3, 5, 130, keepdim=True)
    yield case("first and last", (0, 2), 6, 7, 8)
    yield case("all", (0, 1, 2), 3, 41, 67)
    yield case("size 1", (1,), 3, 1, 5)
    yield case("width of nhwc", (3,), 2, 21, 5, 8)
    yield case("no outputs", (1,), 0, 5)
    yield Sample(lambda x: reduce(x.transpose(0, 1), (0,), False), (torch.randn(9, 20, generator=rand),), "transposed")
    yield Sample(lambda x: reduce(x[:, ::3], (1,), False), (torch.randn(4, 19, generator=rand),), "step 3")
    yield Sample(lambda x: reduce(x.expand(6, 4, 5), (0, 2), True), (torch.rand(4, 5, generator=rand),), "expanded")
    special = torch.randn(4, 40, generator=rand)
    special[0, 3] = float("nan")
    special[1, 39] = float("inf")
    special[2, 38] = float("nan")
    special[3] = float("-inf")
    yield Sample(lambda x: reduce(x, (1,), False), (special,), "nan, inf in rows")
    yield Sample(lambda x: reduce(x, (0,), False), (special,), "nan, inf in columns")
    yield Sample(lambda x: reduce(x, (0,), False), (torch.full((4, 18), -0.0),), "-0")
    free = {0: torch.export.Dim("n"), 2: torch.export.Dim("h", min=2, max=99), 3: torch.export.Dim("w", min=2, max=99)}
    yield Sample(
        lambda x: reduce(x, (2, 3), False), (torch.rand(2, 24, 5, 6, generator=rand),), "dynamic", dynamic=(free,)
    )
    if name != "mean":
        yield Sample(lambda x: reduce(x, (1,), False), (torch.randint(-9, 9, (5, 7), generator=rand),), "i64")
        yield Sample(
            lambda x: reduce(x, (0,), True), (torch.randint(-9, 9, (5, 7), generator=rand, dtype=torch.int32),), "i32"
        )
    if name in ("sum", "mean", "prod"):
        yield case("of nothing", (1,), 3, 0)
    if name == "sum":
        yield case("a million", (0, 1), 1024, 1031)
        yield Sample(lambda x: x.sum(), (torch.rand(3, 5, generator=rand),), "default")
        yield Sample(lambda x: x.sum(), (torch.tensor(2.5),), "rank 0")
        yield Sample(lambda x: x.sum(1), (torch.tensor([[True, False, True]]),), "bool")
    if name == "amax":
        yield Sample(
            lambda x: (x.max(), (x > 0).any(), (x > 9).any(1)), (torch.randn(5, 7, generator=rand),), "max, any"
        )
    if name == "amin":
        yield Sample(
            lambda x: (x.min(), (x > -9).all(), (x > 0).all(1, True)), (torch.randn(5, 7, generator=rand),), "min, all"
        )


for _op in (sum_, mean, amax, amin, prod):
    _op.samples(lambda name=_op.name: _samples(name))  # type: ignore[misc]
