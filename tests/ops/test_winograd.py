"""Winograd convolution: right for every shape under every instruction set, as exact as docs/WINOGRAD.md says, and chosen
where it gains, within what the file may grow."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import penlight
from penlight import _runtime
from penlight.capture import capture
from penlight.file.reader import read
from penlight.file.writer import to_array
from penlight.ir.graph import Node, Program
from penlight.lower import lower
from penlight.lower.winograd import SMALL
from penlight.ops.conv.winograd import POINTS, filter_matrix
from penlight.passes.pipeline import optimize as run_passes

ISAS = list(_runtime.isas())
# Of max |y|, against f64, random normal inputs and weights: what the docs promise.
TOLERANCE = {2: 2e-6, 4: 1e-5, 6: 3e-5}
VARIANTS = sorted(TOLERANCE)


def convolutions(program: Program) -> list[Node]:
    return [n for m in program.methods.values() for n in m.graph.walk() if n.op == "conv2d"]


def forced(module: nn.Module, inputs: tuple[Any, ...], outputs: int, dynamic_shapes: Any = None) -> np.ndarray:
    """The file of a module whose convolutions are all F(outputs), whether that gains or not."""
    program = capture(module.eval(), inputs, dynamic_shapes=dynamic_shapes)
    run_passes(program)
    for node in convolutions(program):
        node.kernel = f"conv2d.f32.winograd{outputs}"
    return to_array(lower(program, winograd_budget=0))


def chosen(module: nn.Module, *inputs: Any, budget: float = 1000, **options: Any) -> Counter[str]:
    """How many convolutions got which kernel."""
    program = capture(module.eval(), inputs, **options)
    run_passes(program)
    return Counter(node.kernel.rpartition(".")[2] for node in convolutions(lower(program, budget)))


def error(got: torch.Tensor, exact: torch.Tensor) -> float:
    return float((got.double() - exact).abs().max() / exact.abs().max()) if exact.numel() else 0.0


SHAPES: dict[str, tuple[tuple[int, ...], int, dict[str, Any]]] = {
    "whole tiles": ((1, 16, 12, 12), 32, {"padding": 1}),
    "odd all over": ((2, 19, 13, 11), 33, {"padding": 1}),
    "one pixel": ((1, 3, 1, 1), 5, {"padding": 1}),
    "one output": ((2, 5, 3, 3), 7, {}),
    "a row": ((1, 20, 1, 37), 18, {"padding": 1}),
    "no padding": ((3, 7, 9, 8), 17, {}),
    "padding 2": ((1, 24, 20, 31), 48, {"padding": 2}),
    "more padding than image": ((1, 6, 3, 2), 20, {"padding": 9}),
    "padding by side": ((1, 6, 8, 9), 20, {"padding": (0, 2)}),
    "dilation 2": ((1, 40, 28, 28), 70, {"padding": 2, "dilation": 2}),
    "dilation 4, odd": ((2, 20, 29, 27), 100, {"padding": 4, "dilation": 4}),
    "dilation by side": ((1, 9, 17, 20), 20, {"padding": (1, 3), "dilation": (1, 3)}),
    "dilation past the image": ((1, 8, 5, 3), 16, {"padding": 36, "dilation": 36}),
    "one channel": ((1, 1, 10, 10), 1, {"padding": 1}),
    "padded pitch": ((1, 512, 6, 7), 512, {"padding": 1}),
    "many tiles": ((2, 8, 61, 75), 24, {"padding": 1}),
    "small map, many channels": ((1, 130, 7, 7), 300, {"padding": 1}),
    "large batch": ((9, 17, 5, 6), 31, {"padding": 1}),
    "empty": ((0, 8, 9, 9), 8, {"padding": 1}),
}


@pytest.mark.parametrize("outputs", VARIANTS)
@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str, outputs: int) -> None:
    shape, co, options = SHAPES[name]
    torch.manual_seed(len(name))
    x, module = torch.randn(shape), nn.Conv2d(shape[1], co, 3, **options)
    with torch.no_grad():
        exact = F.conv2d(x.double(), module.weight.double(), module.bias.double(), **options)  # type: ignore[union-attr]
    file = forced(module, (x,), outputs)
    for isa in ISAS:
        got = penlight.load(file, isa=isa, threads=1)(x)
        assert got.shape == exact.shape
        assert error(got, exact) <= TOLERANCE[outputs], isa
        for threads in (2, 3) if isa == ISAS[0] else ():
            assert torch.equal(penlight.load(file, isa=isa, threads=threads)(x), got), (isa, threads)


class Fused(nn.Module):
    """All that a convolution may have to do besides: bias, residual, activation, a place inside of a wider tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.Conv2d(20, 20, 3, padding=1, bias=i != 1) for i in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = F.relu6(self.a(F.pad(x, (0, 1, 2, 0))))
        b = F.relu(self.b(a) + a)
        c = F.silu(self.c(b) + b)
        return torch.cat([F.leaky_relu(self.d(c), 0.1), c], 1)


