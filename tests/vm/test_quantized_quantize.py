"""Real numbers to quantized tensors and back: bits as torch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.vm.check import OperatorError, run
from tests.vm.quantized import engine, quantized, same, weight

CODES = {torch.qint8: 12, torch.quint8: 13, torch.qint32: 14}
ZEROS = {torch.quint8: (0, 1, 100, 128, 255), torch.qint8: (-128, -5, 0, 3, 127), torch.qint32: (0, -7, 100000)}
CASES = [(dtype, zero) for dtype, zeros in ZEROS.items() for zero in zeros]


@pytest.mark.parametrize(("dtype", "zero"), CASES)
@pytest.mark.parametrize("scale", [1.0, 0.0173, 1e-6, 4321.0])
def test_quantize_per_tensor(dtype: torch.dtype, zero: int, scale: float) -> None:
    torch.manual_seed(0)
    real = torch.cat(
        [torch.randn(1000) * 90 * scale, torch.arange(-300, 300) * 0.5 * scale]
    )  # ties, and beyond the levels
    real = torch.cat([real, torch.tensor([0.0, -0.0, float("inf"), -float("inf"), 1e30, -1e30])])
    same("aten::quantize_per_tensor", real, scale, zero, CODES[dtype])
    scales, zeros = torch.tensor(scale), torch.tensor(zero)
    same("aten::quantize_per_tensor.tensor_qparams", real, scales, zeros, CODES[dtype])
    same("aten::quantize_per_tensor.tensors", [real, real[:7]], scales.repeat(2), zeros.repeat(2), CODES[dtype])


@pytest.mark.parametrize("dtype", [torch.quint8, torch.qint8, torch.qint32])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_quantize_per_channel(dtype: torch.dtype, axis: int) -> None:
    torch.manual_seed(1)
    real = torch.randn(3, 5, 4) * 40
    count = real.shape[axis]
    zeros = torch.tensor(ZEROS[dtype][:count]) if count <= 3 else torch.tensor((ZEROS[dtype] * 2)[:count])
    scales = torch.rand(count, dtype=torch.float64) + 0.01
    made = same("aten::quantize_per_channel", real, scales, zeros, axis % 3, CODES[dtype], layout=False)
    for name in (
        "int_repr",
        "dequantize.self",
        "q_per_channel_axis",
        "q_per_channel_scales",
        "q_per_channel_zero_points",
    ):
        same(f"aten::{name}", made)
    same("aten::_make_per_channel_quantized_tensor", made.int_repr(), scales, zeros, axis % 3)


def layouts() -> list[torch.Tensor]:
    made = quantized(2, 3, 4, 5)
    return [
        made,
        made.contiguous(memory_format=torch.channels_last),
        made.permute(3, 1, 0, 2),
        made[:, 1:, ::2],
        quantized(0, 3),
    ]


@pytest.mark.parametrize("index", range(5))
def test_dequantize_any_layout(index: int) -> None:
    x = layouts()[index]
    dense = index in (0, 1, 4)
    for name in ("aten::dequantize.self", "aten::dequantize.tensor", "aten::int_repr"):
        same(name, x, layout=dense)
    same("aten::dequantize.tensors", [x, x], layout=dense)
    same("aten::dequantize.list", [x], layout=dense)
    assert run("aten::q_scale", x) == x.q_scale()
    assert run("aten::q_zero_point", x) == x.q_zero_point()
    assert run("aten::qscheme", x) == 0
    assert run("aten::qscheme", weight(3, 4, axis=0)) == 1


@pytest.mark.parametrize("dtype", [torch.quint8, torch.qint8, torch.qint32])
def test_dequantize_dtypes(dtype: torch.dtype) -> None:
    for zero in ZEROS[dtype]:
        same("aten::dequantize.self", quantized(300, dtype=dtype, zero=zero, scale=0.0371))


def test_dequantize_other_values() -> None:
    x = quantized(2, 2)
    tuple_made = run("aten::dequantize.any", (x, x))
    assert isinstance(tuple_made, tuple)
    assert all(torch.equal(t, x.dequantize()) for t in tuple_made)
    assert torch.equal(run("aten::dequantize.any", [x])[0], x.dequantize())
    assert torch.equal(run("aten::dequantize.any", x), x.dequantize())
    same("aten::dequantize.self", torch.ones(3, dtype=torch.float64))


RANGES = [torch.randn(100), torch.rand(50) + 1, -torch.rand(50) - 1, torch.zeros(4), torch.rand(9) * 1e-6, torch.randn(9) * 1e-9,
          torch.randn(7) * 1e30, torch.tensor([1e-40, -1e-40]), torch.tensor([-3.0, 255.0]), torch.tensor([0.0, 254.5])]  # fmt: skip


@pytest.mark.parametrize("real", RANGES)
def test_dynamic(real: torch.Tensor) -> None:
    with engine("qnnpack"):
        same("aten::quantize_per_tensor_dynamic", real, 13, False)
        same("aten::quantize_per_tensor_dynamic", real, 12, False)
        same("aten::_choose_qparams_per_tensor", real, False)
    with engine("fbgemm"):  # which leaves a bit unused where asked to; qnnpack does not
        same("aten::quantize_per_tensor_dynamic", real, 13, True)
        same("aten::quantize_per_tensor_dynamic", real, 12, True)
        same("aten::_choose_qparams_per_tensor", real, True)


def test_make_and_empty() -> None:
    same("aten::_make_per_tensor_quantized_tensor", torch.arange(200, dtype=torch.uint8).reshape(10, 20), 0.3, 7)
    same("aten::_make_per_tensor_quantized_tensor", torch.arange(-5, 5, dtype=torch.int8), 0.3, -7)
    made = run("aten::_empty_affine_quantized", [2, 3], 13, None, None, None, 0.25, 9, 0)
    assert made.shape == (2, 3)
    assert made.q_scale() == 0.25
    assert made.q_zero_point() == 9


def test_fake_quantize() -> None:
    real = torch.randn(3, 4, 5) * 10
    for levels in ((0, 255, 3), (-128, 127, -4), (0, 15, 15)):
        low, high, zero = levels
        same("aten::fake_quantize_per_tensor_affine", real, 0.05, zero, low, high)
        same("aten::fake_quantize_per_tensor_affine_cachemask", real, 0.05, zero, low, high)
        qparams: tuple[Any, ...] = (torch.rand(4) + 0.01, torch.full((4,), zero, dtype=torch.int32))
        same("aten::fake_quantize_per_channel_affine", real, *qparams, 1, low, high)
        same("aten::fake_quantize_per_channel_affine_cachemask", real, *qparams, 1, low, high)
    same(
        "aten::fake_quantize_per_tensor_affine.tensor_qparams",
        real,
        torch.tensor([0.1]),
        torch.tensor([3], dtype=torch.int32),
        0,
        255,
    )


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("aten::quantize_per_tensor", (torch.ones(2), 0.1, 300, 13), "zero point"),
        ("aten::quantize_per_tensor", (torch.ones(2), 0.1, -1, 13), "zero point"),
        ("aten::quantize_per_tensor", (torch.ones(2, dtype=torch.float64), 0.1, 0, 13), "Float"),
        ("aten::quantize_per_tensor", (torch.ones(2), 0.1, 0, 16), "quint8, qint8 or qint32"),
        ("aten::quantize_per_tensor_dynamic", (torch.tensor([1.0, float("nan")]), 13, False), "numbers"),
        ("aten::quantize_per_channel", (torch.ones(2, 3), torch.ones(2), torch.zeros(3).long(), 1, 12), "each channel"),
        ("aten::quantize_per_channel", (torch.ones(2, 3), torch.ones(3), torch.zeros(3).long(), 5, 12), "dim"),
        ("aten::q_scale", (torch.ones(2),), "quantized tensor"),
        ("aten::q_scale", (weight(3, 4, axis=0),), "one scale"),
        ("aten::q_per_channel_axis", (quantized(2),), "each channel"),
        ("aten::_empty_affine_quantized", ([-1], 13), "0 or more"),
        ("aten::_empty_affine_quantized", ([1 << 40, 1 << 40], 13), "memory"),
        ("aten::tanh", (weight(3, 4, axis=0),), "one scale"),
        ("aten::exp", (quantized(3),), "not quantized"),
    ],
)
def test_refused(name: str, args: tuple[Any, ...], words: str) -> None:
    with pytest.raises(OperatorError, match=words):
        run(name, *args)
