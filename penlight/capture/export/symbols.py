"""Symbolic integers of torch (SymInt over sympy) become Dims.

Sizes are integers, but torch reaches some of them through floats (`int(h * 1.5)`, `h / 2`): a float expression is held
as a quotient of two Dims, and what rounds it to an integer becomes a floor division. Torch names symbols after hashes
(s77); here they are named after the user's Dim or after the input and dim that they first size: `x_2`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from penlight.errors import CaptureError
from penlight.ir.dims import Dim, combine, symbol
from penlight.ir.graph import SymbolRange

if TYPE_CHECKING:
    import sympy

# Denominators up to here are taken for what the author of `scale_factor=0.3` meant: 3/10, not the nearest double.
LARGEST_DENOMINATOR = 1_000_000
LARGEST_TRIED = 1 << 16


class Symbols:
    """Names for torch's symbols, and the translation of expressions over them."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}  # torch's name -> ours
        self.dims: dict[str, Dim] = {}  # torch's name -> what it is, of symbols that follow from others

    def define(self, torch_name: str, wish: str) -> None:
        """Calls a symbol `wish` (or wish_2, … where that is taken), unless it already has a name."""
        if torch_name in self.names:
            return
        stem = "".join(c if c.isalnum() else "_" for c in wish) or torch_name
        stem = f"d{stem}" if stem[0].isdigit() else stem
        name, count = stem, 1
        while name in self.names.values() or name in ("max", "min"):
            count += 1
            name = f"{stem}_{count}"
        self.names[torch_name] = name

    def dim(self, value: Any) -> Dim:
        """An int, a SymInt or a sympy expression as a Dim. CaptureError where it is no integer arithmetic."""
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        expr = value.node.expr if hasattr(value, "node") else value
        try:
            return self._integer(expr)
        except _Untranslatable as e:
            raise CaptureError(
                f"the size {expr} is computed in a way that Penlight's shape arithmetic lacks ({e}); it knows + - * // % max"
                " min and the rounding of quotients"
            ) from None

    def quotient(self, value: Any) -> tuple[Dim, Dim]:
        """A SymFloat or sympy expression as numerator and denominator."""
        expr = value.node.expr if hasattr(value, "node") else value
        try:
            return self._quotient(expr)
        except _Untranslatable as e:
            raise CaptureError(f"the number {expr} depends on shapes in a way that Penlight lacks ({e})") from None

    def _integer(self, e: sympy.Expr) -> Dim:
        if e.is_Integer:
            return int(e)
        if e.is_Symbol and e.name in self.dims:
            return self.dims[e.name]
        if e.is_Symbol:
            return symbol(self.names.get(e.name, e.name))
        if e.is_Add:
            return self._sum(e.args)
        if e.is_Mul:
            return self._product(e)
        if e.is_Pow:
            return self._power(*e.args)
        args = e.args
        match type(e).__name__:
            case "FloorDiv" | "CleanDiv":
                return combine("//", self._integer(args[0]), self._integer(args[1]))
            case "CeilDiv":
                return _ceil(self._integer(args[0]), self._integer(args[1]))
            case "Mod" | "PythonMod":
                return combine("%", self._integer(args[0]), self._integer(args[1]))
            case "ModularIndexing":
                return combine(
                    "%", combine("//", self._integer(args[0]), self._integer(args[1])), self._integer(args[2])
                )
            case "Max" | "Min" as name:
                return _chain(name.lower(), [self._integer(a) for a in args])
            case "PowByNatural":
                return self._power(*args)
            case "LShift":
                return combine("*", self._integer(args[0]), self._power(2, args[1]))
            case "RShift":
                return combine("//", self._integer(args[0]), self._power(2, args[1]))
            case "Identity":
                return self._integer(args[0])
            case "floor" | "FloorToInt":
                return combine("//", *self._quotient(args[0], np.floor))
            case "ceiling" | "CeilToInt":
                return _ceil(*self._quotient(args[0], np.ceil))
            case "TruncToInt" | "TruncToFloat":
                # Rounds towards zero: that is floor for sizes, which are not negative.
                if args[0].is_nonnegative is False:
                    raise _Untranslatable("truncation of a negative number")
                return combine("//", *self._quotient(args[0], np.floor))
            case other:
                raise _Untranslatable(other)

    def _sum(self, terms: Iterable[sympy.Expr]) -> Dim:
        """Symbols first, then what is subtracted, the plain number last: as a person would write it."""
        added: list[Dim] = []
        subtracted: list[Dim] = []
        constant = 0
        for term in terms:
            if term.is_Integer:
                constant += int(term)
            elif term.could_extract_minus_sign():
                subtracted.append(self._integer(-term))
            else:
                added.append(self._integer(term))
        if not added:
            added, constant = [constant], 0
        total = _chain("+", added)
        for d in subtracted:
            total = combine("-", total, d)
        return combine("+", total, constant) if constant >= 0 else combine("-", total, -constant)

    def _product(self, e: sympy.Expr) -> Dim:
        numerator, denominator = self._quotient(e)
        return combine("//", numerator, denominator)  # sympy says it is an integer, so nothing is rounded off

    def _power(self, base: Any, exponent: Any) -> Dim:
        if not isinstance(exponent, int) and not exponent.is_Integer:
            raise _Untranslatable("an exponent that is no constant")
        if int(exponent) < 0:
            raise _Untranslatable("a negative exponent")
        factor = base if isinstance(base, int) else self._integer(base)
        return _chain("*", [factor] * int(exponent)) if int(exponent) else 1

    def _quotient(self, e: sympy.Expr, rounding: Any = None) -> tuple[Dim, Dim]:
        """`rounding` (np.floor, np.ceil) is what happens to the quotient next, if it matters."""
        if e.is_Rational:
            return int(e.p), int(e.q)
        if e.is_Float:
            return _fraction(float(e), rounding)
        if e.is_Mul:
            numerators, denominators = zip(*(self._quotient(a, rounding) for a in e.args), strict=True)
            return _chain("*", numerators), _chain("*", denominators)
        if e.is_Pow and e.args[1].is_Integer and int(e.args[1]) < 0:
            numerator, denominator = self._quotient(e.args[0])
            power = -int(e.args[1])
            return _chain("*", [denominator] * power), _chain("*", [numerator] * power)
        if e.is_Add and not e.is_integer:
            total: tuple[Dim, Dim] = (0, 1)
            for n, d in (self._quotient(a, rounding) for a in e.args):
                total = (combine("+", combine("*", total[0], d), combine("*", n, total[1])), combine("*", total[1], d))
            return total
        name = type(e).__name__
        if name in ("IntTrueDiv", "FloatTrueDiv"):
            (a, b), (c, d) = self._quotient(e.args[0], rounding), self._quotient(e.args[1])
            return combine("*", a, d), combine("*", b, c)
        if name in ("ToFloat", "Identity"):
            return self._quotient(e.args[0], rounding)
        return self._integer(e), 1