@pytest.mark.parametrize("outputs", VARIANTS)
def test_fused(outputs: int) -> None:
    torch.manual_seed(1)
    module, x = Fused().eval(), torch.randn(2, 20, 11, 14)
    with torch.no_grad():
        exact = Fused.forward(module.double(), x.double())
    module.float()
    file = forced(module, (x,), outputs)
    for isa in ISAS:
        assert error(penlight.load(file, isa=isa)(x), exact) <= 2 * TOLERANCE[outputs], isa


@pytest.mark.parametrize("outputs", VARIANTS)
def test_any_size_of_a_dynamic_shape(outputs: int) -> None:
    torch.manual_seed(2)
    module = nn.Sequential(nn.Conv2d(6, 40, 3, padding=1), nn.ReLU(), nn.Conv2d(40, 20, 3, padding=2, dilation=2))
    auto = torch.export.Dim.AUTO
    file = forced(module, (torch.randn(2, 6, 20, 20),), outputs, dynamic_shapes=({0: auto, 2: auto, 3: auto},))
    model = penlight.load(file, threads=2)
    for shape in ((1, 6, 1, 1), (1, 6, 7, 7), (3, 6, 8, 30), (1, 6, 64, 65), (5, 6, 4, 4), (2, 6, 20, 20)):
        x = torch.randn(shape)
        with torch.no_grad():
            exact = module.double()(x.double())
            module.float()
        assert error(model(x), exact) <= 2 * TOLERANCE[outputs], shape


@pytest.mark.parametrize(("outputs", "limit"), [(2, 2e-6), (4, 5e-6), (6, 4e-5)])
@pytest.mark.parametrize("channels", [16, 64, 256, 512])
def test_accuracy(outputs: int, limit: float, channels: int) -> None:
    """The table in docs/WINOGRAD.md, on data without any structure that would help."""
    torch.manual_seed(3)
    x, module = torch.randn(1, channels, 18, 18), nn.Conv2d(channels, 32, 3, padding=1, bias=False)
    module.weight.data.normal_()
    with torch.no_grad():
        exact = F.conv2d(x.double(), module.weight.double(), padding=1)
    file = forced(module, (x,), outputs)
    for isa in ISAS:
        assert error(penlight.load(file, isa=isa)(x), exact) <= limit, isa


@pytest.mark.parametrize("outputs", VARIANTS)
def test_filter_matrix(outputs: int) -> None:
    """A filter times a signal, as polynomials: the product's values at the points are the products of the values."""
    points = np.array(POINTS[outputs])
    assert len(set(points)) == outputs + 1
    g = filter_matrix(outputs)
    spread = np.array([np.prod([x - y for y in points if y != x]) for x in points])
    w = np.array([0.3, -1.2, 0.7])
    assert np.allclose(g[:-1] @ w * spread, np.polynomial.polynomial.polyval(points, w))
    assert g[-1] @ w == w[2]


