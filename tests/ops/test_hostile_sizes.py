"""Attributes near 2**63, as a hostile file may have them: sums and products of sizes that 64 bits do not hold are refused in words."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import penlight
from penlight.capture import capture
from penlight.file.writer import to_array
from penlight.lower import lower
from penlight.passes.pipeline import optimize as run_passes

HUGE = 2**63 - 1


class Istft(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.istft(torch.complex(x, x), 16, hop_length=4, window=torch.ones(16))


@pytest.mark.parametrize(
    ("module", "shape", "op", "changes", "words"),
    [
        (nn.FractionalMaxPool2d(2, output_size=3), (1, 2, 8, 8), "fractional_max_pool", {"kernel": (1, HUGE, 2)}, "an image as large"),
        (nn.FractionalMaxPool2d(2, output_size=3), (1, 2, 8, 8), "fractional_max_pool", {"size": (1, HUGE, 3)}, "an image as large"),
        (Istft(), (1, 9, 12), "overlap_add", {"hop": HUGE}, "fits in 64 bits"),
    ],
)  # fmt: skip
def test_refused(module: nn.Module, shape: tuple[int, ...], op: str, changes: dict[str, Any], words: str) -> None:
    x = torch.rand(shape)
    program = capture(module.eval(), (x,))
    run_passes(program)
    lower(program)
    found = [node for node in program.methods["forward"].graph.walk() if node.op == op]
    assert found
    for node in found:
        node.attrs.update(changes)
    with pytest.raises(penlight.PenlightError, match=words):
        penlight.load(bytes(to_array(program)))(x)
