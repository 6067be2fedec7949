"""Scales and zero points: the integers are torch's, zero is a level, and the histogram's range is better than its extremes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from penlight.quant.observe import Observed
from penlight.quant.scheme import activation_quant, affine, dequantized, weight_quant


def observed(x: np.ndarray) -> Observed:
    found = Observed()
    found.take_range(x)
    found.take_counts(x)
    return found


def fake(x: np.ndarray, scale: float, zero: int) -> np.ndarray:
    return torch.fake_quantize_per_tensor_affine(torch.from_numpy(x), scale, zero, 0, 255).numpy()


@pytest.mark.parametrize(
    ("low", "high"), [(-1.0, 3.0), (0.0, 6.0), (-2.0, 0.0), (1.0, 4.0), (-5.0, -1.0), (1e-4, 2e-4)]
)
def test_zero_is_a_level_and_the_range_is_covered(low: float, high: float) -> None:
    quant = affine(low, high)
    assert 0 <= quant.zero <= 255
    assert float(np.float32(quant.scale)) == quant.scale
    least, most = -quant.zero * quant.scale, (255 - quant.zero) * quant.scale
    assert least <= low + quant.scale / 2 + 1e-6
    assert most >= high - quant.scale / 2 - 1e-6


def test_nothing_but_zeros() -> None:
    assert activation_quant(observed(np.zeros((2, 3), np.float32)), "histogram") == affine(0, 0)


def test_a_histogram_cuts_off_what_is_rare() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 8, 64, 64)).astype(np.float32)
    x[0, 0, 0, :3] = [60.0, -50.0, 40.0]
    seen = observed(x)
    errors = {}
    for method in ("minmax", "percentile", "histogram"):
        quant = activation_quant(seen, method)
        errors[method] = float(((fake(x, quant.scale, quant.zero) - x) ** 2).sum())
    assert errors["histogram"] < errors["minmax"]
    steps = [affine(low, high) for low in np.linspace(-50, -2, 25) for high in np.linspace(2, 60, 30)]
    best = min(float(((fake(x, q.scale, q.zero) - x) ** 2).sum()) for q in steps)
    assert errors["histogram"] < 1.1 * best


@pytest.mark.parametrize("per_channel", [True, False])
def test_weights_are_torchs(per_channel: bool) -> None:
    weight = (
        torch.randn(12, 5, 3, 3, generator=torch.Generator().manual_seed(0))
        * torch.logspace(-3, 1, 12)[:, None, None, None]
    )
    integers, quant = weight_quant(weight.numpy(), None, 0.02, per_channel)
    scales, zeros = torch.tensor(quant.scales), torch.zeros(len(quant.scales), dtype=torch.int64)
    if per_channel:
        theirs = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
    else:
        theirs = torch.quantize_per_tensor(weight, quant.scale, 0, torch.qint8)
    assert np.array_equal(integers, theirs.int_repr().numpy())
    assert np.array_equal(dequantized(integers, quant), theirs.dequantize().numpy())
    assert np.abs(integers.astype(int)).max() == 127


def test_a_dead_channel_leaves_room_for_its_bias() -> None:
    weight = np.full((2, 4), 1e-12, np.float32)
    weight[1] = 0.5
    bias = np.array([3.0, 0.1], np.float32)
    _, quant = weight_quant(weight, bias, 0.01, True)
    assert np.all(np.abs(bias / (np.array(quant.scales) * 0.01)) <= 2**30 * 1.001)
    assert quant.scales[1] == pytest.approx(0.5 / 127)
