"""Whole quantized models, scripted by torch and interpreted here: the same bits as torch's qnnpack."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.ao import quantization

import penlight
from tests.vm.quantized import engine


class Block(nn.Module):
    """Depthwise and pointwise, with a sum around them: what MobileNetV2 is made of."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, groups=channels), nn.ReLU(), nn.Conv2d(channels, channels, 1)
        )
        self.sum = torch.ao.nn.quantized.FloatFunctional()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.sum.add(x, self.body(x))


def network() -> nn.Module:
    layers = [
        quantization.QuantStub(),
        nn.Conv2d(3, 19, 3, stride=2, padding=1),
        nn.ReLU(),
        Block(19),
        nn.Hardswish(),
        nn.MaxPool2d(2),
    ]
    tail = [
        Block(19),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(19, 10),
        nn.Sigmoid(),
        quantization.DeQuantStub(),
    ]
    return nn.Sequential(*layers, *tail).eval()


@pytest.mark.filterwarnings("ignore")
def test_static() -> None:
    torch.manual_seed(0)
    with engine("qnnpack"), torch.no_grad():
        model = network()
        model.qconfig = quantization.get_default_qconfig("qnnpack")  # type: ignore[assignment]
        quantization.fuse_modules(model, [["1", "2"], ["3.body.0", "3.body.1"], ["6.body.0", "6.body.1"]], inplace=True)
        quantization.prepare(model, inplace=True)
        model(torch.randn(4, 3, 32, 30))
        script = torch.jit.script(quantization.convert(model))
        ours = penlight.optimize(script, threads=2)
        for batch in (1, 3):
            x = torch.randn(batch, 3, 32, 30)
            assert torch.equal(torch.as_tensor(ours(x)), script(x))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [torch.qint8, torch.float16])
def test_dynamic(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    with engine("qnnpack" if dtype == torch.qint8 else "fbgemm"), torch.no_grad():
        model = nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 7)).eval()
        script = torch.jit.script(quantization.quantize_dynamic(model, {nn.Linear}, dtype=dtype))
        ours = penlight.optimize(script, threads=2)
        x = torch.randn(5, 40)
        got, expected = torch.as_tensor(ours(x)), script(x)
        assert (got - expected).abs().max() <= (0.0 if dtype == torch.qint8 else 1e-6 * expected.abs().max())
