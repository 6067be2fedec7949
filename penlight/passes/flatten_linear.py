"""Flattening a channels-last map for a linear needs no transpose: the linear's columns are put into the map's order.

    %f: f32[1, 392] = reshape(%x, shape=[1, 392])                            %x: f32[1, 8, 7, 7], lies nhwc
    %y: f32[1, 10] = linear(%f, @w, @b, none, …)
    ->
    %permute_1: f32[1, 7, 7, 8] = permute(%x, dims=[0, 2, 3, 1])
    %reshape_2: f32[1, 392] = reshape(%permute_1, shape=[1, 392])            both are views
    %y: f32[1, 10] = linear(%reshape_2, @w_3, @b, none, …)

Runs before layout.py, by whose plan it knows what will be nhwc.
"""

from __future__ import annotations

from dataclasses import replace

from penlight.ir.dims import combine, product
from penlight.ir.graph import Block, Graph, Node, Value
from penlight.ir.rewrite import blocks, call, made_by
from penlight.passes.layout import Layouts

NHWC = (0, 2, 3, 1)


def run(graph: Graph) -> int:
    changed = 0
    for block in blocks(graph):
        layouts = Layouts(block)
        for node in list(block.nodes):
            if node.op == "linear" and (reshape := made_by(node.inputs[0], "reshape")):
                source = reshape.inputs[0]
                if source is not None and layouts.of.get(source) == "nhwc" and _flattens(source, reshape.output):
                    changed += _rewrite(graph, block, node, source)
    return changed


def _flattens(source: Value, flat: Value) -> bool:
    """[N, C, H, W] -> [N, C * H * W], with more than one channel and more than one pixel."""
    if source.rank != 4 or flat.rank != 2 or not all(isinstance(d, int) for d in source.shape[1:]):
        return False
    _, c, h, w = source.shape
    return flat.shape == (source.shape[0], product([c, h, w])) and c != 1 and combine("*", h, w) != 1


def _rewrite(graph: Graph, block: Block, linear: Node, source: Value) -> bool:
    weight, flat = linear.inputs[1], linear.inputs[0]
    if weight is None or weight.constant is None or flat is None:
        return False
    shape = tuple(source.shape[d] for d in NHWC)
    last = call(graph, block, linear, "permute", [source], replace(source.tensor, shape=shape), dims=NHWC)
    linear.set_input(0, call(graph, block, linear, "reshape", [last], flat.type, shape=flat.shape))
    columns = weight.constant.reshape(weight.constant.shape[0], *source.shape[1:])
    array = columns.transpose(NHWC).reshape(weight.constant.shape)
    turned = graph.add_constant(array, weight.name)
    turned.type = weight.type
    linear.set_input(1, turned)
    return True
