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
from penlight.file.reader import read
from penlight.quant.report import Report
from penlight.quant.sensitivity import fewest_kept
from tests.quant.networks import images, small
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


def test_a_budget_is_met_with_the_costliest_layers_kept() -> None:
    module = small()
    plain = penlight.quantize(module, images(8), speed=False).report()
    budget = plain.relative * 0.6
    report = penlight.quantize(module, images(8), budget=budget, speed=False).report()
    kept = {layer.name for layer in report.layers if layer.why.startswith("budget")}
    assert 0 < len(kept) < len(report.layers)
    assert report.relative <= budget * 1.05  # measured in integers; the trials are simulated
    costs = {layer.name: layer.cost or 0.0 for layer in report.layers}
    assert min(costs[name] for name in kept) >= max(c for name, c in costs.items() if name not in kept) - 1e-9


def test_a_budget_of_agreement() -> None:
    report = penlight.quantize(small(), images(8), budget={"top1": 1.0}, speed=False).report()
    assert report.top1 == 1.0


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
    with pytest.raises(penlight.QuantizationError, match="no convolution or linear"):
        penlight.quantize(nn.Sequential(nn.ReLU(), nn.MaxPool2d(2)), images(2))


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
