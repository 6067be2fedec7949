"""The IR: graphs of typed values, their verifier and their text form.

Names load on first use: operators (penlight.ops) must import without numpy, and may use `penlight.ir.dims`, which
would otherwise pull in everything else of this package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penlight.ir.dims import Dim, Expr, evaluate, parse_dim, symbol
    from penlight.ir.graph import Attr, Block, Graph, Method, Node, Program, SymbolRange, Value
    from penlight.ir.parse import ParseError, parse_graph, parse_program
    from penlight.ir.text import print_graph, print_program
    from penlight.ir.types import DictType, ListType, ScalarType, TensorType, TupleType, Type
    from penlight.ir.verify import VerifyError

_HOME = {
    "dims": ("Dim", "Expr", "evaluate", "parse_dim", "symbol"),
    "graph": ("Attr", "Block", "Graph", "Method", "Node", "Program", "SymbolRange", "Value"),
    "parse": ("ParseError", "parse_graph", "parse_program"),
    "text": ("print_graph", "print_program"),
    "types": ("DictType", "ListType", "ScalarType", "TensorType", "TupleType", "Type"),
    "verify": ("VerifyError",),  # verify itself would hide behind its module: from penlight.ir.verify import verify
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Attr", "Block", "DictType", "Dim", "Expr", "Graph", "ListType", "Method", "Node", "ParseError", "Program",
    "ScalarType", "SymbolRange", "TensorType", "TupleType", "Type", "Value", "VerifyError", "evaluate", "parse_dim",
    "parse_graph", "parse_program", "print_graph", "print_program", "symbol",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
