"""Small networks to quantize, and data for them: everything is done in seconds."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.models import randomise


class Small(nn.Module):
    """A stem, an inverted residual with a depthwise layer, squeeze and excite, a concatenation, and a head."""

    def __init__(self, act: type[nn.Module] = nn.ReLU6) -> None:
        super().__init__()
        self.stem = self._layer(3, 16, 3, act, stride=2)
        self.expand = self._layer(16, 48, 1, act)
        self.depthwise = self._layer(48, 48, 3, act, groups=48)
        self.project = nn.Sequential(nn.Conv2d(48, 16, 1, bias=False), nn.BatchNorm2d(16))
        self.squeeze, self.excite = nn.Conv2d(16, 8, 1), nn.Conv2d(8, 16, 1)
        self.side = self._layer(16, 24, 3, act)
        self.head = nn.Linear(40, 10)

    @staticmethod
    def _layer(ci: int, co: int, kernel: int, act: type[nn.Module], **options: Any) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(ci, co, kernel, padding=kernel // 2, bias=False, **options), nn.BatchNorm2d(co), act()
        )

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        x = x + self.project(self.depthwise(self.expand(x)))
        weight = torch.sigmoid(self.excite(torch.relu(self.squeeze(x.mean((2, 3), keepdim=True)))))
        x = x * weight
        x = torch.cat([x, self.side(x)], 1)
        return self.head(x.mean((2, 3)))


class Words(nn.Module):
    """Recurrent layers in both directions, and a head for the last step: [T, N, 24] -> [N, 10]."""

    def __init__(self, kind: type[nn.Module] = nn.LSTM, hidden: int = 96, **options: Any) -> None:
        super().__init__()
        self.layers = kind(24, hidden, 2, bidirectional=True, **options)
        self.head = nn.Linear(2 * options.get("proj_size", hidden), 10)

    def forward(self, x: Any) -> Any:
        return self.head(self.layers(x)[0][-1])


def small(act: type[nn.Module] = nn.ReLU6) -> nn.Module:
    torch.manual_seed(3)
    module = Small(act)
    randomise(module)
    return module.eval()


def images(count: int, size: int = 32, seed: int = 0) -> list[torch.Tensor]:
    """Smooth noise, of another brightness each: more like photographs than white noise is."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.randn(count, 3, size // 4, size // 4, generator=generator)
    level = torch.randn(count, 3, 1, 1, generator=generator)
    whole = torch.nn.functional.interpolate(coarse, size=(size, size), mode="bilinear") + level
    return list((whole + 0.2 * torch.randn(count, 3, size, size, generator=generator)).split(1))
