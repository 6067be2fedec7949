"""Quantized values of i8 become u8, with a zero point 128 higher: they stand for the same numbers, and kernels know one kind.

    %q: i8[1, 8] q(0.02, -3) = quantize(%x, low=-128, high=127)     %q: u8[1, 8] q(0.02, 125) = quantize(%x, low=0, high=255)
    %v: i8[8] q(0.02, -3) = reshape(%q, shape=[8])             ->   %v: u8[8] q(0.02, 125) = reshape(%q, shape=[8])
    %y: f32[8] = dequantize(%v)                                     %y: f32[8] = dequantize(%v)

XNNPACK's quantizer writes i8, x86's u8. Operators that move integers as they are hand the change on. Constants (weights are i8), inputs
and outputs of the graph stay, and so does what such operators join with them: callers see those integers.
"""

from __future__ import annotations

from dataclasses import replace

from penlight.ir.graph import Graph, Node, Value
from penlight.ir.rewrite import blocks
from penlight.ir.types import Quant
from penlight.ops import registry

SHIFT = 128  # from the least of i8 to the least of u8


def run(graph: Graph) -> int:
    inputs = {v for block in blocks(graph) for v in block.inputs}
    results = {v for block in blocks(graph) for v in block.outputs}
    seen: set[Value] = set()
    changed = 0
    for node in list(graph.walk()):
        for value in node.outputs:
            if value in seen or not _is_signed(value):
                continue
            group = _joined(value)
            seen |= group
            if not group & inputs and not group & results and all(map(_may_change, group)):
                changed += sum(map(_change, group))
    return changed


def _is_signed(value: Value | None) -> bool:
    return (
        value is not None and value.dtype == "i8" and value.tensor.quant is not None and value.tensor.quant.axis is None
    )


def _joined(value: Value) -> set[Value]:
    """All values that hold the same integers, moved about."""
    group, found = {value}, [value]
    while found:
        value = found.pop()
        nodes = [*value.users, *([value.producer] if value.producer is not None else [])]
        for node in filter(_moves, nodes):
            more = {v for v in (*node.inputs, *node.outputs) if v is not None and _is_signed(v)} - group
            group |= more
            found += more
    return group


def _moves(node: Node) -> bool:
    return node.op in registry.load_all() and registry.get(node.op).quantized == "same"


def _may_change(value: Value) -> bool:
    """Whether all who make and read it say by its type what the integers stand for."""
    maker = value.producer
    made = maker is not None and (maker.op == "quantize" or _moves(maker))
    return made and all(user.op == "dequantize" or _moves(user) for user in value.users)


def _change(value: Value) -> int:
    quant, maker = value.tensor.quant, value.producer
    assert quant is not None
    assert maker is not None
    value.type = replace(value.tensor, dtype="u8", quant=Quant.of(quant.scale, quant.zero + SHIFT))
    if maker.op == "quantize":
        low, high = maker.attrs["low"], maker.attrs["high"]
        assert isinstance(low, int)
        assert isinstance(high, int)
        maker.attrs |= {"low": low + SHIFT, "high": high + SHIFT}
    return 1
