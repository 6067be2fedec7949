"""Symbols that nodes define: sizes and numbers which only the data tell (`nonzero`, `item`).

    %nonzero_1: i64[u0, 2] = nonzero(%mask)               the size of its result is u0
    %item_2: i64[] = item(%n, symbol="u1")                u1 is the number in %n
    %slice_3: i64[u1, 2] = slice(%nonzero_1, …, end=u1)   uses them, as any dim

All other symbols are bound by the dims of a graph's inputs.
"""

from __future__ import annotations

from penlight.ir.dims import Expr, symbols_of
from penlight.ir.graph import Node
from penlight.ir.types import TensorType
from penlight.ops import registry

_STRUCTURAL = ("region", "if", "loop")


def is_sized_by_data(node: Node) -> bool:
    return node.op not in _STRUCTURAL and registry.get(node.op).sized_by_data


def defined_by(node: Node) -> set[str]:
    """Symbols that this node gives a value, unless something before it does."""
    if node.op == "item":
        return {str(node.attrs["symbol"])}
    if not is_sized_by_data(node):
        return set()
    firsts = [o.type.shape[0] for o in node.outputs if isinstance(o.type, TensorType) and o.type.shape]
    return {str(d.args[0]) for d in firsts if isinstance(d, Expr) and d.op == "sym"}


def used_by(node: Node) -> set[str]:
    """Symbols in its attributes: what a run must know before the node."""
    found: set[str] = set()
    for attr in node.attrs.values():
        for a in attr if isinstance(attr, tuple) else (attr,):
            if isinstance(a, Expr):
                found |= symbols_of(a)
    return found
