"""Activation functions. Unary ones with float attributes can be fused into conv2d and linear (passes/fuse)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from penlight.ops.elementwise.arithmetic import maximum, minimum
from penlight.ops.elementwise.expression import Term, erf, exp, expm1, isnan, log1p, select, tanh
from penlight.ops.elementwise.expression import abs as absolute
from penlight.ops.elementwise.expression import clamp as clamp_term
from penlight.ops.elementwise.expression import maximum as maximum_term
from penlight.ops.elementwise.expression import minimum as minimum_term
from penlight.ops.elementwise.rules import ARITHMETIC, FLOATS, apply, elementwise

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

INF = float("inf")


@elementwise(aten="relu", dtypes=ARITHMETIC, of="numbers")
def relu(x: Term) -> Term:
    """max(x, 0)"""
    return maximum_term(x, 0)


@elementwise(dtypes=FLOATS, oracle=lambda torch, x: torch.clamp(x, -0.5, 2.0))
def clamp(x: Term, *, lo: float = -INF, hi: float = INF) -> Term:
    """min(max(x, lo), hi): relu6, hardtanh and clamp with number bounds"""
    return clamp_term(x, lo, hi)


@elementwise(aten="hardswish", avoid=(3e38,), dtypes=FLOATS, of="floats")  # where torch's x * (x + 3) overflows
def hardswish(x: Term) -> Term:
    """x * clamp(x/6 + 1/2, 0, 1)"""
    return x * clamp_term(x * (1 / 6) + 0.5, 0, 1)


@elementwise(aten="hardsigmoid", dtypes=FLOATS, of="floats")
def hardsigmoid(x: Term) -> Term:
    """clamp(x/6 + 1/2, 0, 1)"""
    return clamp_term(x * (1 / 6) + 0.5, 0, 1)


@elementwise(aten="silu", dtypes=FLOATS, of="floats")
def silu(x: Term) -> Term:
    """x * sigmoid(x) = x / (1 + e**-x)"""
    return x / (exp(-x) + 1)


# torch's vectorized gelu gives NaN at +inf, where the function is inf.
@elementwise(oracle=lambda torch, x: torch.nn.functional.gelu(x), avoid=(INF, 3e38), dtypes=FLOATS)
def gelu(x: Term) -> Term:
    """x times the normal distribution's integral: x/2 * (1 + erf(x / sqrt(2)))"""
    return x * 0.5 * (erf(x * 0.5**0.5) + 1)


@elementwise(oracle=lambda torch, x: torch.nn.functional.gelu(x, approximate="tanh"), dtypes=FLOATS)
def gelu_tanh(x: Term) -> Term:
    """x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))"""
    return x * 0.5 * (tanh(0.7978845608028654 * (x + 0.044715 * (x * x * x))) + 1)


@elementwise(aten="leaky_relu", dtypes=FLOATS, of="floats")
def leaky_relu(x: Term, *, negative_slope: float = 0.01) -> Term:
    """x above zero, negative_slope * x below"""
    return select(x > 0, x, x * negative_slope)


