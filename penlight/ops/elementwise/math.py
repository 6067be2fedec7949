"""Functions of one number that have a name of their own in every mathematics library, and the roundings."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from penlight.ops.elementwise import expression as e
from penlight.ops.elementwise.expression import PRIMITIVES, Term
from penlight.ops.elementwise.rules import FLOATS, ElementwiseOp, apply, elementwise

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter


INF = math.inf


def function(name: str, *others: str) -> ElementwiseOp:
    """An operator that is one primitive, of the same name in aten. `others`: what aten calls it besides."""

    def rule(x: Term) -> Term:
        return PRIMITIVES[name](x)

    rule.__name__ = name
    rule.__doc__ = f"{name}(x)"
    return elementwise(aten=(name, *others), dtypes=FLOATS)(rule)


exp, exp2, expm1 = function("exp"), function("exp2", "special_exp2"), function("expm1", "special_expm1")
log, log1p, log2, log10 = function("log"), function("log1p", "special_log1p"), function("log2"), function("log10")
sqrt, erf = function("sqrt"), function("erf", "special_erf")
tanh, sigmoid = function("tanh"), function("sigmoid", "special_expit")
sin, cos, tan = function("sin"), function("cos"), function("tan")
asin, acos, atan = function("asin", "arcsin"), function("acos", "arccos"), function("atan", "arctan")
sinh, cosh = function("sinh"), function("cosh")


LN2 = math.log(2)


@elementwise(aten="rsqrt", dtypes=FLOATS)
def rsqrt(x: Term) -> Term:
    return 1 / e.sqrt(x)


@elementwise(aten=("asinh", "arcsinh"), dtypes=FLOATS)
def asinh(x: Term) -> Term:
    """log(|x| + sqrt(x*x + 1)), with the sign of x"""
    a = e.abs(x)
    near = e.log1p(a + a * a / (e.sqrt(a * a + 1) + 1))
    return e.copysign(e.select(a > 1e9, e.log(a) + LN2, near), x)


@elementwise(aten=("acosh", "arccosh"), dtypes=FLOATS)
def acosh(x: Term) -> Term:
    """log(x + sqrt(x*x - 1))"""
    t = x - 1
    near = e.select(x < 1, math.nan, e.log1p(t + e.sqrt(t + t + t * t)))
    return e.select(x > 1e9, e.log(x) + LN2, near)


@elementwise(aten=("atanh", "arctanh"), dtypes=FLOATS)
def atanh(x: Term) -> Term:
    """log((1 + x) / (1 - x)) / 2"""
    a = e.abs(x)
    return e.copysign(e.log1p((a + a) / (1 - a)) * 0.5, x)


@elementwise(
    aten=("sinc", "special_sinc"), dtypes=FLOATS, avoid=(3e38, -3e38, 1e10, -1e10)
)  # angles that keep no digit after the point
def sinc(x: Term) -> Term:
    """sin(pi x) / (pi x), 1 at 0"""
    return e.select(x == 0, 1, e.sin(x * math.pi) / (x * math.pi))


@elementwise(dtypes=FLOATS, oracle=lambda torch, x: torch.logit(x))
def logit(x: Term) -> Term:
    """log(x / (1 - x))"""
    return e.log(x / (1 - x))


@elementwise(aten="rad2deg", dtypes=FLOATS)
def rad2deg(x: Term) -> Term:
    return x * (180 / math.pi)


@elementwise(aten="deg2rad", dtypes=FLOATS)
def deg2rad(x: Term) -> Term:
    return x * (math.pi / 180)


@logit.from_aten("logit")
def _(g: Emitter, x: Value, eps: float | None) -> Value:
    from penlight.ops.elementwise.arithmetic import maximum, minimum

    if eps is not None:
        x = apply(g, minimum, apply(g, maximum, x, float(eps)), 1 - float(eps))
    return apply(g, logit, x)


def rounding(name: str, *others: str) -> ElementwiseOp:
    """Rounds floats; integers are whole already."""

    def rule(x: Term) -> Term:
        return PRIMITIVES[name](x)

    rule.__name__ = name
    rule.__doc__ = f"{name}(x)" + (", ties to even" if name == "round" else "")
    return elementwise(aten=(name, *others), dtypes=FLOATS, of="wholes")(rule)


floor, ceil, round, trunc = rounding("floor"), rounding("ceil"), rounding("round"), rounding("trunc", "fix")


@elementwise(aten="frac", dtypes=FLOATS, of="floats", avoid=(INF, -INF))  # torch's vectors say NaN, its numbers 0
def frac(x: Term) -> Term:
    """x without what trunc leaves of it"""
    return x - e.trunc(x)


@round.from_aten("round.decimals")
def _(g: Emitter, x: Value, decimals: int) -> Value:
    from penlight.ops.elementwise.arithmetic import div, mul

    if x.dtype not in FLOATS or decimals == 0:
        return apply(g, round, x) if x.dtype in FLOATS else x
    scale, back = (mul, div) if decimals > 0 else (div, mul)
    tens = 10.0 ** abs(decimals)
    return apply(g, back, apply(g, round, apply(g, scale, x, tens)), tens)
