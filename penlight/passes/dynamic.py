"""Products of numbers that were rounded to a scale chosen in the run (dynamic quantization) compute in integers.

    %s: u8[3, 64] q(1.0, 0), %t: f32[2] = quantize_dynamic(%x, …)
    %a: f32[3, 64] = dequantize_dynamic(%s, %t)                          %s, %t = quantize_dynamic(%x, …)
    %b: f32[8, 64] = dequantize(@w)                                 ->   %c: f32[8] = columns_dynamic(@bias, %t)
    %y: f32[3, 8] = linear(%a, %b, @bias, none, …)                       %y: f32[3, 8] = linear(%s, @w, %c, none, …)

The product's result is f32: what its sums are worth is known in the run, when columns_dynamic has it. Padding is 0, whose integer must be known
before: so convolutions that pad take only integers whose zero point is not chosen in the run (rule "fixed").
"""

from __future__ import annotations

import numpy as np

from penlight.ir.graph import Block, Graph, Node
from penlight.ir.rewrite import WITH_EPILOGUE, blocks, call, made_by
from penlight.ir.types import TensorType
from penlight.ops import registry


def run(graph: Graph) -> int:
    return sum(
        _to_integers(graph, block, node)
        for block in blocks(graph)
        for node in list(block.nodes)
        if node.op in WITH_EPILOGUE
    )


def _to_integers(graph: Graph, block: Block, node: Node) -> bool:
    op = registry.get(node.op)
    x, w = made_by(node.inputs[0], "dequantize_dynamic"), made_by(node.inputs[1], "dequantize")
    if x is None or w is None or node.output.dtype != "f32" or "q8" not in op.dtypes:
        return False
    stored, step = x.inputs
    weight, bias = w.inputs[0], node.inputs[2]
    assert stored is not None
    assert weight is not None
    if op.takes_bytes is not None and not op.takes_bytes(node, [stored, weight, *node.inputs[2:]], node.output):
        return False
    made = made_by(stored, "quantize_dynamic")
    if node.op != "linear" and (made is None or made.attrs["rule"] != "fixed"):
        return False
    if bias is None:
        bias = graph.add_constant(np.zeros(weight.shape[:1], np.float32), "bias")  # type: ignore[arg-type]
    node.set_input(0, stored)
    node.set_input(1, weight)
    columns = call(graph, block, node, "columns_dynamic", [bias, step, None], TensorType("f32", bias.shape))
    node.set_input(2, columns)
    return True
