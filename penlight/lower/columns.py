"""What an integer product needs to know of its columns beside its weights and all types, in place of the bias.

    %y: u8[1, 8, 6, 6] q(0.1, 0) = conv2d(%x: u8 q(0.02, 128), @w: i8 q(axis=0), @b: f32[8], …)   ->   @b becomes @columns: i32[1, 16]

    start  the bias in steps of the sum (not where the result is f32), less what the zero point of x adds to every sum
    bias   f32 bits: only for f32 results, which keep it real

In QNNPACK's order of f32 operations, so that results have its bits. Columns of a group begin at a panel. Recurrent layers, which choose a scale
at every step, take the same of the product with their state. All else follows from the weights: the runtime adds them up where a kernel must
know what they come to.
"""

from __future__ import annotations

import numpy as np

from penlight.ir.graph import Graph, Node, Value
from penlight.ir.rewrite import made_by
from penlight.ir.types import TensorType
from penlight.lower.prepack import PANEL

OPS = ("conv2d", "conv3d", "linear")
RECURRENT = ("lstm_dynamic", "gru_dynamic", "rnn_dynamic")  # whose last input is the bias


def add_columns(graph: Graph) -> None:
    """Replaces the bias of every integer product. After kernels are chosen, before weights are packed."""
    for node in list(graph.nodes):
        if node.op in OPS and ".q8" in node.kernel:
            _add_columns(graph, node)
        elif node.op in RECURRENT:
            node.set_input(len(node.inputs) - 1, graph.add_constant(_of_a_state(node), "columns"))
    graph.prune_constants()


def _add_columns(graph: Graph, node: Node) -> None:
    """Where the scale of x is chosen in the run, the biases alone: the rest is made then."""
    dynamic = made_by(node.inputs[2], "columns_dynamic")
    if dynamic is None:
        node.set_input(2, graph.add_constant(columns_of(node), "columns"))
        return
    (x, w), (bias, step) = node.inputs[:2], dynamic.inputs[:2]
    assert x is not None
    assert x.tensor.quant is not None
    assert w is not None
    assert bias is not None
    groups = _groups(node)
    columns = graph.add_constant(by_panels(_real(bias).view(np.int32)[None], node), "columns")
    made = graph.node(
        "columns_dynamic", [columns, step, w], {"groups": groups, "zero": x.tensor.quant.zero},
        TensorType("i32", (4, columns.shape[1])), name="columns_dynamic", source=node.source,
    )  # fmt: skip
    made.kernel = dynamic.kernel
    made.output.layout = "plain"
    graph.insert_before(node, made)
    node.set_input(2, made.output)
    if not dynamic.output.users:
        graph.erase(dynamic)


def columns_of(node: Node) -> np.ndarray:
    x, w, b = node.inputs[:3]
    assert x is not None
    assert x.tensor.quant is not None
    assert w is not None
    assert w.tensor.quant is not None
    assert w.constant is not None
    weights = w.constant.reshape(w.constant.shape[0], -1).astype(np.int64)
    outputs, quant, result = weights.shape[0], w.tensor.quant, node.output.tensor.quant
    x_scale, f32 = x.tensor.quant.scale, np.float32
    start = -x.tensor.quant.zero * weights.sum(1)
    bias = np.zeros(outputs, f32) if b is None else _real(b)
    if result is not None and b is not None:
        inverse = f32(1) / (np.broadcast_to(np.array(quant.scales), outputs) * x_scale).astype(f32)
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.nan_to_num(np.rint((bias * inverse).astype(np.float64)))
        start = start + np.clip(steps, -(2**31), 2**31 - 1).astype(np.int64)
    rows = [start.astype(np.uint32).view(np.int32)]
    if result is None:
        rows.append(bias.view(np.int32))
    return by_panels(np.stack(rows), node)


def _of_a_state(node: Node) -> np.ndarray:
    """All four rows that a kernel has of a column: starts, which each step's zero point changes, sums, biases and scales of the weights."""
    w, b = node.inputs[1], node.inputs[-1]
    assert w is not None
    assert w.tensor.quant is not None
    assert w.constant is not None
    outputs, f32 = w.constant.shape[0], np.float32
    bias = np.zeros(outputs, f32) if b is None else _real(b)
    scales = np.broadcast_to(np.array(w.tensor.quant.scales, f32), outputs).copy()
    sums = w.constant.sum(1, dtype=np.int32)
    return by_panels(np.stack([np.zeros_like(sums), sums, bias.view(np.int32), scales.view(np.int32)]), node)


def _groups(node: Node) -> int:
    groups = node.attrs.get("groups", 1)
    assert isinstance(groups, int)
    return groups


def by_panels(rows: np.ndarray, node: Node) -> np.ndarray:
    """Every group's columns filled up to whole panels, with zeros. Depthwise channels are columns of one group."""
    groups = 1 if node.kernel.endswith("depthwise") else _groups(node)
    each = rows.shape[1] // groups
    padded = np.zeros((len(rows), groups, -(-each // PANEL) * PANEL), rows.dtype)
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
