"""`penlight compare` on software GPUs and against torch, and verify=True at load: agreement is seen, and so is where it ends."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import penlight
from penlight import agreement
from penlight.file.layers import with_layers
from penlight.file.reader import read
from penlight.tools import compare
from tests.gpu.conftest import device_of
from tests.tools.call import Penlight


class Network(torch.nn.Module):
    """What fuses (batch norm, activation, a residual), views, a concatenation, two outputs, integers among the values."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU6())
        self.second = torch.nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.last = torch.nn.Linear(16, 5)
        torch.nn.init.uniform_(self.first[1].weight, 0.5, 2.0)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.first(x)
        y = torch.cat([y, y + torch.nn.functional.hardswish(self.second(y))], 1)
        return self.last(y.mean((2, 3))), y.flatten(1)[:, :7]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("compare")
    network, x = Network().eval(), torch.randn(1, 3, 12, 10)
    made = {name: folder / f"m.{name}" for name in ("pen", "both", "pt", "pt2", "other", "dynamic")}
    penlight.optimize(network, (x,)).save(made["pen"])
    penlight.optimize(network, (x,), backend=("cpu", "vulkan")).save(made["both"])
    size = torch.export.Dim("h", min=4, max=96)
    penlight.optimize(network, (x,), dynamic_shapes=({2: size},)).save(made["dynamic"])
    torch.jit.trace(network, x).save(made["pt"])
    torch.export.save(torch.export.export(network, (x,)), made["pt2"])
    network.second.weight.data[3] *= 1.5
    penlight.optimize(network, (x,)).save(made["other"])
    return made


@pytest.fixture
def penlight_command(capsys: pytest.CaptureFixture[str]) -> Penlight:
    return Penlight(capsys)


