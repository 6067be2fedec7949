"""Files that do not add up (tests/ops/test_conv_checks.py), on a GPU: an error in words, before anything runs, as on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

import penlight
from penlight.ir.graph import Node, Value
from penlight.ir.types import TensorType
from tests.gpu.conftest import device_of
from tests.ops.recording import Call
from tests.ops.test_conv_checks import CONV, VARIANTS, broken, set_attr


@pytest.mark.parametrize("variant", ["gemm", "depthwise", "grouped"])
@pytest.mark.parametrize("case", CONV)
def test_conv2d(case: str, variant: str) -> None:
    inputs, outputs, groups = VARIANTS[variant]
    x = torch.randn(1, inputs, 7, 9)
    data = broken(nn.Conv2d(inputs, outputs, 3, padding=1, groups=groups), x, "conv2d", CONV[case])
    with pytest.raises(penlight.PenlightError, match="expected"):
        penlight.load(data, device=device_of("lavapipe"))(x)


PLACES = torch.tensor([3, 0, 3])
MOVES: dict[str, tuple[int, Callable[..., torch.Tensor]]] = {  # which input moves
    "scatter": (2, lambda x: x.scatter(0, PLACES, x[:3] * 2)),
    "index_put": (1, lambda x: x.index_put((PLACES,), x[:3] * 2)),
    "as_strided_scatter": (1, lambda x: x.as_strided_scatter(x[:3] * 2, (3,), (1,), 1)),
}


@pytest.mark.parametrize("device", ["cpu", "lavapipe"])
@pytest.mark.parametrize("op", MOVES)
def test_elements_of_another_size(op: str, device: str) -> None:
    """i32 for f32, which a GPU may store as f16."""
    at, fn = MOVES[op]

    def change(node: Node) -> None:
        node.inputs[at] = Value("other", TensorType("i32", (3,)), constant=np.ones(3, np.int32))

    data, x = broken(Call(fn), torch.randn(5), op, change), torch.randn(5)
    options = {} if device == "cpu" else {"device": device_of(device), "f16": True}
    with pytest.raises(penlight.PenlightError, match="expected the tensor's dtype, got i32"):
        penlight.load(data, **options)(x)


@pytest.mark.parametrize("with_indices", [False, True])
def test_sides_that_do_not_fit(with_indices: bool) -> None:
    """o * size counts past 32 bits: an error, and no wrong window."""
    x = torch.rand(1, 1, 70000)
    model = penlight.optimize(nn.AdaptiveMaxPool1d(65000, return_indices=with_indices), (x,))
    with pytest.raises(penlight.PenlightError, match=r"below 2\^31"):
        model.on(device_of("lavapipe"))(x)


@pytest.mark.parametrize("op", ["scatter", "index_put"])
def test_sums_of_bytes(op: str) -> None:
    """A kernel by size only puts: it does not read bytes as numbers, whatever else the file says."""
    x = torch.arange(5, dtype=torch.uint8)
    data = broken(Call(MOVES[op][1]), x, op, set_attr("reduce", "add"))
    assert torch.equal(penlight.load(data, device=device_of("lavapipe"))(x), penlight.load(data)(x))
