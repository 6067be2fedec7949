"""Symbolic dimensions: the one integer language of shapes and attributes.

A `Dim` is an int or an `Expr` over named symbols (`s0 // 2 + 1`). Symbols are bound by the dims of a method's
inputs, so a runtime that knows the input shapes knows every Dim. Expressions print as Python and parse back.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Expr:
    """`op` is "sym" (args: the name) or one of the operators in `OPERATORS` (args: two Dims)."""

    op: str
    args: tuple[Dim | str, ...]

    def __str__(self) -> str:
        if self.op == "sym":
            return str(self.args[0])
        if self.op in ("max", "min"):
            return f"{self.op}({self.args[0]}, {self.args[1]})"
        left, right = (
            f"({a})" if isinstance(a, Expr) and a.op not in ("sym", "max", "min") else str(a) for a in self.args
        )
        return f"{left} {self.op} {right}"

    __repr__ = __str__


Dim: TypeAlias = int | Expr

OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "max": max,
    "min": min,
}


def symbol(name: str) -> Expr:
    if not name.isidentifier():
        raise ValueError(f"a symbolic dim needs an identifier as its name, got {name!r}")
    return Expr("sym", (name,))


def combine(op: str, a: Dim, b: Dim) -> Dim:
    """`a op b`, folded where both are known or one is neutral."""
    if op not in OPERATORS:
        raise ValueError(f"unknown dim operator {op!r}; known: {', '.join(OPERATORS)}")
    if isinstance(a, int) and isinstance(b, int):
        return OPERATORS[op](a, b)
    if (op == "+" and a == 0) or (op == "*" and a == 1):
        return b
    if (op in "+-" and b == 0) or (op in ("*", "//") and b == 1):
        return a
    if op == "*" and 0 in (a, b):
        return 0
    return Expr(op, (a, b))


def product(dims: tuple[Dim, ...] | list[Dim]) -> Dim:
    total: Dim = 1
    for d in dims:
        total = combine("*", total, d)
    return total


def broadcast(*shapes: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The common shape of operands that torch has found to fit."""
    rank = max(map(len, shapes))
    aligned = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    made: list[Dim] = []
    for dims in zip(*aligned, strict=True):
        large = [d for d in dims if d != 1]
        made.append(next((d for d in large if isinstance(d, int)), large[0] if large else 1))
    return tuple(made)


def symbols_of(dim: Dim) -> set[str]:
    if isinstance(dim, int):
        return set()
    if dim.op == "sym":
        return {str(dim.args[0])}
    return set().union(*(symbols_of(a) for a in dim.args if not isinstance(a, str)))


def evaluate(dim: Dim, env: Mapping[str, int]) -> int:
    """The value of `dim` where `env` gives each symbol; KeyError names a symbol that it lacks."""
    if isinstance(dim, int):
        return dim
    if dim.op == "sym":
        return env[str(dim.args[0])]
    a, b = (evaluate(x, env) for x in dim.args if not isinstance(x, str))
    return OPERATORS[dim.op](a, b)


_AST_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}


def parse_dim(text: str) -> Dim:
    """The inverse of `str(dim)`: integers, names, + - * // %, max(a, b), min(a, b)."""
    try:
        return _from_ast(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError) as e:
        raise ValueError(f"not a dim expression: {text!r} ({e})") from None


def _from_ast(node: ast.expr) -> Dim:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return symbol(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return combine("-", 0, _from_ast(node.operand))
    if isinstance(node, ast.BinOp) and type(node.op) in _AST_OPERATORS:
        return combine(_AST_OPERATORS[type(node.op)], _from_ast(node.left), _from_ast(node.right))
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("max", "min")
        and len(node.args) == 2
    ):
        return combine(node.func.id, _from_ast(node.args[0]), _from_ast(node.args[1]))
    raise ValueError(f"{ast.unparse(node)!r} is not allowed in a dim")
