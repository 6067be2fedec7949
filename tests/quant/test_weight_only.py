"""weights="i8" and weights="f16": how large files become, and what the numbers are beside those of the float model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

import penlight
from penlight import _runtime
from penlight.errors import LoadError, QuantizationError
from penlight.file.reader import read
from tests.quant.networks import Words
from tests.tools.call import Penlight

ISAS = [str(isa) for isa in _runtime.isas()]


class Mixed(nn.Module):
    """A stem, a depthwise block with a residual, groups, and a head: everything that has weights."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU6())
        self.depthwise = nn.Sequential(nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.ReLU())
        self.project = nn.Conv2d(32, 32, 1)
        self.groups = nn.Conv2d(32, 64, 3, padding=1, groups=4)
        self.wide = nn.Conv2d(64, 128, 3)
        self.head = nn.Sequential(nn.Linear(128, 257), nn.GELU(), nn.Linear(257, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = x + self.project(self.depthwise(x))
        return self.head(torch.tanh(self.wide(self.groups(x))).mean((2, 3)))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def mixed() -> nn.Module:
    torch.manual_seed(0)
    return Mixed().eval()


def sqnr(expected: torch.Tensor, got: torch.Tensor) -> float:
    return float(10 * torch.log10(expected.square().sum() / (expected - got).square().sum()))


def image(n: int = 2) -> torch.Tensor:
    return torch.randn(n, 3, 33, 31, generator=torch.Generator().manual_seed(1))


def saved(model: penlight.Model, path: Path) -> int:
    model.save(path)
    return path.stat().st_size


def test_sizes_and_dtypes(mixed: nn.Module, tmp_path: Path) -> None:
    plain = saved(penlight.optimize(mixed, (image(),), winograd_budget=0), tmp_path / "f32.pen")
    half = saved(penlight.optimize(mixed, (image(),), weights="f16"), tmp_path / "f16.pen")
    quarter = saved(penlight.optimize(mixed, (image(),), weights="i8"), tmp_path / "i8.pen")
    floats, halves, integers = (read(tmp_path / f"{kind}.pen") for kind in ("f32", "f16", "i8"))
    assert list(floats.weight_dtypes) == ["f32"]
    assert halves.weight_bytes <= 0.51 * floats.weight_bytes
    assert integers.weight_dtypes["i8"] <= 0.26 * floats.weight_bytes  # rows of K are filled up to fours
    assert half <= 0.53 * plain  # of a model of half a megabyte, whose tables count
    assert quarter <= 0.33 * plain
    assert (halves.metadata["weights"], integers.metadata["weights"]) == ("f16", "i8")
    assert "conv2d.q8.gemm" in integers.keys
    assert "conv2d.q8.depthwise" in integers.keys
    assert "linear.q8" in integers.keys
    assert not any(key.startswith(("conv2d.f32", "linear.f32")) for key in integers.keys)


def test_large_sizes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 1024)).eval()
    x = torch.randn(3, 1024)
    plain = saved(penlight.optimize(model, (x,)), tmp_path / "m.pen")
    assert saved(penlight.optimize(model, (x,), weights="f16"), tmp_path / "m.pen") <= 0.51 * plain
    assert saved(penlight.optimize(model, (x,), weights="i8"), tmp_path / "m.pen") <= 0.27 * plain


def test_f16_is_the_model_of_rounded_weights(mixed: nn.Module, tmp_path: Path) -> None:
    """Batch norm is folded before: what is rounded is what the file has. Then every bit is that of an f32 model of these weights."""
    model = penlight.optimize(mixed, (image(),), weights="f16")
    model.save(tmp_path / "half.pen")
    for weight in read(tmp_path / "half.pen").weights:
        assert weight.stored == ("f16" if len(weight.shape) > 1 else "f32")
        if weight.stored == "f16":
            assert np.array_equal(weight.array.astype(np.float16).astype(np.float32), weight.array)
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Conv2d(3, 40, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(40 * 36, 17)).eval()
    x = torch.randn(2, 3, 6, 6)
    half = penlight.optimize(layers, (x,), weights="f16")
    with torch.no_grad():
        for p in layers.parameters():
            if p.dim() > 1:
                p.copy_(p.half().float())
    assert torch.equal(half(x), penlight.optimize(layers, (x,), winograd_budget=0)(x))
    half.save(tmp_path / "again.pen")
    assert torch.equal(penlight.load(tmp_path / "again.pen", verify=True)(x), half(x))


