"""Small models of every kind that a tracer meets, as files with bundled inputs: planned, with planned parts, interpreted, quantized."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torch.ao import quantization
from torch.utils.bundled_inputs import augment_model_with_bundled_inputs

import penlight
from tests.vm.quantized import engine


class Decides(nn.Module):
    """Branches on values, so that it is interpreted, with a part that can be planned."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: torch.Tensor, times: int) -> torch.Tensor:
        y = torch.softmax(torch.relu(self.conv(x)) * 2 + 1, 1)
        for _ in range(times):
            if bool(y.sum() > 10):
                y = torch.cat([y, y.flip(0)]).cumsum(0)
            else:
                y = y - 1
        return y


class Strings(nn.Module):
    """Nothing of it can be planned."""

    def forward(self, words: list[str], x: torch.Tensor) -> dict[str, torch.Tensor]:
        found: dict[str, torch.Tensor] = {}
        for i, word in enumerate(words):
            found[word.upper()] = x[i].abs() if word.startswith("a") else x[i].to(torch.int64)
        return found


def planned(folder: Path) -> Path:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Hardswish(), nn.Flatten(), nn.Linear(288, 5), nn.Softmax(-1)).eval()
    x = torch.rand(1, 3, 8, 8)
    penlight.optimize(model, (x,), bundled_inputs={"forward": [(x,)]}).save(folder / "planned.pen")
    return folder / "planned.pen"


def scripted(model: nn.Module, inputs: list[tuple[object, ...]], path: Path) -> Path:
    torch.jit.script(model.eval()).save(str(path))
    script = torch.jit.load(str(path))  # a class of its own, which can be augmented again
    augment_model_with_bundled_inputs(script, inputs, skip_size_check=True)
    if path.suffix == ".ptl":
        script._save_for_lite_interpreter(str(path))
    else:
        script.save(str(path))
    return path


def mixed(folder: Path) -> Path:
    x = torch.rand(1, 3, 8, 8)
    return scripted(Decides(), [(x, 2), (-x, 1)], folder / "mixed.pt")


def interpreted(folder: Path) -> Path:
    return scripted(Strings(), [(["ab", "b"], torch.tensor([[-1.5], [2.5]]))], folder / "interpreted.ptl")


def quantized(folder: Path) -> Path:
    with engine("qnnpack"), torch.no_grad():
        layers = nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
        model = nn.Sequential(quantization.QuantStub(), *layers, quantization.DeQuantStub()).eval()
        model.qconfig = quantization.get_default_qconfig("qnnpack")  # type: ignore[assignment]
        quantization.prepare(model, inplace=True)
        x = torch.rand(2, 3, 8, 8)
        model(x)
        return scripted(quantization.convert(model), [(x,)], folder / "quantized.ptl")


MODELS = {f.__name__: f for f in (planned, mixed, interpreted, quantized)}
