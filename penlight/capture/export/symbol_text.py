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
_MAX_ARGUMENTS = 16  # of functions that compare all of theirs with each other
_MAX_TERMS = 256  # of a sum when all products and powers in it are multiplied out
_STEPS = 100  # of reading a file, for each name and number: sympy takes as many microseconds
_FUNCTIONS = {
    "Add", "Mul", "Pow", "Integer", "Float", "Rational", "Symbol", "Max", "Min", "Abs", "Mod", "floor", "ceiling", "sign", "Piecewise", "ExprCondPair",
    "Equality", "Eq", "Unequality", "Ne", "StrictLessThan", "Lt", "LessThan", "Le", "StrictGreaterThan", "Gt", "GreaterThan", "Ge", "And", "Or",
    "Not", "Xor", "FloorDiv", "ModularIndexing", "Where", "PythonMod", "CleanDiv", "CeilToInt", "FloorToInt", "CeilDiv", "LShift", "RShift",
    "PowByNatural", "FloatPow", "FloatTrueDiv", "IntTrueDiv", "IsNonOverlappingAndDenseIndicator", "TruncToFloat", "TruncToInt", "RoundToInt",
    "RoundDecimal", "ToFloat", "Identity", "BitwiseFn_bitwise_and", "BitwiseFn_bitwise_or", "OpaqueUnaryFn_sqrt", "sqrt", "log2", "exp", "log",
}  # fmt: skip
_POWERS = {"Pow", "PowByNatural", "FloatPow", "LShift", "RShift"}
# What an exponent may be made of: nothing that makes large numbers of small ones.
_IN_EXPONENTS = {
    "Add",
    "Mul",
    "Integer",
    "Float",
    "Rational",
    "Symbol",
    "Max",
    "Min",
    "floor",
    "ceiling",
    "ToFloat",
    "TruncToInt",
    "FloorToInt",
    "CeilToInt",
}
_SUMS = {"Add", "Max", "Min"}
_COMPARING = {
    "Max", "Min", "Piecewise", "And", "Or", "Xor", "Not", "Equality", "Eq", "Unequality", "Ne", "StrictLessThan", "Lt", "LessThan", "Le",
    "StrictGreaterThan", "Gt", "GreaterThan", "Ge", "ExprCondPair", "Where",
}  # fmt: skip
_CONSTANTS = {"true", "false", "oo", "int_oo", "zoo", "nan"}
_SYMBOL = re.compile(r"[A-Za-z_]{1,8}[0-9]{1,6}")
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.BitAnd, ast.BitOr)
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)


class NoExpressionError(ValueError):
    """Why a text is no expression of sizes."""


def check_expression(text: str) -> int:
    """Raises NoExpressionError unless the text is an expression of sizes. How many steps it takes to compute."""
    if len(text) > _MAX_CHARS:
        raise NoExpressionError(f"it has {len(text)} characters")
    text = text.strip()
    if not text.isascii() or not text.isprintable():
        raise NoExpressionError("it has characters that are no ASCII")
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        raise NoExpressionError(f"it cannot be parsed ({type(e).__name__})") from None
    reader = _Reader(text)
    if reader.bits(tree.body, 0) > _MAX_BITS:
        raise NoExpressionError("its numbers are too large")
    if reader.terms(tree.body) > _MAX_TERMS:
        raise NoExpressionError("it has too many terms when it is multiplied out")
    return _STEPS * reader.nodes