def test_every_number_of_f16() -> None:
    numbers = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    finite = numbers[np.isfinite(numbers)]
    table = torch.from_numpy(np.resize(finite, (62, 1024)).copy())
    model = penlight.optimize(lambda_module(lambda i: F.embedding(i, table)), (torch.arange(62),), weights="f16")
    assert np.array_equal(model(torch.arange(62)).numpy().view(np.uint32), table.numpy().view(np.uint32))


def lambda_module(fn: Any) -> nn.Module:
    class Module(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return fn(x)

    return Module().eval()


def test_what_f16_cannot_hold_stays() -> None:
    torch.manual_seed(0)
    large, small, mixed = torch.randn(40, 50) * 1e6, torch.randn(40, 50) * 1e-9, torch.randn(40, 50)
    x = torch.randn(3, 50)
    model = lambda_module(lambda x: F.linear(F.linear(F.linear(x, large).sin() @ mixed, small).sin() @ mixed, mixed))
    got, expected = penlight.optimize(model, (x,), weights="f16")(x), penlight.optimize(model, (x,))(x)
    assert sqnr(expected, got) > 55


def test_i8_accuracy(mixed: nn.Module) -> None:
    with torch.no_grad():
        for n in (1, 5):
            x = image(n)
            model = penlight.optimize(mixed, (x,), weights="i8", threads=2)
            assert sqnr(mixed(x), model(x)) > 30


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers(kind: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Words(kind).eval(), torch.randn(12, 3, 24)
    plain = saved(penlight.optimize(model, (x,)), tmp_path / "f32.pen")
    n, t = torch.export.Dim("n", max=9), torch.export.Dim("t", max=64)
    small = penlight.optimize(model, (x,), weights="i8", dynamic_shapes={"x": {0: t, 1: n}})
    assert saved(small, tmp_path / "i8.pen") <= 0.36 * plain  # of a model of 200 to 700 kB, whose tables count
    file = read(tmp_path / "i8.pen")
    assert file.weight_dtypes["i8"] <= 0.26 * plain
    assert f"{kind.__name__.lower()}_dynamic.i8" in file.keys
    with torch.no_grad():
        for given in (x, torch.randn(1, 2, 24) * 3, torch.randn(40, 7, 24)):
            assert sqnr(model(given), small(given)) > 30


def test_a_projection_stays_real(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Words(proj_size=20).eval(), torch.randn(5, 3, 24)
    small = penlight.optimize(model, (x,), weights="i8")
    small.save(tmp_path / "m.pen")
    assert {"lstm.f32", "linear.q8"} <= set(read(tmp_path / "m.pen").keys)
    with torch.no_grad():
        assert sqnr(model(x), small(x)) > 30


@pytest.mark.parametrize("weights", ["i8", "f16"])
def test_same_bits_everywhere(mixed: nn.Module, weights: str, tmp_path: Path) -> None:
    """f32's order of sums differs between instruction sets; integers have none. Threads change nothing."""
    penlight.optimize(mixed, (image(),), weights=weights).save(tmp_path / "m.pen")
    expected = penlight.load(tmp_path / "m.pen", threads=1)(image())
    assert torch.equal(penlight.load(tmp_path / "m.pen", threads=2)(image()), expected)
    for isa in ISAS:
        got = penlight.load(tmp_path / "m.pen", threads=2, isa=isa)(image())
        assert (got - expected).abs().max() <= 2e-2 * expected.abs().max(), (
            isa
        )  # a level, where f32 rounded to another side


def test_dynamic_shapes(mixed: nn.Module) -> None:
    n = torch.export.Dim("n", max=9)
    for weights in ("i8", "f16"):
        model = penlight.optimize(mixed, (image(),), weights=weights, dynamic_shapes={"x": {0: n}})
        with torch.no_grad():
            for count in (1, 3, 7):
                assert sqnr(mixed(image(count)), model(image(count))) > 30


def test_small_numbers_keep_their_steps() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(64, 32, bias=False).eval()
    with torch.no_grad():
        for scale in (1e-30, 1e-6, 1.0, 1e20):
            x = torch.randn(5, 64) * scale
            assert sqnr(layer(x) / scale, penlight.optimize(layer, (x,), weights="i8")(x) / scale) > 35


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_have_no_range(wrong: float) -> None:
    model = penlight.optimize(nn.Linear(40, 8).eval(), (torch.zeros(3, 40),), weights="i8")
    x = torch.randn(3, 40)
    x[1, 7] = wrong
    with pytest.raises(penlight.PenlightError, match="finite numbers, from whose range a scale is chosen"):
        model(x)
    assert torch.isfinite(model(torch.randn(3, 40))).all()


def test_constant_and_empty() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(40, 8).eval()
    n = torch.export.Dim("n", max=64)
    model = penlight.optimize(layer, (torch.randn(3, 40),), weights="i8", dynamic_shapes=({0: n},))
    with torch.no_grad():
        assert torch.allclose(model(torch.zeros(2, 40)), layer.bias.expand(2, 8))
        assert sqnr(layer(torch.full((2, 40), 3.0)), model(torch.full((2, 40), 3.0))) > 35


def test_told_in_words() -> None:
    layer, x = nn.Linear(8, 8).eval(), torch.zeros(2, 8)
    with pytest.raises(QuantizationError, match="weights: expected one of i8, f16"):
        penlight.optimize(layer, (x,), weights="i4")
    with pytest.raises(QuantizationError, match="no convolution, linear or recurrent layer"):
        penlight.optimize(nn.ReLU(), (x,), weights="i8")
    with pytest.raises(QuantizationError, match="planned as a whole"):
        penlight.optimize(torch.jit.script(layer), weights="f16", plan=False)


def test_a_script_whose_inputs_are_guessed_needs_an_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan for guessed sizes does not take all that the code does, so the code stays beside it."""

    class Flat(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Parameter(torch.randn(8, 3, 3, 3)), nn.Linear(8, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = torch.relu(F.conv2d(x, self.a, stride=2))
            if x.shape[2] > 7:
                x = x[:, :, 1:]
            return self.b(x.mean((2, 3)))

    torch.manual_seed(0)
    call = Penlight(capsys)
    torch.jit.script(Flat().eval()).save(tmp_path / "m.pt")
    np.save(tmp_path / "x.npy", torch.randn(1, 3, 32, 32).numpy())
    done = call("quantize", tmp_path / "m.pt", "--weights", "f16")
    assert done.code == 1, done.err
    assert "planned as a whole" in done.err
    assert "penlight quantize --input FILE.npy" in done.err
    done = call("quantize", tmp_path / "m.pt", "--weights", "f16", "--input", tmp_path / "x.npy")
    assert done.code == 0, done.err
    assert penlight.load(tmp_path / "m.int8.pen").metadata["weights"] == "f16"


def test_damaged(tmp_path: Path) -> None:
    """A layout that says f16 of what is none, or of too few bytes, is refused when it is loaded; by the reader too."""
    layer = nn.Linear(64, 64).eval()
    penlight.optimize(layer, (torch.zeros(2, 64),)).save(tmp_path / "m.pen")
    image = bytearray((tmp_path / "m.pen").read_bytes())
    at = image.index(b"plain\0")  # the bias's; a file's strings are apart from its weights
    image[at : at + 5] = b"f16_p"
    (tmp_path / "bad.pen").write_bytes(image)
    model: Any = None
    try:
        model = penlight.load(tmp_path / "bad.pen")
        model(torch.zeros(2, 64))
    except (LoadError, penlight.PenlightError):
        return
    pytest.fail("a bias in a layout that does not exist was taken")
