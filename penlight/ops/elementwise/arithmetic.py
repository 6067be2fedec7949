"""Arithmetic on one and two operands, with torch's scalar overloads, alpha and rounding modes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.elementwise import expression as e
from penlight.ops.elementwise.expression import Term
from penlight.ops.elementwise.rules import ARITHMETIC, FLOATS, INTEGERS, apply, elementwise
from penlight.ops.registry import Sample, composite

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

TINY = (1e-40, -1e-40)  # torch's vectorized remainders give NaN for denormal divisors


@elementwise(dtypes=ARITHMETIC, oracle=lambda torch, a, b: a + b, q8=True)
def add(a: Term, b: Term) -> Term:
    return a + b


@elementwise(dtypes=ARITHMETIC, oracle=lambda torch, a, b: a - b)
def sub(a: Term, b: Term) -> Term:
    return a - b


@elementwise(
    aten=("mul.Tensor", "mul.Scalar", "multiply.Tensor", "multiply.Scalar"),
    dtypes=ARITHMETIC,
    on_bool="logical_and",
    exact=True,
    forms={"mul.Tensor_out": "mul.out", "multiply.Tensor_out": "multiply.out", "multiply.Scalar_out": ""},
    q8=True,
)
def mul(a: Term, b: Term) -> Term:
    return a * b


@elementwise(
    aten=[f"{name}.{kind}" for name in ("div", "divide", "true_divide") for kind in ("Tensor", "Scalar")],
    dtypes=FLOATS,
    exact=True,
    forms={f"{name}.Tensor_out": f"{name}.out" for name in ("div", "divide", "true_divide")}
    | {"divide.Scalar_out": "", "true_divide.Scalar_out": ""},
)
def div(a: Term, b: Term) -> Term:
    """The quotient as a float, of integers too"""
    return a / b


@elementwise(
    aten=("floor_divide", "floor_divide.Scalar"),
    dtypes=ARITHMETIC,
    avoid=(0,),
    of="numbers",
    exact=True,
    forms={"floor_divide_": "floor_divide_.Tensor"},
)
def floor_divide(a: Term, b: Term) -> Term:
    """The quotient rounded down"""
    return e.floor_divide(a, b)


@elementwise(dtypes=INTEGERS, oracle=lambda torch, a, b: torch.div(a, b, rounding_mode="trunc"), avoid=(0,))
def trunc_divide(a: Term, b: Term) -> Term:
    """The quotient of integers rounded towards zero"""
    return e.trunc_divide(a, b)


@elementwise(
    aten=("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor"),
    dtypes=ARITHMETIC,
    avoid=(0, *TINY),
    of="numbers",
)
def remainder(a: Term, b: Term) -> Term:
    """What floor_divide leaves: the sign of b"""
    return e.remainder(a, b)


@elementwise(aten=("fmod.Tensor", "fmod.Scalar"), dtypes=ARITHMETIC, avoid=(0, *TINY), of="numbers")
def fmod(a: Term, b: Term) -> Term:
    """What trunc_divide leaves: the sign of a"""
    return e.fmod(a, b)


@elementwise(
    aten=("maximum", "max.other"),
    dtypes=ARITHMETIC,
    forms={"maximum_": "", "max_.other": "", "max.other_out": "max.out"},
)
def maximum(a: Term, b: Term) -> Term:
    return e.maximum(a, b)


@elementwise(
    aten=("minimum", "min.other"),
    dtypes=ARITHMETIC,
    forms={"minimum_": "", "min_.other": "", "min.other_out": "min.out"},
)
def minimum(a: Term, b: Term) -> Term:
    return e.minimum(a, b)


@elementwise(
    aten="pow.Tensor_Tensor",
    dtypes=ARITHMETIC,
    of="numbers",
    names="self exponent",
    forms={"pow_.Tensor_Tensor": "pow_.Tensor"},
)
def pow(a: Term, b: Term) -> Term:
    return e.pow(a, b)


@elementwise(aten=("atan2", "arctan2"), dtypes=FLOATS)
def atan2(a: Term, b: Term) -> Term:
    return e.atan2(a, b)


@elementwise(aten=("neg", "negative"), dtypes=ARITHMETIC, of="numbers")
def neg(x: Term) -> Term:
    return -x


@elementwise(aten=("abs", "absolute"), dtypes=ARITHMETIC, of="numbers")
def abs(x: Term) -> Term:
    return e.abs(x)


@elementwise(aten=("sign", "sgn"), dtypes=ARITHMETIC, nan="zero")
def sign(x: Term) -> Term:
    """1, 0 or -1"""
    return e.select(x > 0, 1, e.select(x < 0, -1, 0))


@elementwise(aten="reciprocal", dtypes=FLOATS)
def reciprocal(x: Term) -> Term:
    return 1 / x


@elementwise(aten="square", dtypes=ARITHMETIC, of="counts")
def square(x: Term) -> Term:
    return x * x


@elementwise(dtypes=ARITHMETIC, oracle=lambda torch, x: x**3)
def cube(x: Term) -> Term:
    return x * x * x


@elementwise(aten="fmax", dtypes=ARITHMETIC, nan="the other operand", forms={"fmax_": ""})
def fmax(a: Term, b: Term) -> Term:
    """The larger one; of a number and NaN the number"""
    return e.select(e.isnan(a), b, e.select(e.isnan(b), a, e.maximum(a, b)))


@elementwise(aten="fmin", dtypes=ARITHMETIC, nan="the other operand", forms={"fmin_": ""})
def fmin(a: Term, b: Term) -> Term:
    """The smaller one; of a number and NaN the number"""
    return e.select(e.isnan(a), b, e.select(e.isnan(b), a, e.minimum(a, b)))


@elementwise(
    aten=("copysign.Tensor", "copysign.Scalar"),
    dtypes=FLOATS,
    nan="its sign counts",
    forms={"copysign.Tensor_out": "copysign.out"},
)
def copysign(a: Term, b: Term) -> Term:
    """|a| with the sign of b"""
    return e.copysign(a, b)


@elementwise(aten="nextafter", dtypes=FLOATS, of="floats")
def nextafter(a: Term, b: Term) -> Term:
    """The float next to a, on the way to b"""
    return e.nextafter(a, b)


@elementwise(aten="hypot", dtypes=FLOATS, of="floats", nan="propagate, but inf wins")
def hypot(a: Term, b: Term) -> Term:
    """sqrt(a*a + b*b), without overflow between"""
    inf = float("inf")
    large, small = e.maximum(e.abs(a), e.abs(b)), e.minimum(e.abs(a), e.abs(b))
    ratio = small / e.select(large == 0, 1, large)
    return e.select((e.abs(a) == inf) | (e.abs(b) == inf), inf, large * e.sqrt(ratio * ratio + 1))


@elementwise(aten="logaddexp", dtypes=FLOATS, of="floats", forms={"logaddexp_": ""})
def logaddexp(a: Term, b: Term) -> Term:
    """log(e**a + e**b)"""
    return e.select(a == b, a + math.log(2), e.maximum(a, b) + e.log1p(e.exp(-e.abs(a - b))))


@elementwise(aten="logaddexp2", dtypes=FLOATS, of="floats", forms={"logaddexp2_": ""})
def logaddexp2(a: Term, b: Term) -> Term:
    """log2(2**a + 2**b)"""
    return e.select(a == b, a + 1, e.maximum(a, b) + e.log1p(e.exp2(-e.abs(a - b))) * (1 / math.log(2)))


@elementwise(
    aten=("xlogy.Tensor", "xlogy.Scalar_Self", "xlogy.Scalar_Other")
    + ("special_xlogy", "special_xlogy.self_scalar", "special_xlogy.other_scalar"),
    dtypes=FLOATS,
    forms={f"xlogy.{kind}_out": f"xlogy.Out{kind}" for kind in ("Tensor", "Scalar_Self", "Scalar_Other")},
)
def xlogy(a: Term, b: Term) -> Term:
    """a * log(b), 0 where a is 0"""
    return e.select(e.isnan(b), b, e.select(a == 0, 0, a * e.log(b)))


@elementwise(aten=("special_xlog1py", "special_xlog1py.self_scalar", "special_xlog1py.other_scalar"), dtypes=FLOATS)
def xlog1py(a: Term, b: Term) -> Term:
    """a * log(1 + b), 0 where a is 0"""
    return e.select(e.isnan(b), b, e.select(a == 0, 0, a * e.log1p(b)))


@elementwise(aten="gcd", dtypes=INTEGERS)
def gcd(a: Term, b: Term) -> Term:
    return e.gcd(a, b)


@elementwise(aten="lcm", dtypes=INTEGERS)
def lcm(a: Term, b: Term) -> Term:
    return e.abs(e.trunc_divide(a, e.gcd(a, b)) * b)


@elementwise(aten=("lerp.Tensor", "lerp.Scalar"), dtypes=FLOATS, of="alike", exact=True)
def lerp(a: Term, end: Term, weight: Term) -> Term:
    """a + weight * (end - a), from the nearer of both"""
    return e.select(e.abs(weight) < 0.5, a + weight * (end - a), end - (end - a) * (1 - weight))


@elementwise(
    aten="addcmul",
    dtypes=ARITHMETIC,
    of="numbers",
    names="self tensor1 tensor2 *",
    oracle=lambda torch, x, a, b: torch.addcmul(x, a, b),
    avoid=(3e38, -3e38),
)  # torch rounds once
def addcmul(x: Term, a: Term, b: Term, *, value: float = 1) -> Term:
    """x + value * a * b"""
    return x + a * value * b


@elementwise(
    aten="addcdiv",
    dtypes=FLOATS,
    of="quotients",
    names="self tensor1 tensor2 *",
    oracle=lambda torch, x, a, b: torch.addcdiv(x, a, b),
)
def addcdiv(x: Term, a: Term, b: Term, *, value: float = 1) -> Term:
    """x + value * a / b"""
    return x + a * value / b


@add.from_aten("add.Tensor", "add.Scalar")
def _(g: Emitter, a: Value, b: Any, alpha: Any) -> Value:
    from penlight.ops.elementwise.comparison import logical_and, logical_or

    if g.out.dtype == "bool":
        return apply(g, logical_or, a, b if alpha else apply(g, logical_and, b, False))
    return apply(g, add, a, _scaled(g, b, alpha))


@sub.from_aten("sub.Tensor", "sub.Scalar")
def _(g: Emitter, a: Value, b: Any, alpha: Any) -> Value:
    return apply(g, sub, a, _scaled(g, b, alpha))


@sub.from_aten("rsub.Tensor", "rsub.Scalar")
def _(g: Emitter, a: Value, b: Any, alpha: Any) -> Value:
    return apply(g, sub, b, _scaled(g, a, alpha))


@div.from_aten("div.Tensor_mode", "div.Scalar_mode")
def _(g: Emitter, a: Value, b: Any, mode: str | None) -> Value:
    from penlight.ops.elementwise.math import trunc

    if mode is None:
        return apply(g, div, a, b)
    if mode == "floor":
        return apply(g, floor_divide, a, b)
    if g.out.dtype in FLOATS:
        return apply(g, trunc, apply(g, div, a, b))
    return apply(g, trunc_divide, a, b)


@pow.from_aten("pow.Tensor_Scalar")
def _(g: Emitter, x: Value, exponent: Any) -> Value:
    """The powers that models use, without the general function."""
    from penlight.ops.elementwise.math import rsqrt, sqrt

    is_float = g.out.dtype in FLOATS
    if exponent == 2:
        return apply(g, square, g.cast(x, g.out.dtype))
    if exponent == 3:
        return apply(g, cube, g.cast(x, g.out.dtype))
    if exponent == 4:
        return apply(g, square, apply(g, square, g.cast(x, g.out.dtype)))
    if exponent == 1:
        return g.cast(x, g.out.dtype)
    if is_float and exponent in (0.5, -0.5, -1):
        return apply(g, {0.5: sqrt, -0.5: rsqrt, -1: reciprocal}[exponent], x)
    return apply(g, pow, x, exponent)


@pow.from_aten("pow.Scalar")
def _(g: Emitter, base: Any, x: Value) -> Value:
    return apply(g, pow, base, x)


def _scaled(g: Emitter, x: Any, alpha: Any) -> Any:
    """alpha * x, in the call's result dtype."""
    from penlight.ir.graph import Value
    from penlight.ir.types import TensorType

    if alpha == 1:
        return x
    if not isinstance(x, Value):
        return x * alpha
    return apply(g, mul, x, alpha, type=TensorType(g.out.dtype, x.shape))


