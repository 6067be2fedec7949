"""Calibration data: what is wrong with it is said in words."""

from __future__ import annotations

import warnings
from pathlib import Path
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
        ([None], "batch 0: expected tensors or arrays .*, got None$"),
        ([*images(1), "a.jpg"], "batch 1: expected tensors or arrays .*, got str 'a.jpg'; read it"),
        ([Path("a.jpg")], "batch 0: .*, got PosixPath 'a.jpg'"),
        ([torch.zeros(0, 3, 32, 32)] * 3, r"none of 3 has any numbers in it; in batch 0 .* \[0, 3, 32, 32\]"),
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


@pytest.mark.parametrize(
    ("batches", "words"),
    [
        ([(images(1)[0], torch.zeros(1))], r"batch 0, which is the example.*A loader that gives \(images, labels\)"),
        (
            [torch.cat(images(4)), torch.cat(images(3))],
            r"batch 1, input x: expected shape \[4, .*, got \[3, .*drop_last=True",
        ),
        ([x.bfloat16() for x in images(2)], "bf16 cannot be calibrated"),
        ([torch.zeros(0, 3, 32, 32)], "none of 1 has any numbers in it"),
        ([torch.randn(1, 4, 32, 32)], "batch 0, which is the example: .*could not be traced(.|\n)*got 4 channels"),
        ([images(1)[0].double()], "batch 0, which is the example: .*could not be traced"),
        ([torch.zeros(0, 3, 32, 32), torch.randn(1, 4, 32, 32)], "batch 1, which is the example: "),
        (["a.jpg"], "batch 0: expected tensors or arrays .*, got str 'a.jpg'"),
    ],
)
def test_the_first_batch_is_the_example(batches: Any, words: str) -> None:
    module = small().bfloat16() if "bf16" in words else small()
    with pytest.raises(penlight.QuantizationError, match=words):
        penlight.quantize(module, batches, sensitivity=False, speed=False)


@pytest.mark.parametrize("weights", [None, "i8"])
def test_the_first_batch_is_the_example_of_a_script_too(weights: Any) -> None:
    script = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(32, 4), torch.nn.ReLU()).eval())
    for batch, words in (
        (torch.randn(1, 3, 32, 30), "the model fails on the example inputs"),
        ((images(1)[0], torch.zeros(1)), r"takes 1 arguments, 2 were given.*A loader that gives \(images, labels\)"),
    ):
        with pytest.raises(penlight.QuantizationError, match=f"batch 0, which is the example: .*{words}"):
            penlight.quantize(script, [batch], weights=weights)


