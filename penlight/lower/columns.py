"""What an integer product needs to know of its columns beside its operands' types: starts and sums, in place of the bias.

    %y: u8[1, 8, 6, 6] q(0.1, 0) = conv2d(%x: u8 q(0.02, 128), @w: i8 q(axis=0), @b: f32[8], …)   ->   @b becomes @columns: i32[2, 16]

    start  the bias in steps of the sum (not where the result is f32), less what the zero point of x adds to every sum
    sums   of the weights: kernels that multiply i8 by i8 read x less 128
    bias   f32 bits: only for f32 results, which keep it real

In QNNPACK's order of f32 operations, so that results have its bits. Columns of a group begin at a panel. Recurrent layers, which choose a scale
at every step, take the same of the product with their state.
"""

from __future__ import annotations

import numpy as np

from penlight.ir.graph import Graph, Node, Value
from penlight.ir.rewrite import made_by
from penlight.ir.types import Quant
from penlight.lower.prepack import PANEL

OPS = ("conv2d", "conv3d", "conv_transpose2d", "conv_transpose3d", "linear")
RECURRENT = ("lstm_dynamic", "gru_dynamic", "rnn_dynamic")  # whose last input is the bias


def add_columns(graph: Graph) -> None:
    """Replaces the bias of every integer product. After kernels are chosen, before weights are packed."""
    for node in list(graph.nodes):
        if node.op in OPS and ".q8" in node.kernel:
            _add_columns(graph, node)
        elif node.op in RECURRENT:
            columns = columns_of(node, node.inputs[-1], Quant.of(1.0, 0), scales=True)
            node.set_input(len(node.inputs) - 1, graph.add_constant(columns, "columns"))
    graph.prune_constants()


def _add_columns(graph: Graph, node: Node) -> None:
    """Where the scale of x is chosen in the run, from a constant that has all but that."""
    dynamic = made_by(node.inputs[2], "columns_dynamic")
    if dynamic is None:
        node.set_input(2, graph.add_constant(columns_of(node, node.inputs[2], _quant(node.inputs[0])), "columns"))
        return
    bias, step = dynamic.inputs
    columns = graph.add_constant(columns_of(node, bias, _quant(node.inputs[0]), scales=True), "columns")
    made = graph.node("columns_dynamic", [columns, step], {}, columns.type, name="columns_dynamic", source=node.source)
    made.kernel = dynamic.kernel
    made.output.layout = "plain"
    graph.insert_before(node, made)
    node.set_input(2, made.output)
    if not dynamic.output.users:
        graph.erase(dynamic)


def _quant(x: Value | None) -> Quant:
    assert x is not None
    assert x.tensor.quant is not None
    return x.tensor.quant


def columns_of(node: Node, b: Value | None, x: Quant, scales: bool = False) -> np.ndarray:
    """`b`: the bias. `x`: what the integers stand for that weights are multiplied by. `scales`: with those of the weights, to which the run
    adds that of x."""
    w = node.inputs[1]
    assert w is not None
    assert w.tensor.quant is not None
    assert w.constant is not None
    groups = node.attrs.get("groups", 1)
    assert isinstance(groups, int)
    weights = w.constant.reshape(w.constant.shape[0], -1).astype(np.int64)
    outputs, quant, result = weights.shape[0], w.tensor.quant, node.outputs[0].tensor.quant
    x_scale, f32 = x.scale, np.float32
    sums = weights.sum(1)
    start = -x.zero * sums
    bias = np.zeros(outputs, f32) if b is None else _real(b)
    if result is not None and b is not None:
        inverse = f32(1) / (np.broadcast_to(np.array(quant.scales), outputs) * x_scale).astype(f32)
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.nan_to_num(np.rint((bias * inverse).astype(np.float64)))
        start = start + np.clip(steps, -(2**31), 2**31 - 1).astype(np.int64)
    rows = [start.astype(np.uint32).view(np.int32), sums.astype(np.int32)]
    if result is None:
        rows.append(bias.view(np.int32))
    if scales:
        rows.append(np.broadcast_to(np.array(quant.scales, f32), outputs).copy().view(np.int32))
    return by_panels(np.stack(rows), groups, 64 if node.kernel.endswith("depthwise") else PANEL)


def by_panels(rows: np.ndarray, groups: int, unit: int) -> np.ndarray:
    """Every group's columns filled up to whole panels, with zeros. Depthwise channels are columns of one group."""
    groups = 1 if unit != PANEL else groups
    each = rows.shape[1] // groups
    padded = np.zeros((len(rows), groups, -(-each // unit) * unit), rows.dtype)
    padded[:, :, :each] = rows.reshape(len(rows), groups, each)
    return padded.reshape(len(rows), -1)


def _real(b: Value) -> np.ndarray:
    """The bias as f32: a constant that is, or the integers that stand for it."""
    assert b.constant is not None
    quant = b.tensor.quant
    if quant is None:
        return b.constant.astype(np.float32)
    reals = (b.constant.astype(np.int64) - np.array(quant.zeros)).astype(np.float64) * np.array(quant.scales)
    return reals.astype(np.float32)
