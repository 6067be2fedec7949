"""penlight.quantize from end to end: near the floats, a quarter of the size, within a budget; what it did is in the file and on a page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import penlight
from penlight.capture import capture
from penlight.file.reader import read
from penlight.ir.graph import Method, Program
from penlight.passes.pipeline import FUSE, optimize
from penlight.quant.place import layer_name, place
from penlight.quant.report import Report
from penlight.quant.sensitivity import Error, fewest_kept
from penlight.quantizer import Quantizer
from tests.quant.networks import Words, images, small
from tests.tools.call import Penlight


def sqnr(got: Any, expected: Any) -> float:
    return float(10 * np.log10((expected**2).sum() / ((got - expected) ** 2).sum()))


def outputs(model: Any, seed: int = 50) -> np.ndarray:
    with torch.inference_mode():
        return np.concatenate([np.asarray(model(x)) for x in images(16, seed=seed)])


@pytest.fixture(scope="module")
def quantized() -> penlight.Model:
    return penlight.quantize(small(), images(24))


@pytest.mark.parametrize("act", [nn.ReLU6, nn.ReLU, nn.Hardswish, nn.SiLU])
@pytest.mark.parametrize("method", ["histogram", "minmax", "percentile"])
def test_near_torch(act: type[nn.Module], method: str) -> None:
    module = small(act)
    model = penlight.quantize(module, images(24), method=method, sensitivity=False, speed=False)
    assert sqnr(outputs(model), outputs(module)) > (25 if method != "percentile" else 18)


def test_recurrent_layers(tmp_path: Path) -> None:
    """They are layers like others: measured, kept where that is asked for, and in the report."""
    torch.manual_seed(0)
    module = Words(hidden=40).eval()
    batches = [torch.randn(9, 4, 24) for _ in range(6)]
    model = penlight.quantize(module, batches, keep=["layers.weight_hh_l1"], speed=False)
    model.save(tmp_path / "m.pen")
    keys = [node.key for node in read(tmp_path / "m.pen").nodes]
    assert (keys.count("lstm_dynamic.i8"), keys.count("lstm.f32")) == (3, 1)
    layers = {layer.name: layer for layer in model.report().layers}
    assert layers["layers.weight_hh_l0_reverse"].bytes_after * 4 == 160 * 40 * 4
    assert 0 < layers["layers.weight_hh_l0"].cost < 0.1
    assert (layers["layers.weight_hh_l1"].stored, layers["layers.weight_hh_l1"].why) == ("f32", "keep=")
    with torch.inference_mode():
        assert sqnr(np.asarray(model(batches[0])), np.asarray(module(batches[0]))) > 25


def test_one_scale_for_a_weight() -> None:
    module = small()
    model = penlight.quantize(module, images(24), per_channel=False, equalize=False, sensitivity=False, speed=False)
    assert sqnr(outputs(model), outputs(module)) > 25


def test_most_layers_are_integers(quantized: penlight.Model, tmp_path: Path) -> None:
    path = tmp_path / "small.pen"
    quantized.save(path)
    keys = [node.key for node in read(path).nodes]
    assert sum(key.startswith("conv2d.q8") for key in keys) == 7
    assert "linear.q8" in keys
    assert not any(key.startswith(("conv2d.f32", "linear.f32")) for key in keys)


def test_the_report_says_what_was_done(quantized: penlight.Model, tmp_path: Path) -> None:
    report = quantized.report()
    assert report.examples == 24
    assert report.top1 is not None
    assert 0.8 <= report.top1 <= 1
    assert report.sqnr == pytest.approx(
        sqnr(*(np.concatenate([np.asarray(m(x)) for x in images(24)]) for m in (quantized, _floats()))), abs=0.5
    )
    assert report.bytes_after < report.bytes_before
    assert report.bytes_after == pytest.approx(len(quantized.to_bytes()), abs=20_000)
    assert report.seconds_before
    assert report.seconds_after
    names = [layer.name for layer in report.layers]
    assert "depthwise.0" in names
    assert "head" in names
    layer = report.layers[names.index("expand.0")]
    assert (layer.op, layer.stored, layer.bytes_before, layer.bytes_after) == ("conv2d", "i8", 48 * 16 * 4, 48 * 16)
    assert layer.sqnr is not None
    assert layer.sqnr > 20
    assert layer.cost is not None
    assert 0 < layer.cost < 0.2
    text = str(report)
    assert "expand.0" in text
    assert "SQNR" in text
    quantized.save(tmp_path / "q.pen")
    again = penlight.load(tmp_path / "q.pen").report()
    assert again == report
    assert Report.from_metadata(json.loads(json.dumps(report.to_metadata())) | {"later": 1}) == report
    again.save(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert page.count("<rect") >= len(names)
    assert "depthwise.0" in page


@pytest.mark.parametrize(
    "told", [{}, {"layers": 7}, {"name": "x", "method": "m", "examples": 1, "layers": [["a"]]}, {"name": "x", "method": "m", "examples": "many"}]
)  # fmt: skip
def test_a_report_that_is_none_is_said_in_words(told: Any) -> None:
    with pytest.raises(ValueError, match="not one that penlight.quantize wrote"):
        _floats().with_metadata({"quantization": told}).report()


def _floats() -> penlight.Model:
    return penlight.optimize(small(), (images(1)[0],))


def test_a_model_that_was_not_quantized_has_no_report() -> None:
    with pytest.raises(ValueError, match="no report"):
        _floats().report()


def test_keep_leaves_layers_in_floats() -> None:
    model = penlight.quantize(small(), images(8), keep=["head", "depth*"], sensitivity=False, speed=False)
    stored = {layer.name: (layer.stored, layer.why) for layer in model.report().layers}
    assert stored["head"] == ("f32", "keep=")
    assert stored["depthwise.0"] == ("f32", "keep=")
    assert stored["expand.0"][0] == "i8"


def test_a_budget_is_met_with_the_costliest_layers_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[float] = []
    accuracy = Quantizer._accuracy

    def recorded(work: Quantizer, got: Any) -> Any:
        found = accuracy(work, got)
        measured.append(found[0].relative)
        return found

    monkeypatch.setattr(Quantizer, "_accuracy", recorded)
    module = small()
    plain = penlight.quantize(module, images(8), speed=False).report()
    budget = plain.relative * 0.6
    report = penlight.quantize(module, images(8), budget=budget, speed=False).report()
    kept = {layer.name for layer in report.layers if layer.why.startswith("budget")}
    assert 0 < len(kept) < len(report.layers)
    assert report.relative <= budget
    assert report.relative in measured[1:-1]  # trials are of what the file then has, to the bit
    costs = {layer.name: layer.cost or 0.0 for layer in report.layers}
    assert min(costs[name] for name in kept) >= max(c for name, c in costs.items() if name not in kept) - 1e-9


def test_a_budget_of_agreement() -> None:
    report = penlight.quantize(small(), images(8), budget={"top1": 1.0}, speed=False).report()
    assert report.top1 == 1.0


def test_a_layer_is_kept_for_a_budget_and_no_other_of_its_name() -> None:
    """A module may be called what the graph calls another's result."""

    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.linear_1, self.c = (nn.Linear(16, 16) for _ in range(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.c(self.linear_1(self.a(x)))

    torch.manual_seed(0)
    graph = capture(Named(), (torch.randn(1, 16),)).methods["forward"].graph
    optimize(program := Program({"forward": Method(graph, 0, 0)}), stages=FUSE)
    first = graph.nodes[0]
    assert (layer_name(first), first.output.name) == ("a", "linear_1"), program
    assert place(graph, kept=["linear_1"]).integer == {node.output.name for node in graph.nodes[1:]}


def test_errors_of_numbers_that_are_not_finite() -> None:
    """A mask of -inf is no error where both have it; a NaN that should be a number is, and no budget lets it pass."""
    masked = np.array([1.0, -np.inf, np.nan, 2.0], np.float32)
    same, off, broken = Error(), Error(), Error()
    same.take(masked, masked)
    off.take(np.array([1.0, 3.0, np.nan, 2.0], np.float32), masked)
    broken.take(np.array([np.nan, 1.0], np.float32), np.array([1.0, 1.0], np.float32))
    assert (same.relative, same.sqnr) == (0.0, 200.0)
    assert off.relative == broken.relative == 1e10
    assert off.sqnr == broken.sqnr == -200.0


def test_fewest_kept() -> None:
    ranked = list("abcdefgh")
    assert fewest_kept(ranked, lambda kept: len(kept) >= 3) == ["a", "b", "c"]
    assert fewest_kept(ranked, lambda kept: True) == []
    assert fewest_kept(ranked, lambda kept: False) is None
    assert fewest_kept(ranked, lambda kept: len(kept) == 8) == ranked


def test_free_sizes_stay_free() -> None:
    batch = torch.cat(images(4))
    free = {"x": {0: torch.export.Dim("n", max=16)}}
    model = penlight.quantize(small(), [batch], dynamic_shapes=free, sensitivity=False, speed=False)
    whole = np.asarray(model(torch.cat(images(8))))
    alone = np.concatenate([np.asarray(model(x)) for x in images(8)])
    assert np.array_equal(whole, alone)


def test_what_is_interpreted_cannot_be_quantized() -> None:
    class Branch(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if float(x.sum()) > 0:
                return x + 1
            return x

    with (
        pytest.raises(penlight.QuantizationError, match="planned as one method|nothing in this model"),
        pytest.warns(penlight.InterpretedWarning),
    ):
        penlight.quantize(torch.jit.script(Branch()), images(2))


def test_nothing_to_quantize() -> None:
    with pytest.raises(penlight.QuantizationError, match="no convolution, linear or recurrent layer"):
        penlight.quantize(nn.Sequential(nn.ReLU(), nn.MaxPool2d(2)), images(2))


def test_quantized_already() -> None:
    """By PyTorch: with scales for activations (eager, traced), and by dynamic quantization. All three ways of quantizing say so."""
    from torch.ao import quantization

    torch.manual_seed(0)
    x, y = torch.randn(2, 3, 12, 12), torch.randn(2, 20)
    layers = [nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3)]
    static: Any = nn.Sequential(quantization.QuantStub(), *layers, quantization.DeQuantStub()).eval()
    static.qconfig = quantization.get_default_qconfig("x86")
    quantization.prepare(static, inplace=True)
    static(x)
    quantization.convert(static, inplace=True)
    dynamic = quantization.quantize_dynamic(nn.Sequential(nn.Linear(20, 8), nn.ReLU(), nn.Linear(8, 8)).eval())
    for model, batch in ((static, x), (torch.jit.trace(static, x), x), (dynamic, y)):
        weights: tuple[str | None, ...] = (None, "i8", "f16")
        for kind in weights:
            with pytest.raises(penlight.QuantizationError, match=r"quantized already: penlight\.optimize takes it"):
                penlight.quantize(model, [batch, batch], weights=kind)
        assert sqnr(np.asarray(penlight.optimize(model, (batch,))(batch)), model(batch).detach().numpy()) > 30


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from PIL import Image

    call, folder = Penlight(capsys), tmp_path / "photos"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(5):
        Image.fromarray(rng.integers(0, 256, (40, 48, 3), dtype=np.uint8)).save(folder / f"{i}.png")
    (folder / "broken.jpg").write_bytes(b"no image")
    torch.jit.trace(small(), images(1)[0]).save(tmp_path / "small.pt")
    usual = [tmp_path / "small.pt", "--images", folder, "--resize", "32,32", "--mean", "0.5", "--std", "0.25"]
    done = call("quantize", *usual, "--report", tmp_path / "report.html")
    assert done.code == 0, done.err
    assert "expand.0" in done.out
    assert "left out" in done.err
    assert (tmp_path / "report.html").exists()
    model = penlight.load(tmp_path / "small.int8.pen")
    assert model.report().examples == 5
    assert model.metadata["preprocessing"]["resize"] == [32, 32]
    assert call("quantize", tmp_path / "small.pt").code == 2
    assert "how images are prepared" in call("quantize", tmp_path / "small.pt", "--images", folder).err
    assert "compiled already" in call("quantize", tmp_path / "small.int8.pen", "--images", folder).err
    assert "top1=0.99" in call("quantize", *usual, "--budget", "top5=1").err
    assert "there is no folder" in call("quantize", *usual, "--report", tmp_path / "nowhere" / "report.html").err
    assert "--images: --weights calibrates nothing" in call("quantize", *usual, "--weights", "i8").err
    np.savez(tmp_path / "x.npz", x=images(1)[0].numpy())
    (tmp_path / "torn.npz").write_bytes((tmp_path / "x.npz").read_bytes()[:3000])
    assert "torn.npz is not an array" in call("quantize", tmp_path / "small.pt", "--input", tmp_path / "torn.npz").err
    done = call("quantize", tmp_path / "small.pt", "--weights", "i8", "--input", tmp_path / "x.npz")
    assert done.code == 0, done.err
    assert penlight.load(tmp_path / "small.int8.pen").metadata["weights"] == "i8"


class Uneven(nn.Module):
    """Channels from 1 to 300 between two layers: equalizing them is worth it."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(16, 32, 1), nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.Conv2d(32, 16, 1)
        sizes = torch.logspace(-2, 0.5, 32)
        with torch.no_grad():
            self.a.weight *= sizes[:, None, None, None]
            self.a.bias.copy_(torch.randn(32) * sizes)  # type: ignore[union-attr]
            self.c.weight /= sizes[None, :, None, None]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.c(torch.relu(self.b(torch.relu(self.a(x)))))


@pytest.mark.parametrize("options", [{"correct_bias": False}, {"budget": True}], ids=str)
def test_layers_that_were_equalized_stay_so(options: Any) -> None:
    """Biases that are not corrected, and weights of layers that are kept in floats for a budget, are those of the equalized layers."""
    torch.manual_seed(1)
    module, batches = Uneven().eval(), list(torch.randn(6, 2, 16, 8, 8))
    plain = penlight.quantize(module, batches, speed=False).report()
    assert plain.equalized
    if "budget" in options:  # what leaves some layers in integers, but not all
        options = {"budget": 1.02 * sorted(layer.cost or 0.0 for layer in plain.layers)[0]}
    report = penlight.quantize(module, batches, speed=False, **options).report()
    assert report.equalized
    assert sum(layer.stored == "i8" for layer in report.layers) > 0
    assert report.relative <= max(plain.relative * 1.5, 0.02)
    if "budget" in options:
        assert any(layer.stored == "f32" for layer in report.layers)
        assert report.relative <= options["budget"]


class Affinity(nn.Module):
    """Every token against every other, between two linears."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.head = nn.Linear(24, 96), nn.Linear(30, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = self.project(x).chunk(2, -1)
        return self.head(torch.relu(left @ right.transpose(-1, -2)))


def test_products_of_two_activations() -> None:
    torch.manual_seed(0)
    model, batches = Affinity().eval(), [torch.randn(2, 30, 24) for _ in range(8)]
    quantized = penlight.quantize(model, batches, sensitivity=False, speed=False)
    keys = read(quantized.to_bytes()).keys
    assert "matmul.q8" in keys
    assert not any(key.startswith("dequantize") for key in keys)
    x = torch.randn(2, 30, 24)
    with torch.no_grad():
        expected = model(x)
    assert (quantized(x) - expected).norm() < 0.03 * expected.norm()
