"""A maximum whose place nobody asks for is one without places, which costs less.

    %y: f32[1, 8, 3, 3], %i: i64[1, 8, 3, 3] = max_pool_indices(%x, …)      %i is not used
    ->
    %y: f32[1, 8, 3, 3] = max_pool2d(%x, …)

To one pixel it is a plain reduction.
"""

from __future__ import annotations

from penlight.ir.graph import Graph
from penlight.ir.rewrite import blocks, returned

WITH_INDICES = {"max_pool_indices": "max_pool", "adaptive_max_pool_indices": "adaptive_max_pool"}


def run(graph: Graph) -> int:
    dropped = 0
    for block in blocks(graph):
        for node in list(block.nodes):
            if node.op not in WITH_INDICES or node.outputs[1].users or returned(graph, node.outputs[1]):
                continue
            node.outputs = node.outputs[:1]
            spatial = node.output.rank - 2
            if node.attrs.get("size") == (1,) * spatial:
                node.op, node.attrs = "amax", {"dims": tuple(range(2, 2 + spatial)), "keepdim": True}
            else:
                node.op = f"{WITH_INDICES[node.op]}{spatial}d"
            dropped += 1
    return dropped
