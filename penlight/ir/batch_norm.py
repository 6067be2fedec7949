"""What a batch normalization by constants does to the weights of the convolution before it: in float64, for the caller to round
once. Graphs (passes/fold_batch_norm.py) and register code (capture/script/fold_batch_norm.py) come to the same bits by it."""

from __future__ import annotations

import numpy as np


def scale_and_shift(
    gamma: np.ndarray | None, beta: np.ndarray | None, mean: np.ndarray, var: np.ndarray, eps: float
) -> tuple[np.ndarray, np.ndarray]:
    """s and t of y = x * s + t for each channel."""
    scale = (1.0 if gamma is None else gamma.astype(np.float64)) / np.sqrt(var.astype(np.float64) + eps)
    return scale, (0.0 if beta is None else beta.astype(np.float64)) - mean.astype(np.float64) * scale


def into_weights(w: np.ndarray, b: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weight [Co, …] and bias of a convolution that does the normalization after it too."""
    return w * scale.reshape(-1, *[1] * (w.ndim - 1)), b * scale + shift
