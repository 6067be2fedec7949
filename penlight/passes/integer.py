"""Operators between dequantize and quantize compute in integers, where they have kernels for that.

    %a: f32[1, 8, 6, 6] = dequantize(%x)
    %b: f32[16, 8, 1, 1] = dequantize(@w)                       %q: u8[1, 16, 6, 6] q(0.1, 3) = conv2d(%x, @w, @bias, none, …)
    %c: f32[1, 16, 6, 6] = conv2d(%a, %b, @bias, none, …)  ->
    %q: u8[1, 16, 6, 6] q(0.1, 3) = quantize(%c, low=0, high=255)

Weights are integers too then, a quarter of the size. Products (convolutions, linear, matmul) may also give f32, where their result is not quantized. Which
operators have such kernels, and what they ask of their operands, is theirs to say (`"q8" in Op.dtypes`, `Op.takes_q8`, `Op.takes_bytes`). All others, and
those whose operands are not all quantized, stay as they are: in f32, between a dequantize and a quantize.
"""

from __future__ import annotations

import math

from penlight.ir.graph import Block, Graph, Node, Value
from penlight.ir.rewrite import WITH_EPILOGUE, blocks, made_by, replace, single_use
from penlight.ir.types import LEVELS, Quant
from penlight.ir.verify import STRUCTURAL
from penlight.ops import registry
from penlight.ops.registry import Op

MAY_GIVE_REALS = (
    *WITH_EPILOGUE,
    "matmul",
    "attention",
)  # the sums are what counts, and their scale makes reals of them as well


def run(graph: Graph) -> int:
    changed = 0
    for block in blocks(graph):
        for node in list(block.nodes):
            if node.op in STRUCTURAL or registry.get(node.op).quantized == "same":  # those are done (move_integers.py)
                continue
            if "q8" in registry.get(node.op).dtypes:
                changed += _to_integers(graph, block, node)
    return changed


def _to_integers(graph: Graph, block: Block, node: Node) -> bool:
    op = registry.get(node.op)
    if len(node.outputs) != 1 or node.output.dtype != "f32" or (op.takes_q8 is not None and not op.takes_q8(node)):
        return False
    inputs = [_integers(value) if _is_data(op, i, value) else value for i, value in enumerate(node.inputs)]
    quantize = _only_quantize(graph, node.output)
    if quantize is not None and node.op in ("matmul", "attention") and not _is_whole(quantize):
        quantize = None  # it has no activation to limit what it gives
    if quantize is None and node.op not in MAY_GIVE_REALS:
        return False
    if quantize is None and node.op in WITH_EPILOGUE and node.inputs[3] is not None:
        inputs[3] = node.inputs[3]  # f32 results take an f32 residual
    if any(_is_data(op, i, v) and inputs[i] is None for i, v in enumerate(node.inputs)):
        return False
    if not all(_fits(v) for v in inputs if v is not None and not v.is_constant and v.tensor.quant is not None):
        return False
    result = node.output if quantize is None else quantize.output
    if op.takes_bytes is not None and not op.takes_bytes(node, inputs, result):
        return False
    if quantize is not None and not _limit(node, quantize):
        return False
    for i, value in enumerate(inputs):
        if value is not node.inputs[i]:
            node.set_input(i, value)
    if quantize is not None:
        node.output.type = quantize.output.type
        replace(graph, block, quantize, node.output)
    return True


def _is_data(op: Op, index: int, value: Value | None) -> bool:
    """What must be quantized: all tensors of f32 but a bias, which becomes part of what is known of the columns."""
    name = op.tensors[min(index, len(op.tensors) - 1)].name
    return value is not None and name not in op.mixed and not (op.name in WITH_EPILOGUE and name == "b")


def _integers(value: Value | None) -> Value | None:
    """What a dequantize reads; None where there is none."""
    made = made_by(value, "dequantize")
    return made.inputs[0] if made is not None else None


def _fits(value: Value) -> bool:
    quant = value.tensor.quant
    return value.dtype == "u8" and quant is not None and quant.axis is None


def _only_quantize(graph: Graph, value: Value) -> Node | None:
    """The quantize that alone reads it, to u8 with one scale."""
    if not single_use(graph, value):
        return None
    user = value.users[0]
    return user if user.op == "quantize" and _fits(user.output) else None


def _is_whole(quantize: Node) -> bool:
    return (quantize.attrs["low"], quantize.attrs["high"]) == LEVELS["u8"]


def _limit(node: Node, quantize: Node) -> bool:
    """Limits of `quantize` that are narrower than u8's become part of the activation. False where that cannot be."""
    low, high = quantize.attrs["low"], quantize.attrs["high"]
    quant = quantize.output.tensor.quant
    assert isinstance(low, int)
    assert isinstance(high, int)
    assert quant is not None
    if node.op not in WITH_EPILOGUE:
        return _is_whole(quantize)
    act, args = node.attrs["act"], node.attrs["act_args"]
    if act not in ("", "clamp"):
        return False
    if _is_whole(quantize):
        return True
    assert isinstance(args, tuple)
    lo, hi = args if act else (-math.inf, math.inf)
    assert isinstance(lo, float)
    assert isinstance(hi, float)
    lo = max(lo, _real(low, quant)) if low > 0 else lo
    hi = min(hi, _real(high, quant)) if high < 255 else hi
    node.attrs["act"], node.attrs["act_args"] = "clamp", (lo, hi)
    return True


def _real(stored: int, quant: Quant) -> float:
    return (stored - quant.zero) * quant.scale
