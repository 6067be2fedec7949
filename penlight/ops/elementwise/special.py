"""Special functions: gamma, error function, Bessel, Airy, zeta, orthogonal polynomials. No model's time depends on them,
so they are computed number by number in f64, by runtime/cpu/special.cc, whatever float the model has. In a library with
a model's own kernels only those that it uses are left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.elementwise import expression as e
from penlight.ops.elementwise.arithmetic import add, mul
from penlight.ops.elementwise.expression import Term
from penlight.ops.elementwise.rules import FLOATS, SPECIAL, ElementwiseOp, apply, elementwise
from penlight.ops.registry import Sample, composite

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

INF = math.inf
HUGE = (1e10, -1e10, 3e38, -3e38, 8388609.0, INF, -INF)  # where torch's methods have no digits, or take forever
NAN = (math.nan,)  # where torch forgets it


def function(
    name: str,
    aten: str | tuple[str, ...],
    doc: str,
    arity: int = 1,
    avoid: tuple[float, ...] = (),
    names: str = "",
    of: str = "",
    loops: str = "",
) -> ElementwiseOp:
    """An operator that is one function of runtime/cpu/special.h. Samples compare with torch's f64, as its f32 is coarser."""
    call: Callable[..., Term] = e.special(name, arity)

    def unary(x: Term) -> Term:
        return call(x)

    def binary(a: Term, b: Term) -> Term:
        return call(a, b)

    rule = unary if arity == 1 else binary
    rule.__name__, rule.__doc__ = name, doc
    aten = (aten,) if isinstance(aten, str) else aten

    def oracle(torch: Any, *xs: Any) -> Any:
        return getattr(torch.ops.aten, aten[0])(*(x.double() for x in xs)).float()

    return elementwise(aten=aten, dtypes=SPECIAL, oracle=oracle, avoid=avoid, names=names, of=of, loops=loops)(rule)


digamma = function(
    "digamma", ("digamma", "special_digamma", "special_psi"), "The slope of lgamma", avoid=(-1.0, -3.0, *HUGE)
)
zeta = function("zeta", ("special_zeta", "special_zeta.self_scalar", "special_zeta.other_scalar"),
                "Hurwitz' zeta: the sum of (b + k)**-a over k = 0, 1, 2 …", 2, HUGE)  # fmt: skip
igamma = function(
    "igamma",
    ("igamma", "special_gammainc"),
    "The lower incomplete gamma function, regularized",
    2,
    (*HUGE, *NAN),
    of="floats",
)
igammac = function(
    "igammac",
    ("igammac", "special_gammaincc"),
    "The upper incomplete gamma function, regularized",
    2,
    (*HUGE, *NAN),
    of="floats",
)
erfcx = function("erfcx", "special_erfcx", "e**(x*x) * erfc(x)")
ndtri = function("ndtri", "special_ndtri", "The inverse of ndtr")
bessel_i0 = function(
    "bessel_i0", ("i0", "special_i0", "special_modified_bessel_i0"), "Modified Bessel function I0", avoid=(INF, -INF)
)
bessel_i1 = function(
    "bessel_i1", ("special_i1", "special_modified_bessel_i1"), "Modified Bessel function I1", avoid=(INF, -INF)
)
bessel_i0e = function("bessel_i0e", "special_i0e", "I0(x) * e**-|x|")
bessel_i1e = function("bessel_i1e", "special_i1e", "I1(x) * e**-|x|")
bessel_k0 = function("bessel_k0", "special_modified_bessel_k0", "Modified Bessel function K0")
bessel_k1 = function("bessel_k1", "special_modified_bessel_k1", "Modified Bessel function K1")
bessel_k0e = function("bessel_k0e", "special_scaled_modified_bessel_k0", "K0(x) * e**x", names="x")
bessel_k1e = function("bessel_k1e", "special_scaled_modified_bessel_k1", "K1(x) * e**x", names="x")
bessel_j0 = function("bessel_j0", "special_bessel_j0", "Bessel function J0", avoid=HUGE)
bessel_j1 = function("bessel_j1", "special_bessel_j1", "Bessel function J1", avoid=HUGE)
bessel_y0 = function("bessel_y0", "special_bessel_y0", "Bessel function Y0", avoid=HUGE)
bessel_y1 = function("bessel_y1", "special_bessel_y1", "Bessel function Y1", avoid=HUGE)
airy_ai = function("airy_ai", "special_airy_ai", "Airy's function Ai", avoid=HUGE, names="x")


def polynomial(name: str, aten: str, doc: str, shifted: str = "") -> None:
    """A polynomial family in x, of degree n; `shifted`: also the one in 2x - 1, under that name."""
    op = function(name, _overloads(aten), doc, 2, (*HUGE, *NAN), names="x n", loops="b")
    if shifted:

        @op.from_aten(*_overloads(shifted))
        def _(g: Emitter, x: Any, n: Any) -> Value:
            from penlight.ir.graph import Value
            from penlight.ir.types import TensorType

            if isinstance(x, Value):
                wide = TensorType("f64", x.shape)
                x = apply(g, add, apply(g, mul, g.cast(x, "f64"), 2.0, type=wide), -1.0, type=wide)
            else:
                x = 2.0 * x - 1
            return apply(g, op, x, n)


def _overloads(name: str) -> tuple[str, ...]:
    return (name, f"{name}.x_scalar", f"{name}.n_scalar")