def check_symbol(name: str) -> int:
    """The same of the name of a symbol: torch counts up to the number in one."""
    if not _SYMBOL.fullmatch(name):
        raise NoExpressionError("expected a letter and a number, such as s0")
    return _STEPS


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.nodes = 0  # how many there are, and for comparisons how many pairs

    def bits(self, node: ast.expr, depth: int) -> int:
        """How many bits the number has at most that this stands for; symbols count as 1."""
        self.nodes += 1
        if depth > _MAX_DEPTH:
            raise NoExpressionError(f"it is nested deeper than {_MAX_DEPTH}")
        match node:
            case ast.Constant(value=bool()):
                return 1
            case ast.Constant(value=int() as value):
                return value.bit_length()
            case ast.Constant(value=float() as value):
                return _float_bits(value, self.text[node.col_offset : node.end_col_offset])
            case ast.Name(id=name) if name in _CONSTANTS or _SYMBOL.fullmatch(name):
                return 1
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                return self.bits(operand, depth + 1)
            case ast.BinOp(op=op, left=left, right=right) if isinstance(op, _OPERATORS):
                return self.power(left, right, depth) if isinstance(op, ast.Pow) else self.sum([left, right], depth)
            case ast.Compare(left=left, ops=ops, comparators=rest) if all(isinstance(op, _COMPARISONS) for op in ops):
                return self.compared([left, *rest], depth)
            case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str() as name)], keywords=assumed):
                check_symbol(name)
                if not all(
                    k.arg and isinstance(k.value, ast.Constant) and type(k.value.value) is bool for k in assumed
                ):
                    raise NoExpressionError("a symbol with assumptions that are not True or False")
                return 1
            case ast.Call(func=ast.Name(id="Float"), args=[ast.Constant(value=str() as digits)], keywords=precision):
                _precision(precision)
                return _float_bits(_float(digits), digits.strip("+-"))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if (
                name in _FUNCTIONS and name != "Symbol"
            ):
                if keywords and not (
                    len(keywords) == 1 and keywords[0].arg == "evaluate" and isinstance(keywords[0].value, ast.Constant)
                ):
                    raise NoExpressionError(f"{name} has arguments by name")
                if name in _COMPARING:
                    return self.compared(args, depth)
                if name in _POWERS and len(args) == 2:
                    return self.power(args[0], args[1], depth)
                if name == "exp" and len(args) == 1:
                    return self.power(None, args[0], depth)
                return self.sum(args, depth)
            case ast.Tuple(elts=items):
                return self.sum(items, depth)
        raise NoExpressionError(f"it has {ast.unparse(node)[:60] if depth else 'something else'} in it")

    def sum(self, nodes: list[ast.expr], depth: int) -> int:
        """Enough for sums and products."""
        return sum(self.bits(n, depth + 1) for n in nodes) + len(nodes)

    def compared(self, nodes: list[ast.expr], depth: int) -> int:
        """Arguments are compared with each other, and all that is in them."""
        if len(nodes) > _MAX_ARGUMENTS:
            raise NoExpressionError(f"{len(nodes)} values are compared with each other; at most {_MAX_ARGUMENTS} are")
        before = self.nodes
        found = self.sum(nodes, depth)
        self.nodes += (self.nodes - before) * len(nodes)
        return found

    def power(self, base: ast.expr | None, exponent: ast.expr, depth: int) -> int:
        """An exponent is made of numbers and symbols by sums and products (sums may cancel the symbols), and not above 64. Without a base: of e."""
        bits = 2 if base is None else self.bits(base, depth + 1)
        self.bits(exponent, depth + 1)
        return max(1, bits) * max(1, math.ceil(_exponent(exponent)))

    def terms(self, node: ast.expr) -> int:
        """How many terms there are when everything is multiplied out."""
        kind = getattr(getattr(node, "func", None), "id", "")
        match node:
            case ast.BinOp(op=ast.Mult(), left=left, right=right):
                found = self.terms(left) * self.terms(right)
            case ast.BinOp(op=ast.Pow(), left=left, right=right):
                found = _raised(self.terms(left), right)
            case ast.Call(args=args) if kind == "Mul":
                found = 1
                for a in args:
                    found = min(found * self.terms(a), _MAX_TERMS + 1)
            case ast.Call(args=[base, exponent]) if kind in ("Pow", "PowByNatural"):
                found = _raised(self.terms(base), exponent)
            case _:
                inner = [self.terms(n) for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]
                sums = isinstance(node, (ast.BinOp, ast.Compare)) or kind in _SUMS
                found = sum(inner) if sums else max(inner, default=1)
        return min(max(1, found), _MAX_TERMS + 1)


def _precision(keywords: list[ast.keyword]) -> None:
    for k in keywords:
        good = isinstance(k.value, ast.Constant) and type(k.value.value) is int and 0 < k.value.value <= 64
        if k.arg not in ("precision", "dps") or not good:
            raise NoExpressionError("a Float of unusual precision")


def _float(digits: str) -> float:
    if not re.fullmatch(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?", digits) or len(digits) > 400:
        raise NoExpressionError("a Float whose text is no number")
    return float(digits)


def _float_bits(value: float, written: str) -> int:
    """sympy's floats have any exponent, so one that is infinite or 0 here is not to sympy."""
    if not math.isfinite(value) or (value == 0.0 and not re.fullmatch(r"[0_.]+(?:[eE][-+]?[0-9]{1,3})?", written)):
        raise NoExpressionError(f"the number {written[:40]} is too large or too small")
    return 53 + abs(math.frexp(value)[1])


def _exponent(node: ast.expr) -> float:
    """The greatest number that an exponent may be: of sums and products of at least two, the product of all, each plus 1."""
    numbers: list[float] = []
    for n in ast.walk(node):
        if isinstance(n, ast.Constant) and type(n.value) is not bool:
            number = _number(n.value)
            numbers += [] if number is None else [number]
        plain = not isinstance(n, (ast.BinOp, ast.Call)) or (
            isinstance(n.op, (ast.Add, ast.Sub, ast.Mult))
            if isinstance(n, ast.BinOp)
            else getattr(n.func, "id", "") in _IN_EXPONENTS
        )
        if not plain:
            raise NoExpressionError("a power whose exponent is more than sums and products")
    fraction = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Rational"
    found = max(numbers, default=1.0) if len(numbers) < 2 or fraction else math.prod(1.0 + n for n in numbers)
    if not found <= _MAX_EXPONENT:
        raise NoExpressionError(f"a power whose exponent may be above {_MAX_EXPONENT}")
    return found


def _raised(terms: int, exponent: ast.expr) -> int:
    return terms if terms == 1 else int(min(terms ** min(max(1, math.ceil(_exponent(exponent))), 16), _MAX_TERMS + 1))


def _number(value: object) -> float | None:
    """The size of a number; None for the name of a symbol."""
    if isinstance(value, str) and _SYMBOL.fullmatch(value):
        return None
    try:
        return abs(float(value))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.inf
