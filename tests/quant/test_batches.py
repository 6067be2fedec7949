"""Calibration data: what is wrong with it is said in words."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import penlight
from tests.quant.networks import images, small


def quantize(batches: Any, **options: Any) -> penlight.Model:
    return penlight.quantize(small(), batches, sensitivity=False, speed=False, **options)


@pytest.mark.parametrize(
    ("batches", "words"),
    [
        ([], "none at all"),
        (torch.zeros(4, 3, 32, 32), r"got one tensor of shape \[4, 3, 32, 32\]"),
        ("photos/", "got str"),
        ([torch.full((1, 3, 32, 32), float("nan"))], "3072 NaN and 0 infinite"),
        ([images(1)[0] / 0.0], "infinite"),
        ([torch.full((1, 3, 32, 32), 0.5)] * 3, "constant: all its values are 0.5"),
        (
            [*images(2), torch.zeros(1, 3, 16, 32)],
            r"batch 2, input x: expected shape \[1, 3, 32, 32\], got \[1, 3, 16, 32\]",
        ),
        ([*images(1), images(1)[0].double()], "batch 1, input x: expected f32 .float32., got float64"),
        ([*images(2), (images(1)[0], torch.zeros(1))], r"batch 2: .*A loader that gives \(images, labels\)"),
    ],
)
def test_wrong(batches: Any, words: str) -> None:
    with pytest.raises(penlight.QuantizationError, match=words):
        quantize(batches, example_inputs=(images(1)[0],))


def test_one_image_is_a_warning() -> None:
    with pytest.warns(penlight.CalibrationWarning, match="one example only"):
        quantize(images(1))


def test_a_blank_image_among_others_is_a_warning() -> None:
    with pytest.warns(penlight.CalibrationWarning, match="1 of 4 calibration batches are constant"):
        quantize([*images(3), torch.zeros(1, 3, 32, 32)])


def test_batches_are_taken_apart_and_may_be_anything() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", penlight.CalibrationWarning)
        whole = torch.cat(images(6))
        ways: list[Any] = [[whole], [(whole,)], [whole.numpy()], iter(images(6)), [{"x": x} for x in images(6)]]
        made = [quantize(way, example_inputs=(images(1)[0],)) for way in ways]
    x = images(1, seed=9)[0].numpy()
    assert all(model.report().examples == 6 for model in made)
    assert all(np.array_equal(model(x), made[0](x)) for model in made[1:])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "kl"}, "method: expected one of histogram, minmax, percentile, got 'kl'"),
        ({"keep": "head"}, "keep: expected a list"),
        ({"keep": ["*"]}, "leaves nothing to quantize"),
        ({"budget": -1}, "budget: expected a relative error above 0"),
        ({"budget": {"top5": 1}}, "budget: expected a relative error above 0"),
        ({"budget": 1e-12}, "cannot be met|budget"),
        ({"weights": "i4"}, "weights: expected one of i8, f16"),
    ],
)
def test_wrong_options(options: Any, words: str) -> None:
    if options.get("budget") == 1e-12:
        assert all(layer.stored == "f32" for layer in quantize(images(2), **options).report().layers)
        return
    with pytest.raises(penlight.QuantizationError, match=words):
        quantize(images(2), **options)
