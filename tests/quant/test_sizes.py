"""How large files become beside that of the floats, of layers of which a channel has the fewest weights: depthwise ones, squeeze and excite."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torchvision
from torch import nn

import penlight
from tests.models import randomise


@pytest.fixture(scope="module")
def blocks() -> nn.Module:
    """Two blocks of EfficientNet: kernels of 5x5, with tables between layers."""
    torch.manual_seed(0)
    model = torchvision.models.efficientnet_b0(weights=None).features[6][1:3]
    randomise(model)
    return model.eval()


@pytest.mark.parametrize(("weights", "most"), [(None, 0.27), ("i8", 0.27), ("f16", 0.51)])
def test_blocks(blocks: nn.Module, weights: str | None, most: float, tmp_path: Path) -> None:
    images = [torch.randn(1, 192, 5, 5, generator=torch.Generator().manual_seed(seed)) for seed in range(2)]
    floats = penlight.optimize(blocks, (images[0],), winograd_budget=0)
    model = penlight.quantize(blocks, images, weights=weights, sensitivity=False, speed=False)
    floats.save(tmp_path / "floats.pen")
    model.save(tmp_path / "model.pen")
    ratio = (tmp_path / "model.pen").stat().st_size / (tmp_path / "floats.pen").stat().st_size
    assert ratio <= most
