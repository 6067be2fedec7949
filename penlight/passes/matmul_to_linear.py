"""A product with a constant matrix becomes a linear, whose weight is packed at export.

    %y: f32[2, 8] = matmul(%x, @w)    ->    %y: f32[2, 8] = linear(%x, @w_1, none, none, act="", act_args=[])

@w: f32[4, 8] becomes @w_1: f32[8, 4]. A bias added to it moves in later (fold_affine.py).
"""

from __future__ import annotations

import numpy as np

from penlight.ir.graph import Graph
from penlight.ir.rewrite import blocks, call, replace


def run(graph: Graph) -> int:
    changed = 0
    for block in blocks(graph):
        for node in list(block.nodes):
            if node.op != "matmul":
                continue
            x, w = node.inputs
            if w is None or w.constant is None or w.rank != 2 or w.dtype != "f32" or x is None or x.is_constant:
                continue
            weight = graph.add_constant(np.ascontiguousarray(w.constant.T), w.name)
            replace(graph, block, node, call(graph, block, node, "linear", [x, weight, None, None], node.output.type))
            changed += 1
    return changed