@elementwise(aten="elu", dtypes=FLOATS, of="floats")
def elu(x: Term, *, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Term:
    """scale * x above zero, scale * alpha * (e**(input_scale * x) - 1) below"""
    return select(x > 0, x * scale, expm1(x * input_scale) * (alpha * scale))


@elementwise(aten="softplus", dtypes=FLOATS, of="floats", forms={"softplus_": ""})
def softplus(x: Term, *, beta: float = 1, threshold: float = 20) -> Term:
    """log(1 + e**(beta x)) / beta, and x itself where beta x > threshold"""
    return select(x * beta > threshold, x, log1p(exp(x * beta)) / beta)


@elementwise(aten="mish", dtypes=FLOATS, of="floats")
def mish(x: Term) -> Term:
    """x * tanh(log(1 + e**x))"""
    return x * tanh(log1p(exp(x)))


@elementwise(aten="log_sigmoid", dtypes=FLOATS, of="floats", forms={"log_sigmoid_": ""})
def log_sigmoid(x: Term) -> Term:
    """log(sigmoid(x)), without a loss for large |x|"""
    return minimum_term(x, 0) - log1p(exp(-absolute(x)))


@elementwise(aten="hardshrink", dtypes=FLOATS, of="floats", forms={"hardshrink_": ""})
def hardshrink(x: Term, *, lambd: float = 0.5) -> Term:
    """x, and 0 where |x| <= lambd"""
    return select(absolute(x) <= lambd, 0, x)


@elementwise(
    aten="softshrink",
    dtypes=FLOATS,
    of="floats",
    forms={"softshrink": "", "softshrink_": "", "softshrink.out": ""},
)
def softshrink(x: Term, *, lambd: float = 0.5) -> Term:
    """x moved towards 0 by lambd, and 0 nearer to it"""
    return select(x > lambd, x - lambd, select(x < -lambd, x + lambd, x * 0))


@elementwise(dtypes=FLOATS, oracle=lambda torch, x: torch.nan_to_num(x, 0.5, 7.0, -8.0), nan="a number")
def nan_to_num(x: Term, *, nan: float, posinf: float, neginf: float) -> Term:
    """`nan` for NaN, `posinf` and `neginf` for infinities"""
    return select(isnan(x), nan, select(x == INF, posinf, select(x == -INF, neginf, x)))


@nan_to_num.from_aten("nan_to_num")
def _(g: Emitter, x: Value, nan: float | None, posinf: float | None, neginf: float | None) -> Value:
    if x.dtype not in FLOATS:
        return x
    largest = sys.float_info.max if x.dtype == "f64" else 3.4028234663852886e38
    given = (0.0, nan), (largest, posinf), (-largest, neginf)
    numbers = (float(other if v is None else v) for other, v in given)
    return apply(g, nan_to_num, x, **dict(zip(("nan", "posinf", "neginf"), numbers, strict=True)))


@elementwise(
    aten="threshold",
    dtypes=ARITHMETIC,
    of="numbers",
    oracle=lambda torch, x: torch.nn.functional.threshold(x, 0.1, -2.0),
)
def threshold(x: Term, *, threshold: float, value: float) -> Term:
    """x, and `value` where x <= threshold"""
    return select(x <= threshold, value, x)


@elementwise(dtypes=FLOATS, oracle=lambda torch, x, w: torch.where(x > 0, x, x * w))
def prelu(x: Term, w: Term) -> Term:
    """leaky_relu with a slope of its own for each channel"""
    return select(x > 0, x, x * w)


@prelu.from_aten("prelu")
def _(g: Emitter, x: Value, w: Value) -> Value:
    """One slope, or one for each entry of dim 1."""
    slopes = w.shape[0] if w.rank else 1
    return apply(g, prelu, x, g.reshape(w, (slopes, *[1] * (x.rank - 2)) if x.rank > 1 else ()))


@clamp.from_aten("clamp", "hardtanh", "clamp.Tensor")
def _clamp(g: Emitter, x: Value, lo: Any, hi: Any) -> Value:
    """One clamp for float bounds; maximum and minimum for integers, tensors and NaN."""
    numbers = all(b is None or (isinstance(b, (int, float)) and b == b) for b in (lo, hi))
    if numbers and g.out.dtype in FLOATS:
        return apply(g, clamp, x, lo=-INF if lo is None else float(lo), hi=INF if hi is None else float(hi))
    y = x if lo is None else apply(g, maximum, x, lo)
    return g.cast(y if hi is None else apply(g, minimum, y, hi), g.out.dtype)


@clamp.from_aten("clamp_min", "clamp_min.Tensor")
def _(g: Emitter, x: Value, lo: Any) -> Value:
    return _clamp(g, x, lo, None)


@clamp.from_aten("clamp_max", "clamp_max.Tensor")
def _(g: Emitter, x: Value, hi: Any) -> Value:
    return _clamp(g, x, None, hi)


@clamp.from_aten("relu6")
def _(g: Emitter, x: Value) -> Value:
    return _clamp(g, x, 0, 6)


@gelu.from_aten("gelu")
def _(g: Emitter, x: Value, approximate: str) -> Value:
    return apply(g, gelu_tanh if approximate == "tanh" else gelu, x)


@elu.from_aten("selu")
def _(g: Emitter, x: Value) -> Value:
    return apply(
        g, elu, x, alpha=1.6732632423543772848170429916717, scale=1.0507009873554804934193349852946, input_scale=1.0
    )


@elu.from_aten("celu")
def _(g: Emitter, x: Value, alpha: float) -> Value:
    return apply(g, elu, x, alpha=float(alpha), scale=1.0, input_scale=1.0 / float(alpha))
