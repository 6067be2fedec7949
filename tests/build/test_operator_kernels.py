"""The nodes that planned code may have are foretold from operators' names: what compiled models have is among them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import penlight
from penlight.build.operator_kernels import MADE_OF, nodes_of, planned_nodes
from penlight.file.reader import read
from penlight.ops import registry


class Sampler(nn.Module):
    """Composites, decompositions of torch's, in-place forms, activations spelled out."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.hardswish(x.clone(), inplace=True) * torch.sigmoid(x).mul_(2)
        y = nn.functional.interpolate(y, scale_factor=2.0, mode="bilinear", align_corners=False)
        y, _ = torch.max(nn.functional.max_pool2d(y * torch.tanh(nn.functional.softplus(y)), 2), 1)
        return torch.repeat_interleave(y.addcmul(y, y).var(-1), 2, 0).log_softmax(-1)


class Attention(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = torch.softmax(x @ x.transpose(1, 2) / 4, -1)
        return nn.functional.layer_norm(scores @ x, [8]).gather(1, torch.zeros(1, 2, 8, dtype=torch.int64))


NETWORKS = {
    "convolutions": (
        nn.Sequential(nn.Conv2d(4, 4, 3, groups=4), nn.BatchNorm2d(4), nn.SiLU(True), nn.BatchNorm2d(4), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(4, 2)),
        (1, 4, 9, 9),
    ),
    "functions": (Sampler(), (1, 4, 9, 9)),
    "attention": (Attention(), (1, 5, 8)),
    "words": (nn.Sequential(nn.LSTM(8, 4, bidirectional=True)), (5, 1, 8)),
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_what_models_have_is_foretold(name: str) -> None:
    network, shape = NETWORKS[name]
    x = torch.rand(shape)
    traced = torch.jit.trace(network.eval(), x, check_trace=False)
    names = torch.jit.export_opnames(traced)
    nodes = set(read(penlight.optimize(traced, (x,)).to_bytes()).operators)
    assert nodes <= planned_nodes(names)
    assert len(planned_nodes(names)) < len(registry.load_all()) / 3  # and it is a choice


def test_names_exist() -> None:
    ops = registry.load_all()
    assert set(MADE_OF) | {source for sets in MADE_OF.values() for one in sets for source in one} <= set(ops)
    assert nodes_of("aten::nothing_such") == set()
    assert nodes_of("aten::embedding") <= {"embedding", "cast"}
