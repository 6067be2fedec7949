"""quantized::linear in all its forms: bit-equal to torch's qnnpack; a step beside fbgemm."""

from __future__ import annotations

import pytest
import torch

from tests.vm import check
from tests.vm.quantized import Packed, engine, pack, quantized, same, weight

SHAPES = [(1, 7, 5), (3, 16, 16), (9, 33, 17), (70, 128, 65), (1, 256, 200), (2, 1, 1), (8, 300, 3), (5, 1000, 31)]
ZEROS = [0, 100, 128, 255]


def parameters(
    outputs: int, inputs: int, axis: int | None, zero: int, bias: bool = True
) -> tuple[torch.Tensor, torch.Tensor | None]:
    return weight(outputs, inputs, axis=axis, zero=zero), torch.randn(outputs) * 3 if bias else None


def packed(made: tuple[torch.Tensor, torch.Tensor | None]) -> Packed:
    """Anew for every call: torch's qnnpack keeps the output scale of its first."""
    return pack("quantized::linear_prepack", *made)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("axis", [None, 0])
@pytest.mark.parametrize("weight_zero", [0, 5])
def test_linear(shape: tuple[int, int, int], axis: int | None, weight_zero: int) -> None:
    rows, inputs, outputs = shape
    torch.manual_seed(inputs)
    with engine("qnnpack"):
        made = parameters(outputs, inputs, axis, weight_zero)
        for zero in ZEROS:
            x = quantized(rows, inputs, zero=zero)
            same("quantized::linear", x, packed(made), 0.2 * inputs**0.5, zero)
            same("quantized::linear_relu", x, packed(made), 0.05, zero) if zero < 255 else None  # saturates
            same("quantized::linear_dynamic", x.dequantize() * 1.37, packed(made), False)
            same("quantized::linear_relu_dynamic", x.dequantize(), packed(made), False)


def test_shapes_and_layouts() -> None:
    with engine("qnnpack"):
        made = parameters(6, 8, 0, 0)
        for x in (
            quantized(2, 3, 8),
            quantized(8),
            quantized(8, 5).t(),
            quantized(0, 8),
            quantized(2, 2, 16)[..., ::2],
        ):
            if x.dim() > 1:  # torch refuses a vector
                same("quantized::linear", x, packed(made), 0.3, 10, layout=False)
                same("quantized::linear_dynamic", x.dequantize(), packed(made), layout=False)
        no_bias = parameters(6, 8, None, 3, bias=False)
        same("quantized::linear", quantized(3, 8), packed(no_bias), 0.3, 10)
        same("quantized::linear_dynamic", torch.randn(3, 8), packed(no_bias))


@pytest.mark.parametrize("scale", [1e-5, 3.0, 1e5])
def test_saturation(scale: float) -> None:
    """Results far above, at and far below a step. (Beyond 2^31 steps qnnpack saturates on ARM, as we do, and wraps on x86.)"""
    with engine("qnnpack"):
        made = weight(9, 20), torch.randn(9) * 100
        same("quantized::linear", quantized(4, 20), packed(made), scale, 77)


@pytest.mark.parametrize("name", ["linear", "linear_relu"])
def test_beside_fbgemm(name: str) -> None:
    """fbgemm keeps the bias real and rounds once less."""
    with engine("fbgemm"):
        for axis in (None, 0):
            made = parameters(17, 33, axis, 0)
            same(f"quantized::{name}", quantized(9, 33, spread=0.5), packed(made), 0.9, 12, steps=1)


@pytest.mark.parametrize("axis", [None, 0])
def test_reduce_range(axis: int | None) -> None:
    """7 bits, as fbgemm has it; qnnpack would use 8 all the same."""
    torch.manual_seed(0)
    with engine("fbgemm"):
        for rows, inputs, outputs in SHAPES:
            made = parameters(outputs, inputs, axis, 0)
            for flag in (False, True):
                x = torch.randn(rows, inputs) * 2 + 1
                same("quantized::linear_dynamic", x, packed(made), flag, tolerance=1e-6)
                same("quantized::linear_relu_dynamic", x, packed(made), flag, tolerance=1e-6)


def test_signed_input() -> None:
    """qint8 activations, which this torch's qnnpack refuses: against the definition."""
    torch.manual_seed(0)
    w, b = weight(11, 30, axis=0), torch.randn(11)
    x = quantized(6, 30, dtype=torch.qint8, zero=3)
    problem, held, _ = check.call("quantized::linear_prepack", [w, b], hold=True)
    got = check.run("quantized::linear", x, held[0], 0.31, -4)
    real = x.dequantize().double() @ w.dequantize().double().t() + b.double()
    expected = ((real / 0.31).round() - 4).clamp(-128, 127)
    assert problem is None
    assert got.dtype == torch.qint8
    assert (got.int_repr() - expected).abs().max() <= 1


def test_fp16() -> None:
    torch.manual_seed(0)
    w = torch.randn(9, 20) * 1000
    w[0, 0], w[1, 1], w[2, 2] = 1e6, -1e6, 1e-9  # beyond f16 on both ends
    with engine("fbgemm"):
        for bias in (torch.randn(9), None):
            p = pack("quantized::linear_prepack_fp16", w, bias)
            same("quantized::linear_unpack_fp16", p)
            same("quantized::linear_dynamic_fp16", torch.randn(2, 3, 20), p, tolerance=1e-6)
            same("quantized::linear_relu_dynamic_fp16", torch.randn(4, 20), p, tolerance=1e-6)


def test_unpack() -> None:
    with engine("qnnpack"):
        for axis in (None, 0):
            p = packed(parameters(5, 7, axis, 0))
            same("quantized::linear_unpack", p)


def test_weights_are_kept_and_replaced() -> None:
    """The packed form follows the weight: two calls, then another object."""
    with engine("qnnpack"):
        first, second = parameters(6, 8, 0, 0), parameters(6, 8, None, 4)
        x = quantized(3, 8)
        p = packed(first)
        for _ in range(3):
            same("quantized::linear", x, p, 0.3, 10)
        same("quantized::linear", x, packed(second), 0.3, 10)


def test_refused() -> None:
    p = pack("quantized::linear_prepack", *parameters(5, 7, None, 0)).ours
    cases = [
        ("quantized::linear", (quantized(2, 8), p, 0.1, 0), "last dim"),
        ("quantized::linear", (torch.ones(2, 7), p, 0.1, 0), "quantized tensor"),
        ("quantized::linear", (quantized(2, 7), p, 0.0, 0), "scale"),
        ("quantized::linear", (quantized(2, 7), p, 0.1, 256), "zero point"),
        ("quantized::linear", (quantized(2, 7), 3, 0.1, 0), "object"),
        ("quantized::linear_dynamic", (torch.full((2, 7), float("nan")), p), "NaN"),
        ("quantized::conv2d.new", (quantized(1, 1, 3, 3), p, 0.1, 0), "Conv2dPackedParamsBase"),
        ("quantized::linear_prepack", (torch.ones(2, 2), None), "qint8"),
        ("quantized::linear_prepack", (weight(2, 2, 2), None), "rank 2"),
    ]
    for name, args, words in cases:
        with pytest.raises(check.OperatorError, match=words):
            check.run(name, *args)
