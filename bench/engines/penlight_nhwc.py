"""Penlight with images pixel by pixel, in and out: how a layer runs inside a network, where nothing is converted. For the
layer sweep; a matrix is the same either way."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import penlight
from bench.case import Convertible
from bench.engines import Loaded

if TYPE_CHECKING:
    import torch


def prepare(case: Convertible, folder: Path) -> None:
    from torch import nn

    class PixelByPixel(nn.Module):
        def __init__(self, layer: nn.Module) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)  # type: ignore[no-any-return]

    module, (x,) = case.module(), case.inputs()
    if x.dim() == 4:
        module, x = PixelByPixel(module).eval(), x.permute(0, 2, 3, 1).contiguous()
    penlight.optimize(module, (x,)).save(folder / "model.pen")


def load(folder: Path, inputs: list[np.ndarray], threads: int) -> Loaded:
    model = penlight.load(folder / "model.pen", threads=threads)
    (image,) = inputs
    images = image.ndim == 4
    image = np.ascontiguousarray(image.transpose(0, 2, 3, 1)) if images else image
    results = [np.empty(output.shape, np.float32) for output in model.outputs()]  # sizes are fixed here
    return Loaded(
        lambda: model.run_into(results, image),
        lambda _: [result.transpose(0, 3, 1, 2) for result in results] if images else results,
    )
