"""A batch_norm that found no convolution becomes a product and a sum for each channel; there is no kernel for it.

    %y: f32[1, 8, 6, 6] = batch_norm(%x, @gamma, @beta, @mean, @var, eps=1e-05)
    ->
    %mul_1: f32[1, 8, 6, 6] = mul(%x, @scale)               @scale: f32[8, 1, 1]
    %y: f32[1, 8, 6, 6] = add(%mul_1, @shift)               @shift: f32[8, 1, 1]

Statistics that are not constants are rescaled by nodes of their own.
"""

from __future__ import annotations

import numpy as np

from penlight.ir.graph import Block, Graph, Node, Value
from penlight.ir.rewrite import blocks, call, replace
from penlight.ir.types import TensorType, numpy_dtype
from penlight.passes.fold_batch_norm import scale_and_shift


def run(graph: Graph) -> int:
    norms = [(block, node) for block in blocks(graph) for node in block.nodes if node.op == "batch_norm"]
    for block, node in norms:
        constant = all(v is None or v.is_constant for v in node.inputs[1:])
        scale, shift = _constants(graph, node) if constant else _nodes(graph, block, node)
        product = call(graph, block, node, "mul", [node.inputs[0], scale], node.output.type)
        replace(graph, block, node, call(graph, block, node, "add", [product, shift], node.output.type))
    return len(norms)


def _constants(graph: Graph, norm: Node) -> tuple[Value, Value]:
    shape = (-1, *[1] * (norm.output.rank - 2))
    dtype = numpy_dtype(norm.output.dtype)
    arrays = zip(scale_and_shift(norm), ("scale", "shift"), strict=True)
    scale, shift = (graph.add_constant(a.reshape(shape).astype(dtype), name) for a, name in arrays)
    return scale, shift


def _nodes(graph: Graph, block: Block, norm: Node) -> tuple[Value, Value]:
    gamma, beta, mean, var = norm.inputs[1:]
    assert mean is not None
    assert var is not None
    type = var.tensor

    def binary(op: str, a: Value, b: Value) -> Value:
        return call(graph, block, norm, op, [a, b], type)

    eps = graph.add_constant(np.array(norm.attrs["eps"], numpy_dtype(type.dtype)), "eps")
    scale = call(graph, block, norm, "rsqrt", [binary("add", var, eps)], type)
    scale = scale if gamma is None else binary("mul", gamma, scale)
    product = binary("mul", mean, scale)
    shift = call(graph, block, norm, "neg", [product], type) if beta is None else binary("sub", beta, product)
    shape = (*type.shape, *[1] * (norm.output.rank - 2))
    column = TensorType(type.dtype, shape)
    scale, shift = (call(graph, block, norm, "reshape", [v], column, shape=shape) for v in (scale, shift))
    return scale, shift
