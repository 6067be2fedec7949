"""Wraps straight-line code into `region` nodes: what the runtime plans and runs as a whole.

    %y = conv2d(%x, …)                          %y = region(%x) {
    return %y                          ->         ^(%x1): %y1 = conv2d(%x1, …) return %y1 }
                                                return %y

Today every captured method is straight-line, so it becomes one region and no VM code; control flow will leave
several regions with VM code between them.
"""

from __future__ import annotations

from penlight.ir.graph import Block, Graph, Node, Value


def wrap_regions(graph: Graph) -> None:
    body = Block()
    for outer in graph.inputs:
        inner = Value(outer.name, outer.type, layout=outer.layout)
        body.inputs.append(inner)
        for user in list(outer.users):
            for i, value in enumerate(user.inputs):
                if value is outer:
                    user.set_input(i, inner)
    body.nodes = graph.nodes
    inner_of = dict(zip(graph.inputs, body.inputs, strict=True))
    body.outputs = [inner_of.get(o, o) for o in graph.outputs]
    region = Node("region", list(graph.inputs), {}, blocks=[body])
    region.outputs = [Value(f"out{i}", o.type) for i, o in enumerate(body.outputs)]
    graph.nodes = []
    graph.append(region)
    graph.outputs = list(region.outputs)
