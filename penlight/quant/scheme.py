"""Scales and zero points: for activations u8 with one of each, from what was observed; for weights i8, symmetric, one scale for each
output channel or one for all.

Zero is always one of the 256 levels: padding, relu and the empty parts of a tensor are exact.
"""

from __future__ import annotations

import numpy as np

from penlight.ir.types import Quant
from penlight.quant.observe import Observed

LEVELS = 255  # steps between the least and the greatest u8
WEIGHT_LEVELS = 127  # -128 is left out: a weight and its negative are equally exact
PERCENTILE = 99.99
MOST_BIAS = 2.0**30  # of a bias in steps of s_x * s_w; with 2**31 the sum itself could overflow
SHRINKS = np.concatenate([np.linspace(1.0, 0.5, 26), np.linspace(0.45, 0.1, 8)])  # of each end of the range, tried

METHODS = ("histogram", "minmax", "percentile")


def activation_quant(observed: Observed, method: str) -> Quant:
    """u8 for a value of which this was observed."""
    low, high = min(observed.low, 0.0), max(observed.high, 0.0)
    if method == "percentile":
        low, high = _percentile(observed, low, high)
    elif method == "histogram":
        low, high = _least_error(observed, low, high)
    return affine(low, high)


def affine(low: float, high: float) -> Quant:
    """u8 from low to high; the range is moved by less than a step, so that zero is a level."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = float(np.float32((high - low) / LEVELS))
    if not scale > np.finfo(np.float32).tiny:  # nothing but zeros
        return Quant.of(1.0, 0)
    return Quant.of(scale, int(np.clip(np.rint(-low / scale), 0, LEVELS)))


def _percentile(observed: Observed, low: float, high: float) -> tuple[float, float]:
    total = np.cumsum(observed.counts)
    if not total.size or total[-1] == 0:
        return low, high
    edges = observed.edges
    beyond = (1 - PERCENTILE / 100) * total[-1]
    first = int(np.searchsorted(total, beyond, side="right"))
    last = int(np.searchsorted(total, total[-1] - beyond, side="left"))
    return min(float(edges[first]), 0.0), max(float(edges[last + 1]), 0.0)


def _least_error(observed: Observed, low: float, high: float) -> tuple[float, float]:
    """The range whose mean squared error is least: cutting rare extremes off makes the steps of all others finer. Each end is tried in
    turn, which finds the best pair but for odd distributions."""
    if not observed.counts.sum():
        return low, high
    centres = (observed.edges[:-1] + observed.edges[1:]) / 2
    best = (low, high)
    for _ in range(2):
        highs = [high * shrink for shrink in SHRINKS] if high > 0 else [high]
        best = min(((best[0], h) for h in highs), key=lambda pair: _error(pair, centres, observed.counts))
        lows = [low * shrink for shrink in SHRINKS] if low < 0 else [low]
        best = min(((each, best[1]) for each in lows), key=lambda pair: _error(pair, centres, observed.counts))
    return best


def _error(pair: tuple[float, float], centres: np.ndarray, counts: np.ndarray) -> float:
    """Summed: a step squared over 12 for what is inside of the range, the distance squared for what is outside."""
    low, high = pair
    outside = np.maximum(centres - high, 0) + np.maximum(low - centres, 0)
    inside = counts[outside == 0].sum() * ((high - low) / LEVELS) ** 2 / 12
    return float(inside + (counts * outside**2).sum())


def weight_quant(
    weight: np.ndarray, bias: np.ndarray | None, x_scale: float, per_channel: bool
) -> tuple[np.ndarray, Quant]:
    """The integers of a weight [N, …], and what they stand for.

    A bias becomes an i32 in steps of s_x * s_w. Where batch norm was folded into a dead channel its weights are all but nothing and its
    bias is not: such a channel's scale is made coarse enough for the bias to fit.
    """
    rows = np.abs(weight.reshape(weight.shape[0], -1)).max(axis=1) if weight.size else np.zeros(weight.shape[0])
    scales = rows.astype(np.float64) / WEIGHT_LEVELS
    if bias is not None:
        scales = np.maximum(scales, np.abs(bias.astype(np.float64)) / (x_scale * MOST_BIAS))
    if not per_channel:
        scales = np.full_like(scales, scales.max(initial=0.0))
    scales = np.where(scales > np.finfo(np.float32).tiny, scales, 1.0).astype(np.float32)
    spread = scales.reshape(-1, *[1] * (weight.ndim - 1))
    integers = np.clip(np.rint(weight / spread), -WEIGHT_LEVELS, WEIGHT_LEVELS).astype(np.int8)
    if not per_channel:
        return integers, Quant.of(float(scales[0]) if scales.size else 1.0, 0)
    return integers, Quant(tuple(map(float, scales)), (0,) * len(scales), 0)


def dequantized(integers: np.ndarray, quant: Quant) -> np.ndarray:
    """The reals that a weight's integers stand for, as the runtime computes them."""
    scales = np.asarray(quant.scales, np.float32)
    spread = scales.reshape(-1, *[1] * (integers.ndim - 1)) if quant.axis is not None else scales[0]
    reals: np.ndarray = integers.astype(np.float32) * spread
    return reals