class _Untranslatable(Exception):
    pass


def _chain(op: str, dims: Sequence[Dim]) -> Dim:
    total = dims[0]
    for d in dims[1:]:
        total = combine(op, total, d)
    return total


def _ceil(a: Dim, b: Dim) -> Dim:
    return combine("-", 0, combine("//", combine("-", 0, a), b))


def _fraction(number: float, rounding: Any) -> tuple[int, int]:
    """The fraction that a decimal stands for: 7/10 for 0.7. Whether floor(size * 0.7) is then the same as in doubles is a
    matter of luck with the last bit (for 0.7 it is not: torch gives 62 for 90, 7/10 gives 63), so it is tried."""
    simple = Fraction(number).limit_denominator(LARGEST_DENOMINATOR)
    if simple.numerator / simple.denominator != number:
        raise _Untranslatable(f"a multiple of {number}")
    if rounding is not None:
        sizes = np.arange(1, LARGEST_TRIED + 1)
        theirs = rounding(sizes * number).astype(np.int64)
        up = simple.denominator - 1 if rounding is np.ceil else 0
        ours = (sizes * simple.numerator + up) // simple.denominator
        if (ours != theirs).any():
            at = int(sizes[ours != theirs][0])
            raise _Untranslatable(
                f"a multiple of {number} in floating point, which for {at} rounds otherwise than the fraction {simple}; give"
                " the size itself, or a factor with few binary digits such as 0.75"
            )
    return simple.numerator, simple.denominator


def symbol_range(lower: Any, upper: Any) -> SymbolRange:
    """A range of torch's. Where torch says "at least 2" it means "not treated as 0 or 1 when tracing", and accepts both
    when run; so does Penlight."""
    low, high = int(lower), None
    try:
        high = int(upper)
    except (TypeError, ValueError, OverflowError, AttributeError):  # int_oo
        high = None
    return SymbolRange(0 if low <= 2 else low, high)
