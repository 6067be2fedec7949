"""Functions of one number that have a name of their own in every mathematics library, and the roundings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penlight.ops.elementwise import expression as e
from penlight.ops.elementwise.expression import PRIMITIVES, Term
from penlight.ops.elementwise.rules import ElementwiseOp, apply, elementwise

if TYPE_CHECKING:
    from penlight.capture.emitter import Emitter
    from penlight.ir.graph import Value


def function(name: str) -> ElementwiseOp:
    """An operator that is one primitive, of the same name in aten."""

    def rule(x: Term) -> Term:
        return PRIMITIVES[name](x)

    rule.__name__ = name
    rule.__doc__ = f"{name}(x)"
    return elementwise(aten=name)(rule)


exp, expm1 = function("exp"), function("expm1")
log, log1p, log2, log10 = function("log"), function("log1p"), function("log2"), function("log10")
sqrt, erf, tanh, sigmoid = function("sqrt"), function("erf"), function("tanh"), function("sigmoid")
sin, cos, tan = function("sin"), function("cos"), function("tan")
asin, acos, atan = function("asin"), function("acos"), function("atan")
sinh, cosh = function("sinh"), function("cosh")


@elementwise(aten="rsqrt")
def rsqrt(x: Term) -> Term:
    return 1 / e.sqrt(x)


def rounding(name: str) -> ElementwiseOp:
    """Rounds floats; integers are whole already."""

    def rule(x: Term) -> Term:
        return PRIMITIVES[name](x)

    def convert(g: Emitter, x: Value) -> Value:
        return apply(g, op, x) if x.dtype in ("f32", "f16", "bf16", "f64") else x

    rule.__name__ = name
    rule.__doc__ = f"{name}(x)" + (", ties to even" if name == "round" else "")
    op = elementwise(oracle=lambda torch, x: getattr(torch, name)(x))(rule)
    op.from_aten(name)(convert)
    return op


floor, ceil, round, trunc = rounding("floor"), rounding("ceil"), rounding("round"), rounding("trunc")
