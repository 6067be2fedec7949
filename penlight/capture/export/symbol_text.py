"""The expressions of sizes in a .pt2 file, checked before torch sees them.

torch gives them to sympy.sympify, which is eval(). So each must be of a small language, which is what torch writes: calls of sympy's
and torch's functions by name, integers, floats, symbols with a name and assumptions; or, in older files, `3*s0 + 1`. Numbers that would
grow without bound (powers of powers) are refused too, as sympy computes them at once.
"""

from __future__ import annotations

import ast
import math
import re

_MAX_CHARS = 1 << 16
_MAX_DEPTH = 150
_MAX_BITS = 4096  # of a number that sympy might compute
_MAX_EXPONENT = 64
_FUNCTIONS = {
    "Add", "Mul", "Pow", "Integer", "Float", "Rational", "Symbol", "Max", "Min", "Abs", "Mod", "floor", "ceiling", "sign", "Piecewise", "ExprCondPair",
    "Equality", "Eq", "Unequality", "Ne", "StrictLessThan", "Lt", "LessThan", "Le", "StrictGreaterThan", "Gt", "GreaterThan", "Ge", "And", "Or",
    "Not", "Xor", "FloorDiv", "ModularIndexing", "Where", "PythonMod", "CleanDiv", "CeilToInt", "FloorToInt", "CeilDiv", "LShift", "RShift",
    "PowByNatural", "FloatPow", "FloatTrueDiv", "IntTrueDiv", "IsNonOverlappingAndDenseIndicator", "TruncToFloat", "TruncToInt", "RoundToInt",
    "RoundDecimal", "ToFloat", "Identity", "BitwiseFn_bitwise_and", "BitwiseFn_bitwise_or", "OpaqueUnaryFn_sqrt", "sqrt", "log2", "exp", "log",
}  # fmt: skip
_POWERS = {"Pow", "PowByNatural", "FloatPow", "LShift"}
_CONSTANTS = {"true", "false", "oo", "int_oo", "zoo", "nan"}
_SYMBOL = re.compile(r"[A-Za-z_]{1,8}[0-9]{1,6}")
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.BitAnd, ast.BitOr)
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)


class NoExpressionError(ValueError):
    """Why a text is no expression of sizes."""


def check_expression(text: str) -> None:
    """Raises NoExpressionError unless the text is an expression of sizes."""
    if len(text) > _MAX_CHARS:
        raise NoExpressionError(f"it has {len(text)} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        raise NoExpressionError(f"it cannot be parsed ({type(e).__name__})") from None
    if _bits(tree.body, 0) > _MAX_BITS:
        raise NoExpressionError("its numbers are too large")


def check_symbol(name: str) -> None:
    """Of the names of symbols: torch counts up to the number in one."""
    if not _SYMBOL.fullmatch(name):
        raise NoExpressionError("expected a letter and a number, such as s0")


def _bits(node: ast.expr, depth: int) -> int:
    """How many bits the number has at most that this stands for; symbols count as 1."""
    if depth > _MAX_DEPTH:
        raise NoExpressionError(f"it is nested deeper than {_MAX_DEPTH}")
    match node:
        case ast.Constant(value=bool()):
            return 1
        case ast.Constant(value=int() as value):
            return value.bit_length()
        case ast.Constant(value=float()):
            return 1  # floats and symbols do not grow
        case ast.Name(id=name) if name in _CONSTANTS or _SYMBOL.fullmatch(name):
            return 1
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            return _bits(operand, depth + 1)
        case ast.BinOp(op=op, left=left, right=right) if isinstance(op, _OPERATORS):
            return _power(left, right, depth) if isinstance(op, ast.Pow) else _sum([left, right], depth)
        case ast.Compare(left=left, ops=ops, comparators=rest) if all(isinstance(op, _COMPARISONS) for op in ops):
            return _sum([left, *rest], depth)
        case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str() as name)], keywords=assumed):
            check_symbol(name)
            if not all(k.arg and isinstance(k.value, ast.Constant) and type(k.value.value) is bool for k in assumed):
                raise NoExpressionError("a symbol with assumptions that are not True or False")
            return 1
        case ast.Call(func=ast.Name(id="Float"), args=[ast.Constant(value=str() as digits)], keywords=precision):
            if not re.fullmatch(r"[-+0-9.e]{1,400}", digits):
                raise NoExpressionError("a Float whose text is no number")
            _precision(precision)
            return 1
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS and name != "Symbol":
            return _power(args[0], args[1], depth) if name in _POWERS and len(args) == 2 else _sum(args, depth)
        case ast.Call(
            func=ast.Name(id=name), args=args, keywords=[ast.keyword(arg="evaluate", value=ast.Constant())]
        ) if name in _FUNCTIONS and name != "Symbol":
            return _power(args[0], args[1], depth) if name in _POWERS and len(args) == 2 else _sum(args, depth)
        case ast.Tuple(elts=items):
            return _sum(items, depth)
    raise NoExpressionError(f"it has {ast.unparse(node)[:60] if depth else 'something else'} in it")


def _precision(keywords: list[ast.keyword]) -> None:
    for k in keywords:
        good = isinstance(k.value, ast.Constant) and type(k.value.value) is int and 0 < k.value.value <= 64
        if k.arg not in ("precision", "dps") or not good:
            raise NoExpressionError("a Float of unusual precision")


def _sum(nodes: list[ast.expr], depth: int) -> int:
    """Enough for sums and products."""
    return sum(_bits(n, depth + 1) for n in nodes) + len(nodes)


def _power(base: ast.expr, exponent: ast.expr, depth: int) -> int:
    """An exponent is a number up to 64, or has symbols and no greater number: sums may cancel the symbols."""
    bits = _bits(base, depth + 1)
    _bits(exponent, depth + 1)
    numbers = [
        _number(n.value) for n in ast.walk(exponent) if isinstance(n, ast.Constant) and type(n.value) is not bool
    ]
    names = [n for n in ast.walk(exponent) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "Symbol"]
    greatest = max((n for n in numbers if n is not None), default=1.0)
    product = math.prod(max(1.0, n) for n in numbers if n is not None)
    if max(greatest, product) > _MAX_EXPONENT:
        raise NoExpressionError(f"a power whose exponent is above {_MAX_EXPONENT}")
    return bits * (1 if names else max(1, math.ceil(greatest)))


def _number(value: object) -> float | None:
    """The size of a number; None for the name of a symbol."""
    if isinstance(value, str) and _SYMBOL.fullmatch(value):
        return None
    try:
        return abs(float(value))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.inf
