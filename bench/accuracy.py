"""Whether an engine's answer is right, which decides whether its times count: one place for f32 and for int8.

In f32 the answer is torch's but for rounding: the largest difference must be at most 1e-4 of the largest value. In int8 it is near the
float network's, and a single value says little. There the measure is a ratio of signal to noise: what tells torch's answer from those
to other images (its distance from the nearest of them, and of their average) over what the engine's answer is off by. The answer to
another image, or to none, has 0 dB or less, however much of it is the same for all images.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

TOLERANCE = 1e-4  # of max |y|
LEAST_SQNR_DB = 3.0  # noise at most half the signal, in power


def error_of(expected: Sequence[np.ndarray], got: Sequence[np.ndarray]) -> float:
    """The largest difference over all outputs, of the largest value; infinite where shapes differ or anything is not finite."""
    if not _comparable(expected, got):
        return math.inf
    return max(float(np.abs(have - want).max() / np.abs(want).max()) for want, have in zip(expected, got, strict=True))


def sqnr_of(expected: Sequence[np.ndarray], nearest: Sequence[np.ndarray], got: Sequence[np.ndarray]) -> float:
    """Of the worst output, in dB; minus infinity where shapes differ or anything is not finite."""
    if not _comparable(expected, got):
        return -math.inf
    return min(_sqnr(*arrays) for arrays in zip(expected, nearest, got, strict=True))


def nearest_of(want: np.ndarray, others: Sequence[np.ndarray]) -> np.ndarray:
    """Of the answers to other images and their average, the one that this answer is hardest to tell from."""
    return min([*others, np.mean(others, 0)], key=lambda other: float(np.linalg.norm(other - want)))


def _sqnr(want: np.ndarray, nearest: np.ndarray, have: np.ndarray) -> float:
    signal = float(np.square(want - nearest, dtype=np.float64).sum())
    noise = float(np.square(have - want, dtype=np.float64).sum())
    return math.inf if noise == 0 else -math.inf if signal == 0 else 10 * math.log10(signal / noise)


def _comparable(expected: Sequence[np.ndarray], got: Sequence[np.ndarray]) -> bool:
    return len(expected) == len(got) and all(
        have.shape == want.shape and np.isfinite(have).all() for want, have in zip(expected, got, strict=True)
    )


def is_right(result: dict[str, Any]) -> bool:
    """Whether an engine's times may count: it answered, and never far from torch (a NaN is far)."""
    if "failed" in result:
        return False
    if "sqnr_db" in result:
        return bool(result["sqnr_db"] >= LEAST_SQNR_DB)
    return bool(result["error"] <= TOLERANCE)


def keep_worst(result: dict[str, Any], answer: dict[str, Any]) -> None:
    """Of all runs of an engine, the result has the one farthest from torch."""
    result["error"] = max(result["error"], answer["error"])
    if "sqnr_db" in answer:
        result["sqnr_db"] = min(result["sqnr_db"], answer["sqnr_db"])
