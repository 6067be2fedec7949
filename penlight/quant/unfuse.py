"""Activations that no integer kernel applies to its sums stand on their own again, so that they become tables of 256 results.

    %y: f32[1, 8, 6, 6] = conv2d(%x, @w, @b, none, …, act="hardswish", act_args=[])
    ->
    %c: f32[1, 8, 6, 6] = conv2d(%x, @w, @b, none, …, act="", act_args=[])
    %y: f32[1, 8, 6, 6] = hardswish(%c)

relu and clamp stay: they are limits of the integers. What is kept in floats is fused again (passes/fuse_activation.py).
"""

from __future__ import annotations

from penlight.ir.graph import Attr, Block, Graph, Node, Value
from penlight.ir.rewrite import WITH_EPILOGUE, blocks
from penlight.ops import registry

RESIDUAL = 3  # index among the inputs of convolutions and linears
LIMITS = ("", "relu", "clamp")
"""Activations that integer kernels apply themselves."""


def run(graph: Graph) -> int:
    split = 0
    for block in blocks(graph):
        for node in list(block.nodes):
            if node.op not in WITH_EPILOGUE or node.attrs["act"] in LIMITS:
                continue
            split_activation(graph, block, node)
            split += 1
    return split


def split_activation(graph: Graph, block: Block, node: Node) -> Node:
    """The activation of a convolution or linear as a node after it, which is returned."""
    name, args = str(node.attrs["act"]), node.attrs["act_args"]
    assert isinstance(args, tuple)
    attrs: dict[str, Attr] = dict(zip((p.name for p in registry.get(name).attrs), args, strict=True))
    node.attrs["act"], node.attrs["act_args"] = "", ()
    return follow(graph, block, node, name, [node.output], attrs)


def follow(graph: Graph, block: Block, node: Node, op: str, inputs: list[Value | None], attrs: dict[str, Attr]) -> Node:
    """A node right after another one, which takes over the users of its output."""
    users = [
        (user, i) for user in dict.fromkeys(node.output.users) for i, v in enumerate(user.inputs) if v is node.output
    ]
    made = graph.node(op, inputs, attrs, node.output.type, name=op, source=node.source)
    for user, index in users:
        user.set_input(index, made.output)
    for each in blocks(graph):
        each.outputs = [made.output if out is node.output else out for out in each.outputs]
    return block.insert(block.nodes.index(node) + 1, made)
