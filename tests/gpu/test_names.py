"""Names that PyTorch's last Vulkan backend registered, and document 001's list: a model that calls one compiles to kernels that GPUs have.
In-place forms are the same operators to the capture, so one call stands for both."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import penlight
from penlight import _runtime
from penlight.file.reader import read
from tests.compare import assert_same
from tests.gpu.conftest import device_of
from tests.ops.recording import Call

X, Y, M, V = torch.rand(2, 4, 6, 8) + 0.5, torch.rand(2, 4, 6, 8) + 0.5, torch.rand(4, 6), torch.rand(6)
W, LINE = torch.rand(8, 4, 3, 3), torch.rand(2, 4, 9)
SEQUENCE = torch.rand(2, 5, 6)
GRU, LSTM = torch.nn.GRU(6, 7, batch_first=True), torch.nn.LSTM(6, 7, batch_first=True)

CALLS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "_adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 2), (X,)),
    "_local_scalar_dense": (lambda x: x * x[0, 0, 0, 0].item(), (X,)),
    "_log_softmax": (lambda x: F.log_softmax(x, 1), (X,)),
    "_reshape_alias view reshape": (lambda x: (x * 2).reshape(2, -1), (X,)),
    "_softmax": (lambda x: F.softmax(x, 1), (X,)),
    "abs abs_": (lambda x: x.abs(), (X,)),
    "add.Scalar add_.Scalar": (lambda x: x + 2, (X,)),
    "add.Tensor add_.Tensor": (lambda x, y: x + y, (X, Y)),
    "addmm": (lambda b, x, y: torch.addmm(b, x, y, beta=2, alpha=3), (torch.rand(4), M, M.T.contiguous())),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), (X,)),
    "baddbmm": (lambda b, x: torch.baddbmm(b, x, x.mT), (torch.rand(2, 5, 5), SEQUENCE)),
    "batch_norm create_batchnorm_context run_batchnorm_context": (lambda x: F.batch_norm(x, V[:4], V[:4] + 1), (X,)),
    "bmm": (lambda x: torch.bmm(x, x.mT), (SEQUENCE,)),
    "cat _cat": (lambda x, y: torch.cat([x, y], 1), (X, Y)),
    "clamp clamp_": (lambda x: x.clamp(0.7, 1), (X,)),
    "clone": (lambda x: x.clone(), (X,)),
    "conv1d create_conv1d_context run_conv1d_context": (lambda x: F.conv1d(x, W[:, :, 0]), (LINE,)),
    "convolution_overrideable convolution create_conv2d_context run_conv2d_context conv2d_clamp_prepack conv2d_clamp_run": (lambda x: F.conv2d(x, W), (X,)),
    "create_tconv2d_context run_tconv2d_context": (lambda x: F.conv_transpose2d(x, W.transpose(0, 1), stride=2), (X,)),
    "cumsum": (lambda x: x.cumsum(1), (X,)),
    "div.Scalar div_.Scalar": (lambda x: x / 3, (X,)),
    "div.Tensor div_.Tensor": (lambda x, y: x / y, (X, Y)),
    "empty.memory_format empty_strided zeros zero_": (lambda x: torch.zeros_like(x), (X,)),
    "exp exp_": (lambda x: x.exp(), (X,)),
    "expand expand_as": (lambda x: x[:, :1].expand(2, 4, 6, 8) * 2, (X,)),
    "flip": (lambda x: x.flip(1, 3), (X,)),
    "floor_divide floor_divide_.Tensor": (lambda x, y: x // y, (X * 9, Y)),
    "floor_divide.Scalar floor_divide_.Scalar": (lambda x: x // 0.3, (X,)),
    "gelu gelu_": (lambda x: F.gelu(x), (X,)),
    "glu": (lambda x: F.glu(x, 1), (X,)),
    "gru.input create_gru_context run_gru_context": (lambda x: GRU(x)[0], (SEQUENCE,)),
    "hardshrink hardshrink_": (lambda x: F.hardshrink(x, 0.7), (X,)),
    "hardsigmoid hardsigmoid_": (lambda x: F.hardsigmoid(x), (X,)),
    "hardswish hardswish_": (lambda x: F.hardswish(x), (X,)),
    "hardtanh hardtanh_": (lambda x: F.hardtanh(x), (X,)),
    "layer_norm native_layer_norm create_layernorm_context run_layernorm_context": (lambda x: F.layer_norm(x, (8,)), (X,)),
    "leaky_relu leaky_relu_": (lambda x: F.leaky_relu(x - 1), (X,)),
    "lerp.Scalar lerp_.Scalar": (lambda x, y: x.lerp(y, 0.3), (X, Y)),
    "lerp.Tensor lerp_.Tensor": (lambda x, y: x.lerp(y, y * 0.5), (X, Y)),
    "create_linear_context run_linear_context": (lambda x: F.linear(x, M), (SEQUENCE,)),
    "log log_": (lambda x: x.log(), (X,)),
    "lstm.input create_lstm_context run_lstm_context": (lambda x: LSTM(x)[0], (SEQUENCE,)),
    "masked_fill.Scalar": (lambda x: x.masked_fill(x > 1, 3.0), (X,)),
    "masked_fill.Tensor": (lambda x, y: x.masked_fill(x > 1, y[0, 0, 0, 0]), (X, Y)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), (X,)),
    "mean.dim": (lambda x: x.mean((2, 3)), (X,)),
    "mm": (lambda x, y: x @ y, (M, M.T.contiguous())),
    "mul.Scalar mul_.Scalar": (lambda x: x * 3, (X,)),
    "mul.Tensor mul_.Tensor": (lambda x, y: x * y, (X, Y)),
    "normal_ randn_like": (lambda x: torch.randn_like(x) * 0, (X,)),
    "permute t transpose.int transpose_": (lambda x: x.permute(0, 2, 3, 1) * 2, (X,)),
    "pow.Scalar": (lambda x: 2**x, (X,)),
    "pow.Tensor_Scalar pow_.Scalar": (lambda x: x**1.5, (X,)),
    "pow.Tensor_Tensor pow_.Tensor": (lambda x, y: x**y, (X, Y)),
    "reflection_pad2d": (lambda x: F.pad(x, (1, 2, 2, 1), "reflect"), (X,)),
    "relu relu_": (lambda x: F.relu(x - 1), (X,)),
    "repeat tile": (lambda x: x.repeat(1, 2, 1, 3), (X,)),
    "replication_pad2d": (lambda x: F.pad(x, (1, 2, 2, 1), "replicate"), (X,)),
    "select.int": (lambda x: x[:, 1] * 2, (X,)),
    "sigmoid sigmoid_": (lambda x: x.sigmoid(), (X,)),
    "slice.Tensor": (lambda x: x[:, :, 1:5:2] * 2, (X,)),
    "sqrt sqrt_": (lambda x: x.sqrt(), (X,)),
    "stack": (lambda x, y: torch.stack([x, y], 1), (X, Y)),
    "sub.Scalar sub_.Scalar": (lambda x: x - 3, (X,)),
    "sub.Tensor sub_.Tensor": (lambda x, y: x - y, (X, Y)),
    "sum": (lambda x: x.sum(), (X,)),
    "sum.dim_IntList": (lambda x: x.sum((1, 3), keepdim=True), (X,)),
    "tanh tanh_": (lambda x: x.tanh(), (X,)),
    "threshold": (lambda x: F.threshold(x, 1.0, 0.2), (X,)),
    "uniform_ rand_like": (lambda x: torch.rand_like(x) * 0, (X,)),
    "unsqueeze": (lambda x: x.unsqueeze(1) * 2, (X,)),
    "upsample_bilinear2d": (lambda x: F.interpolate(x, size=(9, 5), mode="bilinear"), (X,)),
    "upsample_nearest2d": (lambda x: F.interpolate(x, scale_factor=2), (X,)),
    "var.dim": (lambda x: x.var((2, 3)), (X,)),
}  # fmt: skip
# They follow the int8 kernels.
QUANTIZED = """
_empty_affine_quantized dequantize.self q_scale q_zero_point quantize_per_tensor quantize_per_tensor.tensor_qparams
create_qconv2d_context create_qtconv2d_context run_qconv2d_context run_qlinear_context
vulkan_quantized::add vulkan_quantized::sub vulkan_quantized::mul vulkan_quantized::div
"""

# As registered in PyTorch's last version of the backend.
REGISTERED = """
_log_softmax _softmax _adaptive_avg_pool2d _empty_affine_quantized _local_scalar_dense _reshape_alias abs abs_ add.Scalar add.Tensor
add_.Scalar add_.Tensor addmm avg_pool2d baddbmm batch_norm bmm cat clamp clamp_ clone conv1d cumsum dequantize.self div.Scalar div.Tensor
div_.Scalar div_.Tensor empty.memory_format empty_strided exp exp_ expand expand_as flip floor_divide floor_divide.Scalar
floor_divide_.Scalar floor_divide_.Tensor gelu gelu_ glu gru.input hardshrink hardshrink_ hardsigmoid hardsigmoid_ hardswish hardswish_
hardtanh hardtanh_ layer_norm leaky_relu leaky_relu_ lerp.Scalar lerp.Tensor lerp_.Scalar lerp_.Tensor log log_ lstm.input
masked_fill.Scalar masked_fill.Tensor max_pool2d mean.dim mm mul.Scalar mul.Tensor mul_.Scalar mul_.Tensor native_layer_norm normal_
permute pow.Scalar pow.Tensor_Scalar pow.Tensor_Tensor pow_.Scalar pow_.Tensor q_scale q_zero_point quantize_per_tensor
quantize_per_tensor.tensor_qparams rand_like randn_like reflection_pad2d relu relu_ repeat replication_pad2d select.int sigmoid sigmoid_
slice.Tensor sqrt sqrt_ stack sub.Scalar sub.Tensor sub_.Scalar sub_.Tensor sum sum.dim_IntList t tanh tanh_ threshold tile transpose.int
uniform_ unsqueeze upsample_bilinear2d upsample_nearest2d var.dim view zero_ zeros convolution_overrideable
create_conv2d_context run_conv2d_context conv2d_clamp_prepack conv2d_clamp_run create_tconv2d_context run_tconv2d_context
create_qconv2d_context create_qtconv2d_context run_qconv2d_context create_conv1d_context run_conv1d_context create_linear_context
run_linear_context run_qlinear_context create_layernorm_context run_layernorm_context create_gru_context run_gru_context
create_lstm_context run_lstm_context create_batchnorm_context run_batchnorm_context
vulkan_quantized::add vulkan_quantized::sub vulkan_quantized::mul vulkan_quantized::div
"""
# As document 001 lists them.
LISTED = """
_adaptive_avg_pool2d _cat add.Scalar add.Tensor add_.Tensor addmm avg_pool2d clamp convolution empty.memory_format empty_strided hardtanh_
max_pool2d mean.dim mm mul.Scalar relu_ reshape select.int slice.Tensor transpose.int transpose_ unsqueeze upsample_nearest2d view
"""


@functools.cache
def _has() -> set[str]:
    return set(_runtime.backend_keys("vulkan"))


@pytest.mark.parametrize("names", CALLS)
def test_name(names: str, tmp_path: Path) -> None:
    device = device_of("lavapipe")
    fn, inputs = CALLS[names]
    file = tmp_path / "model.pen"
    with torch.no_grad():
        penlight.optimize(Call(fn).eval(), inputs).save(file)
        expected = fn(*inputs)
    missing = sorted(set(read(file.read_bytes()).keys) - _has())
    assert not missing, f"no GPU has {', '.join(missing)}"
    assert_same(penlight.load(file, device=device)(*inputs), expected, 1e-4, names)


def test_all_names() -> None:
    called = {name for names in (*CALLS, QUANTIZED) for name in names.split()}
    assert len(REGISTERED.split()) == 143
    assert len(LISTED.split()) == 25
    assert set(REGISTERED.split()) | set(LISTED.split()) == called
