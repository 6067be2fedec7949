"""Reshapes and permutes in a row become the shortest row that does the same: cut dims, permute them, merge dims.

    %a: f32[9, 24, 4] = reshape(%x, shape=[9, 24, 4])            %x: f32[9, 2, 48]
    %b: f32[24, 9, 4] = permute(%a, dims=[1, 0, 2])
    %c: f32[2, 12, 9, 4] = reshape(%b, shape=[2, 12, 9, 4])
    ->
    %reshape_1: f32[9, 2, 12, 4] = reshape(%x, shape=[9, 2, 12, 4])
    %permute_2: f32[2, 12, 9, 4] = permute(%reshape_1, dims=[1, 2, 0, 3])

Here that saves a copy too: %a merges 2 and a part of 48 only for %c to cut them apart again. A reshape with several users
begins a row of its own: it may have to copy, and should do so once.
"""

from __future__ import annotations

from penlight.ir.graph import Block, Graph, Node
from penlight.ir.rewrite import blocks, replace, returned
from penlight.passes.rearrangement import as_steps, chain_to, emit, shortest

VIEWS = ("reshape", "permute")


def run(graph: Graph) -> int:
    return sum(
        _shorten(graph, block, node) for block in blocks(graph) for node in list(block.nodes) if _ends_chain(node)
    )


def _ends_chain(node: Node) -> bool:
    """A reshape or permute whose result is not just another one's input."""
    users = node.output.users if node.op in VIEWS else []
    return node.op in VIEWS and (len(users) != 1 or users[0].op not in VIEWS)


def _shorten(graph: Graph, block: Block, last: Node) -> bool:
    chain = [*chain_to(graph, last.inputs[0]), last]
    source = chain[0].inputs[0]
    assert source is not None
    steps = shortest(source.shape, chain)
    if steps == as_steps(chain):
        return False
    replace(graph, block, last, emit(graph, block, last, source, steps))
    for node in reversed(chain[:-1]):  # what is left of them would count as users of the source
        if node in block.nodes and not node.output.users and not returned(graph, node.output):
            block.erase(node)
    return True
