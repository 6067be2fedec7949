"""Nodes that give back their input, bit by bit, go away.

    %a: f32[4] = copy(%x, force=false)
    %b: f32[4] = reshape(%a, shape=[4])         %y: f32[4] = relu(%x)
    %c: f32[4] = mul(%b, @one)             ->   return %y
    %y: f32[4] = relu(%c)
    return %y

Only what is exact: x * 1, x / 1 and x - 0 are, x + 0.0 is not (it turns -0.0 into 0.0).
"""

from __future__ import annotations

import math

from penlight.ir.graph import Graph, Node
from penlight.ir.rewrite import blocks, replace


def run(graph: Graph) -> int:
    removed = 0
    for block in blocks(graph):
        for node in list(block.nodes):
            kept = _kept_input(node)
            if kept is None:
                continue
            value, out = node.inputs[kept], node.outputs[0]
            if value is not None and value.type == out.type and value.layout == out.layout:
                replace(graph, block, node, value)
                removed += 1
    return removed


def _kept_input(node: Node) -> int | None:
    """Which input the node gives back, provided that its type does not change."""
    match node.op:
        case "reshape" | "expand" | "cast":
            return 0
        case "copy":
            return None if node.attrs["force"] else 0
        case "permute":
            rank = node.outputs[0].rank
            dims = node.attrs["dims"]
            assert isinstance(dims, tuple)
            return 0 if all(isinstance(d, int) and d % rank == i for i, d in enumerate(dims)) else None
        case "slice":
            return 0 if node.attrs["step"] == 1 else None  # as long as its input: all of it
        case "cat":
            return 0 if len(node.inputs) == 1 else None
        case "pad":
            padding = node.attrs["padding"]
            return 0 if isinstance(padding, tuple) and all(p == 0 and isinstance(p, int) for p in padding) else None
        case "clamp":
            return 0 if node.attrs["lo"] == -math.inf and node.attrs["hi"] == math.inf else None
        case "mul":
            return 0 if _all(node, 1, 1.0) else (1 if _all(node, 0, 1.0) else None)
        case "div":
            return 0 if _all(node, 1, 1.0) else None
        case "sub":
            return 0 if _all(node, 1, 0.0) else None
        case "add":
            return 0 if _all(node, 1, -0.0) else (1 if _all(node, 0, -0.0) else None)
    return None


def _all(node: Node, index: int, number: float) -> bool:
    """Whether that input is a constant made of `number` only; zeros of floats by their sign too."""
    value = node.inputs[index]
    array = None if value is None else value.constant
    if array is None or array.size == 0 or not (array == number).all():
        return False
    return (
        number != 0
        or array.dtype.kind != "f"
        or all(math.copysign(1, x) == math.copysign(1, number) for x in array.flat)
    )