@pytest.mark.parametrize("outputs", VARIANTS)
def test_nan_and_inf(outputs: int) -> None:
    """Every output whose window holds a NaN or inf is NaN or inf. Others of its tile may be NaN too; no others are."""
    torch.manual_seed(4)
    x, module = torch.randn(2, 8, 26, 26), nn.Conv2d(8, 20, 3, padding=1)
    with torch.no_grad():
        clean = module(x)
        x[0, 3, 12, 12], x[1, 2, 0, 25] = float("nan"), float("inf")
        expected = module(x)
    for isa in ISAS:
        got = penlight.load(forced(module, (x,), outputs), isa=isa)(x)
        assert not got[~expected.isfinite()].isfinite().any()
        far = torch.ones_like(got, dtype=torch.bool)
        for n, y0, x0 in ((0, 12, 12), (1, 0, 25)):
            far[n, :, max(0, y0 - outputs - 1) : y0 + outputs + 2, max(0, x0 - outputs - 1) : x0 + outputs + 2] = False
        assert (got[far] - clean[far]).abs().max() <= TOLERANCE[outputs] * clean.abs().max()


# ---- choosing ------------------------------------------------------------------------------------------------------


def conv(ci: int, co: int, **options: Any) -> nn.Conv2d:
    return nn.Conv2d(ci, co, 3, **{"padding": 1, **options})


@pytest.mark.parametrize(
    ("module", "shape", "kernel"),
    [
        (conv(64, 64), (1, 64, 56, 56), "winograd4"),
        (conv(256, 256), (1, 256, 14, 14), "winograd4"),
        (conv(512, 512), (1, 512, 7, 7), "winograd2"),
        (conv(64, 64), (1, 64, 112, 112), "winograd6"),
        (conv(320, 64), (1, 320, 112, 112), "winograd4"),  # too many channels for the accuracy of F(6)
        (conv(256, 256, padding=2, dilation=2), (1, 256, 28, 28), "winograd4"),
        (conv(256, 256, padding=12, dilation=12), (1, 256, 28, 28), "gemm"),  # most taps fall on padding
        (conv(64, 64, stride=2), (1, 64, 56, 56), "gemm"),
        (conv(64, 64, groups=2), (1, 64, 56, 56), "gemm"),
        (conv(3, 64), (1, 3, 224, 224), "direct"),
        (conv(8, 8), (1, 8, 9, 9), "gemm"),  # too small to matter
        (conv(512, 512), (1, 512, 2, 2), "gemm"),  # all weights for one tile
        (nn.Conv2d(64, 64, 5, padding=2), (1, 64, 56, 56), "gemm"),
    ],
    ids=str,
)
def test_choice(module: nn.Module, shape: tuple[int, ...], kernel: str) -> None:
    assert chosen(module, torch.zeros(shape)) == {kernel: 1}


def test_dynamic_shapes_are_judged_by_the_example() -> None:
    free = {2: torch.export.Dim.AUTO, 3: torch.export.Dim.AUTO}
    assert chosen(conv(64, 64), torch.zeros(1, 64, 56, 56), dynamic_shapes=(free,)) == {"winograd4": 1}
    assert chosen(conv(64, 64), torch.zeros(1, 64, 3, 3), dynamic_shapes=(free,)) == {"gemm": 1}
    program = capture(conv(64, 64), (torch.zeros(1, 64, 56, 56),), dynamic_shapes=(free,))
    run_passes(program)
    for known in program.methods["forward"].symbols.values():
        known.hint = None
    assert [n.kernel for n in convolutions(lower(program, 1000))] == ["conv2d.f32.gemm"]


class Tied(nn.Module):
    """One weight for two layers, and one that is used in another way too."""

    def __init__(self) -> None:
        super().__init__()
        self.tied, self.other = conv(64, 64), conv(64, 64)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.tied(F.relu(self.tied(x)))
        return self.other(y), F.conv2d(y, self.other.weight, stride=2)


