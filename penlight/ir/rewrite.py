"""What rewrites share: who uses a value, who made it, new nodes, replaced nodes, and patterns of operators.

Everything here looks at all blocks of a graph: a nested block may return a value of the blocks around it, which no
node's `users` knows of.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from penlight.ir.graph import Attr, Block, Graph, Node, Value
from penlight.ir.types import Type
from penlight.ops import registry
from penlight.ops.registry import Op

COMMUTATIVE = ("add", "mul", "maximum", "minimum")
WITH_EPILOGUE = ("conv2d", "conv3d", "conv_transpose2d", "conv_transpose3d", "linear")
"""Operators that end in act(sum + bias + residual): inputs x, weight, bias, residual."""

Pattern: TypeAlias = str | float | list[Any] | tuple[Any, ...]
"""What a value should be: "x" (a variable: the same value wherever it stands), a number (a constant with one element,
within 1e-5 of it), ("op", pattern…, {attribute: number}), or a list of alternatives."""


def blocks(graph: Graph) -> Iterator[Block]:
    """All blocks, outer ones before those nested in them."""
    yield graph
    for node in graph.walk():
        yield from node.blocks


def returned(graph: Graph, value: Value) -> bool:
    return any(block.is_output(value) for block in blocks(graph))


def single_use(graph: Graph, value: Value) -> bool:
    """One node uses it, once, and no block returns it: it may vanish into that node."""
    return len(value.users) == 1 and not returned(graph, value)


def made_by(value: Value | None, *ops: str) -> Node | None:
    """The node that made the value, if its operator is one of `ops`."""
    return value.producer if value is not None and value.producer is not None and value.producer.op in ops else None


def scalar(value: Value | None) -> float | None:
    """The only element of a constant."""
    return None if value is None or value.constant is None or value.constant.size != 1 else value.constant.item()


def is_unary(op: Op) -> bool:
    """Elementwise f32 -> f32 with float attributes only: what a convolution or linear can apply to its result."""
    return (
        op.rule is not None and len(op.tensors) == 1 and not op.result
        and "f32" in op.dtypes and all(p.kind == "float" for p in op.attrs)
    )  # fmt: skip


def call(
    graph: Graph, block: Block, before: Node, op: str, inputs: Sequence[Value | None], type: Type, **attrs: Attr
) -> Value:
    """A new node right before another one, with its source; attributes left out take the schema's defaults. Returns
    its output."""
    filled = {p.name: attrs.get(p.name, p.default) for p in registry.get(op).attrs}
    node = graph.node(op, inputs, filled, type, name=op, source=before.source)
    return block.insert_before(before, node).output


def replace(graph: Graph, block: Block, node: Node, *values: Value) -> None:
    """Everybody who used the node's outputs uses `values`; the node goes away."""
    for old, new in zip(node.outputs, values, strict=True):
        for each in blocks(graph):
            each.replace_uses(old, new)
    block.erase(node)


def move_before(block: Block, node: Node, anchor: Node) -> None:
    """Moves a node further down, to right before `anchor`; all who use it must come after that."""
    block.nodes.remove(node)
    block.nodes.insert(block.nodes.index(anchor), node)


def reserve_names(graph: Graph) -> None:
    """Sees to it that fresh names (`stem_7`, `v7`) do not meet names that the graph has already."""
    names = [*graph.constants, *(v.name for v in graph.inputs)]
    for node in graph.walk():
        names += [v.name for v in node.outputs]
        names += [v.name for block in node.blocks for v in block.inputs]
    numbers = (re.search(r"\d{1,9}$", name) for name in names)
    graph._next = max([graph._next, *(int(n[0]) for n in numbers if n)])


def match_value(value: Value | None, pattern: Pattern) -> dict[str, Value] | None:
    """The variables of `pattern` where `value` is what it says, else None."""
    return next(_matches(value, pattern, {}), None)


def _matches(value: Value | None, pattern: Pattern, bound: dict[str, Value]) -> Iterator[dict[str, Value]]:
    """Every way to match, so that a choice made early (which side of a product is x) can be taken back."""
    if value is None:
        return
    if isinstance(pattern, str):
        if bound.get(pattern, value) is value:
            yield {**bound, pattern: value}
    elif isinstance(pattern, (int, float)):
        number = scalar(value)
        if number is not None and math.isclose(number, pattern, rel_tol=1e-5):
            yield bound
    elif isinstance(pattern, list):
        for alternative in pattern:
            yield from _matches(value, alternative, bound)
    else:
        op, *arguments = pattern
        attrs = arguments.pop() if isinstance(arguments[-1], dict) else {}
        node = made_by(value, op)
        if node is None or len(node.inputs) != len(arguments):
            return
        if any(not math.isclose(float(node.attrs[k]), v, rel_tol=1e-5) for k, v in attrs.items()):  # type: ignore[arg-type]
            return
        for inputs in [node.inputs, node.inputs[::-1]] if op in COMMUTATIVE else [node.inputs]:
            yield from _match_all(inputs, arguments, bound)


def _match_all(
    values: list[Value | None], patterns: list[Pattern], bound: dict[str, Value]
) -> Iterator[dict[str, Value]]:
    if not values:
        yield bound
        return
    for found in _matches(values[0], patterns[0], bound):
        yield from _match_all(values[1:], patterns[1:], found)