def test_what_is_wrong_with_the_model_is_not_said_of_a_batch(tmp_path: Path) -> None:
    class Branch(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1 if x.sum() > 0 else x

    with pytest.raises(penlight.CaptureError, match="^The model's Python code depends on the values"):
        penlight.quantize(Branch(), images(2))
    (tmp_path / "text.pt").write_text("hello")
    with pytest.raises(penlight.CaptureError, match=r"text\.pt: expected a TorchScript file"):
        penlight.quantize(tmp_path / "text.pt", images(2))


def test_empty_batches_among_others_are_passed_over() -> None:
    empty, some = torch.zeros(0, 3, 32, 32), images(4)
    with pytest.warns(penlight.CalibrationWarning, match=r"2 of 6 calibration .* passed over.* batch 0") as caught:
        model = quantize([empty, *some[:3], (empty,), some[3]])
    assert {w.filename for w in caught if w.category is penlight.CalibrationWarning} == {__file__}
    assert model.report().examples == 4
    x = images(1, seed=9)[0].numpy()
    assert np.array_equal(model(x), quantize(some)(x))


def test_an_empty_input_beside_others_is_none_that_is_passed_over() -> None:
    """A cache before the first word, say."""

    class Cached(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

        def forward(self, cache: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([cache, self.b(torch.relu(self.a(x)))])

    with warnings.catch_warnings():
        warnings.simplefilter("error", penlight.CalibrationWarning)
        batches = [(torch.zeros(0, 4), torch.randn(2, 4)) for _ in range(3)]
        model = penlight.quantize(Cached(), batches, sensitivity=False, speed=False)
    assert all(layer.stored == "i8" for layer in model.report().layers)


class Log(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (torch.nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.c(self.b(torch.log(self.a(x).abs() * 0 + x)))


def test_a_batch_that_makes_a_value_nan() -> None:
    """Whichever it is: what came before it was finite."""
    good, bad = [torch.rand(1, 4) + 0.1 for _ in range(3)], torch.rand(1, 4) - 2
    for number in range(4):
        batches = [*good[:number], bad, *good[number:]]
        with pytest.raises(penlight.QuantizationError, match=f"batch {number} makes .* infinite or NaN.*keep="):
            penlight.quantize(Log(), batches, sensitivity=False, speed=False)
    kept = penlight.quantize(Log(), [*good, bad], sensitivity=False, speed=False, keep=["b", "c"])
    assert {layer.name for layer in kept.report().layers if layer.stored == "i8"} == {"a"}


def test_arrays_that_lie_backwards_or_cannot_be_written() -> None:
    backwards = [np.ascontiguousarray(x.numpy()[:, ::-1])[:, ::-1] for x in images(3)]
    assert backwards[0].strides[1] < 0
    x = images(1, seed=9)[0].numpy()
    np.testing.assert_array_equal(quantize(backwards)(x), quantize([x.numpy() for x in images(3)])(x))


def test_no_inputs_at_all() -> None:
    class Constant(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = torch.nn.Linear(4, 4)

        def forward(self) -> torch.Tensor:
            return self.a(torch.ones(1, 4))

    with pytest.raises(penlight.QuantizationError, match="nothing in this model can compute in integers"):
        penlight.quantize(Constant(), [()])


def test_one_image_is_a_warning() -> None:
    with pytest.warns(penlight.CalibrationWarning, match="one example only") as caught:
        quantize(images(1))
    assert {w.filename for w in caught if w.category is penlight.CalibrationWarning} == {__file__}


def test_a_blank_image_among_others_is_a_warning() -> None:
    with pytest.warns(penlight.CalibrationWarning, match="1 of 4 calibration batches are constant"):
        quantize([*images(3), torch.zeros(1, 3, 32, 32)])


def test_a_constant_input_beside_others_is_a_warning() -> None:
    """A mask of ones, say."""

    class Masked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return self.a(x * mask)

    with pytest.warns(penlight.CalibrationWarning, match="3 of 3 calibration batches are constant in input mask"):
        penlight.quantize(Masked(), [(torch.randn(2, 4), torch.ones(2, 4)) for _ in range(3)], speed=False)


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
        ({"keep": [0]}, "keep: expected names or patterns, which are text, got 0"),
        ({"keep": ["haed"]}, "keep: there is no layer 'haed'; expected names .*head"),
        ({"keep": ["*"]}, "leaves nothing to quantize"),
        ({"budget": -1}, "budget: expected a relative error above 0"),
        ({"budget": {"top5": 1}}, "budget: expected a relative error above 0"),
        ({"budget": {"top1": "all"}}, "budget: expected a relative error above 0"),
        ({"budget": True}, "budget: expected a relative error above 0"),
        ({"budget": 1e-12}, "budget=1e-12 cannot be met with any layer in integers"),
        ({"weights": "i4"}, "weights: expected one of i8, f16"),
        ({"weights": "i8", "keep": ["head"]}, "keep= is for layers that compute in integers"),
        ({"weights": "i8", "budget": 0.1}, "budget= is for layers that compute in integers"),
    ],
)
def test_wrong_options(options: Any, words: str) -> None:
    with pytest.raises(penlight.QuantizationError, match=words):
        quantize(images(2), **options)
