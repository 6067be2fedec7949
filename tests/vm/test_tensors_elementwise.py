"""Elementwise operators of the VM beside torch's: every dtype, odd layouts, special values, promotion, in-place and out= forms."""

from __future__ import annotations

import pytest
import torch

from tests.vm.samples import EVERY, same_as_torch, tensors, values

FLOAT_FUNCTIONS = ["exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erfinv", "sigmoid", "lgamma", "digamma", "sinc", "reciprocal", "i0", "rad2deg", "deg2rad", "logit"]  # fmt: skip
SAME_FUNCTIONS = ["neg", "abs", "sign", "sgn", "square", "positive", "floor", "ceil", "trunc", "round", "frac", "relu", "relu6", "hardtanh", "nan_to_num", "bitwise_not"]
TESTS = ["isnan", "isinf", "isfinite", "isposinf", "isneginf", "signbit", "logical_not"]
ACTIVATIONS = ["hardswish", "hardsigmoid", "silu", "mish", "log_sigmoid", "gelu", "leaky_relu", "elu", "selu", "celu", "softplus", "hardshrink", "softshrink", "rrelu"]


@pytest.mark.parametrize("name", FLOAT_FUNCTIONS + SAME_FUNCTIONS + TESTS + ACTIVATIONS)
def test_unary(name: str) -> None:
    taken = 0
    for dtype in EVERY:
        for x in tensors(dtype):
            if name in ("i0", "gelu") and x.is_floating_point():
                x = x.nan_to_num(0.5, 1.5, -1.5)  # torch's have NaN at infinity
            taken += same_as_torch(f"aten::{name}", x, tolerance=1e-5 if name == "i0" and x.dtype == torch.float32 else None)
    assert taken


BINARY = [f"{n}.Tensor" for n in ["add", "sub", "mul", "div", "true_divide", "rsub", "remainder", "fmod", "eq", "ne", "lt", "le", "gt", "ge"]]
BINARY += ["floor_divide", "maximum", "minimum", "max.other", "min.other", "fmax", "fmin", "atan2", "hypot", "logaddexp", "xlogy.Tensor", "copysign.Tensor"]
BINARY += ["logical_and", "logical_or", "logical_xor", "bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor", "__and__.Tensor"]
BINARY += ["__or__.Tensor", "__xor__.Tensor", "pow.Tensor_Tensor", "bitwise_left_shift.Tensor", "bitwise_right_shift.Tensor", "gcd", "lcm"]
PAIRS = [(torch.float32, torch.float32), (torch.float32, torch.int64), (torch.int64, torch.int64), (torch.int32, torch.uint8),
         (torch.bool, torch.bool), (torch.float16, torch.float16), (torch.float64, torch.float32), (torch.bfloat16, torch.float16),
         (torch.uint8, torch.int8), (torch.int16, torch.bool), (torch.float16, torch.int32), (torch.float64, torch.float64)]  # fmt: skip


def pairs(a: torch.dtype, b: torch.dtype) -> list[tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(2)
    x, y = (torch.randn(3, 5, 7) * 4).to(a), (torch.rand(3, 5, 7) * 4 + 1).to(b)
    return [(x, y), (x.permute(2, 0, 1), y.permute(2, 0, 1)), (x, y[0, 0]), (x[:, :, :1], y[:1]), (x[0, 0, 0], y), (x[:, :0], y[:, :0]),
            (x.transpose(0, 1), y[0, 0, 0])]  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    taken = 0
    for a, b in PAIRS:
        for x, y in pairs(a, b):
            result = torch.promote_types(a, b)
            exact = name.split(".")[0] in ("add", "sub", "mul", "div", "maximum", "minimum") and result in (torch.float32, torch.float64)
            taken += same_as_torch(f"aten::{name}", x, y, tolerance=0.0 if exact else None, layout=True)
    assert taken


SCALARS = ["add", "sub", "mul", "div", "true_divide", "rsub", "floor_divide", "remainder", "fmod", "eq", "ne", "lt", "le", "gt", "ge", "bitwise_and", "__and__", "__or__"]


@pytest.mark.parametrize("name", [f"{n}.Scalar" for n in SCALARS] + ["pow.Tensor_Scalar", "copysign.Scalar"])
def test_numbers(name: str) -> None:
    for dtype in EVERY:
        for number in (2, 2.5, -3, True, 0.1, 1):
            for x in (values(dtype), tensors(dtype)[1]):
                same_as_torch(f"aten::{name}", x, number, layout=True)
