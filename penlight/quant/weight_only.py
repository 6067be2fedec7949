"""Weights alone are stored smaller, with one word: no data to calibrate with is needed.

i8   weights of convolutions, linears and recurrent layers as integers, a scale for each output channel. Their inputs are rounded to 256
     levels, whose scale is chosen from their range in every run, so that products are integers too (passes/dynamic.py). A quarter of
     the size
f16  weights of all kinds rounded to f16, stored so, and expanded to f32 when the file is loaded (lower/halves.py). Half of the size
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from penlight.errors import QuantizationError
from penlight.ir.graph import Attr, Block, Graph, Node, Program, Value
from penlight.ir.rewrite import WITH_EPILOGUE, blocks, call, made_by
from penlight.ir.types import Quant, TensorType
from penlight.ops import registry
from penlight.quant.place import QUANTIZED, is_quantized
from penlight.quant.recurrent import set_integers, takes_integers
from penlight.quant.scheme import weight_quant

KINDS = ("i8", "f16")
MIDDLE = 128  # the zero point of numbers that may be below 0
MOST_LOST = 2.0**-10  # of the largest number: an array that f16 holds less exactly (too large, too small) stays f32


def check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise QuantizationError(
            f"weights: expected one of {', '.join(KINDS)}, or None to quantize activations too, got {kind!r}"
        )


def store_weights(program: Program, kind: str) -> None:
    """Changes the weights of a fused program to `kind`, in place."""
    check_kind(kind)
    if program.script is not None:
        why = (
            program.metadata.get("interpreted")
            or "this one keeps code to interpret, for inputs that do not fit its plan"
        )
        raise QuantizationError(
            f"weights={kind!r} is for models that are planned as a whole: {why}. Give example inputs (in a shell: penlight quantize"
            " --input FILE.npy, penlight optimize --shape DIMS), or the nn.Module"
        )
    changed = sum((_to_integers if kind == "i8" else _to_halves)(m.graph) for m in program.methods.values())
    if not changed:
        if any(is_quantized(m.graph) for m in program.methods.values()):
            raise QuantizationError(QUANTIZED)
        layer = "no convolution, linear or recurrent layer with constant f32 weights"
        what = layer if kind == "i8" else "no f32 weight that f16 holds"
        raise QuantizationError(f"weights={kind!r}: there is {what} in this model")
    program.metadata["weights"] = kind


# ---- i8 ----
def _to_integers(graph: Graph) -> int:
    weights: dict[Value, Value] = {}  # floats -> integers
    rounded: dict[tuple[Block, Value, bool], Value] = {}
    changed = 0
    for block in list(blocks(graph)):
        for node in list(block.nodes):
            if node.op in WITH_EPILOGUE and _fits(node):
                _with_integers(graph, block, node, weights, rounded)
                changed += 1
            elif takes_integers(node):
                set_integers(node, _integers(graph, node, weights))
                changed += 1
    graph.prune_constants()
    for floats, integers in weights.items():
        if floats.name not in graph.constants:  # nobody reads the floats any more: their name is free
            del graph.constants[integers.name]
            integers.name = floats.name
            graph.constants[integers.name] = integers
    return changed


def _fits(node: Node) -> bool:
    x, w, b = node.inputs[:3]
    assert x is not None
    op = registry.get(node.op)
    if (
        "q8" not in op.dtypes
        or w is None
        or w.constant is None
        or w.dtype != "f32"
        or not np.isfinite(w.constant).all()
    ):
        return False
    return x.dtype == "f32" and not x.is_constant and (b is None or b.is_constant)


def _with_integers(
    graph: Graph, block: Block, node: Node, weights: dict[Value, Value], rounded: dict[tuple[Block, Value, bool], Value]
) -> None:
    x = node.inputs[0]
    assert x is not None
    weight = _integers(graph, node, weights)
    key = (block, x, node.op == "linear")
    if key not in rounded:
        rounded[key] = _rounded(graph, block, node, x)
    node.set_input(0, rounded[key])
    node.set_input(1, call(graph, block, node, "dequantize", [weight], TensorType("f32", weight.shape)))


def _integers(graph: Graph, node: Node, weights: dict[Value, Value]) -> Value:
    """The node's weight as integers."""
    w = node.inputs[1]
    assert w is not None
    assert w.constant is not None
    if w not in weights:
        integers, quant = weight_quant(w.constant, None, 1.0, per_channel=True)
        weights[w] = graph.add_constant(integers, w.name)
        weights[w].type = TensorType("i8", w.shape, quant)
    return weights[w]


def _rounded(graph: Graph, block: Block, node: Node, x: Value) -> Value:
    """x, by its integers. torch's own rule takes no steps below 6.1e-5, and would lose small numbers. What convolutions pad with must be known before a run: the zero point is 0, or in the middle."""
    rule, zero = ("pt2e", 0) if node.op == "linear" else ("fixed", 0 if _is_above_zero(x) else MIDDLE)
    types = [TensorType("u8", x.shape, Quant.of(1.0, zero)), TensorType("f32", (2,))]
    attrs: dict[str, Attr] = {"high": 255, "rule": rule, "eps": 0.0}
    made = graph.node("quantize_dynamic", [x], attrs, types, name="quantize_dynamic", source=node.source)
    block.insert_before(node, made)
    return call(graph, block, node, "dequantize_dynamic", list(made.outputs), replace(x.tensor))


KEEP_SIGN = ("max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "reshape", "permute", "slice", "mean", "resize")


def _is_above_zero(x: Value) -> bool:
    """Whether no number of it is below 0, as far as can be told."""
    while (made := made_by(x, *KEEP_SIGN)) is not None and made.inputs[0] is not None:
        x = made.inputs[0]
    if x.producer is None:
        return False
    node = x.producer
    act, args = (node.attrs.get("act") or node.op), node.attrs.get("act_args")
    lo = args[0] if act == "clamp" and isinstance(args, tuple) and args else node.attrs.get("lo")
    if act == "clamp":
        return isinstance(lo, (int, float)) and lo >= 0
    return act in ("relu", "sigmoid", "hardsigmoid", "exp", "square", "abs", "softmax")


# ---- f16 ----
def _to_halves(graph: Graph) -> int:
    changed = 0
    for value in graph.constants.values():
        array = value.constant
        assert array is not None
        if value.dtype != "f32" or array.ndim < 2 or not array.size:
            continue
        with np.errstate(over="ignore"):
            halves = array.astype(np.float16).astype(np.float32)
        with np.errstate(invalid="ignore"):
            if not np.abs(halves - array).max() <= MOST_LOST * np.abs(array).max():
                continue
        value.constant = halves
        changed += 1
    return changed