@add.samples
def _() -> Iterator[Sample]:
    import torch

    x, i = torch.randn(3, 17), torch.arange(-6, 6)
    yield Sample(
        lambda x, i: [x + 1, 1 + i, i + 0.5, torch.add(x, i[:3, None], alpha=2), torch.add(i, 3, alpha=-2)],
        (x, i),
        "scalars, alpha",
    )
    yield Sample(
        lambda x: [x.bool() + x[:, :1].bool(), x.to(torch.int16) + 9, x.half() + 0.25, x.bfloat16() + x.half()],
        (x,),
        "other dtypes",
    )
    yield Sample(
        lambda x: [x + x.shape[0], x.shape[1] * x],
        (x,),
        "symbolic operands",
        dynamic=({0: torch.export.Dim("n", min=2, max=9), 1: torch.export.Dim("m", min=2, max=99)},),
    )


@addcmul.samples
def _() -> Iterator[Sample]:
    import torch

    x, i = torch.randn(3, 17), torch.arange(-6, 11)
    yield Sample(
        lambda x, i: [
            torch.addcmul(x, x, x[:1], value=-0.3),
            torch.addcdiv(x, x, x[:, :1], value=2),
            torch.addcmul(i, i, i, value=3),
            torch.lerp(x, x[:1], 0.7),
        ],
        (x, i),
        "values",
    )