@pytest.mark.parametrize("driver", ["lavapipe", "swiftshader"])
@pytest.mark.parametrize("file", ["pen", "both", "dynamic"])
def test_devices(penlight_command: Penlight, files: dict[str, Path], driver: str, file: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    device = device_of(driver)
    told = penlight_command("compare", files[file], "--devices", f"cpu,{device}", "--layers", "--page", page)
    assert told.code == 0, told.err
    assert "agree" in told.out
    for part in ("conv2d.f32", "linear", "output"):
        assert part in told.out
    assert page.read_text().count("<rect") == told.out.count(" ok") > 5
    short = penlight_command("compare", files[file], "--devices", f"cpu,{device}", "--f16")
    assert (short.code, short.out.count(" ok")) == (0, 2)
    wrong = penlight_command("compare", files[file], "--devices", f"cpu,{device}", "--tolerance", "0", "--json")
    (comparison,) = json.loads(wrong.out)
    assert wrong.code == int(not comparison["agrees"])
    assert comparison["agrees"] == all(v["difference"] == 0 for v in comparison["values"])


@pytest.mark.parametrize("original", ["pt", "pt2"])
def test_against_torch(penlight_command: Penlight, files: dict[str, Path], original: str) -> None:
    device_of("lavapipe")
    told = penlight_command(
        "compare", files[original], files["pen"], "--layers", "--devices", "cpu,vulkan:llvmpipe", "--json"
    )
    assert told.code == 0, told.out
    for comparison in json.loads(told.out):
        against = {v["against"] for v in comparison["values"]}
        assert {"hardtanh", "hardswish"} & against or "clamp" in against  # what was fused into the convolutions
        assert all(v["agrees"] for v in comparison["values"])


@pytest.mark.slow
def test_a_wrong_layer_is_found(penlight_command: Penlight, files: dict[str, Path]) -> None:
    told = penlight_command("compare", files["pt"], files["other"], "--layers", "--json")
    assert told.code == 1
    ((comparison),) = json.loads(told.out)
    wrong = [v for v in comparison["values"] if not v.get("agrees", True)]
    right = comparison["values"][: comparison["values"].index(wrong[0])]
    assert "depthwise" in wrong[0]["kernel"]
    assert right
    assert "differ" in penlight_command("compare", files["pt"], files["other"]).out


def test_wrong_calls(penlight_command: Penlight, files: dict[str, Path], tmp_path: Path) -> None:
    for arguments, words in (
        ([files["pt"]], "expected a .pen file"), ([files["pen"], "--devices", "cpu"], "two or more"),
        ([files["pen"], "--devices", "cpu,npu"], "npu"),
    ):  # fmt: skip
        told = penlight_command("compare", *arguments)
        assert told.code in (1, 2)
        assert words in told.err
    np.save(tmp_path / "x.npy", np.ones((1, 3, 12, 10), np.float32))
    assert penlight_command("compare", files["pt"], files["pen"], "--input", tmp_path / "x.npy").code == 0


def test_layers_change_no_number(files: dict[str, Path]) -> None:
    image = np.fromfile(files["pen"], np.uint8)
    made, layers = with_layers(image)
    x = np.random.default_rng(0).standard_normal((1, 3, 12, 10), np.float32)
    plain, all_values = penlight.load(files["pen"])(x), penlight.Model(made, verify=True)(x)
    for a, b in zip(plain, all_values, strict=False):
        np.testing.assert_array_equal(a, b)
    assert len(all_values) == 2 + len(layers)
    assert [layer.key for layer in layers] == [n.key for n in read(files["pen"]).nodes if n.outputs[0].dtype == "f32"]
    with pytest.raises(penlight.LoadError, match="backward"):
        with_layers(image, "backward")


@pytest.mark.parametrize("f16", [False, True])
@pytest.mark.parametrize("file", ["pen", "dynamic"])
def test_verify(files: dict[str, Path], f16: bool, file: str) -> None:
    device = device_of("lavapipe")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = penlight.load(files[file], device=device, verify=True, f16=f16)
    assert model.device == device.lower()


def test_verify_falls_back(files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    device = device_of("lavapipe")
    x = np.ones((1, 3, 12, 10), np.float32)
    expected = penlight.load(files["pen"])(x)
    with pytest.warns(penlight.DeviceWarning, match="There are: 0 .*runs on the CPU"):
        model = penlight.load(files["pen"], device="vulkan:99", verify=True)
    assert model.device == "cpu"
    np.testing.assert_array_equal(model(x)[0], expected[0])
    monkeypatch.setattr(agreement, "TOLERANCES", {False: -1.0, True: -1.0})
    with pytest.warns(penlight.DeviceWarning, match=r"other numbers on vulkan.*output\[0\] is off by"):
        model = penlight.load(files["pen"], device=device, verify=True)
    assert model.device == "cpu"


def test_agreement() -> None:
    one = np.float32([1, 2, np.nan, np.inf])
    assert agreement.agreement("x", one, one, 1e-3).agrees
    for other in (
        np.float32([1, 2, 3, np.inf]),
        np.float32([1, 2, np.nan, -np.inf]),
        np.float32([1, 2]),
        np.arange(4),
    ):
        assert not agreement.agreement("x", other, one, 1e-3).agrees
    far = agreement.agreement("x", np.float32([100.05]), np.float32([100]), 1e-3)
    assert far.agrees
    assert far.difference == pytest.approx(0.05, rel=1e-3)
    assert not agreement.agreement("x", np.float32([0.005]), np.float32([0.0]), 1e-3).agrees
    softmax = np.full(1000, 1e-3, np.float32)
    assert not agreement.agreement("x", 0 * softmax, softmax, 1e-3).agrees
    assert agreement.agreement("x", np.float32([1e-8]), np.float32([-1e-8]), 1e-3).agrees
    assert agreement.agreement("x", np.arange(1000), np.arange(1000), 1e-3).agrees
    assert not agreement.agreement("x", np.arange(10) + 1, np.arange(10), 1e-3).agrees


class Says(torch.nn.Module):
    def __init__(self, what: int) -> None:
        super().__init__()
        self.what = what

    def forward(self, x: torch.Tensor) -> tuple[float, int, bool, str]:
        return float(x.sum()) * self.what, self.what, self.what > 1, str(self.what)


class SaysNothing(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> None:
        return None


@pytest.mark.slow
def test_numbers_and_texts_are_compared(penlight_command: Penlight, tmp_path: Path) -> None:
    """Results without a tensor agreed with anything."""
    inputs = {"forward": [(torch.ones(2),)]}
    for name, module in (("one", Says(1)), ("two", Says(2)), ("nothing", SaysNothing())):
        torch.jit.script(module).save(tmp_path / f"{name}.pt")
        penlight.optimize(tmp_path / f"{name}.pt", bundled_inputs=inputs).save(tmp_path / f"{name}.pen")
    assert penlight_command("compare", tmp_path / "two.pt", tmp_path / "two.pen").code == 0
    told = penlight_command("compare", tmp_path / "one.pt", tmp_path / "two.pen")
    assert told.code == 1
    assert "differ in 4 of 4 values" in told.out
    assert "nothing to compare" in penlight_command("compare", tmp_path / "nothing.pt", tmp_path / "nothing.pen").err
    told = penlight_command("compare", tmp_path / "nothing.pt", tmp_path / "two.pen")
    assert "not the same model" in told.err


def test_leaves() -> None:
    state = SimpleNamespace(a=torch.ones(2).bfloat16(), b=[True, "text"])
    assert [(name, array.tolist()) for name, array in agreement.leaves((state, 2.5))] == [
        ("output[0].a", [1.0, 1.0]), ("output[0].b[0]", True), ("output[0].b[1]", "text"), ("output[1]", 2.5),
    ]  # fmt: skip
    imaginary = agreement.agreement("z", np.array([1 + 1j]), np.array([1 - 1j]), 1e-3)
    assert not imaginary.agrees
    assert imaginary.difference == 2


def test_json_has_no_infinity() -> None:
    wrong = agreement.agreement("x", np.float32([np.nan]), np.float32([1]), 1e-3)
    told = compare._as_json(compare.Comparison("vulkan", "cpu", 1e-3, [compare.Row("output", "", wrong)]))
    assert '"difference": null' in json.dumps(told, allow_nan=False)
