"""Channels of one tensor share one scale; where some are much smaller than others they keep few levels. Between two convolutions or linears
a channel may be made larger for free: the first gives y / s, the second takes its weights times s.

    y = relu(w1 x + b1), z = w2 y      ->      y' = relu((w1 / s) x + b1 / s), z = (w2 s) y'

For relu any s above 0 will do. A clamp(0, 6) is no longer the same at 6 / s: a channel is only enlarged as far as it stays below.

How large a channel can get is not what calibration happened to show: in the last layers of a classifier most channels are silent until
their class comes by, and what was enlarged sixteenfold because it was never seen is cut off then, which costs far more than all of
this gains. So it is the larger of what was seen and of what its weights could make of ordinary inputs: b + 6 sqrt(sum of w^2 mean(x^2)). A pair is
changed where the error that is to be expected at z falls by a fifth or more: most pairs of an ordinary network are left alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from penlight.ir.graph import Graph, Node, Value
from penlight.ir.rewrite import single_use
from penlight.quant.observe import Observed
from penlight.quant.place import is_heavy
from penlight.quant.scheme import LEVELS, WEIGHT_LEVELS

GAIN = 0.8  # of the error expected before: what is left must be below
MOST = 8.0  # by how much a channel may be enlarged
DEVIATIONS = 6.0  # of what a sum of ordinary inputs may be
ROOM = 0.9  # of the limit of an activation: as far as a channel may be enlarged
LAYERS = ("conv2d", "linear")


@dataclass(frozen=True)
class Pair:
    first: Node
    second: Node
    between: Value


def pairs(graph: Graph) -> list[Pair]:
    """Where only the second reads what the first gives, and nothing is added to it."""
    found = []
    for node in graph.nodes:
        x = node.inputs[0] if node.op in LAYERS and is_heavy(node) else None
        first = x.producer if x is not None else None
        if x is None or first is None or first.op != node.op or not is_heavy(first) or not single_use(graph, x):
            continue
        if first.inputs[3] is None and _limit(first) > 0 and _own(graph, first) and _own(graph, node):
            found.append(Pair(first, node, x))
    return found


def _own(graph: Graph, node: Node) -> bool:
    """Whether nobody else uses its weight and bias."""
    return all(v is None or (v.is_constant and single_use(graph, v)) for v in node.inputs[1:3])


def _limit(node: Node) -> float:
    """Where the activation cuts off above; 0 where the pair cannot be scaled: some activation that has no zero at zero."""
    act, args = node.attrs["act"], node.attrs["act_args"]
    if act in ("", "relu"):
        return math.inf
    assert isinstance(args, tuple)
    low, high = args
    return float(high) if low in (0.0, -math.inf) else 0.0  # type: ignore[arg-type]


def equalize(graph: Graph, observed: dict[str, Observed], per_channel: bool) -> int:
    """Changes weights and biases in place; returns how many pairs were changed."""
    changed = 0
    for pair in pairs(graph):
        size = _sizes(pair, observed)
        scales = None if size is None else _scales(pair, size, per_channel)
        if size is None or scales is None:
            continue
        seen = observed[pair.between.name]
        before = expected_error(pair, seen, size, np.ones_like(scales), per_channel)
        if expected_error(pair, seen, size, scales, per_channel) < GAIN * before:
            _apply(graph, pair, scales)
            changed += 1
    return changed


def _sizes(pair: Pair, observed: dict[str, Observed]) -> np.ndarray | None:
    """How large each channel between the two may get, or None where nothing is known of channels."""
    x, bias, weight = pair.first.inputs[0], pair.first.inputs[2], _weight(pair.first)
    before, seen = observed.get(x.name if x is not None else ""), observed.get(pair.between.name)
    groups = int(pair.first.attrs.get("groups", 1))  # type: ignore[arg-type]
    inputs, outputs = weight.shape[1] * groups, weight.shape[0]
    if before is None or seen is None or before.channel_squares.size != inputs or seen.channel_high.size != outputs:
        return None
    power = before.channel_squares / max(before.elements, 1)
    squares = (weight.astype(np.float64) ** 2).reshape(groups, outputs // groups, weight.shape[1], -1).sum(axis=-1)
    could = DEVIATIONS * np.sqrt(np.einsum("gni,gi->gn", squares, power.reshape(groups, -1)).reshape(-1))
    if bias is not None and bias.constant is not None:
        could = could + np.abs(bias.constant)
    shown = np.maximum(np.abs(seen.channel_low), np.abs(seen.channel_high))
    size: np.ndarray = np.minimum(np.maximum(could, shown), _limit(pair.first))
    return size


def _weight(node: Node) -> np.ndarray:
    weight = node.inputs[1]
    assert weight is not None
    assert weight.constant is not None
    return weight.constant


def _inputs_first(node: Node) -> np.ndarray:
    """The second weight by its input channel: [inputs, all that each is multiplied with], in the order of the inputs."""
    weight, groups = _weight(node), int(node.attrs.get("groups", 1))  # type: ignore[arg-type]
    split = weight.reshape(groups, weight.shape[0] // groups, weight.shape[1], -1)
    return split.transpose(0, 2, 1, 3).reshape(groups * weight.shape[1], -1)


def _scales(pair: Pair, size: np.ndarray, per_channel: bool) -> np.ndarray | None:
    """What y is divided by, channel by channel."""
    weights = np.abs(_inputs_first(pair.second)).max(axis=1).astype(np.float64)
    if size.max(initial=0.0) == 0 or weights.max(initial=0.0) == 0:
        return None
    size, weights = np.maximum(size, size.max() * 1e-6), np.maximum(weights, weights.max() * 1e-6)
    depthwise = _weight(pair.second).shape[1] == 1
    # A depthwise weight has scales of its own for each channel: it loses nothing. Else both share the difference.
    scales = size / size.max() if depthwise and per_channel else np.sqrt(size / weights)
    scales = np.clip(scales / scales.max(), 1 / MOST, 1.0)
    limit = _limit(pair.first)
    if math.isfinite(limit):
        scales = np.maximum(scales, np.minimum(size / (ROOM * limit), 1.0))
    return scales.astype(np.float64)


def expected_error(pair: Pair, seen: Observed, size: np.ndarray, scales: np.ndarray, per_channel: bool) -> float:
    """Summed squares at the second layer's outputs, for one element: what the steps of y and of its weights make of it, each
    as a step squared over 12."""
    weight = _inputs_first(pair.second).astype(np.float64) * scales[:, None]
    step = float((size / scales).max()) * (1 if seen.low >= 0 else 2) / LEVELS
    of_values = step**2 / 12 * float((weight**2).sum())
    square = seen.channel_squares / max(seen.elements, 1) / scales**2
    tops = _row_tops(pair.second, scales) if per_channel else np.abs(weight).max()
    if per_channel:
        groups = int(pair.second.attrs.get("groups", 1))  # type: ignore[arg-type]
        per_group = (tops**2).reshape(groups, -1).sum(axis=1)
        taps = math.prod(_weight(pair.second).shape[2:])
        of_weights = float((square.reshape(groups, -1).sum(axis=1) * per_group).sum()) * taps
    else:
        of_weights = float(square.sum()) * float(tops) ** 2 * weight.shape[1]
    return of_values + of_weights / WEIGHT_LEVELS**2 / 12


def _row_tops(node: Node, scales: np.ndarray) -> np.ndarray:
    """The largest weight of each output, with the inputs scaled."""
    scaled = _scaled_inputs(node, scales)
    tops: np.ndarray = np.abs(scaled.reshape(scaled.shape[0], -1)).max(axis=1)
    return tops


def _scaled_inputs(node: Node, scales: np.ndarray) -> np.ndarray:
    weight, groups = _weight(node), int(node.attrs.get("groups", 1))  # type: ignore[arg-type]
    split = weight.reshape(groups, weight.shape[0] // groups, weight.shape[1], -1)
    scaled: np.ndarray = (split * scales.reshape(groups, 1, -1, 1)).reshape(weight.shape)
    return scaled


def _apply(graph: Graph, pair: Pair, scales: np.ndarray) -> None:
    first = _weight(pair.first) / scales.reshape(-1, *[1] * (_weight(pair.first).ndim - 1))
    _exchange(graph, pair.first, 1, first)
    bias = pair.first.inputs[2]
    if bias is not None and bias.constant is not None:
        _exchange(graph, pair.first, 2, bias.constant / scales)
    _exchange(graph, pair.second, 1, _scaled_inputs(pair.second, scales))


def _exchange(graph: Graph, node: Node, index: int, array: np.ndarray) -> None:
    """Another constant of the same name."""
    old = node.inputs[index]
    assert old is not None
    del graph.constants[old.name]
    node.set_input(index, graph.add_constant(np.ascontiguousarray(array, np.float32), old.name))
