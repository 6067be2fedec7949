"""Models of half floats: inputs and outputs keep their dtype, numbers between are f32 (capture/export/tensors.py says why). The
result is compared with the same model in f32, whose weights are the halves: it may be off by the rounding of the output
alone. torch's own half model is off by more, and the two must agree within that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import penlight
from penlight.capture import capture
from penlight.ir.graph import Graph

HALVES = [(torch.float16, 2.0**-11), (torch.bfloat16, 2.0**-8)]  # and half a unit in the last place


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU6())
        self.block = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.GroupNorm(2, 8), nn.Hardswish())
        self.head = nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        x = nn.functional.max_pool2d(x + self.block(x), 2)
        x = nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
        return self.head(x.mean((2, 3)))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 32)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, activation="gelu")
        self.norm = nn.LayerNorm(32)

    def forward(self, ids: Any, scale: Any) -> Any:
        mask = torch.full((7, 7), torch.finfo(scale.dtype).min, dtype=scale.dtype).triu(1)
        x = self.words(ids) * scale
        x = self.layer(x, src_mask=mask)
        return {"hidden": self.norm(x), "logits": x @ self.words.weight.t(), "best": x.argmax(-1)}


class Gates(nn.Module):
    """An LSTM's cell in plain operators, over four steps."""

    def __init__(self) -> None:
        super().__init__()
        self.x, self.h = nn.Linear(6, 40), nn.Linear(10, 40)

    def forward(self, xs: Any) -> Any:
        h = c = xs.new_zeros(xs.shape[1], 10)
        for x in xs:
            i, f, g, o = (self.x(x) + self.h(h)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return h, c


CASES = [
    (ConvNet, lambda d: (torch.randn(2, 3, 16, 16, dtype=d),)),
    (Attention, lambda d: (torch.randint(0, 50, (2, 7)), torch.rand(2, 7, 1, dtype=d))),
    (Gates, lambda d: (torch.randn(4, 3, 6, dtype=d),)),
]


def flat(x: Any) -> list[torch.Tensor]:
    return [t for t in torch.utils._pytree.tree_leaves(x) if t.is_floating_point()]


@pytest.mark.parametrize(("dtype", "unit"), HALVES, ids=["f16", "bf16"])
@pytest.mark.parametrize(("model", "inputs"), CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_model_of_halves(model: Any, inputs: Any, dtype: torch.dtype, unit: float) -> None:
    torch.manual_seed(3)
    half = model().eval().to(dtype)
    example = inputs(dtype)
    exact = model().eval()
    exact.load_state_dict({k: v.float() if v.is_floating_point() else v for k, v in half.state_dict().items()})
    with torch.no_grad():
        wide = flat(exact(*(t.float() if t.is_floating_point() else t for t in example)))
        theirs = flat(half(*example))
    ours = flat(penlight.optimize(half, example)(*example))
    assert [t.dtype for t in ours] == [dtype] * len(wide)
    for ours_, wide_, theirs_ in zip(ours, wide, theirs, strict=True):
        scale = wide_.abs().max()
        assert (ours_.float() - wide_).abs().max() <= 1.01 * unit * scale + 1e-5
        assert (ours_.float() - theirs_.float()).abs().max() <= 40 * unit * scale


def casts(graph: Graph) -> list[str]:
    return [f"{n.inputs[0].dtype}->{n.attrs['to']}" for n in graph.walk() if n.op == "cast" and n.inputs[0] is not None]


def test_casts_stand_at_the_edges_only() -> None:
    program = capture(ConvNet().eval().half(), (torch.randn(1, 3, 16, 16).half(),))
    graph = program.methods["forward"].graph
    assert casts(graph) == ["f16->f32", "f32->f16"]
    assert {v.dtype for v in graph.constants.values()} == {"f32"}


class Asked(nn.Module):
    """Halves that the model asks for, and integers that it makes of halves."""

    def forward(self, x: Any, h: Any) -> Any:
        y = x.half()
        return (
            y,
            y.float() + x,
            x.bfloat16().float(),
            h * 3,
            (h * 3).int(),
            h + x,
            (h * 3).long().half(),
            h.bfloat16() + h,
        )


def test_what_the_model_asks_for_is_rounded_as_in_torch() -> None:
    x = torch.tensor([1.0, 1 / 3, 1e-8, 70000.0, -2049.0, float("nan"), float("inf"), 0.1])
    h = torch.tensor([1.0, 683.0, 1365.5, 0.1, -700.5, 5e-7, 2.0, 900.0]).half()
    m = penlight.optimize(Asked(), (x, h))
    for i, (ours, theirs) in enumerate(zip(m(x, h), Asked()(x, h), strict=True)):
        assert ours.dtype == theirs.dtype, i
        np.testing.assert_array_equal(ours.float().numpy(), theirs.float().numpy(), err_msg=str(i))


def test_a_half_that_comes_straight_back_is_not_cast_at_all() -> None:
    class Same(nn.Module):
        def forward(self, x: Any) -> Any:
            return x, x.float().half(), x.reshape(2, -1)

    x = torch.randn(4, 3).half()
    graph = capture(Same(), (x,)).methods["forward"].graph
    assert graph.outputs[0] is graph.inputs[0]
    ours = penlight.optimize(Same(), (x,))(x)
    assert all(torch.equal(a, b) for a, b in zip(ours, Same()(x), strict=True))
