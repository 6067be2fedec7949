"""Models in double precision, planned and interpreted: digits that f32 does not have, through weights, attributes and kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import penlight
from tests.vm.check import check, run

torch.manual_seed(3)
X = torch.randn(2, 6, 11, 9).double()
V = torch.randn(2, 4, 5, 6, 7).double()
S = torch.tensor(
    [
        [3.0, math.nan, -0.0, 0.0, math.inf, 3.0, -math.inf, 1e-310],
        [1 + 1e-15, 1.0, 1 - 1e-15, 2.0, 2.0, -5.0, 7.0, math.nan],
    ]
).double()
LAYERS: dict[str, tuple[nn.Module, torch.Tensor]] = {
    "conv, batch norm, residual": (
        nn.Sequential(nn.Conv2d(6, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU6(), nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.SiLU()),
        X,
    ),
    "grouped conv, dilation": (nn.Conv2d(6, 9, (2, 3), (2, 1), (3, 2), (1, 2), groups=3), X.transpose(2, 3)),
    "conv1d": (nn.Conv1d(6, 5, 4, 2, 3), X[:, :, 0]),
    "conv3d": (nn.Conv3d(4, 5, 3, (1, 2, 1), 1), V),
    "transposed": (nn.ConvTranspose2d(6, 4, 3, 2, 1, 1, groups=2), X),
    "transposed 3d": (nn.ConvTranspose3d(4, 3, 2, (2, 1, 3)), V),
    "max_pool": (nn.MaxPool2d(3, 2, 1, ceil_mode=True), X),
    "avg_pool": (nn.AvgPool3d(3, 2, 1, count_include_pad=False), V),
    "adaptive": (nn.Sequential(nn.AdaptiveMaxPool2d((7, 4)), nn.AdaptiveAvgPool2d((3, 5))), X),
    "norms": (nn.Sequential(nn.LayerNorm((11, 9)), nn.GroupNorm(3, 6), nn.InstanceNorm2d(6, affine=True), nn.RMSNorm(9)), X),
    "linear, softmax": (nn.Sequential(nn.Linear(9, 7), nn.Softmax(1), nn.LogSoftmax(-1)), X),
}  # fmt: skip
CALLS: dict[str, Callable[[torch.Tensor], Any]] = {
    "bilinear": lambda x: F.interpolate(x, size=(5, 23), mode="bilinear"),
    "bilinear, corners": lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear", align_corners=True),
    "bicubic": lambda x: F.interpolate(x, scale_factor=(0.6, 2.3), mode="bicubic"),
    "smooth": lambda x: [F.interpolate(x, size=(4, 5), mode=m, antialias=True) for m in ("bilinear", "bicubic")],
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
    "elu": lambda x: [F.elu(x, 0.3), F.celu(x, 0.7), F.selu(x)],
    "softplus": lambda x: F.softplus(x, 0.7, 1.1),
    "clamp": lambda x: [x.clamp(-0.1, 0.7), F.hardtanh(x, -0.3, 0.1), x.clamp(min=0.1)],
    "threshold": lambda x: F.threshold(x, 0.1, 0.3),
    "shrink": lambda x: [F.hardshrink(x, 0.1), F.softshrink(x, 0.1)],
    "nan_to_num": lambda x: torch.nan_to_num((x.round() / x.round()).log(), 0.1, neginf=0.3),
    "addcmul": lambda x: [torch.addcmul(x, x, x[:1], value=0.1), torch.addcdiv(x, x, x + 9, value=0.3)],
    "prelu": lambda x: F.prelu(x, torch.linspace(0.1, 0.7, x.shape[1]).double()),
    "moments": lambda x: [x.var((0, 2)), x.std(-1, correction=0), *torch.var_mean(x, 1, keepdim=True)],
    "scans": lambda x: [x.cumsum(1), x.cumprod(-1), x.logcumsumexp(2), *x.cummax(0), *x.cummin(-1)],
    "places": lambda x: [x.argmax(1), x.argmin(-1), x.argmax(), *x.max(2)],
}
ORDERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "sort": lambda x: [*x.sort(stable=True), *x.sort(stable=True, dim=0, descending=True), *x.sort(stable=True, descending=True)],
    "topk": lambda x: [x.topk(k, largest=b)[0] for k in (2, 3) for b in (False, True)] + [x.repeat(1, 90).topk(5)[0]],
    "kth": lambda x: [x.kthvalue(2)[0], x.nanmedian(-1)[0], x.median(), x.mode()[0]],
    "extremes": lambda x: [x.argmax(-1), x.argmin(0), *x.cummax(1), *x.max(0)],
    "search": lambda x: [torch.searchsorted(x.nan_to_num(9).sort()[0], x), x.round().unique(), x[:1].unique_consecutive(dim=1)],
}  # fmt: skip


def same(got: Any, expected: Any, where: str) -> None:
    if not isinstance(expected, torch.Tensor):
        for i, (g, e) in enumerate(zip(got, expected, strict=True)):
            same(g, e, f"{where}, result {i}")
        return
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape), where
    assert torch.allclose(got.double(), expected.double(), rtol=1e-13, atol=1e-13, equal_nan=True), where


@pytest.mark.parametrize("name", [*LAYERS, *CALLS, *ORDERS])
def test_planned(name: str) -> None:
    class Call(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return {**CALLS, **ORDERS}[name](x)

    model, x = LAYERS[name] if name in LAYERS else (Call(), X if name in CALLS else S)
    model = model.double().eval()
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean, part.running_var = torch.rand(16).double(), torch.rand(16).double() + 0.1
    with torch.no_grad():
        same(penlight.optimize(model, (x,))(x), model(x), name)


VM: dict[str, list[tuple[Any, ...]]] = {
    "conv2d": [(X.transpose(2, 3), torch.randn(9, 2, 2, 3).double(), torch.randn(9).double(), [2, 1], [3, 2], [1, 2], 3)],
    "conv_transpose3d.input": [(V, torch.randn(4, 3, 2, 2, 2).double(), None, [2, 1, 3])],
    "max_pool2d_with_indices": [(X, [3], [2], [1], [1], True)],
    "adaptive_max_pool3d": [(V, [2, 7, 3])],
    "upsample_bicubic2d": [(X, [5, 23], False), (X, [5, 23], True)],
    "_upsample_bilinear2d_aa": [(X, [5, 4], False)],
    "native_group_norm": [(X, torch.rand(6).double(), torch.rand(6).double(), 2, 6, 99, 3, 1e-5)],
    "mode": [(S,), (X.round(), 1)],
    "nanmedian.dim": [(S, 1)],
    "logcumsumexp": [(S, 1), (X, 0)],
    "threshold": [(X, 0.1, 0.3)],
    "special_bessel_j0": [(X,), (X.float(),)],
    "special_hermite_polynomial_h.n_scalar": [(X, 3)],
    "special_zeta": [(X.abs() + 1.5, X.abs() + 1)],
}  # fmt: skip


@pytest.mark.parametrize("name", VM)
def test_interpreted(name: str) -> None:
    for args in VM[name]:
        digits = 1e-6 if args[0].dtype == torch.float32 else 1e-9 if "bessel" in name else 1e-13
        check(f"aten::{name}", *args, tolerance=digits)


# The last numbers that a f64 holds, on either side: what is computed on the way is not to be 0 or infinite.
EDGES: list[tuple[str, list[float], Callable[..., torch.Tensor]]] = [
    ("special_ndtri", [5e-324, 1e-323, 1e-315, 1e-308, 1e-305, 1e-290], torch.special.ndtri),
    ("special_i0e", [1e307, 1e308, 1.79e308], torch.special.i0e),
    ("special_i1e", [1e307, 1e308, 1.79e308], torch.special.i1e),
    ("special_i1", [1e-323, 1e-300, 700.0, 714.0, 1e308], torch.special.i1),
    ("special_scaled_modified_bessel_k0", [1e307, 1e308, 1.79e308], torch.special.scaled_modified_bessel_k0),
    ("special_scaled_modified_bessel_k1", [1e307, 1e308, 1.79e308], torch.special.scaled_modified_bessel_k1),
    ("special_log_ndtr", [-1e154, -1.8e154, -1e155], torch.special.log_ndtr),
    ("special_erfcx", [1e307, 1.02e308, 1.79e308], torch.special.erfcx),
]


@pytest.mark.parametrize(("name", "numbers", "oracle"), EDGES, ids=[edge[0] for edge in EDGES])
def test_special_functions_at_the_edges(name: str, numbers: list[float], oracle: Callable[..., torch.Tensor]) -> None:
    x = torch.tensor(numbers, dtype=torch.float64)
    assert torch.allclose(run(f"aten::{name}", x), oracle(x), rtol=1e-13, atol=0.0)


def test_incomplete_gamma_of_hardly_anything() -> None:
    """P(a, x) goes to 1 as a goes to 0; torch gives 0, which is P of a = infinity."""
    a, x = torch.tensor([5e-324, 1e-310, 1e-300], dtype=torch.float64), torch.tensor([1e-20, 0.5, 1.0]).double()
    assert torch.allclose(run("aten::special_gammainc", a, x), torch.ones(3).double(), rtol=1e-15, atol=0.0)
