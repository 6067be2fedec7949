"""Random numbers on a GPU: with the same seed those of the CPU, and others in every run."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import penlight
from tests.gpu.conftest import device_of
from tests.ops.recording import Call


@pytest.mark.parametrize("driver", ["lavapipe", "swiftshader"])
def test_as_on_the_cpu(driver: str, tmp_path: Path) -> None:
    file = tmp_path / "model.pen"
    x = torch.zeros(3, 411)
    penlight.optimize(Call(lambda x: [torch.rand_like(x), torch.randn_like(x) * 2 + 1]).eval(), (x,)).save(file)
    host, device = penlight.load(file), penlight.load(file, device=device_of(driver))
    runs = []
    for model in (host, device):
        model.seed(7)
        runs.append([model(x) for _ in range(2)])
    for (uniform, normal), (own_uniform, own_normal) in zip(*runs, strict=True):
        assert torch.equal(uniform, own_uniform)
        assert (normal - own_normal).abs().max() < 1e-4
    assert not torch.equal(runs[1][0][0], runs[1][1][0])
