"""Reductions, norms, scans, products and attention in shapes and strides that samples of operators do not have: more rows than groups of
work, more dims than shaders count; and two small transformers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torchvision.models as models

import penlight
from tests.compare import assert_same
from tests.gpu.conftest import device_of
from tests.ops.recording import Call

_rand = torch.Generator().manual_seed(0)


def r(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=_rand)


def _permuted_reductions(x: Any) -> Any:
    odd = x.permute(5, 3, 1, 0, 2, 4)
    return odd.amax((0, 2, 4)), x.sum((0, 2, 4)), x.logsumexp((1, 3)), odd[::2, :, ::2].log_softmax(3)


def _statistics(x: Any) -> Any:
    return x.var((0, 2)), x.std(1), *torch.var_mean(x, (1,), correction=0, keepdim=True)


def _held(*xs: Any) -> Any:
    return [
        y
        for x in xs
        for y in (F.layer_norm(x, x.shape[-1:]), x.softmax(-1), x[:, 1:].log_softmax(-1), F.rms_norm(x, x.shape[-1:]))
    ]


def _strange(n: int) -> torch.Tensor:
    x = r(6, n)
    x[0, 1], x[1, n - 1], x[2, 0], x[3, :] = float("nan"), float("inf"), -float("inf"), -float("inf")
    return x


def _attention(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return F.scaled_dot_product_attention(q.transpose(-2, -3), k.transpose(-2, -3), v.transpose(-2, -3), mask)


CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "product, five batch dims": (torch.matmul, (r(2, 1, 3, 1, 2, 5, 7), r(1, 2, 1, 3, 1, 7, 4))),
    "product, permuted": (lambda a, b: a.permute(2, 0, 3, 1) @ b.mT, (r(3, 17, 2, 33), r(2, 3, 19, 17))),
    "product, many small": (torch.matmul, (r(66000, 1, 3), r(66000, 3, 1))),
    "product, one row": (torch.matmul, (r(1, 300), r(300, 1000))),
    "product of nothing": (torch.matmul, (r(4, 0), r(0, 3))),
    "attention, every operand broadcast": (
        _attention,
        (r(2, 3, 37, 1, 16), r(1, 3, 41, 2, 16), r(2, 1, 41, 2, 24), r(3, 1, 1, 41)),
    ),
    "softmax, many rows": (lambda x: x.softmax(1), (r(40000, 3),)),
    "softmax, a long row": (lambda x: x.softmax(1), (r(2, 70000),)),
    "six dims": (_permuted_reductions, (r(3, 4, 5, 6, 3, 7),)),
    "layer_norm, a long row": (lambda x: F.layer_norm(x, (70000,)), (r(2, 70000) * 3 + 50,)),
    "rows of fours, held": (_held, tuple(r(5, n) * 3 + 7 for n in (4, 64, 508, 512, 516, 768, 4096, 4100))),
    "rows of fours, odd numbers": (_held, (_strange(64), _strange(1000))),
    "statistics": (_statistics, (r(7, 40, 9, 33) + 20,)),
    "scans": (lambda x: (x.cumsum(1), *x.cummax(1), *x.cummin(0)), (r(200, 999).round(decimals=1),)),
    "truths, strided": (lambda x, y: (x > y).permute(0, 3, 1, 2)[:, 1:, ::2], (r(3, 5, 7, 9), r(3, 5, 7, 9))),
}


@pytest.mark.parametrize("driver", ["lavapipe", "swiftshader"])
@pytest.mark.parametrize("name", list(CASES))
def test_as_torch(name: str, driver: str, tmp_path: Path) -> None:
    device, (fn, inputs) = device_of(driver), CASES[name]
    penlight.optimize(Call(fn), inputs).save(tmp_path / "m.pen")
    got = penlight.load(tmp_path / "m.pen", device=device)(*inputs)
    assert_same(got, fn(*inputs), 1e-5, name)


def _vit() -> torch.nn.Module:
    return models.VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=10)


def _swin() -> torch.nn.Module:
    return models.SwinTransformer([4, 4], 24, [2, 2], [2, 4], [4, 4], num_classes=10)


@pytest.mark.parametrize("make", [_vit, _swin])
def test_transformers(make: Callable[[], torch.nn.Module], tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = make().eval(), r(2, 3, 32, 32)
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.1)  # a head of zeros would hide what comes before
    penlight.optimize(model, (x,)).save(tmp_path / "m.pen")
    with torch.no_grad():
        expected = model(x)
    assert_same(penlight.load(tmp_path / "m.pen", device=device_of("lavapipe"))(x), expected, 1e-4)
