"""Numbers to write rules with: `Real` wraps a real value of the graph, `Complex` a pair of them. Python's operators emit nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penlight.ir.dims import broadcast
from penlight.ops import registry

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.complex_values import ComplexValue
    from penlight.ops.emitter import Emitter


class Real:
    def __init__(self, g: Emitter, value: Value) -> None:
        self.g, self.value = g, value

    def _with(self, op: str, *others: Any, dtype: str = "f32") -> Real:
        return emit(self.g, op, self, *others, dtype=dtype)

    def __add__(self, other: Any) -> Real:
        return self._with("add", other)

    def __sub__(self, other: Any) -> Real:
        return self._with("sub", other)

    def __rsub__(self, other: Any) -> Real:
        return emit(self.g, "sub", other, self)

    def __mul__(self, other: Any) -> Real:
        return self._with("mul", other)

    def __truediv__(self, other: Any) -> Real:
        return self._with("div", other)

    def __rtruediv__(self, other: Any) -> Real:
        return emit(self.g, "div", other, self)

    def __neg__(self) -> Real:
        return self._with("neg")

    def __lt__(self, other: Any) -> Real:
        return self._with("lt", other, dtype="bool")

    def __gt__(self, other: Any) -> Real:
        return self._with("gt", other, dtype="bool")

    def equals(self, other: Any) -> Real:
        return self._with("eq", other, dtype="bool")

    def __and__(self, other: Any) -> Real:
        return self._with("logical_and", other, dtype="bool")

    def __or__(self, other: Any) -> Real:
        return self._with("logical_or", other, dtype="bool")

    def where(self, a: Any, b: Any) -> Real:
        """`a` where this condition holds, else `b`."""
        return emit(self.g, "where", self, a, b)

    def __getattr__(self, name: str) -> Callable[..., Real]:
        """Any elementwise operator by its name: x.exp(), y.atan2(x)."""
        if name.startswith("_") or name not in registry.OPS:
            raise AttributeError(name)
        return lambda *others: self._with(name, *others)


def emit(g: Emitter, op: str, *operands: Any, dtype: str = "f32") -> Real:
    from penlight.ir.types import TensorType

    values = [x.value if isinstance(x, Real) else g.as_tensor(x, "f32") for x in operands]
    shape = broadcast(*(v.shape for v in values))
    return Real(g, g.emit(op, *values, type=TensorType(dtype, shape)))


class Complex:
    def __init__(self, re: Any, im: Any) -> None:
        self.re, self.im = re, im

    def __add__(self, other: Any) -> Complex:
        o = as_complex(other)
        return Complex(self.re + o.re, self.im + o.im)

    def __sub__(self, other: Any) -> Complex:
        o = as_complex(other)
        return Complex(self.re - o.re, self.im - o.im)

    def __neg__(self) -> Complex:
        return Complex(-self.re, -self.im)

    def __mul__(self, other: Any) -> Complex:
        if not isinstance(other, Complex):
            return Complex(self.re * other, self.im * other)
        return Complex(self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re)

    def __truediv__(self, other: Any) -> Complex:
        """As torch has it: both divided by the divisor's larger part first, so that squares do not overflow."""
        if not isinstance(other, Complex):
            return Complex(self.re / other, self.im / other)
        scale = other.re.abs().maximum(other.im.abs())
        c, d = other.re / scale, other.im / scale
        square = (c * c + d * d) * scale
        return Complex((self.re * c + self.im * d) / square, (self.im * c - self.re * d) / square)

    def times_i(self) -> Complex:
        return Complex(-self.im, self.re)

    def abs(self) -> Real:
        return self.re.hypot(self.im)  # type: ignore[no-any-return]

    def angle(self) -> Real:
        return self.im.atan2(self.re)  # type: ignore[no-any-return]

    def exp(self) -> Complex:
        size = self.re.exp()
        return Complex(size * self.im.cos(), size * self.im.sin())

    def log(self) -> Complex:
        return Complex(self.abs().log(), self.angle())

    def sqrt(self) -> Complex:
        """The root with a real part >= 0; by the half of |z| + |re|, which loses no digits."""
        root = ((self.abs() + self.re.abs()) * 0.5).sqrt()
        other = (root.equals(0.0)).where(0.0, self.im.abs() / (root * 2.0))
        negative = self.re < 0.0
        re, im = negative.where(other, root), negative.where(root, other)
        return Complex(re, (self.im < 0.0).where(-im, im))

    def value(self) -> ComplexValue:
        from penlight.ops.complex_values import ComplexValue

        return ComplexValue(self.re.value, self.im.value)


def as_complex(x: Any) -> Complex:
    return x if isinstance(x, Complex) else Complex(x, 0.0)


def number(g: Emitter, x: Any) -> Complex:
    """Any operand of an aten call as a Complex."""
    from penlight.ops.complex_values import pair

    whole = pair(g, x)
    return Complex(Real(g, whole.real), Real(g, whole.imag))


def real(g: Emitter, x: Any) -> Real:
    return Real(g, g.as_tensor(x, "f32"))
