"""Functions of one quantized number become tables of 256: whatever elementwise operators compute between a dequantize and a quantize.

    %a: f32[1, 8, 6, 6] = dequantize(%x)
    %h: f32[1, 8, 6, 6] = hardswish(%a)                             @table: u8[256]
    %q: u8[1, 8, 6, 6] q(0.1, 3) = quantize(%h, low=0, high=255)  ->  %q: u8[1, 8, 6, 6] q(0.1, 3) = lookup(%x, @table)

With nothing between the two it is a change of scale, or nothing. Where limits (relu, clamp) come between an operator that has integer
kernels and its quantize, they are taken on the integers, by the limits of the quantize, and by a table where those are not all of u8:

    %s: f32[1, 8] = add(%a, %b)
    %r: f32[1, 8] = relu(%s)                                     %p: u8[1, 8] q(0.1, 3) = quantize(%s, low=0, high=255)
    %q: u8[1, 8] q(0.1, 3) = quantize(%r, low=0, high=255)   ->  %q: u8[1, 8] q(0.1, 3) = lookup(%p, @table)

Formulas and rounding are qnnpack's where it has the function, torch's where it does not, so that tables have the bits that torch computes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from penlight.ir.graph import Block, Graph, Node, Value
from penlight.ir.rewrite import WITH_EPILOGUE, blocks, call, made_by, replace, single_use
from penlight.ir.types import LEVELS, Quant
from penlight.ops import registry
from penlight.ops.elementwise.rules import ElementwiseOp

MOST_OPERATORS = 32  # in one function: beyond, looking for one takes longer than it is worth
Reals = np.ndarray  # of f32


def run(graph: Graph) -> int:
    changed = 0
    for block in blocks(graph):
        for node in list(block.nodes):
            if node.op == "quantize" and _is_bytes(node.output):
                changed += _to_table(graph, block, node) or _limit(graph, block, node)
    return changed


# ---- tables ----
def table_of(
    function: Callable[[Reals], Reals] | Node | None, x: Quant, y: Quant, low: int = 0, high: int = 255
) -> np.ndarray:
    """What every byte that stands for a number as `x` says becomes, by a function (or one unary elementwise node; None: the number itself),
    as `y` says. Not above `high` or below `low`."""
    name, rule = "", function if callable(function) else (lambda reals: reals)
    if isinstance(function, Node):
        name, attrs = function.op, function.attrs
        exact = _TORCH.get(name)
        fold = registry.get(name).fold
        assert fold is not None
        rule = (lambda reals: exact(reals, attrs)) if exact else lambda reals: fold(reals, **attrs)  # type: ignore[misc]
    reals = (np.arange(256, dtype=np.int32) - x.zero).astype(np.float32) * np.float32(x.scale)
    with np.errstate(all="ignore"):
        return _quantized(
            rule(reals).astype(np.float32),
            y,
            low,
            high,
            "after" if function is None else _ROUNDING.get(name, "at once"),
        )


def _quantized(reals: Reals, y: Quant, low: int, high: int, rounding: str) -> np.ndarray:
    """Where the zero point is added: "after" rounding; "before" it, in f32; or "at once" with the product, as quantize does."""
    inverse = np.float32(1) / np.float32(y.scale)
    if rounding == "after":
        steps = np.rint(reals * inverse).astype(np.float64) + y.zero
    elif rounding == "before":
        steps = np.rint(reals * inverse + np.float32(y.zero))
    else:
        steps = np.rint((reals.astype(np.float64) * np.float64(inverse) + y.zero).astype(np.float32))
    return np.where(np.isnan(steps), high, np.clip(steps, low, high)).astype(np.uint8)


def _rounded(function: Callable[[np.ndarray], np.ndarray], x: Reals) -> Reals:
    """A function of the C library, whose f32 results are nearly always the nearest to the exact ones; numpy's are not."""
    return function(x.astype(np.float64)).astype(np.float32)


def _relu6_of(x: Reals) -> Reals:
    return np.clip(x + np.float32(3), np.float32(0), np.float32(6))


def _elu(x: Reals, attrs: Mapping[str, Any]) -> Reals:
    alpha, scale, inside = (np.float32(attrs[k]) for k in ("alpha", "scale", "input_scale"))
    return np.where(x >= 0, x * scale, _rounded(np.expm1, x * inside) * alpha * scale)


_TORCH: dict[str, Callable[[Reals, Mapping[str, Any]], Reals]] = {
    "sigmoid": lambda x, _: np.float32(1) / (np.float32(1) + _rounded(np.exp, -x)),
    "tanh": lambda x, _: _rounded(np.tanh, x),
    "hardsigmoid": lambda x, _: _relu6_of(x) / np.float32(6),
    "hardswish": lambda x, _: x * _relu6_of(x) / np.float32(6),
    "elu": _elu,
}
_ROUNDING = {
    **dict.fromkeys(("sigmoid", "tanh", "hardsigmoid", "hardswish", "relu", "clamp"), "before"),
    **dict.fromkeys(("leaky_relu", "elu", "threshold"), "after"),
}


