"""Quantized convolutions: bit-equal to torch's qnnpack."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.vm import check
from tests.vm.quantized import Packed, engine, pack, quantized, same, weight

# batch, channels, height, width, outputs, kernel, stride, padding, dilation, groups
CONV2D = {
    "first": (1, 3, 9, 10, 8, (3, 3), (2, 2), (1, 1), (1, 1), 1),
    "pointwise": (1, 33, 5, 5, 17, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    "pointwise strided": (3, 8, 5, 5, 16, (1, 1), (2, 2), (0, 0), (1, 1), 1),
    "depthwise": (2, 19, 8, 8, 19, (3, 3), (1, 1), (1, 1), (1, 1), 19),
    "depthwise 5x5 strided": (1, 72, 7, 9, 72, (5, 5), (2, 2), (2, 2), (1, 1), 72),
    "depthwise dilated": (1, 40, 11, 9, 40, (3, 3), (1, 1), (2, 2), (2, 2), 40),
    "depthwise doubled": (1, 6, 6, 6, 12, (3, 3), (1, 1), (1, 1), (1, 1), 6),
    "grouped": (2, 12, 7, 9, 24, (3, 2), (1, 1), (1, 1), (2, 1), 4),
    "odd": (2, 5, 7, 6, 13, (2, 3), (1, 2), (0, 1), (1, 1), 1),
    "padding larger than the map": (1, 4, 1, 2, 6, (3, 3), (1, 1), (2, 2), (1, 1), 1),
    "many pixels": (1, 16, 20, 21, 20, (3, 3), (1, 1), (1, 1), (1, 1), 1),
}


def packed(case: tuple[Any, ...], axis: int | None, zero: int, bias: bool = True) -> Packed:
    _, channels, _, _, outputs, kernel, stride, padding, dilation, groups = case
    w = weight(outputs, channels // groups, *kernel, axis=axis, zero=zero)
    b = torch.randn(outputs) * 3 if bias else None
    return pack("quantized::conv2d_prepack", w, b, list(stride), list(padding), list(dilation), groups)


@pytest.mark.parametrize("name", CONV2D)
@pytest.mark.parametrize("axis", [None, 0])
@pytest.mark.parametrize("weight_zero", [0, 5])
def test_conv2d(name: str, axis: int | None, weight_zero: int) -> None:
    case = CONV2D[name]
    torch.manual_seed(len(name))
    with engine("qnnpack"):
        for zero in (0, 100, 255):
            p = packed(case, axis, weight_zero, bias=zero != 0)
            x = quantized(*case[:4], zero=zero)
            same("quantized::conv2d.new", x, p, 0.9, 120)
            x = x.contiguous(memory_format=torch.channels_last)
            same("quantized::conv2d_relu.new", x, p, 0.9, 120)


def test_old_schema_and_strided_input() -> None:
    with engine("qnnpack"):
        case = CONV2D["odd"]
        p = packed(case, 0, 0)
        x = quantized(2, 10, 7, 12)[:, ::2, :, ::2]
        numbers = ([1, 2], [0, 1], [1, 1], 1)
        same("quantized::conv2d", x, p, *numbers, 0.9, 120)
        same("quantized::conv2d_relu", x, p, *numbers, 0.9, 120)
        same("quantized::conv2d.new", quantized(0, 5, 7, 6), p, 0.9, 120)
        for question in ("stride", "padding", "dilation", "output_padding", "groups", "transpose", "unpack"):
            same(f"quantized::conv2d_{question}", p, layout=False)


@pytest.mark.parametrize("scale", [1e-6, 1e4])
def test_saturation(scale: float) -> None:
    with engine("qnnpack"):
        for name in ("first", "depthwise"):
            same("quantized::conv2d.new", quantized(*CONV2D[name][:4]), packed(CONV2D[name], None, 0), scale, 120)


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_conv1d(groups: int) -> None:
    torch.manual_seed(groups)
    with engine("qnnpack"):
        p = pack(
            "quantized::conv1d_prepack", weight(12, 6 // groups, 3, axis=0), torch.randn(12), [2], [1], [1], groups
        )
        for x in (quantized(2, 6, 11), quantized(2, 11, 6).transpose(1, 2)):
            same("quantized::conv1d", x, p, 0.5, 90, layout=False)
            same("quantized::conv1d_relu", x, p, 0.5, 90, layout=False)
        same("quantized::conv1d_unpack", p, layout=False)


@pytest.mark.parametrize(("groups", "axis"), [(1, None), (2, None), (1, 1)])
def test_conv_transpose(groups: int, axis: int | None) -> None:
    torch.manual_seed(groups)
    with engine("qnnpack"):
        w = weight(4, 6 // groups, 3, 2, axis=axis)
        p = pack("quantized::conv_transpose2d_prepack", w, torch.randn(6), [2, 1], [1, 0], [1, 0], [1, 2], groups)
        same("quantized::conv_transpose2d", quantized(2, 4, 5, 6), p, 0.6, 130)
        w = weight(4, 6 // groups, 3, axis=axis)
        p = pack("quantized::conv_transpose1d_prepack", w, torch.randn(6), [2], [1], [1], [1], groups)
        same("quantized::conv_transpose1d", quantized(2, 4, 9), p, 0.6, 130, layout=False)


@pytest.mark.parametrize(("groups", "zero"), [(4, 0), (4, 5), (1, -7), (2, 5)])
def test_conv_transpose_of_groups_and_zero_points(groups: int, zero: int) -> None:
    """Every channel for itself, and weights that are not around 0; padding may be more than the kernel reaches."""
    torch.manual_seed(groups)
    with engine("qnnpack"):
        for kernel, padding in (((3, 2), [1, 0]), ((1, 1), [1, 1])):
            w = weight(4, 8 // groups, *kernel, zero=zero)
            p = pack("quantized::conv_transpose2d_prepack", w, torch.randn(8), [2, 1], padding, [1, 0], [1, 2], groups)
            same("quantized::conv_transpose2d", quantized(2, 4, 5, 6), p, 0.6, 130)


def test_conv3d() -> None:
    """torch's qnnpack has none but fbgemm does: a step apart at most."""
    torch.manual_seed(0)
    with engine("fbgemm"):
        for groups in (1, 2):
            p = pack(
                "quantized::conv3d_prepack",
                weight(6, 4 // groups, 2, 3, 2, axis=0),
                torch.randn(6),
                [1, 2, 1],
                [1, 1, 0],
                [1, 1, 1],
                groups,
            )
            x = quantized(2, 4, 5, 6, 4, spread=0.4)
            same("quantized::conv3d.new", x, p, 0.6, 30, steps=1, layout=False)
            same("quantized::conv3d_relu.new", x, p, 0.6, 30, steps=1, layout=False)


@pytest.mark.parametrize("name", ["first", "depthwise", "grouped", "pointwise"])
def test_beside_fbgemm(name: str) -> None:
    with engine("fbgemm"):
        same(
            "quantized::conv2d.new",
            quantized(*CONV2D[name][:4], spread=0.4),
            packed(CONV2D[name], 0, 0),
            0.9,
            60,
            steps=1,
            layout=False,
        )


@pytest.mark.parametrize("name", ["first", "depthwise", "grouped"])
def test_signed_input(name: str) -> None:
    """qint8 activations: against the definition."""
    batch, channels, height, width, outputs, kernel, stride, padding, dilation, groups = CONV2D[name]
    torch.manual_seed(0)
    w = weight(outputs, channels // groups, *kernel, axis=0)
    args = [w, None, list(stride), list(padding), list(dilation), groups]
    _, held, _ = check.call("quantized::conv2d_prepack", args, hold=True)
    x = quantized(batch, channels, height, width, dtype=torch.qint8, zero=-9)
    got = check.run("quantized::conv2d.new", x, held[0], 0.7, 5)
    real = torch.nn.functional.conv2d(
        x.dequantize().double(), w.dequantize().double(), None, stride, padding, dilation, groups
    )
    expected = ((real / 0.7).round() + 5).clamp(-128, 127)
    assert (got.int_repr() - expected).abs().max() <= 1


def test_refused() -> None:
    def prepack(*args: Any) -> Any:
        problem, held, _ = check.call("quantized::conv2d_prepack", args, hold=True)
        assert problem is None, problem["message"]
        return held[0]

    w = weight(4, 2, 3, 3)
    cases = [
        (quantized(1, 3, 5, 5), ([1, 1], [0, 0], [1, 1], 1), "channels"),
        (quantized(1, 2, 2, 2), ([1, 1], [0, 0], [1, 1], 1), "as large as the kernel"),
        (quantized(1, 2, 5, 5), ([0, 1], [0, 0], [1, 1], 1), "make sense"),
        (quantized(1, 2, 5, 5), ([1, 1], [0, 0], [1 << 40, 1], 1), "make sense"),
        (quantized(1, 2, 5, 5), ([1, 1], [-3, 0], [1, 1], 1), "make sense"),
        (quantized(1, 2, 5, 5), ([1, 1], [0, 0], [1, 1], 0), "group"),
        (quantized(1, 2, 5, 5), ([1, 1], [0, 0], [1, 1], 1 << 40), "group"),
        (quantized(2, 5, 5), ([1, 1], [0, 0], [1, 1], 1), "rank"),
    ]
    for x, numbers, words in cases:
        with pytest.raises(check.OperatorError, match=words):
            check.run("quantized::conv2d.new", x, prepack(w, None, *numbers), 0.1, 0)
    with pytest.raises(check.OperatorError, match="one for each output"):
        check.run(
            "quantized::conv2d.new", quantized(1, 2, 5, 5), prepack(w, torch.ones(3), [1, 1], [0, 0], [1, 1], 1), 0.1, 0
        )
