"""torch's decompositions end in calls of aten, or in `prims::`, a smaller set below it: one dtype, no promotion, no alpha.
Those that are elementwise are operators here; `prims::convert_element_type` stands with the casts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penlight.ops.elementwise import arithmetic, comparison, math, special
from penlight.ops.elementwise.rules import ElementwiseOp, apply
from penlight.ops.registry import OPS

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

_SAME_NAME: tuple[tuple[Any, str], ...] = (
    (arithmetic, "abs add atan2 fmax fmin fmod gcd hypot maximum minimum mul neg nextafter pow reciprocal"
                 " remainder sign sub"),
    (math, "acos acosh asin asinh atan atanh ceil cos cosh erf exp exp2 expm1 floor log log10 log1p log2 round rsqrt sin"
           " sinh sqrt tan tanh trunc"),
    (comparison, "bitwise_and bitwise_not bitwise_or bitwise_xor eq ge gt isfinite le lt ne shift_left signbit where"),
    (special, "bessel_i0 bessel_i0e bessel_i1 bessel_i1e bessel_j0 bessel_j1 digamma erfc erfcx igamma igammac lgamma"
              " ndtri spherical_bessel_j0 zeta"),
)  # fmt: skip


def _declare(op: ElementwiseOp, name: str) -> None:
    def convert(g: Emitter, *operands: Any) -> Value:
        return apply(g, OPS[op.on_bool] if op.on_bool and g.out.dtype == "bool" else op, *operands)

    op.from_aten(f"prims::{name}")(convert)


for module, names in _SAME_NAME:
    for name in names.split():
        _declare(getattr(module, name), name)
_declare(special.erfinv, "erf_inv")
_declare(comparison.shift_right, "shift_right_arithmetic")


@arithmetic.div.from_aten("prims::div")
def _(g: Emitter, a: Any, b: Any) -> Value:
    """The quotient of integers is one, rounded towards zero."""
    return apply(g, arithmetic.div if g.out.dtype in ("f32", "f64") else arithmetic.trunc_divide, a, b)


special.frexp_mantissa.from_aten("prims::frexp")(special.frexp)
