"""Two views in a row become one.

    %a: f32[2, 4, 3] = permute(%x, dims=[0, 2, 1])            %b: f32[4, 2, 3] = permute(%x, dims=[2, 0, 1])
    %b: f32[4, 2, 3] = permute(%a, dims=[1, 0, 2])      ->
    %c: f32[2, 6] = reshape(%y, shape=[2, 6])                 %d: f32[12] = reshape(%y, shape=[12])
    %d: f32[12] = reshape(%c, shape=[12])

A permute that moves only dims of size 1 is a reshape, and becomes one: %e: f32[4, 1, 2] = permute(%z: f32[1, 4, 2], …).
A reshape may have to copy (of a permuted value, say): one with several users stays, so that it does so only once.
"""

from __future__ import annotations

from penlight.ir.graph import Graph, Node
from penlight.ir.rewrite import blocks, made_by, single_use


def run(graph: Graph) -> int:
    merged = 0
    for block in blocks(graph):
        for node in block.nodes:
            if node.op == "permute" and _moves_nothing(node):
                node.op, node.attrs = "reshape", {"shape": node.output.shape}
            elif node.op == "permute" and (first := made_by(node.inputs[0], "permute")):
                inner = _dims(first)
                node.attrs["dims"] = tuple(inner[d] for d in _dims(node))
                node.set_input(0, first.inputs[0])
            elif node.op == "reshape" and (first := made_by(node.inputs[0], "reshape")):
                if not single_use(graph, first.output):
                    continue
                node.set_input(0, first.inputs[0])
            else:
                continue
            merged += 1
    return merged


def _moves_nothing(permute: Node) -> bool:
    """The dims larger than 1 stay in order, and some dim of size 1 moves (otherwise it is an identity)."""
    dims = _dims(permute)
    large = [d for d, n in zip(dims, permute.output.shape, strict=True) if n != 1]
    return large == sorted(large) and dims != sorted(dims)


def _dims(permute: Node) -> list[int]:
    dims = permute.attrs["dims"]
    assert isinstance(dims, tuple)
    return [d % len(dims) for d in dims if isinstance(d, int)]