# ---- functions of one value ----
class _Function:
    """What a value is in terms of one quantized value `x`, if it is that: its node, and the nodes before it."""

    def __init__(self, value: Value) -> None:
        self.x: Value | None = None
        self.nodes: dict[Value, Node] = {}  # in the order in which they are computed
        self.found = self._walk(value) and self.x is not None

    def _walk(self, value: Value | None, depth: int = 0) -> bool:
        if value is None or value in self.nodes:
            return value is not None
        if (read := made_by(value, "dequantize")) is not None and _is_bytes(read.inputs[0]):
            return self._is_x(read.inputs[0])
        node = value.producer
        if node is None or max(len(self.nodes), depth) > MOST_OPERATORS or len(node.outputs) != 1:
            return value.constant is not None and value.constant.size == 1
        op = registry.load_all().get(node.op)
        if (
            not isinstance(op, ElementwiseOp)
            or op.fold is None
            or not all(self._walk(v, depth + 1) for v in node.inputs)
        ):
            return False
        self.nodes[value] = node
        return True

    def _is_x(self, value: Value | None) -> bool:
        self.x = self.x or value
        return self.x is value

    def __call__(self, reals: Reals) -> Reals:
        known: dict[Value, np.ndarray] = {}

        def of(value: Value | None) -> np.ndarray:
            assert value is not None
            if value.constant is not None:
                return value.constant.reshape(())
            return known.get(value, reals)

        for value, node in self.nodes.items():
            fold = registry.get(node.op).fold
            assert fold is not None
            known[value] = fold(*map(of, node.inputs), **node.attrs)
        return known[value]


def _to_table(graph: Graph, block: Block, quantize: Node) -> bool:
    made = quantize.inputs[0]
    assert made is not None
    function = _Function(made)
    x = function.x
    if not function.found or x is None or any(v.shape != x.shape for v in function.nodes):
        return False
    quant, to = x.tensor.quant, quantize.output.tensor.quant
    assert quant is not None
    assert to is not None
    last = made.producer
    alone = len(function.nodes) == 1 and last is not None and len(last.inputs) == 1
    rule = None if not function.nodes else last if alone else function
    low, high = _limits(quantize)
    replace(graph, block, quantize, _looked_up(graph, block, quantize, x, table_of(rule, quant, to, low, high)))
    return True


def _looked_up(graph: Graph, block: Block, quantize: Node, x: Value, table: np.ndarray) -> Value:
    if x.type == quantize.output.type and np.array_equal(table, np.arange(256)):
        return x
    return call(graph, block, quantize, "lookup", [x, graph.add_constant(table, "table")], quantize.output.type)


# ---- limits ----
def _limit(graph: Graph, block: Block, quantize: Node) -> bool:
    """relu and clamp, and limits of the quantize itself, after an operator that has none of its own."""
    value, quant = quantize.inputs[0], quantize.output.tensor.quant
    assert value is not None
    assert quant is not None
    low, high = _limits(quantize)
    passed: list[Node] = []
    while (node := made_by(value, "relu", "clamp")) is not None and node in block.nodes and single_use(graph, value):
        lo, hi = (0.0, math.inf) if node.op == "relu" else (node.attrs["lo"], node.attrs["hi"])
        least, most = (int(_quantized(np.array([v], np.float32), quant, 0, 255, "before")[0]) for v in (lo, hi))
        low, high = min(max(low, least), high), max(min(high, most), low)
        passed.append(node)
        value = node.inputs[0]
        assert value is not None
    maker = value.producer
    if (
        maker is None
        or maker.op in WITH_EPILOGUE
        or not single_use(graph, value)
        or maker.op not in registry.load_all()
    ):
        return False
    if "q8" not in registry.get(maker.op).dtypes or (value is quantize.inputs[0] and (low, high) == LEVELS["u8"]):
        return False
    whole = call(graph, block, quantize, "quantize", [value], quantize.output.type, low=0, high=255)
    table = np.arange(256).clip(low, high).astype(np.uint8)
    replace(graph, block, quantize, _looked_up(graph, block, quantize, whole, table))
    for node in passed:  # now, not when dead code goes: integer.py takes what one quantize alone reads
        block.erase(node)
    return True


def _limits(quantize: Node) -> tuple[int, int]:
    low, high = quantize.attrs["low"], quantize.attrs["high"]
    assert isinstance(low, int)
    assert isinstance(high, int)
    return low, high


def _is_bytes(value: Value | None) -> bool:
    if value is None or value.dtype != "u8":
        return False
    return value.tensor.quant is not None and value.tensor.quant.axis is None
