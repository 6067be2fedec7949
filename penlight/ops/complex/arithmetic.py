"""Arithmetic and functions of complex numbers, each rule in terms of the real and the imaginary part."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penlight.ops import registry
from penlight.ops.complex.number import Complex, Real, number, real
from penlight.ops.registry import on_complex

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.complex_values import ComplexValue
    from penlight.ops.emitter import Emitter


def is_real(x: Any) -> bool:
    """Whether an operand of a call has no imaginary part."""
    from penlight.ops.complex_values import ComplexValue

    return not isinstance(x, (ComplexValue, complex))


def function(*names: str) -> Callable[[Callable[[Complex], Complex]], Callable[[Complex], Complex]]:
    """Registers a function of one complex number."""

    def register(fn: Callable[[Complex], Complex]) -> Callable[[Complex], Complex]:
        on_complex(*names)(lambda g, x, *_: fn(number(g, x)).value())
        return fn

    return register


@on_complex("mul", "multiply")
def multiply(g: Emitter, a: Any, b: Any) -> ComplexValue:
    if is_real(a):
        return (number(g, b) * real(g, a)).value()
    return (number(g, a) * (real(g, b) if is_real(b) else number(g, b))).value()


@on_complex("div", "divide", "true_divide")
def divide(g: Emitter, a: Any, b: Any, mode: str | None = None) -> ComplexValue:
    if mode is not None:
        g.fail("with a rounding mode, on complex tensors")
    return (number(g, a) / (real(g, b) if is_real(b) else number(g, b))).value()


@function("square")
def square(z: Complex) -> Complex:
    return z * z


@function("reciprocal")
def reciprocal(z: Complex) -> Complex:
    scale = z.re.abs().maximum(z.im.abs())
    c, d = z.re / scale, z.im / scale
    size = (c * c + d * d) * scale
    return Complex(c / size, -d / size)


@function("exp")
def exp(z: Complex) -> Complex:
    return z.exp()


@function("exp2")
def exp2(z: Complex) -> Complex:
    return (z * math.log(2)).exp()


@function("expm1")
def expm1(z: Complex) -> Complex:
    """e**a cos b - 1 = expm1(a) cos b - 2 sin(b/2)**2: exact near zero"""
    half, size = (z.im * 0.5).sin(), z.re.expm1()
    return Complex(size * z.im.cos() - half * half * 2.0, z.re.exp() * z.im.sin())


@function("log")
def log(z: Complex) -> Complex:
    return z.log()


@function("log2")
def log2(z: Complex) -> Complex:
    return z.log() * (1 / math.log(2))


@function("log10")
def log10(z: Complex) -> Complex:
    return z.log() * (1 / math.log(10))


@function("log1p")
def log1p(z: Complex) -> Complex:
    """log |1 + z| = log1p(2a + a**2 + b**2) / 2: exact near zero"""
    return Complex((z.re * 2.0 + z.re * z.re + z.im * z.im).log1p() * 0.5, z.im.atan2(z.re + 1.0))


@function("sqrt")
def sqrt(z: Complex) -> Complex:
    return z.sqrt()


@function("rsqrt")
def rsqrt(z: Complex) -> Complex:
    return reciprocal(z.sqrt())


@function("sinh")
def sinh(z: Complex) -> Complex:
    return Complex(z.re.sinh() * z.im.cos(), z.re.cosh() * z.im.sin())


@function("cosh")
def cosh(z: Complex) -> Complex:
    return Complex(z.re.cosh() * z.im.cos(), z.re.sinh() * z.im.sin())


@function("tanh")
def tanh(z: Complex) -> Complex:
    """t = tan b, h = tanh a: (h (1 + t**2), t (1 - h**2)) / (1 + h**2 t**2), which overflows nowhere that t is finite"""
    t, h = z.im.tan(), z.re.tanh()
    tt, hh = t * t, h * h
    size = hh * tt + 1.0
    return Complex(h * (tt + 1.0) / size, t * (1.0 - hh) / size)


def _turned(fn: Callable[[Complex], Complex], z: Complex) -> Complex:
    """-i f(i z): what makes circular functions of hyperbolic ones."""
    w = fn(z.times_i())
    return Complex(w.im, -w.re)


@function("sin")
def sin(z: Complex) -> Complex:
    return _turned(sinh, z)


@function("cos")
def cos(z: Complex) -> Complex:
    return cosh(z.times_i())


@function("tan")
def tan(z: Complex) -> Complex:
    return _turned(tanh, z)


@function("asinh", "arcsinh")
def asinh(z: Complex) -> Complex:
    """log(z + sqrt(z**2 + 1)) for re >= 0, and odd: on the other side the sum would cancel"""
    negative = z.re < 0.0
    w = Complex(z.re.abs(), negative.where(-z.im, z.im))
    y = (w + (w * w + 1.0).sqrt()).log()
    return Complex(negative.where(-y.re, y.re), negative.where(-y.im, y.im))


@function("asin", "arcsin")
def asin(z: Complex) -> Complex:
    return _turned(asinh, z)


@function("acos", "arccos")
def acos(z: Complex) -> Complex:
    y = asin(z)
    return Complex(math.pi / 2 - y.re, -y.im)


@function("acosh", "arccosh")
def acosh(z: Complex) -> Complex:
    """log(z + sqrt(z + 1) sqrt(z - 1))"""
    return (z + (z + 1.0).sqrt() * (z - 1.0).sqrt()).log()


@function("atanh", "arctanh")
def atanh(z: Complex) -> Complex:
    plus, minus = z + 1.0, -z + 1.0
    return (plus.log() - minus.log()) * 0.5


@function("atan", "arctan")
def atan(z: Complex) -> Complex:
    return _turned(atanh, z)


@function("sigmoid")
def sigmoid(z: Complex) -> Complex:
    return reciprocal((-z).exp() + 1.0)


@function("silu")
def silu(z: Complex) -> Complex:
    return z / ((-z).exp() + 1.0)


@on_complex("pow")
def power(g: Emitter, base: Any, exponent: Any) -> ComplexValue:
    """Small whole exponents by products, all others by exp(exponent * log(base))."""
    if isinstance(exponent, (int, float)) and exponent == int(exponent) and abs(exponent) <= 16:
        return _whole_power(g, number(g, base), int(exponent)).value()
    if isinstance(exponent, (int, float)) and exponent in (0.5, -0.5):
        root = number(g, base).sqrt()
        return (root if exponent > 0 else reciprocal(root)).value()
    power_ = real(g, exponent) if is_real(exponent) else number(g, exponent)
    if isinstance(base, (int, float, complex)) and base != 0:
        log_ = cmath.log(base)
        w = number(g, exponent)
        return Complex(w.re * log_.real - w.im * log_.imag, w.re * log_.imag + w.im * log_.real).exp().value()
    z = number(g, base)
    made = (z.log() * power_).exp()
    # 0 ** w: 0, but 1 for w = 0
    w = number(g, exponent)
    is_zero = z.re.equals(0.0) & z.im.equals(0.0)
    is_one = is_zero & w.re.equals(0.0) & w.im.equals(0.0)
    return Complex(is_one.where(1.0, is_zero.where(0.0, made.re)), is_zero.where(0.0, made.im)).value()


def _whole_power(g: Emitter, z: Complex, exponent: int) -> Complex:
    if exponent == 0:
        return Complex(_filled(z.re, 1.0), _filled(z.re, 0.0))
    result: Complex | None = None
    factor, rest = z, abs(exponent)
    while rest:
        if rest & 1:
            result = factor if result is None else result * factor
        rest >>= 1
        factor = factor * factor if rest else factor
    assert result is not None
    return result if exponent > 0 else reciprocal(result)


def _filled(like: Real, value: float) -> Real:
    from penlight.ir.types import TensorType

    shape = like.value.shape
    return Real(like.g, like.g.emit("full", type=TensorType("f32", shape), shape=shape, value=value, dtype="f32"))


@on_complex("abs", "absolute")
def absolute(g: Emitter, x: Any) -> Value:
    return number(g, x).abs().value


@on_complex("angle")
def angle(g: Emitter, x: Any) -> Value:
    return number(g, x).angle().value


@on_complex("sgn")
def sgn(g: Emitter, x: Any) -> ComplexValue:
    """z / |z|, and 0 of 0"""
    z = number(g, x)
    size = z.abs()
    is_zero = size.equals(0.0)
    return Complex(is_zero.where(0.0, z.re / size), is_zero.where(0.0, z.im / size)).value()


def _compare(g: Emitter, a: Any, b: Any) -> Real:
    x, y = number(g, a), number(g, b)
    return x.re.equals(y.re) & x.im.equals(y.im)


@on_complex("eq")
def equal(g: Emitter, a: Any, b: Any) -> Value:
    return _compare(g, a, b).value


@on_complex("ne", "not_equal")
def not_equal(g: Emitter, a: Any, b: Any) -> Value:
    return g.emit("logical_not", _compare(g, a, b).value)  # type: ignore[no-any-return]


def _test(name: str, both: str) -> None:
    """isnan and the like: the test of each part, joined."""

    @on_complex(name)
    def _(g: Emitter, x: ComplexValue) -> Value:
        parts = [g.emit(name, part) for part in x.parts]
        return g.emit(both, *parts)  # type: ignore[no-any-return]


_test("isnan", "logical_or")
_test("isinf", "logical_or")
_test("isfinite", "logical_and")


@on_complex("isreal")
def isreal(g: Emitter, x: ComplexValue) -> Value:
    return g.emit("eq", x.imag, g.constant(0.0))  # type: ignore[no-any-return]


@on_complex("logical_not")
def logical_not(g: Emitter, x: ComplexValue) -> Value:
    return _compare(g, x, 0).value


@on_complex("addcmul")
def addcmul(g: Emitter, x: Any, a: Any, b: Any, value: Any) -> ComplexValue:
    return (number(g, x) + number(g, a) * number(g, b) * number(g, value)).value()


@on_complex("addcdiv")
def addcdiv(g: Emitter, x: Any, a: Any, b: Any, value: Any) -> ComplexValue:
    return (number(g, x) + number(g, a) / number(g, b) * number(g, value)).value()


@on_complex("linalg_vector_norm", "norm")
def vector_norm(
    g: Emitter, x: Any, order: Any = 2, dims: Any = None, keepdim: bool = False, dtype: Any = None
) -> Value:
    """That of the absolute values."""
    if not isinstance(order, (int, float)):
        g.fail("of this order, on complex tensors")
    size = number(g, x).abs().value
    converter = registry.ATEN.get("linalg_vector_norm")
    if converter is None:
        g.fail("on a complex tensor")
    made: Value = converter(g, size, order, dims, keepdim, None)
    return made


@on_complex("var", "var_mean", "std", "prod", "cumprod")
def refused(g: Emitter, *_: Any) -> Any:
    g.fail("on a complex tensor")


@on_complex("matmul", "mm", "bmm", "mv", "dot", "inner", "outer", "ger")
def product(g: Emitter, a: Any, b: Any) -> ComplexValue:
    from penlight.ir.types import TensorType
    from penlight.ops.complex_values import ComplexValue

    converter = registry.ATEN["matmul"]
    out = g.out
    part = TensorType("f32", out.shape)

    def times(x: Value, y: Value) -> Real:
        g.out = part
        if out.rank == 2 and x.rank == y.rank == 1:
            x, y = g.reshape(x, (*x.shape, 1)), g.reshape(y, (1, *y.shape))
        made = converter(g, x, y)
        g.out = out
        return Real(g, made)

    if is_real(a):
        a = g.cast(a, "f32")
        return ComplexValue(times(a, b.real).value, times(a, b.imag).value)
    if is_real(b):
        b = g.cast(b, "f32")
        return ComplexValue(times(a.real, b).value, times(a.imag, b).value)
    re = times(a.real, b.real) - times(a.imag, b.imag)
    return ComplexValue(re.value, (times(a.real, b.imag) + times(a.imag, b.real)).value)


@on_complex("vdot")
def vdot(g: Emitter, a: ComplexValue, b: ComplexValue) -> ComplexValue:
    return product(g, conjugate(g, a), b)


@on_complex("linalg_vecdot")
def vecdot(g: Emitter, a: Any, b: Any, dim: int) -> ComplexValue:
    from penlight.ops.complex_values import ComplexValue

    made = (number(g, conjugate(g, a)) * number(g, b)).value()
    at = (dim % made.rank,)
    parts = [g.emit("sum", part, type=g.out.part, dims=at, keepdim=False) for part in made.parts]
    return ComplexValue(*parts)


@on_complex("addmm", "addmv", "baddbmm")
def add_product(g: Emitter, x: Any, a: Any, b: Any, beta: Any, alpha: Any) -> ComplexValue:
    made = number(g, product(g, a, b))
    if alpha != 1:
        made = made * (alpha if is_real(alpha) else number(g, alpha))
    if beta == 0:
        return made.value()
    rest = number(g, x)
    return (made + (rest if beta == 1 else rest * (beta if is_real(beta) else number(g, beta)))).value()


@on_complex("conj", "_conj", "conj_physical", "_conj_physical")
def conjugate(g: Emitter, x: Any) -> Any:
    from penlight.ir.types import TensorType
    from penlight.ops.complex_values import ComplexValue

    if is_real(x):
        return x
    return ComplexValue(x.real, g.emit("neg", x.imag, type=TensorType("f32", x.shape)))
