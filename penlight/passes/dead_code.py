"""Nodes whose results nobody uses go away, and so do constants without users.

    %a: f32[4] = exp(%x)
    %b: f32[4] = relu(%x)    ->    %b: f32[4] = relu(%x)
    return %b                      return %b

Inputs of the graph stay: they are what callers pass. So do nodes that give a symbol its value (`nonzero`), while it is used.
"""

from __future__ import annotations

from collections import Counter

from penlight.ir.graph import Block, Graph, Node, Value
from penlight.ir.rewrite import blocks
from penlight.ir.symbols import defined_by, used_by
from penlight.ir.verify import STRUCTURAL
from penlight.ops import registry


def run(graph: Graph) -> int:
    """Removed nodes and constants."""
    returned = {value for block in blocks(graph) for value in block.outputs}
    used = Counter(name for node in graph.walk() for name in used_by(node))
    removed = sum(_sweep(block, returned, used) for block in reversed(list(blocks(graph))))
    unused = [name for name, value in graph.constants.items() if not value.users and value not in returned]
    for name in unused:
        del graph.constants[name]
    return removed + len(unused)


def _sweep(block: Block, returned: set[Value], used: Counter[str]) -> int:
    removed = 0
    for node in reversed(list(block.nodes)):
        if any(used[name] for name in defined_by(node)):
            continue
        if _pure(node) and not any(out.users or out in returned for out in node.outputs):
            used.subtract(used_by(node))
            for inner in [n for b in node.blocks for n in b.walk()]:
                for value in inner.inputs:
                    if value is not None:
                        value.users.remove(inner)
            block.erase(node)
            removed += 1
    return removed


def _pure(node: Node) -> bool:
    if node.op in STRUCTURAL:
        return all(_pure(inner) for block in node.blocks for inner in block.nodes)
    return registry.get(node.op).pure
