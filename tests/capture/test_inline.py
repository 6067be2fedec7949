"""Calls without a converter are taken apart where they are: torch does not trace the model again, and sizes stay free."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

import penlight
from penlight.capture.export import exported_program as exported
from penlight.ops import registry
from tests.compare import assert_same


class Roll(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.roll(x, (-1, 2), (1, 2))


class Grid(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, columns = torch.meshgrid(torch.arange(x.shape[1]), torch.arange(x.shape[2]), indexing="ij")
        return x + rows * 10 + columns


class Shuffle(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.pixel_shuffle(x.reshape(-1, 4, x.shape[1], x.shape[2]), 2)


@pytest.mark.parametrize(("make", "name"), [(Roll, "roll"), (Grid, "meshgrid.indexing"), (Shuffle, "pixel_shuffle")])
def test_taken_apart(make: type[nn.Module], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.load_all()
    monkeypatch.delitem(registry.ATEN, name, raising=False)
    monkeypatch.setattr(exported, "_decompose", None)
    shapes = {"x": {0: Dim("n", min=4), 1: Dim("h", min=3), 2: Dim("w", min=3)}}
    model = penlight.optimize(make(), (torch.rand(4, 6, 8),), dynamic_shapes=shapes if make is not Shuffle else None)
    for shape in [(4, 6, 8)] if make is Shuffle else [(4, 6, 8), (8, 5, 9)]:
        x = torch.rand(shape)
        assert_same(model(x), make()(x), 0.0)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_leave_the_length_free(kind: type[nn.Module]) -> None:
    module = kind(5, 7, num_layers=2, bidirectional=True, batch_first=True).eval()
    shapes = ({0: Dim.AUTO, 1: Dim.AUTO},)
    model = penlight.optimize(module, (torch.rand(2, 9, 5),), dynamic_shapes=shapes)
    for shape in ((1, 4, 5), (3, 13, 5)):
        x = torch.rand(shape)
        with torch.no_grad():
            assert_same(model(x), module(x), 1e-5)
