"""sum, mean, prod, nansum, amax, amin over any dims. `dims` names each reduced dim, not negative; none reduces nothing.

Sums go in blocks (vector lanes, then blocks, then parts), so the error grows with the logarithm of the size rather
than with the size. NaN wins in amax and amin, as in torch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ir.types import TensorType
    from penlight.ops.emitter import Emitter

SCHEMA = "x: tensor, dims: int[], keepdim: bool"
_KINDS = ("f32", "f64", "i64", "bool")
sum_ = Op(
    "sum",
    SCHEMA,
    layout="follow",
    dtypes=("f32", "f64", "i64", "bool"),
    doc="Sum over dims; of bools: how many are true.",
)


def _sums_fit(node: Any) -> bool:
    """Whether 32 bits hold the sum of so many bytes, as far as sizes are known."""
    sizes = [node.inputs[0].shape[d] for d in node.attrs["dims"]]
    return math.prod(n for n in sizes if isinstance(n, int)) <= (2**31 - 1) // 256


mean = Op(
    "mean",
    SCHEMA,
    layout="follow",
    dtypes=("f32", "f64", "q8"),
    quantized="kernels",
    takes_q8=_sums_fit,
    doc="Mean over dims.",
)
amax = Op("amax", SCHEMA, layout="follow", dtypes=_KINDS, tolerance=0.0, doc="Maximum over dims; of bools: any.")
amin = Op("amin", SCHEMA, layout="follow", dtypes=_KINDS, tolerance=0.0, doc="Minimum over dims; of bools: all.")
prod = Op("prod", SCHEMA, layout="follow", dtypes=("f32", "i64"), doc="Product over dims.")
nansum = Op("nansum", SCHEMA, layout="follow", nan="counts as 0", doc="Sum over dims, NaN left out.")


def reduced_type(x: Value, dtype: str, dims: Sequence[int], keepdim: bool) -> TensorType:
    from penlight.ir.types import TensorType

    shape = (1 if i in dims else d for i, d in enumerate(x.shape) if keepdim or i not in dims)
    return TensorType(dtype, tuple(shape))


def kernel_dtype(g: Emitter, dtype: str, kinds: Sequence[str] = ("f32", "f64", "i64")) -> str:
    """The dtype in which a reduction of `dtype` values is computed, given those that there are kernels for."""
    carrier = dtype if dtype in kinds else "f32" if dtype in ("f16", "bf16") else "" if dtype == "f64" else "i64"
    if carrier not in kinds:
        g.fail(f"of {dtype} values: {' and '.join(kinds)} are supported")
    return carrier


def emit_reduction(
    g: Emitter, name: str, x: Value, dims: Sequence[int] | None, keepdim: bool, out: TensorType, **attrs: Any
) -> Value:
    """`x` as dtype `out`, reduced over dims (torch's: maybe negative; none or empty: all)."""
    from penlight.ops.registry import get

    if x.rank == 0:
        return g.reshape(emit_reduction(g, name, g.reshape(x, (1,)), None, False, out, **attrs), ())
    dims = tuple(sorted({d % x.rank for d in dims})) if dims else tuple(range(x.rank))
    dtype = kernel_dtype(g, out.dtype, get(name).dtypes)
    result = dtype
    if name == "sum" and x.dtype == "bool" and dtype == "i64":
        dtype = "bool"
    type = reduced_type(x, result, dims, keepdim)
    return g.cast(g.emit(name, g.cast(x, dtype), type=type, dims=dims, keepdim=keepdim, **attrs), out.dtype)


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


@nansum.from_aten("nansum")
def _(g: Emitter, x: Value, dims: Sequence[int] | None, keepdim: bool, dtype: str | None) -> Value:
    floats = x.dtype in ("f16", "bf16", "f32", "f64")
    return emit_reduction(g, "nansum" if floats else "sum", x, dims, keepdim, g.out)


@amax.from_aten("aminmax")
def _(g: Emitter, x: Value, dim: int | None, keepdim: bool) -> tuple[Value, Value]:
    dims = None if dim is None else (dim,)
    low, high = (emit_reduction(g, name, x, dims, keepdim or dim is None, g.out[0]) for name in ("amin", "amax"))
    return g.reshape(low, g.out[0].shape), g.reshape(high, g.out[0].shape)


@sum_.from_aten("count_nonzero")
def _(g: Emitter, x: Value, dim: int | None) -> Value:
    return emit_reduction(g, "sum", g.cast(x, "bool"), None if dim is None else (dim,), False, g.out)


@sum_.from_aten("count_nonzero.dim_IntList")
def _(g: Emitter, x: Value, dims: Sequence[int]) -> Value:
    return emit_reduction(g, "sum", g.cast(x, "bool"), dims, False, g.out)


# What torch's own decompositions end in. No dims: all; an empty list: none at all.
def _prim(g: Emitter, name: str, x: Value, dims: Sequence[int] | None) -> Value:
    return g.cast(x, g.out.dtype) if dims is not None and not dims else emit_reduction(g, name, x, dims, False, g.out)


@sum_.from_aten("prims::sum")
def _(g: Emitter, x: Value, dims: Sequence[int] | None, dtype: str | None) -> Value:
    return _prim(g, "sum", x, dims)


@prod.from_aten("prims::prod")
def _(g: Emitter, x: Value, dims: Sequence[int] | None, dtype: str | None) -> Value:
    return _prim(g, "prod", x, dims)


@amax.from_aten("prims::amax")
def _(g: Emitter, x: Value, dims: Sequence[int] | None, dtype: str | None) -> Value:
    return _prim(g, "amax", x, dims)


@amin.from_aten("prims::amin")
def _(g: Emitter, x: Value, dims: Sequence[int] | None, dtype: str | None) -> Value:
    return _prim(g, "amin", x, dims)


# any and all: the maximum and the minimum of truth values.
def _truth(g: Emitter, name: str, x: Value, dims: Sequence[int] | None, keepdim: bool) -> Value:
    from penlight.ir.types import TensorType

    truth = g.cast(x, "bool")
    if truth.shape and 0 in truth.shape:  # of nothing, which the extremes do not have: any is False, all is True
        count = emit_reduction(g, "sum", truth, dims, keepdim, TensorType("i64", g.out.shape))
        empty = g.constant(0 if name == "amax" else 1, "i64")
        return g.cast(g.cast(g.emit("add", count, empty, type=count.tensor), "bool"), g.out.dtype)
    return g.cast(emit_reduction(g, name, truth, dims, keepdim, TensorType("bool", g.out.shape)), g.out.dtype)


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
    if name not in ("mean", "nansum"):
        yield Sample(lambda x: reduce(x, (1,), False), (torch.randint(-9, 9, (5, 7), generator=rand),), "i64")
        yield Sample(lambda x: reduce(x, (0,), False), (torch.randint(-9, 9, (70, 19), generator=rand),), "i64 columns")
        yield Sample(
            lambda x: reduce(x, (0,), True), (torch.randint(-9, 9, (5, 7), generator=rand, dtype=torch.int32),), "i32"
        )
    if name in ("sum", "mean", "prod", "nansum"):
        yield case("of nothing", (1,), 3, 0)
    if name in ("sum", "mean"):
        yield Sample(
            lambda x: fn(x, (0,), dtype=torch.float64), (torch.rand(19, 5, generator=rand),), "f64", tolerance=1e-12
        )
    if name == "sum":
        yield case("a million", (0, 1), 1024, 1031)
        yield Sample(lambda x: x.sum(), (torch.rand(3, 5, generator=rand),), "default")
        yield Sample(lambda x: x.sum(), (torch.tensor(2.5),), "rank 0")
        many = torch.rand(300, 67, generator=rand) > 0.1
        yield Sample(lambda x: (x.sum(), x.sum(0), x.sum(1), (x | True).sum(), torch.count_nonzero(x)), (many,), "bool")
    if name == "amax":
        some = torch.rand(90, 35, generator=rand) > 0.97
        yield Sample(lambda x: (x.any(), x.any(0), x.any(1, True), x.amax(0)), (some,), "any")
        yield Sample(lambda x: (x.max(), (x > 9).any(1)), (torch.randn(5, 7, generator=rand),), "max")
        yield Sample(lambda x: (x.any(1), x.all(0), x.any()), (torch.ones(3, 0),), "any, all of nothing")
    if name == "amin":
        most = torch.rand(90, 35, generator=rand) > 0.03
        yield Sample(lambda x: (x.all(), x.all(0), x.all(1, True), x.amin(1)), (most,), "all")
        yield Sample(lambda x: (x.min(), torch.aminmax(x, dim=1)), (torch.randn(5, 7, generator=rand),), "min, aminmax")


for _op in (sum_, mean, amax, amin, prod, nansum):
    _op.samples(lambda name=_op.name: _samples(name))  # type: ignore[misc]
