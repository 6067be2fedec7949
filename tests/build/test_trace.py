"""What runs use of the library is noted in full, and is no more than the file asks for."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import penlight
from penlight.build.model_selection import pen_image, selection_of_file, selection_of_models
from penlight.build.selection import Selection
from penlight.build.trace import TraceError, run_bundled, torch_operators, trace_model, trace_models
from penlight.file.reader import read
from penlight.model import Model
from tests.build.traced_models import MODELS, scripted


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """As .pen files, each compiled once."""
    folder = tmp_path_factory.mktemp("traced")
    made = {}
    for name, make in MODELS.items():
        image = pen_image(make(folder))
        made[name] = folder / f"{name}.pen"
        if isinstance(image, bytes):
            made[name].write_bytes(image)
    return made


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_traced_is_part_of_static(files: dict[str, Path], name: str) -> None:
    static = selection_of_models([files[name]])
    kernels, operators = run_bundled(Model(files[name], threads=1), name)
    assert not [key for key in kernels if not static.has_key(key)]
    assert not [op for op in operators if not static.has_operator(op)]
    trace = trace_model(files[name])
    assert trace.static == static
    assert trace.chosen.keys == kernels | set(read(files[name]).keys)
    assert trace.chosen.vm is static.vm is (name != "planned")


@pytest.mark.filterwarnings("ignore")
def test_every_kernel_that_runs_is_noted(files: dict[str, Path]) -> None:
    model = Model(files["planned"], threads=1)
    trace = model.trace()
    assert trace.kernels == []
    (bundle,) = model.bundled_inputs()
    model(*bundle.args)
    steps = {step.key for step in model.profile(*bundle.args, runs=1)}
    assert {"conv2d.f32.direct", "linear.f32", "softmax.f32"} <= steps
    assert set(trace.kernels) == steps | {"hardswish.f32"}  # the activation inside the convolution


@pytest.mark.filterwarnings("ignore")
def test_planned_parts_are_also_interpreted(files: dict[str, Path]) -> None:
    pen = read(files["mixed"])
    assert any(method.name.startswith("~") for method in pen.methods)
    kernels, operators = run_bundled(Model(files["mixed"], threads=1), "mixed")
    assert {"aten::conv2d", "aten::softmax.int", "aten::cat", "aten::cumsum"} <= operators
    assert "conv2d.f32.direct" in kernels  # of the plan
    assert "pack.f32" in kernels  # of the operator
    by_plan = Model(files["mixed"], threads=1)
    trace = by_plan.trace()
    for bundle in by_plan.bundled_inputs():
        by_plan(*bundle.args)
    assert set(trace.kernels) < kernels
    assert "aten::conv2d" not in trace.operators
    assert [part.taken for part in by_plan.planned_parts] == [2]


@pytest.mark.filterwarnings("ignore")
def test_quantized_products_are_noted(files: dict[str, Path]) -> None:
    kernels, operators = run_bundled(Model(files["quantized"], threads=1), "quantized")
    assert any(key.startswith("conv2d.q8") for key in kernels)
    assert "quantized::conv2d.new" in operators or "quantized::conv2d_relu.new" in operators
    assert trace_model(files["quantized"]).custom_classes >= {"Conv2dPackedParamsBase", "LinearPackedParamsBase"}


def test_inputs_are_also_channels_last(tmp_path: Path) -> None:
    """The runtime copies what does not lie as a kernel reads it: a phone's image may."""
    x = torch.rand(1, 3, 4, 5)
    path = tmp_path / "a.pen"
    penlight.optimize(nn.Softmax(-1), (x,), bundled_inputs={"forward": [(x,)]}).save(path)
    model = Model(path)
    trace = model.trace()
    model(x)
    assert trace.kernels == ["softmax.f32"]
    assert run_bundled(Model(path), "")[0] == {"softmax.f32", "copy.b32"}
    assert selection_of_models([path]) == Selection(
        frozenset({"softmax.f32", "copy.b32"}), frozenset(), vm=False, halves=False, state=False, turns=False
    )


class Counts(nn.Module):
    """State: a run changes what the next one does."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x.sin() if self.count == 1 else x.cos()

    @torch.jit.export
    def other(self, x: torch.Tensor) -> torch.Tensor:
        return x.tan()


@pytest.mark.filterwarnings("ignore")
def test_state_begins_anew_and_what_did_not_run_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.pen"
    bundled = {"forward": [(torch.rand(3),)] * 2}
    penlight.optimize(torch.jit.script(Counts()), methods=["forward", "other"], bundled_inputs=bundled).save(path)
    kernels, _ = run_bundled(Model(path), "")
    assert "sin.f32" in kernels
    assert "cos.f32" not in kernels
    trace = trace_model(path)
    assert trace.inputs == (("forward", 2),)
    assert trace.not_run == ("other",)
    assert {"aten::tan", "aten::cos"} <= (trace.chosen.operators or set())  # named in code: always kept
    assert {"aten::tan", "aten::sin"} <= trace.root_operators


@pytest.mark.filterwarnings("ignore")
def test_together(files: dict[str, Path]) -> None:
    one, two = trace_model(files["planned"]), trace_model(files["interpreted"])
    both = trace_models([files["planned"], files["interpreted"]])
    assert both.chosen == one.chosen | two.chosen
    assert both.inputs == (("forward", 1), ("forward", 1))
    assert not both.root_operators & both.reached_operators


def test_names_of_planned_operators(files: dict[str, Path]) -> None:
    names = torch_operators(read(files["planned"]))
    assert {"aten::conv2d", "aten::linear", "aten::softmax.int"} <= names


@pytest.mark.filterwarnings("ignore")
def test_what_a_run_uses_beyond_the_file_is_an_error(files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    less = Selection(frozenset({"linear.f32"}), frozenset(), vm=False)
    monkeypatch.setattr("penlight.build.trace.selection_of_file", lambda pen: less)
    with pytest.raises(TraceError, match=r"does not ask for: conv2d.f32.direct, hardswish.f32, .*fault of Penlight"):
        trace_model(files["planned"])


def test_without_bundled_inputs(tmp_path: Path) -> None:
    path = tmp_path / "a.pen"
    penlight.optimize(nn.Linear(3, 3), (torch.rand(2, 3),)).save(path)
    with pytest.raises(TraceError, match=r"(?s)a.pen: no bundled inputs to run it on.*bundled_inputs=\{.*--static"):
        trace_model(path)
    trace = trace_model(path, static=True)
    assert trace.chosen == trace.static == selection_of_file(read(path))
    assert not trace.unused


@pytest.mark.filterwarnings("ignore")
def test_an_input_that_fails(tmp_path: Path) -> None:
    path = scripted(Product(), [(torch.rand(2, 3), torch.rand(2, 4))], tmp_path / "a.ptl")
    with pytest.raises(TraceError, match=r"a.ptl: forward fails on its bundled input: .*aten::matmul"):
        trace_model(path)


class Views(nn.Module):
    """torch refuses to view a channels-last image so: only inputs as they were bundled must run."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.view(-1)
        if bool(y[0] > 5):
            return y.erf()
        return y.exp()


@pytest.mark.filterwarnings("ignore")
def test_code_that_takes_no_other_strides(tmp_path: Path) -> None:
    path = scripted(Views(), [(torch.zeros(1, 2, 3, 4),)], tmp_path / "a.ptl")
    assert trace_model(path).chosen.has_key("exp.f32")
    assert not trace_model(path).chosen.has_key("erf.f32")


class Product(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b