def test_a_weight_is_stored_once() -> None:
    x = torch.randn(1, 64, 56, 56)
    assert chosen(Tied(), x) == {"winograd4": 2, "gemm": 2}
    model = penlight.optimize(Tied().eval(), (x,), winograd_budget=10)
    assert model._bytes is not None
    layouts = Counter(c.layout for c in read(bytes(model._bytes)).constants if c.layout != "plain")
    assert layouts == {"winograd4": 1, "panel16": 1}


class Tower(nn.Module):
    """As in a residual network: maps become smaller, channels more."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(conv(c, c) for c in (32, 64, 128, 256))
        self.down = nn.ModuleList(nn.Conv2d(c, 2 * c, 1, stride=2) for c in (32, 64, 128))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer, down in zip(self.layers, self.down, strict=False):
            x = down(F.relu(layer(x)))
        return self.layers[3](x)  # type: ignore[no-any-return]


def test_budget() -> None:
    torch.manual_seed(5)
    module, x = Tower().eval(), torch.randn(1, 32, 56, 56)
    with torch.no_grad():
        expected = module(x)
    sizes, kernels = [], []
    for budget in (0.0, 0.1, 0.3, 0.6, 1.0, 2.0, 10.0):
        model = penlight.optimize(module, (x,), winograd_budget=budget)
        assert model._bytes is not None
        sizes.append(len(model._bytes))
        kernels.append(chosen(module, x, budget=budget))
        assert sizes[-1] - sizes[0] <= budget * max(sizes[0], SMALL) + 4096  # alignment
        assert error(model(x), expected.double()) <= 1e-5
    assert sizes == sorted(sizes)
    assert kernels[0]["gemm"] == 7
    assert kernels[2]["winograd2"] > 1  # little room: what saves most per byte
    assert kernels[-1] == {"winograd4": 3, "winograd2": 1, "gemm": 3}
    for wrong in (-0.5, float("nan")):
        with pytest.raises(ValueError, match="winograd_budget: expected 0"):
            penlight.optimize(module, (x,), winograd_budget=wrong)


def test_small_files_may_grow_to_a_megabyte() -> None:
    module, x = conv(40, 40), torch.randn(1, 40, 40, 40)
    assert chosen(module, x, budget=0.5) == {"winograd4": 1}
    assert chosen(module, x, budget=0.01) == {"gemm": 1}


# ---- files that do not add up --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attr", "value"),
    [
        ("stride", (2, 1)),
        ("stride", (1, 3)),
        ("groups", 2),
        ("padding", (-1, 0, 0, 0)),
        ("dilation", (0, 1)),
        ("dilation", (1 << 60, 1)),
        ("padding", (1 << 24,) * 4),
    ],
    ids=str,
)
def test_damaged_attributes(attr: str, value: Any) -> None:
    x, program = torch.randn(1, 12, 9, 9), capture(conv(12, 24).eval(), (torch.randn(1, 12, 9, 9),))
    run_passes(program)
    for node in convolutions(program):
        node.kernel = "conv2d.f32.winograd4"
    lower(program, 0)
    convolutions(program)[0].attrs[attr] = value
    with pytest.raises(penlight.PenlightError):
        penlight.load(bytes(to_array(program)))(x)


@pytest.mark.parametrize("damage", ["short", "layout", "dims", "variant"])
def test_damaged_weights(damage: str) -> None:
    x, program = torch.randn(1, 12, 9, 9), capture(conv(12, 24).eval(), (torch.randn(1, 12, 9, 9),))
    run_passes(program)
    for node in convolutions(program):
        node.kernel = "conv2d.f32.winograd4"
    lower(program, 0)
    node = convolutions(program)[0]
    weight = node.inputs[1]
    assert weight is not None
    assert weight.constant is not None
    if damage == "short":
        weight.constant = np.ascontiguousarray(weight.constant.reshape(-1)[:-16])
    elif damage == "layout":
        weight.layout = "panel16"
    elif damage == "dims":
        weight.type = type(weight.tensor)("f32", (24, 12, 3, 1))
    else:
        node.kernel = "conv2d.f32.winograd6"
    with pytest.raises(penlight.PenlightError):
        penlight.load(bytes(to_array(program)))(x)
