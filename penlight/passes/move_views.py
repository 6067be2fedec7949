"""Reshapes and permutes of a linear's rows move to the side where others meet them, and vanish there.

    %p: f32[9, n, 8] = permute(%y, dims=[1, 0, 2])                       %y: f32[n, 9, 8]
    %r: f32[9 * n, 8] = reshape(%p, shape=[9 * n, 8])
    %l: f32[9 * n, 4] = linear(%r, @w, @b, none, …)
    %s: f32[9, n, 4] = reshape(%l, shape=[9, n, 4])
    %t: f32[n, 9, 4] = permute(%s, dims=[1, 0, 2])
    ->
    %t: f32[n, 9, 4] = linear(%y, @w, @b, none, …)                       once merge_views.py has joined them

A linear treats every row alike, so the order of rows may change before it as well as after it. torch's attention module
puts the sequence first and back; without that, its input is read as it lies and a residual sum can fuse.
"""

from __future__ import annotations

from penlight.ir.graph import Block, Graph, Node, Value
from penlight.ir.rewrite import blocks, call, made_by, replace, single_use
from penlight.ir.types import TensorType
from penlight.passes.rearrangement import MAX_RANK, Rearrangement, Step, chain_to, emit

VIEWS = ("reshape", "permute")


def run(graph: Graph) -> int:
    moved = 0
    for block in blocks(graph):
        for node in list(block.nodes):
            if node.op == "linear" and node.inputs[3] is None:
                moved += _up(graph, block, node) or _down(graph, block, node)
    return moved


def _up(graph: Graph, block: Block, linear: Node) -> bool:
    """Views after the linear join those before it."""
    x, out = linear.inputs[0], linear.output
    if x is None or made_by(x, *VIEWS) is None or not single_use(graph, x):
        return False
    chain: list[Node] = []
    last = out
    while single_use(graph, last) and last.users[0].op in VIEWS:
        chain.append(last.users[0])
        last = chain[-1].output
    steps = _of_rows(out, chain)
    if not steps:
        return False
    end = chain[-1]
    rows = emit(graph, block, end, x, [_with_last_dim(step, x) for step in steps])
    result = call(graph, block, end, "linear", [rows, *linear.inputs[1:]], end.output.type, **linear.attrs)
    replace(graph, block, end, result)
    return True


def _down(graph: Graph, block: Block, linear: Node) -> bool:
    """A permute before the linear joins the views after it."""
    chain, out = chain_to(graph, linear.inputs[0]), linear.output
    if not any(node.op == "permute" for node in chain) or not out.users or any(u.op not in VIEWS for u in out.users):
        return False
    source = chain[0].inputs[0]
    steps = _of_rows(source, chain) if source is not None else None
    if source is None or not steps or not any(op == "permute" for op, _, _ in steps):
        return False
    type = TensorType(out.dtype, (*source.shape[:-1], out.shape[-1]))
    result = call(graph, block, linear, "linear", [source, *linear.inputs[1:]], type, **linear.attrs)
    replace(graph, block, linear, emit(graph, block, linear, result, [_with_last_dim(step, out) for step in steps]))
    return True


def _of_rows(source: Value, chain: list[Node]) -> list[Step] | None:
    """What the chain does to `source`, if it leaves the last dim alone."""
    whole = Rearrangement(source.shape)
    if not chain or not all(whole.apply(node) for node in chain) or not whole.keeps_last_dim():
        return None
    steps = whole.shortest(chain[-1].output.shape)
    return steps if all(len(shape) <= MAX_RANK for _, _, shape in steps) else None


def _with_last_dim(step: Step, of: Value) -> Step:
    """The same step for rows of another length."""
    op, attr, shape = step
    shape = (*shape[:-1], of.shape[-1])
    return op, shape if op == "reshape" else attr, shape
