"""scatter: x with elements of src at the indices along one dim, or combined with what is there; one_hot is one of ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.registry import Op, Sample, Selection

if TYPE_CHECKING:
    from penlight.ir.dims import Dim
    from penlight.ir.graph import Node, Value
    from penlight.ops.emitter import Emitter

NUMBERS = ("f32", "i64", "i32")
COMBINE = {"sum": "add", "add": "add", "mean": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min"}


def select_by_reduce(node: Node) -> Selection:
    """Elements that are only moved go by size; those that are combined by dtype."""
    from penlight.ir.types import itemsize

    x = node.inputs[0]
    assert x is not None
    return Selection(f"{node.op}.{x.dtype if node.attrs['reduce'] else f'b{8 * itemsize(x.dtype)}'}")


scatter = Op(
    "scatter",
    "x: tensor, index: tensor, src: tensor, dim: int, reduce: str = ''",
    tolerance=1e-6,
    mixed=("index",),
    select=select_by_reduce,
    doc="x with x[i, index[i, j, k], k] = src[i, j, k] for dim 1; reduce add, mul, max or min combines, in index order.",
)


def filled(g: Emitter, number: float | int, dtype: str, shape: tuple[Dim, ...]) -> Value:
    """One number in a shape, as a view."""
    from penlight.ir.types import TensorType

    scalar = g.constant(number, dtype)
    return g.emit("expand", scalar, type=TensorType(dtype, shape), shape=shape) if shape else scalar


def combined(
    g: Emitter, x: Value, src: Value, how: str, include_self: bool, put: Callable[[Value, Value, str], Value]
) -> Value:
    """x with src put into it and combined as torch's reductions do. put(x, src, reduce) emits the operator."""
    from penlight.ir.types import TensorType
    from penlight.ops.elementwise.arithmetic import div, floor_divide, maximum
    from penlight.ops.elementwise.rules import CARRIERS, apply

    dtype = x.dtype if x.dtype in NUMBERS else "i32" if x.dtype == "bool" else CARRIERS.get(x.dtype, "")
    if how not in COMBINE or not dtype:
        g.fail(f"reduce={how!r} of {x.dtype} tensors: {', '.join(COMBINE)} of floats below f64, integers and bool work")
    start, src = g.cast(x, dtype), g.cast(src, dtype)
    if not include_self:
        low, high = (float("-inf"), float("inf")) if dtype == "f32" else (-(2**31), 2**31 - 1)
        if dtype == "i64":
            low, high = -(2**63), 2**63 - 1
        neutral = {"add": 0, "mul": 1, "max": low, "min": high}[COMBINE[how]]
        start = put(start, filled(g, neutral, dtype, src.shape), "")
    total = put(start, src, COMBINE[how])
    if how == "mean":
        count = put(filled(g, int(include_self), dtype, x.shape), filled(g, 1, dtype, src.shape), "add")
        type = TensorType(dtype, x.shape)
        if not include_self:
            count = apply(g, maximum, count, g.constant(1, dtype), type=type)
        total = g.cast(g.cast(total, x.dtype), dtype)  # torch divides a sum that has wrapped
        total = apply(g, div if dtype == "f32" else floor_divide, total, count, type=type)
    return g.cast(total, x.dtype)


def _scatter(g: Emitter, x: Value, dim: int, index: Value, src: Any, how: str = "", include_self: bool = True) -> Value:
    from penlight.ir.graph import Value

    shape = x.shape
    index = g.cast(index, "i64")
    if not isinstance(src, Value):
        src = filled(g, src, x.dtype, index.shape)
    if x.rank == 0:
        x, dim = g.reshape(x, (1,)), 0
    index, src = (g.reshape(v, (1,)) if v.rank == 0 else v for v in (index, src))

    def put(x: Value, src: Value, reduce: str) -> Value:
        made: Value = g.emit("scatter", x, index, src, type=x.tensor, dim=dim % x.rank, reduce=reduce)
        return made

    y = combined(g, x, src, how, include_self, put) if how else put(x, g.cast(src, x.dtype), "")
    return g.reshape(y, shape)


