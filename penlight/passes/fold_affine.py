"""A product or sum with a constant for each channel, after a convolution or linear, moves into its weights.

    %c: f32[1, 8, 6, 6] = conv2d(%x, @w, none, none, …)
    %y: f32[1, 8, 6, 6] = mul(%c, @s)                          @s: f32[8, 1, 1]
    ->
    %y: f32[1, 8, 6, 6] = conv2d(%x, @w, @w.bias, none, …)     w * s for w

Layer scales, normalizations written out by hand, a bias added apart from its product.
"""

from __future__ import annotations

import numpy as np

from penlight.ir.dims import Dim
from penlight.ir.graph import Block, Graph, Node, Value
from penlight.ir.rewrite import blocks, replace
from penlight.passes.fold_batch_norm import set_weights, takes_affine, weights_f64


def run(graph: Graph) -> int:
    folded = 0
    for block in blocks(graph):
        for node in list(block.nodes):
            if node.op in ("add", "mul"):
                folded += _fold(graph, block, node, 0) or _fold(graph, block, node, 1)
            elif node.op in ("sub", "div"):
                folded += _fold(graph, block, node, 0)
    return folded


def _fold(graph: Graph, block: Block, node: Node, side: int) -> bool:
    """`side`: which input is the convolution's."""
    value, other = node.inputs[side], node.inputs[1 - side]
    first = None if value is None else value.producer
    if (
        value is None
        or other is None
        or first is None
        or not takes_affine(graph, first)
        or value.type != node.output.type
    ):
        return False
    channel_dim = value.rank - 1 if first.op == "linear" else 1
    constant = _per_channel(other, value.rank, channel_dim, value.shape[channel_dim])
    if constant is None:
        return False
    w, b = weights_f64(first)
    column = constant.reshape(-1, *[1] * (w.ndim - 1))
    with np.errstate(all="ignore"):
        match node.op:
            case "add":
                b = b + constant
            case "sub":
                b = b - constant
            case "mul":
                w, b = w * column, b * constant
            case "div":
                w, b = w / column, b / constant
        finite = np.isfinite(w.astype(np.float32)).all() and np.isfinite(b.astype(np.float32)).all()
    if not finite:
        return False  # 0 * inf in the weights would reach every output
    set_weights(graph, first, w, b)
    replace(graph, block, node, value)
    return True


def _per_channel(value: Value, rank: int, dim: int, channels: Dim) -> np.ndarray | None:
    """A constant that varies along `dim` only, as a float64 vector of all channels."""
    if value.constant is None or value.rank > rank or not isinstance(channels, int):
        return None
    shape = (1,) * (rank - value.rank) + value.constant.shape
    if any(n != 1 for i, n in enumerate(shape) if i != dim) or shape[dim] not in (1, channels):
        return None
    return np.broadcast_to(value.constant.astype(np.float64).reshape(-1), (channels,))
