"""A sum of a convolution's (or linear's) result and something of the same shape moves into its last step.

    %c: f32[1, 8, 6, 6] = conv2d(%x, @w, @b, none, …, act="")
    %y: f32[1, 8, 6, 6] = add(%c, %x)
    ->
    %y: f32[1, 8, 6, 6] = conv2d(%x, @w, @b, %x, …, act="")

Of two convolutions the later one takes the sum: what it adds is there by then. An activation that follows fuses as well
(fuse_activation.py): act(conv + bias + residual).
"""

from __future__ import annotations

from penlight.ir.graph import Graph, Node, Value
from penlight.ir.rewrite import WITH_EPILOGUE, blocks, made_by, move_before, replace, single_use

RESIDUAL = 3  # index among the inputs of conv2d and linear


def run(graph: Graph) -> int:
    fused = 0
    for block in blocks(graph):
        place = {node: i for i, node in enumerate(block.nodes)}
        for node in list(block.nodes):
            if node.op != "add":
                continue
            a, b = node.inputs
            choices = [
                (c, other)
                for value, other in ((a, b), (b, a))
                if (c := _takes(graph, node, value, other)) and c in place
            ]
            if not choices:
                continue
            first, other = max(choices, key=lambda choice: place[choice[0]])
            first.set_input(RESIDUAL, other)
            if other is not None and other.producer in place and place[other.producer] > place[first]:
                move_before(block, first, node)
                place[first] = place[node]
            replace(graph, block, node, first.output)
            fused += 1
    return fused


def _takes(graph: Graph, add: Node, value: Value | None, other: Value | None) -> Node | None:
    """The convolution or linear behind `value`, if it can add `other` itself."""
    first = made_by(value, *WITH_EPILOGUE)
    if first is None or value is None or other is None or not single_use(graph, value):
        return None
    if (
        first.inputs[RESIDUAL] is not None
        or first.attrs["act"]
        or other.type != value.type
        or add.output.type != value.type
    ):
        return None
    if other.is_constant and first.op != "linear":
        return None  # constants lie in plain order, and would be rearranged in every run
    return first
