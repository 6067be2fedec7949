"""Scalar expressions: what an elementwise rule computes, traced once into a tree of Terms.

A rule is called with Terms in place of numbers, so that `x * clamp(x / 6 + 0.5, 0, 1)` leaves a tree of primitives.
Each primitive has a C++ function of the same name (runtime/simd/arithmetic.h, math.h) and a numpy one (`evaluate`).
Special functions have a C++ one only, on f64 (runtime/cpu/special.h): rules that use them are f64 rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, eq=False)
class Term:
    """op: "input" or "attr" (value: its name), "const" (value: the number), or the name of a primitive."""

    op: str
    args: tuple[Term, ...] = ()
    value: float | str = 0
    is_mask: bool = False  # a truth value, not a number

    def __add__(self, other: Number) -> Term:
        return add(self, other)

    def __radd__(self, other: Number) -> Term:
        return add(other, self)

    def __sub__(self, other: Number) -> Term:
        return sub(self, other)

    def __rsub__(self, other: Number) -> Term:
        return sub(other, self)

    def __mul__(self, other: Number) -> Term:
        return mul(self, other)

    def __rmul__(self, other: Number) -> Term:
        return mul(other, self)

    def __truediv__(self, other: Number) -> Term:
        return div(self, other)

    def __rtruediv__(self, other: Number) -> Term:
        return div(other, self)

    def __neg__(self) -> Term:
        return neg(self)

    def __lt__(self, other: Number) -> Term:
        return lt(self, other)

    def __le__(self, other: Number) -> Term:
        return le(self, other)

    def __gt__(self, other: Number) -> Term:
        return gt(self, other)

    def __ge__(self, other: Number) -> Term:
        return ge(self, other)

    def __eq__(self, other: object) -> Term:  # type: ignore[override]
        return eq(self, other)

    def __ne__(self, other: object) -> Term:  # type: ignore[override]
        return ne(self, other)

    def __and__(self, other: Term) -> Term:
        return (both if self.is_mask else bit_and)(self, other)

    def __or__(self, other: Term) -> Term:
        return (either if self.is_mask else bit_or)(self, other)

    def __xor__(self, other: Term) -> Term:
        return bit_xor(self, other)

    def __invert__(self) -> Term:
        return (negate if self.is_mask else bit_not)(self)

    def __bool__(self) -> bool:
        raise TypeError(
            "a rule cannot branch on its argument: use select(condition, a, b), and & | ~ between conditions"
        )


Number: TypeAlias = Term | float

PRIMITIVES: dict[str, Callable[..., Term]] = {}  # all that C++ and numpy must know
SPECIAL: dict[str, Callable[..., Term]] = {}  # those that only C++ knows, for f64


def term(x: object) -> Term:
    if isinstance(x, Term):
        return x
    if isinstance(x, (int, float)):
        return Term("const", value=x)
    raise TypeError(f"a rule computes with its arguments and numbers, got {x!r}")


def primitive(name: str, signature: str) -> Callable[..., Term]:
    """Declares a primitive and returns the function that rules call. "vv-v": two values give a value, "v-m": one gives
    a condition (mask)."""
    PRIMITIVES[name] = build = _builder(name, signature)
    return build


def special(name: str, arity: int = 1) -> Callable[..., Term]:
    """Declares a function of runtime/cpu/special.h, of one or two f64 numbers."""
    SPECIAL[name] = build = _builder(name, "v" * arity + "-v")
    return build


def _builder(name: str, signature: str) -> Callable[..., Term]:
    takes, gives = signature.split("-")

    def build(*args: object) -> Term:
        terms = tuple(term(a) for a in args)
        if len(terms) != len(takes) or any(t.is_mask != (k == "m") for t, k in zip(terms, takes, strict=True)):
            raise TypeError(
                f"{name} takes {takes} (v: a value, m: a condition), got {', '.join(show(t) for t in terms)}"
            )
        return Term(name, terms, is_mask=gives == "m")

    return build


add, sub, mul, div = (primitive(n, "vv-v") for n in ("add", "sub", "mul", "div"))
neg, abs, sqrt = (primitive(n, "v-v") for n in ("neg", "abs", "sqrt"))
floor, ceil, round, trunc = (primitive(n, "v-v") for n in ("floor", "ceil", "round", "trunc"))
exp, exp2, expm1 = (primitive(n, "v-v") for n in ("exp", "exp2", "expm1"))
sigmoid, tanh = (primitive(n, "v-v") for n in ("sigmoid", "tanh"))
erf, erfc, erfinv, lgamma = (primitive(n, "v-v") for n in ("erf", "erfc", "erfinv", "lgamma"))
log, log1p, log2, log10 = (primitive(n, "v-v") for n in ("log", "log1p", "log2", "log10"))
sin, cos, tan, asin, acos, atan = (primitive(n, "v-v") for n in ("sin", "cos", "tan", "asin", "acos", "atan"))
sinh, cosh = (primitive(n, "v-v") for n in ("sinh", "cosh"))
pow, atan2 = (primitive(n, "vv-v") for n in ("pow", "atan2"))
maximum, minimum = (primitive(n, "vv-v") for n in ("maximum", "minimum"))  # NaN if either is
clamp = primitive("clamp", "vvv-v")  # NaN in the first stays; the upper bound wins where they cross
fmod, remainder = (primitive(n, "vv-v") for n in ("fmod", "remainder"))
floor_divide, trunc_divide = (primitive(n, "vv-v") for n in ("floor_divide", "trunc_divide"))
bit_and, bit_or, bit_xor = (primitive(n, "vv-v") for n in ("bit_and", "bit_or", "bit_xor"))
bit_not = primitive("bit_not", "v-v")
shift_left, shift_right = (primitive(n, "vv-v") for n in ("shift_left", "shift_right"))  # by any number
gcd = primitive("gcd", "vv-v")
copysign, nextafter = (primitive(n, "vv-v") for n in ("copysign", "nextafter"))
signbit = primitive("signbit", "v-m")  # true for -0.0
lt, le, gt, ge, eq, ne = (primitive(n, "vv-m") for n in ("lt", "le", "gt", "ge", "eq", "ne"))
isnan = primitive("isnan", "v-m")
both, either = (primitive(n, "mm-m") for n in ("both", "either"))
negate = primitive("negate", "m-m")
select = primitive("select", "mvv-v")


def show(t: Term) -> str:
    """A term as text: equal text, equal value."""
    if t.op in ("input", "attr"):
        return str(t.value)
    if t.op == "const":
        return repr(t.value)
    return f"{t.op}({', '.join(show(a) for a in t.args)})"


def evaluate(t: Term, inputs: Mapping[str, np.ndarray], attrs: Mapping[str, float]) -> np.ndarray:
    """The term's value on numpy arrays, in their own dtype."""
    import numpy as np

    known: dict[str, Any] = {}
    dtype = next((x.dtype.type for x in inputs.values() if x.dtype.kind == "f"), np.float64)

    def value(t: Term) -> Any:
        if t.op == "input":
            return inputs[str(t.value)]
        if t.op == "attr":
            return dtype(attrs[str(t.value)])
        if t.op == "const":
            return t.value
        text = show(t)
        if text not in known:
            known[text] = _numpy_function(t.op)(*(value(a) for a in t.args))
        return known[text]

    with np.errstate(all="ignore"):
        return np.asarray(value(t))


