"""Networks and images for the int8 comparison: the tests' random networks, made to answer to the image, and steadily.

As tests/models.py leaves them, batch norms know nothing of what reaches them, and the image fades from layer to layer: the answers of
mobilenet_v2 to two images of noise agree to 136 dB. It would look right in int8 whatever became of the image on its way. So here every
batch norm has the statistics of what it really sees, as after training. Then it must shift by a deviation, so that a relu lets most
through: otherwise a difference grows by half at every relu, and no engine's int8 gets through. Images have large shapes and a tint, as
photographs do: noise is alike everywhere once it is averaged. Architecture, and so the work of a run, stay as they are.
"""

from __future__ import annotations

import torch
from torch import nn

CELLS = (1, 2, 4, 8, 16, 32, 64, 112)  # a side, of the grids that an image is the sum of
SHIFT = 1.0
SEED = 15


def photographs(count: int, size: int) -> torch.Tensor:
    """Images whose large shapes weigh more than their detail, of mean 0 and deviation 1, about. Other counts give other images."""
    generator = torch.Generator().manual_seed(SEED + count)
    images = torch.zeros(count, 3, size, size)
    for cells in CELLS:
        grid = torch.randn(count, 3, cells, cells, generator=generator) * cells**-0.5
        images += nn.functional.interpolate(grid, (size, size), mode="bilinear", align_corners=False)
    return images


def settle(model: nn.Module, images: torch.Tensor) -> nn.Module:
    """Gives every batch norm the mean and variance of its input for these images, and the shift. Changes the model."""
    norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the plain average
        norm.train()
    with torch.no_grad():
        for norm in norms:
            norm.bias += SHIFT
        model(images)
    return model.eval()
