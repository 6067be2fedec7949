"""Operators that only move numbers, or choose among them, move integers: where they read what was dequantized, or what they give is
quantized, they lie on the other side of that.

    %a: f32[1, 8, 6, 6] = dequantize(%x)                           %m: u8[1, 8, 3, 3] q(0.1, 3) = max_pool2d(%x, …)
    %m: f32[1, 8, 3, 3] = max_pool2d(%a, …)                  ->    %y: f32[1, 8, 3, 3] = dequantize(%m)

    %c: f32[1, 24, 6, 6] = cat(%a, %b, dim=1)                      %p: u8[1, 8, 6, 6] q(0.2, 5) = quantize(%a, low=0, high=255)
    %q: u8[1, 24, 6, 6] q(0.2, 5) = quantize(%c, low=0, …)   ->    %r: u8[1, 16, 6, 6] q(0.2, 5) = quantize(%b, low=0, high=255)
                                                                   %q: u8[1, 24, 6, 6] q(0.2, 5) = cat(%p, %r, dim=1)

    %b: f32[16, 8, 3] = dequantize(@w)                             %c: f32[16, 8, 1, 3] = dequantize(@w_1)   (@w_1: i8[16, 8, 1, 3])
    %c: f32[16, 8, 1, 3] = reshape(%b)                       ->

All are exact: rounding keeps the order of numbers. A quantize that now reads a dequantize becomes a change of scale (tables.py), any other
part of the operator before it (integer.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace as with_fields

from penlight.ir.graph import Attr, Block, Graph, Node, Value
from penlight.ir.rewrite import blocks, call, made_by, replace, returned, single_use
from penlight.ir.types import LEVELS, TensorType
from penlight.ir.verify import STRUCTURAL
from penlight.ops import registry

PARTS = ("slice", "select")  # give less than they read: not worth quantizing more for
SPREAD = ("expand", "unfold", "as_strided")  # views that give more than they read: not worth dequantizing more for


def run(graph: Graph) -> int:
    changed = 0
    for block in blocks(graph):
        for node in list(block.nodes):  # from the first on: what is dequantized goes down
            changed += _moves(node) and (_weight(graph, block, node) or _after_dequantize(graph, block, node))
        for node in reversed(list(block.nodes)):  # and what is to be quantized up
            changed += _moves(node) and _before_quantize(graph, block, node)
    return changed


def _moves(node: Node) -> bool:
    if node.op in STRUCTURAL or len(node.outputs) != 1:
        return False
    return registry.get(node.op).quantized == "same" and node.output.dtype == "f32"


def _data(node: Node) -> dict[int, Value]:
    """What it moves, by its place: without indices."""
    op = registry.get(node.op)
    return {i: v for i, v in enumerate(node.inputs) if v is not None and op.moves(i)}


def _weight(graph: Graph, block: Block, node: Node) -> bool:
    """Integers of a constant in another shape, as weights of 1d convolutions are of 2d ones: they may have a scale for each channel."""
    made = made_by(node.inputs[0], "dequantize") if node.op == "reshape" else None
    stored = made.inputs[0] if made is not None else None
    if stored is None or stored.constant is None or stored.tensor.quant is None:
        return False
    shape, quant = node.output.shape, stored.tensor.quant
    sizes = [d for d in shape if isinstance(d, int)]
    if len(sizes) != len(shape):
        return False
    if quant.axis is not None:
        before, size = math.prod(stored.constant.shape[: quant.axis]), stored.constant.shape[quant.axis]
        axes = [i for i, d in enumerate(sizes) if d == size and math.prod(sizes[:i]) == before]
        if not axes:
            return False
        quant = with_fields(quant, axis=axes[0])
    other = graph.add_constant(stored.constant.reshape(sizes), stored.name)
    other.type = with_fields(other.tensor, quant=quant)
    replace(graph, block, node, call(graph, block, node, "dequantize", [other], node.output.tensor))
    return True


def _after_dequantize(graph: Graph, block: Block, node: Node) -> bool:
    data = _data(node)
    integers = {i: made.inputs[0] for i, v in data.items() if (made := made_by(v, "dequantize")) is not None}
    if not data or len(integers) != len(data) or not _exact(node) or node.op in SPREAD:
        return False
    types = {(v.dtype, v.tensor.quant) for v in integers.values() if v is not None and not v.is_constant}
    if len(types) != 1 or any(v is None or v.is_constant for v in integers.values()):
        return False
    dtype, quant = types.pop()
    if quant is None or quant.axis is not None:
        return False
    real = node.output.tensor
    moved = call(graph, block, node, node.op, [integers.get(i, v) for i, v in enumerate(node.inputs)], TensorType(dtype, real.shape, quant), **node.attrs)  # fmt: skip
    replace(graph, block, node, call(graph, block, node, "dequantize", [moved], real))
    return True


def _exact(node: Node) -> bool:
    """Whether integers stand exactly for what is put beside them."""
    return node.op != "pad" or node.attrs["mode"] != "constant" or node.attrs["value"] == 0


def _is_within(value: Attr, type: TensorType, limits: Mapping[str, Attr]) -> bool:
    """Whether limits that are narrower than the dtype's leave alone what is put beside the integers, which knows the dtype's only."""
    assert isinstance(value, float)
    assert type.quant is not None
    low, high = LEVELS[type.dtype]
    stored = min(max(value / type.quant.scale + type.quant.zero, low), high)
    least, most = limits["low"], limits["high"]
    assert isinstance(least, int)
    assert isinstance(most, int)
    return least <= round(stored) <= most


def _before_quantize(graph: Graph, block: Block, node: Node) -> bool:
    data = _data(node)
    user = node.output.users[0] if single_use(graph, node.output) else None
    if not data or user is None or user.op != "quantize" or user not in block.nodes:
        return False
    type = user.output.tensor
    if type.quant is None or type.quant.axis is not None or any(v.is_constant for v in data.values()):
        return False
    if node.op in PARTS and any(len(v.users) > 1 or returned(graph, v) for v in data.values()):
        return False
    limits = {"low": user.attrs["low"], "high": user.attrs["high"]}
    if node.op == "pad" and node.attrs["mode"] == "constant" and not _is_within(node.attrs["value"], type, limits):
        return False
    made: dict[Value, Value] = {}  # what is read twice is quantized once
    for v in data.values():
        if v not in made:
            made[v] = call(graph, block, node, "quantize", [v], with_fields(type, shape=v.shape), **limits)
    moved = [made[v] if i in data and v is not None else v for i, v in enumerate(node.inputs)]
    replace(graph, block, user, call(graph, block, node, node.op, moved, type, **node.attrs))
    block.erase(node)
    return True
