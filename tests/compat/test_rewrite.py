"""Which operators PyTorch's mobile optimizer would leave. The oracle for the CPU is torch 1.13, see opnames.py."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from penlight.compat.rewrite import optimized_module
from tests.compat.models import BLOCKED, MODELS, PRESERVED, MobileNet2020

RECORDED: dict[str, list[str]] = json.loads((Path(__file__).parent / "opnames.json").read_text())
DOCUMENT_000 = [
    "aten::adaptive_avg_pool2d", "aten::add.Tensor", "aten::addmm", "aten::reshape", "aten::size.int", "metal::copy_to_host",
    "metal_prepack::conv2d_run",
]  # fmt: skip


def scripted(module: nn.Module) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(module.eval())


def traced(module: nn.Module, *example: torch.Tensor) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(module.eval(), example)


def names(script: Any, backend: str, blocked: Any = (), preserved: Any = ()) -> list[str]:
    return torch._C._export_opnames(optimized_module(script, backend, blocked, preserved))


@pytest.mark.parametrize("name", MODELS)
def test_cpu_as_torch(name: str) -> None:
    module, example = MODELS[name]()
    scripts = {"script": scripted(module)}
    if name != "branch":
        scripts["trace"] = traced(module, *example)
    for kind, script in scripts.items():
        for blocked in BLOCKED:
            expected = RECORDED[f"{name}.{kind} {blocked}".strip()]
            assert names(script, "cpu", [blocked], PRESERVED.get(name, [])) == expected, (kind, blocked)


@pytest.mark.parametrize("trace", [False, True])
def test_metal_document(trace: bool) -> None:
    module = MobileNet2020()
    script = traced(module, torch.rand(1, 3, 32, 32)) if trace else scripted(module)
    assert names(script, "metal") == DOCUMENT_000


def test_metal_of_another_model_is_its_own() -> None:
    class Other(MobileNet2020):
        def __init__(self) -> None:
            super().__init__()
            self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(64, 10))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.classifier(torch.flatten(self.features(x).mean([2, 3]), 1))

    assert names(scripted(Other()), "metal") == [
        "aten::add.Tensor", "aten::flatten.using_ints", "aten::mean.dim", "metal::copy_to_host", "metal_prepack::conv2d_run",
        "metal_prepack::linear_run",
    ]  # fmt: skip


def test_metal_keeps_branches_that_compute() -> None:
    class Doubled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.size(0) > 2:
                x = x * 2
            assert x.dim() == 4
            return x

    assert names(scripted(Doubled()), "metal") == [
        "aten::gt.int",
        "aten::mul.Scalar",
        "aten::size.int",
        "metal::copy_to_host",
    ]


def test_vulkan() -> None:
    module = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.ConvTranspose2d(4, 4, 2), nn.BatchNorm2d(4), nn.MaxPool2d(2),
        nn.LayerNorm(4), nn.Linear(4, 4), nn.ReLU(), nn.Dropout(),
    )  # fmt: skip
    expected = [  # ne.int: the batch norm that cannot be folded checks the rank
        "aten::max_pool2d", "aten::ne.int", "aten::relu", "aten::to.prim_Device", "vulkan_prepack::run_batchnorm_context",
        "vulkan_prepack::run_conv2d_context", "vulkan_prepack::run_layernorm_context", "vulkan_prepack::run_linear_context",
        "vulkan_prepack::run_tconv2d_context",
    ]  # fmt: skip
    script = scripted(module)
    assert names(script, "vulkan") == expected
    without = [name for name in expected if name != "aten::to.prim_Device"]
    assert names(script, "vulkan", ["VULKAN_AUTOMATIC_GPU_TRANSFER"]) == without


def test_vulkan_recurrent() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.gru = nn.LSTM(4, 4), nn.GRU(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.gru(self.lstm(x)[0])[0]

    found = names(traced(Both(), torch.rand(3, 2, 4)), "vulkan")
    assert {"vulkan_prepack::run_lstm_context", "vulkan_prepack::run_gru_context"} <= set(found)
    assert not {"aten::lstm.input", "aten::gru.input"} & set(found)


def test_original_is_left_alone() -> None:
    module = MODELS["conv_bn_relu6"]()[0].train()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script = torch.jit.script(module)
    before, weights = str(script.inlined_graph), {k: v.clone() for k, v in script.state_dict().items()}
    for backend in ("cpu", "vulkan", "metal"):
        names(script, backend)
    assert script.training
    assert str(script.inlined_graph) == before
    assert all(torch.equal(v, weights[k]) for k, v in script.state_dict().items())