@sub.samples
def _() -> Iterator[Sample]:
    import torch

    x, i = torch.randn(3, 17), torch.arange(-6, 6)
    yield Sample(
        lambda x, i: [x - 1, 1 - x, 2 - i, torch.sub(x, i[:3, None], alpha=3), torch.rsub(x, 2.5, alpha=2)],
        (x, i),
        "scalars, alpha",
    )
    yield Sample(lambda i: [i.to(torch.uint8) - 250, i.to(torch.int8) * 100], (i,), "wrap")


@div.samples
def _() -> Iterator[Sample]:
    import torch

    x, i = torch.randn(3, 16) * 9, torch.tensor([7, -7, 8, -8, 1, -1, 5, 100])
    modes = (None, "floor", "trunc")
    yield Sample(
        lambda x, i: (
            [torch.div(x, 2.5, rounding_mode=m) for m in modes] + [torch.div(i, 3, rounding_mode=m) for m in modes]
        ),
        (x, i),
        "rounding modes",
    )
    yield Sample(lambda i: [i / 3, 3 / i, i // 3, i % -3, i[:, None] / i], (i,), "integers")


@pow.samples
def _() -> Iterator[Sample]:
    import torch

    x, i = torch.rand(3, 16) + 0.1, torch.tensor([0, 1, -1, 2, -3, 7])
    exponents = (2, 3, 4, 0.5, -0.5, -1, 1, 0, 2.0, 1.7, -2)
    yield Sample(
        lambda x, i: [x**k for k in exponents] + [i**2, i**3, i**5, i**0.5, 2 ** i.abs(), 1.5**x], (x, i), "exponents"
    )


@composite("_add_relu.Tensor", "_add_relu.Scalar")
def _(x: Any, y: Any, alpha: Any = 1) -> Any:
    """What optimize_for_mobile made of a sum and the relu after it."""
    import torch

    return torch.relu(torch.add(x, y, alpha=alpha))
