"""Comparisons, logic and choice: results are bool, except those of where and of the bitwise operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.elementwise import expression as e
from penlight.ops.elementwise.expression import Term
from penlight.ops.elementwise.rules import ARITHMETIC, EVERY, FLOATS, INTEGERS, ElementwiseOp, apply, elementwise
from penlight.ops.registry import Sample

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter


def _compared(*names: str) -> list[str]:
    return [f"{name}.{kind}" for name in names for kind in ("Tensor", "Scalar")]


@elementwise(aten=_compared("eq"), dtypes=EVERY, result="bool", nan="false")
def eq(a: Term, b: Term) -> Term:
    return a == b


@elementwise(aten=_compared("ne", "not_equal"), dtypes=EVERY, result="bool", nan="true")
def ne(a: Term, b: Term) -> Term:
    return a != b


@elementwise(aten=_compared("lt", "less"), dtypes=EVERY, result="bool", nan="false")
def lt(a: Term, b: Term) -> Term:
    return a < b


@elementwise(aten=_compared("le", "less_equal"), dtypes=EVERY, result="bool", nan="false")
def le(a: Term, b: Term) -> Term:
    return a <= b


@elementwise(aten=_compared("gt", "greater"), dtypes=EVERY, result="bool", nan="false")
def gt(a: Term, b: Term) -> Term:
    return a > b


@elementwise(aten=_compared("ge", "greater_equal"), dtypes=EVERY, result="bool", nan="false")
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


@elementwise(aten="isnan", dtypes=FLOATS, result="bool", nan="true", forms={"isnan_": ""})
def isnan(x: Term) -> Term:
    return e.isnan(x)


@elementwise(aten="isinf", dtypes=FLOATS, result="bool", nan="false", forms={"isinf_": ""})
def isinf(x: Term) -> Term:
    return e.abs(x) == float("inf")


@elementwise(aten="isfinite", dtypes=FLOATS, result="bool", nan="false", forms={"isfinite_": "", "isfinite.out": ""})
def isfinite(x: Term) -> Term:
    return e.abs(x) < float("inf")


@elementwise(aten="isposinf", dtypes=FLOATS, result="bool", nan="false", forms={"isposinf_": ""})
def isposinf(x: Term) -> Term:
    return x == float("inf")


@elementwise(aten="isneginf", dtypes=FLOATS, result="bool", nan="false", forms={"isneginf_": ""})
def isneginf(x: Term) -> Term:
    return x == -float("inf")


@elementwise(aten="signbit", dtypes=ARITHMETIC, result="bool", nan="its sign", forms={"signbit_": ""})
def signbit(x: Term) -> Term:
    """Whether x is below zero, or -0"""
    return e.signbit(x)


@elementwise(
    aten=("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar"),
    dtypes=EVERY,
    forms={f"where.{kind}_out": "" for kind in ("ScalarOther", "ScalarSelf", "Scalar")},
)
def where(condition: Term, a: Term, b: Term) -> Term:
    """a where the condition holds, b elsewhere"""
    return e.select(condition, a, b)


@where.from_aten("masked_fill.Scalar", "masked_fill.Tensor")
def _(g: Emitter, x: Value, mask: Value, value: Any) -> Value:
    from penlight.ir.graph import Value

    if not isinstance(value, Value):
        value = g.constant(value, x.dtype)
    return apply(g, where, mask, g.cast(value, x.dtype), x)


def _bitwise(word: str, oracle: Callable[..., Any]) -> Callable[[Callable[..., Term]], ElementwiseOp]:
    """On bool tensors & | ^ are the logical operators."""
    names = [f"bitwise_{word}.{kind}" for kind in ("Tensor", "Scalar", "Scalar_Tensor")]
    names += [f"__{word}__.{kind}" for kind in ("Tensor", "Scalar")]
    return elementwise(aten=names, dtypes=INTEGERS, on_bool=f"logical_{word}", oracle=oracle)


@_bitwise("and", lambda torch, a, b: a & b)
def bitwise_and(a: Term, b: Term) -> Term:
    return a & b


@_bitwise("or", lambda torch, a, b: a | b)
def bitwise_or(a: Term, b: Term) -> Term:
    return a | b


@_bitwise("xor", lambda torch, a, b: a ^ b)
def bitwise_xor(a: Term, b: Term) -> Term:
    return a ^ b


@elementwise(aten="bitwise_not", dtypes=INTEGERS, on_bool="logical_not")
def bitwise_not(x: Term) -> Term:
    return ~x


def _shift(word: str, oracle: Callable[..., Any]) -> Callable[[Callable[..., Term]], ElementwiseOp]:
    names = [f"bitwise_{word}_shift.{kind}" for kind in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")]
    names += [f"__{word[0]}shift__.{kind}" for kind in ("Tensor", "Scalar")]
    return elementwise(aten=names, dtypes=INTEGERS, oracle=oracle)


@_shift("left", lambda torch, a, b: a << (b & 127))
def shift_left(a: Term, b: Term) -> Term:
    """a * 2**b; 0 where b is below zero or takes all bits"""
    return e.shift_left(a, b)


@_shift("right", lambda torch, a, b: a >> (b & 127))
def shift_right(a: Term, b: Term) -> Term:
    """a / 2**b, rounded down; 0 or -1 where b is below zero or takes all bits"""
    return e.shift_right(a, b)


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
