"""Comparisons, logic and choice: results are bool, except those of where and of the bitwise operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.elementwise import expression as e
from penlight.ops.elementwise.expression import Term
from penlight.ops.elementwise.rules import ARITHMETIC, EVERY, FLOATS, INTEGERS, ElementwiseOp, apply, elementwise
from penlight.ops.registry import Sample

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter


@elementwise(aten=("eq.Tensor", "eq.Scalar"), dtypes=EVERY, result="bool", nan="false")
def eq(a: Term, b: Term) -> Term:
    return a == b


@elementwise(aten=("ne.Tensor", "ne.Scalar"), dtypes=EVERY, result="bool", nan="true")
def ne(a: Term, b: Term) -> Term:
    return a != b


@elementwise(aten=("lt.Tensor", "lt.Scalar"), dtypes=EVERY, result="bool", nan="false")
def lt(a: Term, b: Term) -> Term:
    return a < b


@elementwise(aten=("le.Tensor", "le.Scalar"), dtypes=EVERY, result="bool", nan="false")
def le(a: Term, b: Term) -> Term:
    return a <= b


@elementwise(aten=("gt.Tensor", "gt.Scalar"), dtypes=EVERY, result="bool", nan="false")
def gt(a: Term, b: Term) -> Term:
    return a > b


@elementwise(aten=("ge.Tensor", "ge.Scalar"), dtypes=EVERY, result="bool", nan="false")
def ge(a: Term, b: Term) -> Term:
    return a >= b


@elementwise(aten="logical_and", dtypes=EVERY, result="bool", nan="counts as true")
def logical_and(a: Term, b: Term) -> Term:
    return (a != 0) & (b != 0)


@elementwise(aten="logical_or", dtypes=EVERY, result="bool", nan="counts as true")
def logical_or(a: Term, b: Term) -> Term:
    return (a != 0) | (b != 0)


@elementwise(aten="logical_xor", dtypes=EVERY, result="bool", nan="counts as true")
def logical_xor(a: Term, b: Term) -> Term:
    return (a != 0) & (b == 0) | (a == 0) & (b != 0)


@elementwise(aten="logical_not", dtypes=EVERY, result="bool", nan="counts as true")
def logical_not(x: Term) -> Term:
    return x == 0


@elementwise(aten="isnan", dtypes=FLOATS, result="bool", nan="true")
def isnan(x: Term) -> Term:
    return e.isnan(x)


@elementwise(aten="isinf", dtypes=FLOATS, result="bool", nan="false")
def isinf(x: Term) -> Term:
    return e.abs(x) == float("inf")


@elementwise(aten="isfinite", dtypes=FLOATS, result="bool", nan="false")
def isfinite(x: Term) -> Term:
    return e.abs(x) < float("inf")


@elementwise(aten="isposinf", dtypes=FLOATS, result="bool", nan="false")
def isposinf(x: Term) -> Term:
    return x == float("inf")


@elementwise(aten="isneginf", dtypes=FLOATS, result="bool", nan="false")
def isneginf(x: Term) -> Term:
    return x == -float("inf")


@elementwise(aten="signbit", dtypes=ARITHMETIC, result="bool", nan="its sign")
def signbit(x: Term) -> Term:
    """Whether x is below zero, or -0"""
    return e.signbit(x)


@elementwise(aten=("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar"), dtypes=EVERY)
def where(condition: Term, a: Term, b: Term) -> Term:
    """a where the condition holds, b elsewhere"""
    return e.select(condition, a, b)


@where.from_aten("masked_fill.Scalar", "masked_fill.Tensor")
def _(g: Emitter, x: Value, mask: Value, value: Any) -> Value:
    from penlight.ir.graph import Value

    if not isinstance(value, Value):
        value = g.constant(value, x.dtype)
    return apply(g, where, mask, g.cast(value, x.dtype), x)


@elementwise(dtypes=INTEGERS, oracle=lambda torch, a, b: a & b)
def bitwise_and(a: Term, b: Term) -> Term:
    return a & b


@elementwise(dtypes=INTEGERS, oracle=lambda torch, a, b: a | b)
def bitwise_or(a: Term, b: Term) -> Term:
    return a | b


@elementwise(dtypes=INTEGERS, oracle=lambda torch, a, b: a ^ b)
def bitwise_xor(a: Term, b: Term) -> Term:
    return a ^ b


@elementwise(dtypes=INTEGERS, oracle=lambda torch, x: ~x)
def bitwise_not(x: Term) -> Term:
    return ~x


@elementwise(dtypes=INTEGERS, oracle=lambda torch, a, b: a << (b & 127))
def shift_left(a: Term, b: Term) -> Term:
    """a * 2**b; 0 where b is below zero or takes all bits"""
    return e.shift_left(a, b)


@elementwise(dtypes=INTEGERS, oracle=lambda torch, a, b: a >> (b & 127))
def shift_right(a: Term, b: Term) -> Term:
    """a / 2**b, rounded down; 0 or -1 where b is below zero or takes all bits"""
    return e.shift_right(a, b)


@shift_left.from_aten("bitwise_left_shift.Tensor", "bitwise_left_shift.Tensor_Scalar", "bitwise_left_shift.Scalar_Tensor",
                      "__lshift__.Tensor", "__lshift__.Scalar")  # fmt: skip
def _(g: Emitter, a: Any, b: Any) -> Value:
    return apply(g, shift_left, a, b)


@shift_right.from_aten("bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar",
                       "bitwise_right_shift.Scalar_Tensor", "__rshift__.Tensor", "__rshift__.Scalar")  # fmt: skip
def _(g: Emitter, a: Any, b: Any) -> Value:
    return apply(g, shift_right, a, b)


def _logical_for_bool(bitwise: ElementwiseOp, logical: ElementwiseOp, *overloads: str) -> None:
    """On bool tensors & | ^ ~ are the logical operators."""

    @bitwise.from_aten(*(f"{bitwise.name}{o}" for o in overloads))
    def _(g: Emitter, *operands: Any) -> Value:
        return apply(g, logical if g.out.dtype == "bool" else bitwise, *operands)


_logical_for_bool(bitwise_and, logical_and, ".Tensor", ".Scalar", ".Scalar_Tensor")
_logical_for_bool(bitwise_or, logical_or, ".Tensor", ".Scalar", ".Scalar_Tensor")
_logical_for_bool(bitwise_xor, logical_xor, ".Tensor", ".Scalar", ".Scalar_Tensor")
_logical_for_bool(bitwise_not, logical_not, "")


@where.samples
def _() -> Iterator[Sample]:
    import torch

    x, m = torch.randn(3, 17), torch.randn(3, 17) > 0
    yield Sample(
        lambda x, m: [
            torch.where(m, x, 0.0),
            torch.where(x > 0, 1, x),
            torch.where(m, 1.5, 2.5),
            x.masked_fill(m, -float("inf")),
            x.masked_fill(m[:1], x[0, 0]),
        ],
        (x, m),
        "scalars, masked_fill",
    )


@bitwise_and.samples
def _() -> Iterator[Sample]:
    import torch

    x = torch.randn(3, 17)
    yield Sample(
        lambda x: [(x > 0) & (x < 1), (x > 1) | (x < 0), (x > 1) ^ (x < 2), ~(x > 0), (x * 9).to(torch.uint8) & 5],
        (x,),
        "bool and u8",
    )


@eq.samples
def _() -> Iterator[Sample]:
    import torch

    x, i = torch.randn(3, 17), torch.arange(17)
    yield Sample(
        lambda x, i: [x > 0, x <= i, i == 3, i.to(torch.uint8) >= 5, i < 2.5, x.half() > x, (x > 0) == (i > 5)],
        (x, i),
        "mixed dtypes",
    )