@scatter.from_aten("scatter.src", "scatter.value")
def _(g: Emitter, x: Value, dim: int, index: Value, src: Any) -> Value:
    return _scatter(g, x, dim, index, src)


@scatter.from_aten("scatter.reduce", "scatter.value_reduce")
def _(g: Emitter, x: Value, dim: int, index: Value, src: Any, reduce: str) -> Value:
    return _scatter(g, x, dim, index, src, reduce)


@scatter.from_aten("scatter_add")
def _(g: Emitter, x: Value, dim: int, index: Value, src: Value) -> Value:
    return _scatter(g, x, dim, index, src, "sum")


@scatter.from_aten("scatter_reduce.two")
def _(g: Emitter, x: Value, dim: int, index: Value, src: Value, reduce: str, include_self: bool) -> Value:
    return _scatter(g, x, dim, index, src, reduce, include_self)


@scatter.from_aten("one_hot")
def _(g: Emitter, x: Value, classes: Any) -> Value:
    """Ones scattered into zeros: an index that is no class is an error, as in torch."""
    if not isinstance(classes, int) or classes < 1:
        g.fail("one_hot without num_classes, so that the result's size would depend on the data: give num_classes")
    zeros = filled(g, 0, "i64", g.out.shape)
    index = g.reshape(g.cast(x, "i64"), (*x.shape, 1))
    return g.emit("scatter", zeros, index, filled(g, 1, "i64", index.shape), dim=x.rank, reduce="")


@scatter.samples
def _() -> Iterator[Sample]:
    import torch

    rand = torch.Generator().manual_seed(0)

    def r(*shape: int) -> Any:
        return torch.randn(*shape, generator=rand)

    def i(high: int, *shape: int) -> Any:
        return torch.randint(0, high, shape, generator=rand)

    def case(name: str, fn: Any, *inputs: Any) -> Sample:
        return Sample(fn, inputs, name)

    yield case(
        "rows",
        lambda x, i, s: x.scatter(0, i, s),
        r(17, 5),
        torch.randperm(17, generator=rand)[:9, None].expand(9, 5),
        r(9, 5),
    )
    yield case("fewer than src", lambda x, i, s: x.scatter_add(1, i, s), r(3, 9, 7), i(9, 2, 33, 5), r(3, 40, 6))
    yield case("many", lambda x, i, s: x.scatter_add(1, i, s), r(130, 33), i(33, 130, 301), r(130, 301))
    yield case(
        "one index a row",
        lambda x, i, s: (x + 1).scatter_add(0, i[:, None].expand(-1, 33), s),
        r(9, 33),
        i(9, 65),
        r(65, 33),
    )
    for how in ("sum", "prod", "mean", "amax", "amin"):
        x, s = r(3, 9), r(3, 20)
        x[0, 0] = s[1, 1] = float("nan")
        yield case(
            how,
            lambda x, i, s, how=how: [x.scatter_reduce(1, i, s, how), x.scatter_reduce(1, i, s, how, include_self=False)],
            x, i(7, 3, 20), s,
        )  # fmt: skip
    yield case(
        "i64, bool",
        lambda x, i, s: [x.scatter(1, i, s), x.scatter_reduce(1, i, s, "mean"), x.bool().scatter(1, i, True)],
        i(9, 3, 9),
        i(9, 3, 5),
        i(99, 3, 5),
    )
    wide = i(256, 3, 9).to(torch.uint8), i(3, 3, 20), i(256, 3, 20).to(torch.uint8)
    yield case("u8, sums that wrap", lambda x, i, s: [x.scatter_reduce(1, i, s, how) for how in ("sum", "mean")], *wide)
    yield case("of itself", lambda x, i: [(y := x * 2).scatter(0, i, y)], r(9, 5), i(9, 1, 5))
    yield case("one_hot", lambda x: torch.nn.functional.one_hot(x, 11), i(11, 3, 5))
    n = torch.export.Dim("n", min=2, max=99)
    yield Sample(lambda x, i: x.scatter_add(0, i, x), (r(9, 5), i(2, 9, 5)), "dynamic", dynamic=({0: n}, {0: n}))
