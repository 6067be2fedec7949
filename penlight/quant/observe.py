"""What values a graph has on the calibration batches: least and greatest, per channel too, then a histogram between them.

Two rounds: a histogram needs to know its ends. Of a large value, the histogram takes every so-manieth element, always the same ones; least,
greatest and means are those of all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from penlight.errors import QuantizationError
from penlight.ir.graph import Graph
from penlight.quant.execute import Execute, Leaves, values_by_name, with_outputs

BINS = 2048
MOST_SAMPLED = 1 << 16  # elements of one value in one batch, for the histogram
Step = Callable[[int, int, str], None]


@dataclass
class Observed:
    """One value over all batches. Channels are dim 1 of maps, the last dim of all else."""

    low: float = np.inf
    high: float = -np.inf
    counts: np.ndarray = field(default_factory=lambda: np.zeros(BINS, np.int64))
    channel_low: np.ndarray = field(default_factory=lambda: np.zeros(0))
    channel_high: np.ndarray = field(default_factory=lambda: np.zeros(0))
    channel_sum: np.ndarray = field(default_factory=lambda: np.zeros(0))
    channel_squares: np.ndarray = field(default_factory=lambda: np.zeros(0))
    elements: int = 0  # of each channel

    @property
    def edges(self) -> np.ndarray:
        return np.linspace(self.low, self.high, BINS + 1)

    @property
    def channel_mean(self) -> np.ndarray:
        mean: np.ndarray = self.channel_sum / max(self.elements, 1)
        return mean

    def take_range(self, x: np.ndarray) -> None:
        if not x.size:
            return
        rows, axis = by_channel(x)
        low, high = rows.min(axis=axis), rows.max(axis=axis)
        # numpy's, not Python's: NaN must stay
        self.low, self.high = float(np.minimum(self.low, low.min())), float(np.maximum(self.high, high.max()))
        sums, squares = rows.sum(axis=axis), np.einsum("nce,nce->c" if axis == (0, 2) else "ec,ec->c", rows, rows)
        sums, squares = sums.astype(np.float64), squares.astype(np.float64)
        if self.elements and low.size == self.channel_low.size:
            low, high = np.minimum(self.channel_low, low), np.maximum(self.channel_high, high)
            sums, squares = self.channel_sum + sums, self.channel_squares + squares
        elif self.elements:  # a free size at the channels' place: no such thing as a channel
            low, high, sums, squares = (np.zeros(0) for _ in range(4))
        self.channel_low, self.channel_high, self.channel_sum, self.channel_squares = low, high, sums, squares
        self.elements += x.size // max(low.size, 1)

    def take_counts(self, x: np.ndarray) -> None:
        if not x.size or self.high <= self.low:
            return
        flat = x.reshape(-1)
        flat = flat[:: -(-flat.size // MOST_SAMPLED)]
        places = ((flat - self.low) * (BINS / (self.high - self.low))).astype(np.int64)
        self.counts += np.bincount(np.clip(places, 0, BINS - 1), minlength=BINS)


def by_channel(x: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
    """x with its channels as one dim, and the other dims: a map as it lies [N, C, elements], all else [elements, C]."""
    if x.ndim in (4, 5):
        return x.reshape(x.shape[0], x.shape[1], -1), (0, 2)
    return (x.reshape(-1, x.shape[-1]) if x.ndim else x.reshape(1, 1)), (0,)


def observe(
    graph: Graph, names: Sequence[str], batches: Sequence[Leaves], execute: Execute, histogram: bool, step: Step
) -> dict[str, Observed]:
    """Of these values, what the batches make of them."""
    run = execute(with_outputs(graph, names))
    found = {name: Observed() for name in names}
    rounds = 2 if histogram else 1
    for i, batch in enumerate(batches):
        step(i, rounds * len(batches), "batches")
        for name, x in zip(names, run(batch), strict=True):
            found[name].take_range(x)
            if x.size and not (np.isfinite(found[name].low) and np.isfinite(found[name].high)):
                raise QuantizationError(_not_finite(graph, name, i))
    for i, batch in enumerate(batches if histogram else ()):
        step(len(batches) + i, rounds * len(batches), "batches")
        for name, x in zip(names, run(batch), strict=True):
            found[name].take_counts(x)
    return found


def _not_finite(graph: Graph, name: str, batch: int) -> str:
    node = values_by_name(graph)[name].producer
    where = "an input" if node is None else f"{node.op}{f' at {node.source}' if node.source else ''}"
    return (
        f"calibration batch {batch} makes %{name} ({where}) infinite or NaN in floats: expected finite numbers. Look at the batch, or"
        " name that layer in keep="
    )