for kind, ordinal in (("t", "first"), ("u", "second"), ("v", "third"), ("w", "fourth")):
    polynomial(f"chebyshev_{kind}", f"special_chebyshev_polynomial_{kind}", f"Chebyshev polynomials of the {ordinal} kind",
               f"special_shifted_chebyshev_polynomial_{kind}")  # fmt: skip
polynomial("hermite_h", "special_hermite_polynomial_h", "Hermite's polynomials, as physicists have them")
polynomial("hermite_he", "special_hermite_polynomial_he", "Hermite's polynomials, as probability has them")
polynomial("laguerre_l", "special_laguerre_polynomial_l", "Laguerre's polynomials")
polynomial("legendre_p", "special_legendre_polynomial_p", "Legendre's polynomials")


@elementwise(aten=("lgamma", "special_gammaln"), dtypes=FLOATS)
def lgamma(x: Term) -> Term:
    """log(|gamma(x)|)"""
    return e.lgamma(x)


@elementwise(aten=("erfc", "special_erfc"), dtypes=FLOATS)
def erfc(x: Term) -> Term:
    """1 - erf(x)"""
    return e.erfc(x)


@elementwise(aten=("erfinv", "special_erfinv"), dtypes=FLOATS)
def erfinv(x: Term) -> Term:
    """The inverse of erf"""
    return e.erfinv(x)


@elementwise(aten="special_entr", dtypes=FLOATS)
def entr(x: Term) -> Term:
    """-x * log(x), 0 at 0, -inf below"""
    return e.select(x < 0, -INF, e.select(x == 0, 0, -x * e.log(x)))


@elementwise(aten="special_ndtr", dtypes=FLOATS)
def ndtr(x: Term) -> Term:
    """The normal distribution's integral up to x"""
    return (e.erf(x * 0.5**0.5) + 1) * 0.5


@elementwise(
    aten="special_log_ndtr", dtypes=SPECIAL, oracle=lambda torch, x: torch.special.log_ndtr(x.double()).float()
)
def log_ndtr(x: Term) -> Term:
    """log(ndtr(x))"""
    below = e.log(e.SPECIAL["erfcx"](x * -(0.5**0.5)) * 0.5) - x * 0.5 * x
    return e.select(x < -1, below, e.log1p(e.erfc(x * 0.5**0.5) * -0.5))


@elementwise(
    aten="special_spherical_bessel_j0",
    dtypes=SPECIAL,
    oracle=lambda torch, x: torch.special.spherical_bessel_j0(x.double()).float(),
    avoid=HUGE,
    names="x",
)
def spherical_bessel_j0(x: Term) -> Term:
    """sin(x) / x, 1 at 0"""
    return e.select(x == 0, 1, e.select(e.abs(x) == INF, 0, e.sin(x) / x))


@digamma.from_aten("polygamma")
def _(g: Emitter, n: int, x: Value) -> Value:
    """(-1)**(n + 1) * n! * zeta(n + 1, x)"""
    from penlight.ir.types import TensorType

    if n == 0:
        return apply(g, digamma, x)
    if n > 169:
        g.fail(f"of order {n}: its factorial is no f64")
    wide = TensorType("f64", x.shape)
    factor = math.factorial(n) * (-1.0) ** (n + 1)
    return g.cast(apply(g, mul, apply(g, zeta, float(n + 1), x, type=wide), factor, type=wide), g.out.dtype)


@elementwise(dtypes=SPECIAL, oracle=lambda torch, x: torch.frexp(x).mantissa)
def frexp_mantissa(x: Term) -> Term:
    """x / 2**frexp_exponent(x), in [1/2, 1)"""
    return e.special("frexp_mantissa")(x)


@elementwise(
    dtypes=SPECIAL,
    result="i32",
    nan="zero",
    oracle=lambda torch, x: torch.frexp(x).exponent,
    avoid=(INF, -INF, math.nan),
)
def frexp_exponent(x: Term) -> Term:
    """The number of bits before the point"""
    return e.special("frexp_exponent")(x)


@frexp_mantissa.from_aten("frexp.Tensor")
def frexp(g: Emitter, x: Value) -> tuple[Value, Value]:
    mantissa, exponent = g.out
    return apply(g, frexp_mantissa, x, type=mantissa), apply(g, frexp_exponent, x, type=exponent)


@composite("mvlgamma")
def _(x: Any, p: int) -> Any:
    """The sum of lgamma at x, x - 1/2, …, and a constant."""
    import torch

    parts = [torch.lgamma(x - 0.5 * i) for i in range(p)]
    return sum(parts[1:], parts[0]) + p * (p - 1) / 4 * math.log(math.pi)


@igamma.samples
def _() -> Iterator[Sample]:
    """Where each method ends and the next one begins."""
    import torch

    a = torch.tensor([0.3, 2.0, 50.0, 9999.0, 2e4, 1e6]).double()[:, None]
    x = a * torch.tensor([0.5, 0.9, 0.99, 1.0, 1.01, 1.1, 2.0]).double()
    yield Sample(lambda a, x: [torch.igamma(a, x), torch.igammac(a, x)], (a, x), "large", tolerance=1e-7)


@digamma.samples
def _() -> Iterator[Sample]:
    import torch

    x = torch.tensor([-40.3, -9.5, -1.25, -1e-3, 1e-3, 0.4, 1.0, 7.5, 33.0, 1e4]).double()
    yield Sample(
        lambda x: [torch.polygamma(n, x) for n in (0, 1, 2, 5)] + [torch.mvlgamma(x[5:] + 2, 3), torch.frexp(x)[1]],
        (x,),
        "polygamma, mvlgamma",
        tolerance=1e-7,
    )
