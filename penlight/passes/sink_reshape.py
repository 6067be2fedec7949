"""A reshape between a convolution or linear and what could fuse into it moves below that.

    %c: f32[1, 8, 1, 6] = conv2d(%x, @w, none, none, …)             %c: f32[1, 8, 1, 6] = conv2d(%x, @w, none, none, …)
    %r: f32[1, 8, 6] = reshape(%c, shape=[1, 8, 6])           ->    %relu_1: f32[1, 8, 1, 6] = relu(%c)
    %y: f32[1, 8, 6] = relu(%r)                                     %y: f32[1, 8, 6] = reshape(%relu_1, shape=[1, 8, 6])

conv1d is such a conv2d between reshapes. Moves past elementwise operators with one input, batch_norm (where the channels
stay dim 1), and sums with a value of the same shape, which is reshaped the other way.
"""

from __future__ import annotations

from penlight.ir.graph import Block, Graph, Node, Value
from penlight.ir.rewrite import WITH_EPILOGUE, blocks, call, is_unary, made_by, replace, single_use
from penlight.ir.types import TensorType
from penlight.ir.verify import STRUCTURAL
from penlight.ops import registry


def run(graph: Graph) -> int:
    moved = 0
    for block in blocks(graph):
        for node in list(block.nodes):
            if node.op not in STRUCTURAL and len(node.outputs) == 1:
                moved += any(_sink(graph, block, node, i) for i in range(len(node.inputs)))
    return moved


def _sink(graph: Graph, block: Block, node: Node, index: int) -> bool:
    value = node.inputs[index]
    reshape = made_by(value, "reshape")
    if value is None or reshape is None or not single_use(graph, value) or len(node.outputs) != 1:
        return False
    if not isinstance(node.output.type, TensorType):
        return False
    first = reshape.inputs[0]
    source = made_by(first, *WITH_EPILOGUE)
    if first is None or source is None or source.attrs["act"] or not single_use(graph, first):
        return False
    inputs = _inputs_above(graph, block, node, index, first)
    if inputs is None:
        return False
    above = call(graph, block, node, node.op, inputs, TensorType(node.output.dtype, first.shape), **node.attrs)
    shape = reshape.attrs["shape"]
    replace(graph, block, node, call(graph, block, node, "reshape", [above], node.output.type, shape=shape))
    block.erase(reshape)
    return True


def _inputs_above(graph: Graph, block: Block, node: Node, index: int, first: Value) -> list[Value | None] | None:
    """The node's inputs once it stands above the reshape; None: it cannot."""
    below = node.inputs[index]
    assert below is not None
    if is_unary(registry.get(node.op)) or (
        node.op == "batch_norm" and index == 0 and first.shape[1:2] == below.shape[1:2]
    ):
        return [first, *node.inputs[1:]]
    if node.op != "add":
        return None
    other = node.inputs[1 - index]
    if other is None or other is below or other.is_constant or other.type != below.type:
        return None
    return [first, call(graph, block, node, "reshape", [other], first.type, shape=first.shape)]
