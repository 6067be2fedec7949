"""What the weights alone determine is computed while capturing: no node of it is left, and the numbers are torch's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import penlight
from penlight.capture.export import exported_program as exported
from penlight.capture.export.nn_module import capture_module
from tests.compare import assert_same

X = torch.rand(2, 4, 6, 6)


class Standardised(nn.Conv2d):
    """Weights of mean 0 and variance 1, worked out in each call."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        w = F.batch_norm(self.weight.reshape(1, self.out_channels, -1), None, None, training=True).reshape_as(
            self.weight
        )
        return F.conv2d(x, w, self.bias)


class ShiftedMask(nn.Module):
    """A mask that is filled piece by piece, through views, on a tensor made in the input's likeness."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = x.new_zeros((6, 6))
        count = 0
        for rows in ((0, 3), (3, 6)):
            for columns in ((0, 4), (4, 6)):
                mask[rows[0] : rows[1], columns[0] : columns[1]] = count
                count += 1
        difference = mask.flatten().unsqueeze(0) - mask.flatten().unsqueeze(1)
        bias = difference.masked_fill(difference != 0, -100.0).sum(1).reshape(6, 6)
        return x + bias


class ChangedLater(nn.Module):
    """The sum sees the tensor as it was before it changes."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        table = torch.arange(6.0) * 2
        first = x + table
        table[2:4].mul_(10)
        return first, x * table


class ChangedByInput(nn.Module):
    """A tensor from nothing that takes numbers of the run in is not known."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        padded = torch.zeros(2, 4, 8, 8)
        padded[:, :, 1:7, 1:7] = x
        return padded * 2


class ChangedWeight(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Buffer(torch.arange(6.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.table.clone().add_(1)


@pytest.mark.parametrize(
    "make", [lambda: Standardised(4, 3, 3), ShiftedMask, ChangedLater, ChangedByInput, ChangedWeight]
)
def test_same_numbers(make: type[nn.Module]) -> None:
    module = make().eval()
    model = penlight.optimize(module, (X,), dynamic_shapes=None)
    for _ in range(2):  # the second run must not find anything changed
        with torch.no_grad():
            assert_same(model(X), module(X), 1e-6)


@pytest.mark.parametrize(("make", "ops"), [(lambda: Standardised(4, 3, 3), {"conv2d"}), (ShiftedMask, {"add"})])
def test_nothing_is_left_to_compute(make: type[nn.Module], ops: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exported, "_decompose", None)  # nor is the model traced again
    program = capture_module(make().eval(), (X,))
    graph = program.methods["forward"].graph
    used = {v for n in graph.walk() for v in n.inputs} | set(graph.outputs)
    assert {n.op for n in graph.walk() if any(o in used for o in n.outputs)} - {"reshape"} == ops


def test_weights_are_not_changed() -> None:
    module = ChangedWeight().eval()
    penlight.optimize(module, (X,))
    assert torch.equal(module.table, torch.arange(6.0))


class OfNoRule(nn.Module):
    """torch has no rule for the sizes that these give."""

    def __init__(self, make: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 16).reshape(4, 4))
        self.make = make

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum() + self.make(self.weight)


@pytest.mark.parametrize(
    "make",
    [
        lambda w: torch.geqrf(w)[0],
        lambda w: w.to_sparse().to_dense(),
        lambda w: torch.quantize_per_tensor(w, 0.1, 0, torch.qint8).dequantize(),
    ],
    ids=["geqrf", "sparse", "quantized"],
)
def test_operators_whose_sizes_torch_does_not_know(make: Callable[[torch.Tensor], torch.Tensor]) -> None:
    module = OfNoRule(make).eval()
    with torch.no_grad():
        assert_same(penlight.optimize(module, (X,))(X), module(X), 1e-5)
