"""An activation after a convolution or linear becomes the last step of that operator.

    %c: f32[1, 8, 6, 6] = conv2d(%x, @w, @b, none, …, act="", act_args=[])
    %y: f32[1, 8, 6, 6] = relu(%c)
    ->
    %y: f32[1, 8, 6, 6] = conv2d(%x, @w, @b, none, …, act="clamp", act_args=[0.0, inf])

Any elementwise operator with one input and float attributes fuses: kernels know clamp, and call the operator's own row
function for the others. relu is clamp(0, inf), NaN stays NaN in both.
"""

from __future__ import annotations

import math

from penlight.ir.graph import Graph
from penlight.ir.rewrite import WITH_EPILOGUE, blocks, is_unary, made_by, replace, single_use
from penlight.ir.verify import STRUCTURAL
from penlight.ops import registry


def run(graph: Graph) -> int:
    fused = 0
    for block in blocks(graph):
        for node in list(block.nodes):
            if node.op in STRUCTURAL or not is_unary(registry.get(node.op)):
                continue
            value = node.inputs[0]
            first = made_by(value, *WITH_EPILOGUE)
            if (
                first is None
                or value is None
                or first.attrs["act"]
                or not single_use(graph, value)
                or value.dtype != "f32"
            ):
                continue
            if node.op == "relu":
                first.attrs["act"], first.attrs["act_args"] = "clamp", (0.0, math.inf)
            else:
                first.attrs["act"] = node.op
                args = [node.attrs[p.name] for p in registry.get(node.op).attrs]
                first.attrs["act_args"] = tuple(a for a in args if isinstance(a, float))
            replace(graph, block, node, value)
            fused += 1
    return fused
