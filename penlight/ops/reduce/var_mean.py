"""var_mean: variance and mean over dims in one pass; the standard deviation is its root. The sum of squares is divided by
the number of elements less `correction` (1: the unbiased estimate), but by 0 where that is negative, as in torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penlight.ops.reduce.reduce import SCHEMA, reduced_type
from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ir.types import TensorType
    from penlight.ops.emitter import Emitter

var_mean = Op(
    "var_mean", f"{SCHEMA}, correction: float = 1.0", layout="plain", outputs=2, doc="Variance and mean over dims."
)


def _var_mean(
    g: Emitter, x: Value, dims: Sequence[int] | None, correction: float, keepdim: bool
) -> tuple[Value, Value]:
    x = x if x.dtype == "f64" else g.cast(x, "f32")
    if x.rank == 0:
        var, mean = _var_mean(g, g.reshape(x, (1,)), None, correction, False)
        return g.reshape(var, ()), g.reshape(mean, ())
    dims = tuple(sorted({d % x.rank for d in dims})) if dims else tuple(range(x.rank))
    type = reduced_type(x, x.dtype, dims, keepdim)
    if x.dtype == "f64":
        return _in_f64(g, x, dims, correction, type)
    made: tuple[Value, Value] = g.emit(
        "var_mean", x, types=(type, type), dims=dims, keepdim=keepdim, correction=float(correction)
    )
    return made


def _in_f64(g: Emitter, x: Value, dims: tuple[int, ...], correction: float, type: TensorType) -> tuple[Value, Value]:
    """By the definition: no model's time depends on it."""
    from penlight.ir.dims import product

    kept = reduced_type(x, "f64", dims, True)
    count = g.as_tensor(product([x.shape[d] for d in dims]), "f64")
    mean = g.emit("mean", x, type=kept, dims=dims, keepdim=True)
    apart = g.emit("sub", x, mean, type=x.tensor)
    squares = g.emit("sum", g.emit("mul", apart, apart, type=x.tensor), type=kept, dims=dims, keepdim=True)
    degrees = g.emit("sub", count, g.constant(float(correction), "f64"), type=count.tensor)
    degrees = g.emit("maximum", degrees, g.constant(0.0, "f64"), type=count.tensor)
    var = g.emit("div", squares, degrees, type=kept)
    return g.reshape(var, type.shape), g.reshape(mean, type.shape)


def _convert(name: str, g: Emitter, x: Value, dims: Any, correction: Any, keepdim: bool) -> Any:
    spread, mean = _var_mean(g, x, dims, 1.0 if correction is None else correction, keepdim)
    if name.startswith("std"):
        spread = g.emit("sqrt", spread, type=spread.tensor)
    if name.endswith("_mean"):
        return g.cast(spread, g.out[0].dtype), g.cast(mean, g.out[1].dtype)
    return g.cast(spread, g.out.dtype)


def _declare(name: str) -> None:
    """The three overloads of var, std, var_mean and std_mean."""

    @var_mean.from_aten(name)
    def _(g: Emitter, x: Value, unbiased: bool) -> Any:
        return _convert(name, g, x, None, float(unbiased), False)

    @var_mean.from_aten(f"{name}.dim")
    def _(g: Emitter, x: Value, dims: Any, unbiased: bool, keepdim: bool) -> Any:
        return _convert(name, g, x, dims, float(unbiased), keepdim)

    @var_mean.from_aten(f"{name}.correction")
    def _(g: Emitter, x: Value, dims: Any, correction: Any, keepdim: bool) -> Any:
        return _convert(name, g, x, dims, correction, keepdim)


for _name in ("var", "std", "var_mean", "std_mean"):
    _declare(_name)


@var_mean.from_aten("prims::var")
def _(g: Emitter, x: Value, dims: Sequence[int] | None, correction: float | None, dtype: str | None) -> Value:
    return g.cast(_var_mean(g, x, dims, 1.0 if correction is None else correction, False)[0], g.out.dtype)


@var_mean.samples
def _() -> Iterator[Sample]:
    import torch

    rand = torch.Generator().manual_seed(0)

    def case(name: str, dims: Any, x: Any, tolerance: float | None = None, **arguments: Any) -> Sample:
        call: Callable[..., Any] = lambda x: tuple(torch.var_mean(x, dims, **arguments))  # noqa: E731
        return Sample(call, (x,), name, tolerance)

    def r(*shape: int) -> Any:
        return torch.randn(*shape, generator=rand)

    yield case("last", -1, r(7, 67))
    yield case("first", 0, r(130, 35), keepdim=True)
    yield case("middle", 1, r(3, 70, 17), correction=0)
    yield case("planes", (0, 2, 3), r(3, 5, 9, 7), correction=2.5)
    yield case("all", None, r(40, 50, 51))
    yield case("large, columns", 0, r(5000, 33))
    far = 1e4 + r(9000, 3) * 0.1  # torch computes in f64, so it is a fair oracle
    yield case("far from 0, columns", 0, far)
    yield case("far from 0, all", None, far)
    yield case("one", 1, r(4, 1))
    yield case("too few", 1, r(4, 2), correction=3)
    yield case("none", 1, r(4, 0), correction=0)
    special = r(4, 40)
    special[0, 3] = float("nan")
    yield case("nan", 1, special)
    yield Sample(lambda x: x.permute(2, 0, 1)[::2].std(1), (r(3, 9, 8),), "std, permuted")
    yield Sample(
        lambda x: x.var((0, 2)),
        (r(4, 3, 5),),
        "dynamic",
        dynamic=({0: torch.export.Dim("n"), 2: torch.export.Dim("w", min=2, max=99)},),
    )