def _power(a: Any, b: Any) -> Any:
    """numpy's, and for a negative exponent of integers what torch gives: 1, -1 or 0."""
    import numpy as np

    if np.result_type(a, b).kind == "f":
        return np.power(a, b)
    units = np.where(a == 1, 1, np.where(a == -1, 1 - 2 * (b % 2), 0))
    return np.where(b < 0, units, np.power(a, np.maximum(b, 0)))


def _lgamma(x: float) -> float:
    import math

    return math.inf if math.isinf(x) or (x <= 0 and math.floor(x) == x) else math.lgamma(x)


def _erfinv(y: float) -> float:
    import math
    import statistics

    if not -1 < y < 1:
        return math.copysign(math.inf, y) if y in (-1, 1) else math.nan
    return math.copysign(-statistics.NormalDist().inv_cdf((1 - math.fabs(y)) / 2) * 0.5**0.5, y)


def _bits(x: Any) -> int:
    import numpy as np

    return np.asarray(x).dtype.itemsize * 8


def _shift_left(a: Any, b: Any) -> Any:
    import numpy as np

    outside = (b < 0) | (b >= _bits(a))
    return np.where(outside, 0, np.left_shift(a, np.where(outside, 0, b)))


def _numpy_function(name: str) -> Callable[..., Any]:
    import math

    import numpy as np

    different: dict[str, Callable[..., Any]] = {
        "shift_left": _shift_left,
        "shift_right": lambda a, b: np.right_shift(a, np.where((b < 0) | (b >= _bits(a)), _bits(a) - 1, b)),
        "sub": np.subtract,
        "mul": np.multiply,
        "div": np.divide,
        "neg": np.negative,
        "round": np.rint,
        "erf": lambda x: np.vectorize(math.erf, otypes=["float64"])(x).astype(np.asarray(x).dtype),
        "erfc": lambda x: np.vectorize(math.erfc, otypes=["float64"])(x).astype(np.asarray(x).dtype),
        "lgamma": np.vectorize(_lgamma, otypes=["float32"]),
        "erfinv": np.vectorize(_erfinv, otypes=["float32"]),
        "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
        "asin": np.arcsin,
        "acos": np.arccos,
        "atan": np.arctan,
        "atan2": np.arctan2,
        "pow": _power,
        "clamp": lambda x, lo, hi: np.minimum(np.maximum(x, lo), hi),
        "trunc_divide": lambda a, b: (a - np.fmod(a, b)) // b,
        "bit_and": np.bitwise_and,
        "bit_or": np.bitwise_or,
        "bit_xor": np.bitwise_xor,
        "bit_not": np.invert,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
        "eq": np.equal,
        "ne": np.not_equal,
        "both": np.logical_and,
        "either": np.logical_or,
        "negate": np.logical_not,
        "select": np.where,
    }
    return different[name] if name in different else getattr(np, name)
