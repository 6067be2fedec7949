"""What the documents leave to their reader or to the network, and no more:

- `path`, and in the folder that `f"${path}"` names (the `$` is part of it) two images;
- weights of pretrained models and torch.hub, offline: the same architectures with random weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

PATH = "models"


def prepare(monkeypatch: pytest.MonkeyPatch, folder: Path) -> dict[str, Any]:
    """Makes `folder` the current one and puts the stand-ins in place. The names that the blocks start with."""
    import torchvision
    from PIL import Image

    monkeypatch.chdir(folder)
    images = folder / f"${PATH}"
    images.mkdir()
    generator = np.random.default_rng(0)
    for name, size in (("dog.jpg", (96, 64)), ("deeplab.jpg", (64, 80))):
        Image.fromarray(generator.integers(0, 256, (*size, 3), np.uint8)).save(images / name)

    def without_weights(name: str, build: Any) -> Any:
        def make(*, pretrained: bool = False, **options: Any) -> Any:
            return build(weights=None, **options)

        return make

    def hub(repository: str, model: str, *, pretrained: bool = False) -> Any:
        assert repository.startswith("pytorch/vision")
        return getattr(torchvision.models.segmentation, model)(weights=None, weights_backbone=None, aux_loss=True)

    models = torchvision.models
    monkeypatch.setattr(models, "mobilenet_v2", without_weights("mobilenet_v2", models.mobilenet_v2))
    monkeypatch.setattr(torch.hub, "load", hub)
    return {"path": PATH, "__name__": "document"}
