"""From real tensors to complex ones and back: complex, polar, view_as_complex, real, imag; and what these are of real tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.complex.arithmetic import conjugate
from penlight.ops.complex.number import Complex, real
from penlight.ops.elementwise.arithmetic import mul
from penlight.ops.elementwise.comparison import where
from penlight.ops.registry import Sample, on_complex
from penlight.ops.shape.copy import copy

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.complex_values import ComplexValue
    from penlight.ops.emitter import Emitter


@on_complex("complex")
def _(g: Emitter, re: Value, im: Value) -> ComplexValue:
    from penlight.ops.complex_values import ComplexValue

    def whole(x: Value) -> Value:
        return g.emit("expand", x, type=g.out.part, shape=g.out.shape) if x.shape != g.out.shape else x

    return ComplexValue(whole(g.cast(re, "f32")), whole(g.cast(im, "f32")))


@on_complex("polar")
def _(g: Emitter, size: Value, angle: Value) -> ComplexValue:
    a, turn = real(g, size), real(g, angle)
    return Complex(a * turn.cos(), a * turn.sin()).value()


@on_complex("view_as_complex", "view_as_complex_copy")
def _(g: Emitter, x: Value) -> ComplexValue:
    from penlight.ops.complex_values import ComplexValue

    re, im = (g.emit("select", x, type=g.out.part, dim=x.rank - 1, index=i) for i in (0, 1))
    return ComplexValue(re, im)


@on_complex("view_as_real", "view_as_real_copy")
def _(g: Emitter, x: ComplexValue) -> Value:
    parts = [g.reshape(part, (*part.shape, 1)) for part in x.parts]
    return g.emit("cat", *parts, dim=x.rank)  # type: ignore[no-any-return]


@on_complex("real")
def _(g: Emitter, x: ComplexValue) -> Value:
    return x.real


@on_complex("imag")
def _(g: Emitter, x: ComplexValue) -> Value:
    return x.imag


@on_complex("resolve_conj", "resolve_neg", "_neg_view_copy")
def _(g: Emitter, x: ComplexValue) -> ComplexValue:
    return x


@on_complex("_neg_view")
def _(g: Emitter, x: ComplexValue) -> ComplexValue:
    from penlight.ops.complex_values import ComplexValue

    return ComplexValue(*(g.emit("neg", part, type=g.out.part) for part in x.parts))


@on_complex("adjoint", "mH", "matrix_H")
def _(g: Emitter, x: ComplexValue) -> ComplexValue:
    from penlight.ops.complex_values import ComplexValue

    order = (*range(x.rank - 2), x.rank - 1, x.rank - 2)
    turned = [g.permute(part, order) for part in x.parts]
    return conjugate(g, ComplexValue(*turned))  # type: ignore[no-any-return]


@on_complex("to", "_to_copy", "type_as", "to_copy")
def _(g: Emitter, x: Any, *_: Any) -> Any:
    """A cast. To real numbers it drops the imaginary part, as torch does."""
    from penlight.ops.complex_values import ComplexType, ComplexValue, pair

    if isinstance(g.out, ComplexType):
        return pair(g, x)
    return g.cast(x.real if isinstance(x, ComplexValue) else x, g.out.dtype)


@on_complex("view.dtype")
def _(g: Emitter, x: Any, dtype: str) -> Any:
    """complex64 as twice as many floats, and back."""
    from penlight.ir.types import TensorType
    from penlight.ops.complex_values import ComplexValue

    if dtype == "f32" and isinstance(x, ComplexValue):
        parts = [g.reshape(part, (*part.shape, 1)) for part in x.parts]
        whole = g.emit("cat", *parts, type=TensorType("f32", (*x.shape, 2)), dim=x.rank)
        return g.reshape(whole, g.out.shape)
    if dtype == "c64" and not isinstance(x, ComplexValue) and x.dtype == "f32":
        pairs = g.reshape(x, (*g.out.shape, 2))
        return ComplexValue(*(g.emit("select", pairs, type=g.out.part, dim=pairs.rank - 1, index=i) for i in (0, 1)))
    return g.fail(f"from {x.dtype} to {dtype}: only complex64 and float32")


@copy.from_aten("conj", "_conj", "conj_physical", "resolve_conj", "resolve_neg", "real")
def _(g: Emitter, x: Value) -> Value:
    return x


@where.from_aten("angle")
def _(g: Emitter, x: Value) -> Value:
    """Of a real number: pi below zero, 0 above, NaN of NaN."""
    import math

    from penlight.ir.types import TensorType

    flag, kind = TensorType("bool", x.shape), TensorType("f32", x.shape)
    x = g.cast(x, "f32")
    turned = g.emit(
        "where", g.emit("lt", x, g.constant(0.0), type=flag), g.constant(math.pi), g.constant(0.0), type=kind
    )
    return g.emit("where", g.emit("isnan", x, type=flag), x, turned, type=kind)  # type: ignore[no-any-return]


@where.from_aten("isreal")
def _(g: Emitter, x: Value) -> Value:
    if not g.out.shape:
        return g.constant(True)
    return g.emit("full", shape=g.out.shape, value=1.0, dtype="bool")  # type: ignore[no-any-return]


def complex_samples() -> Iterator[Sample]:
    import torch

    rand = torch.Generator().manual_seed(5)
    z = torch.randn(3, 5, 2, generator=rand)
    w = torch.randn(5, 2, generator=rand)
    table = torch.polar(torch.ones(5), torch.arange(5.0))

    def rotate(z: Any) -> Any:
        return torch.view_as_real(torch.view_as_complex(z) * table)

    def functions(z: Any, w: Any) -> Any:
        a, b = torch.view_as_complex(z), torch.view_as_complex(w)
        made = [
            a * b,
            a / b,
            a + 2j,
            3 - a,
            a * 1.5,
            a.exp(),
            a.log(),
            a.sqrt(),
            a**3,
            a**-1,
            a**b,
            a.sin(),
            a.cos(),
            a.tanh(),
        ]
        made += [a.asin(), a.acos(), a.atan(), a.asinh(), a.acosh(), a.atanh(), a.tan(), a.sinh(), a.cosh(), a.sgn()]
        return made + [
            a.abs(),
            a.angle(),
            a.conj().imag,
            a @ b,
            a.mean(0),
            torch.cat([a, b[None]]),
            a == b,
            a.mH,
            a.sigmoid(),
        ]

    def inside(x: Any, y: Any) -> Any:
        return x * y.conj(), x.transpose(0, 1)[1:], {"abs": x.abs() + 1}

    yield Sample(rotate, (z,), "complex constant")
    yield Sample(functions, (z, w), "complex functions", tolerance=2e-5)
    yield Sample(inside, (torch.view_as_complex(z), torch.view_as_complex(w)), "complex inputs and outputs")
    free = ({0: torch.export.Dim("n", min=1, max=9)},)
    yield Sample(lambda z: torch.view_as_complex(z).reshape(-1) * 1j, (z,), "complex, dynamic", dynamic=free)


mul.samplers.append(complex_samples)  # not mul.samples(): the operator stands elsewhere
