"""Rounding weights moves each output of a layer by (w - rounded w) x; its mean over the calibration data goes into the bias.

Only what the weights cause is put right, with the mean inputs of the float graph: that is exact for a layer alone, needs no run, and errors
of layers before are not counted again. Taps on padding count as if they were inside, which is off by little.
"""

from __future__ import annotations

import numpy as np

from penlight.ir.graph import Graph, Node
from penlight.ir.rewrite import WITH_EPILOGUE
from penlight.quant.insert import Scheme
from penlight.quant.observe import Observed
from penlight.quant.place import integers
from penlight.quant.scheme import dequantized


def correct_biases(graph: Graph, scheme: Scheme, observed: dict[str, Observed]) -> None:
    for node in integers(graph, scheme.placement):
        if node.op in WITH_EPILOGUE:
            moved = _mean_error(node, scheme, observed)
            bias = node.inputs[2]
            if moved is not None and (bias is None or bias.constant is not None):
                old = np.zeros(moved.size, np.float32) if bias is None or bias.constant is None else bias.constant
                scheme.biases[node.output.name] = (old + moved).astype(np.float32)


def _mean_error(node: Node, scheme: Scheme, observed: dict[str, Observed]) -> np.ndarray | None:
    x, weight = node.inputs[:2]
    assert x is not None
    assert weight is not None
    assert weight.constant is not None
    lost = weight.constant - dequantized(*scheme.weights[node.output.name])
    mean, groups = observed[x.name].channel_mean, node.attrs.get("groups", 1)
    assert isinstance(groups, int)
    if mean.size != lost.shape[1] * groups:
        return None
    taps = lost.reshape(groups, lost.shape[0] // groups, lost.shape[1], -1).sum(axis=-1)
    moved: np.ndarray = np.einsum("gni,gi->gn", taps, mean.reshape(groups, -1)).reshape(-1)
    return moved
