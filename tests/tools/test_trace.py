"""penlight trace and model_tracer, as users call them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torchgen.selective_build.selector import SelectiveBuilder

import penlight
from penlight.build.model_selection import selection_of_models
from penlight.build.yaml_file import selection_of_yaml
from penlight.file.metadata import sections, with_sections
from penlight.tools import model_tracer
from tests.build import traced_models
from tests.tools.call import Penlight


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("models")
    return traced_models.planned(folder), traced_models.interpreted(folder)


@pytest.mark.filterwarnings("ignore")
def test_trace(penlight_command: Penlight, models: tuple[Path, Path], tmp_path: Path) -> None:
    output = tmp_path / "ops.yaml"
    called = penlight_command("trace", *models, "-o", output)
    assert called.code == 0, called.err
    assert f"{models[0]}: 1 bundled input of forward\n" in called.out
    assert "the VM with" in called.out
    assert "which other inputs might ask for (--static keeps them):\n" in called.out
    chosen = selection_of_yaml(output)
    assert chosen.has_operator("aten::startswith") or chosen.has_operator("aten::upper")
    assert chosen.has_key("conv2d.f32.direct")
    assert not chosen.has_key("erf.f64")
    assert SelectiveBuilder.from_yaml_path(str(output)).is_root_operator("aten::abs")


def test_static(penlight_command: Penlight, tmp_path: Path) -> None:
    model, output = tmp_path / "a.pen", tmp_path / "ops.yaml"
    penlight.optimize(nn.Softmax(-1), (torch.rand(2, 3),)).save(model)
    called = penlight_command("trace", model, "-o", output)
    assert called.code == 1
    assert "no bundled inputs to run it on" in called.err
    assert not output.exists()
    called = penlight_command("trace", "--static", model, "-o", output)
    assert called.code == 0
    assert "not run" in called.out
    assert "2 kernels, no VM" in called.out
    assert selection_of_yaml(output) == selection_of_models([model])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [([], "Missing argument"), (["{m}", "-o", "{m}"], "would overwrite"), (["{m}", "-o", "/no/such/ops.yaml"], "no folder /no/such")],
)  # fmt: skip
def test_wrong_calls(penlight_command: Penlight, models: tuple[Path, Path], arguments: list[str], words: str) -> None:
    called = penlight_command("trace", *(a.format(m=models[0]) for a in arguments))
    assert called.code == 2
    assert words in called.err


def tracer(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as exited:
        model_tracer.main([str(a) for a in arguments])
    text = capsys.readouterr()
    return int(exited.value.code or 0), text.out, text.err


@pytest.mark.filterwarnings("ignore")
def test_model_tracer(capsys: pytest.CaptureFixture[str], models: tuple[Path, Path], tmp_path: Path) -> None:
    output = tmp_path / "ops.yaml"
    paths = ",".join(map(str, models))
    code, out, err = tracer(capsys, "--model_input_path", paths, f"--build_yaml_path={output}")
    assert code == 0, err
    lines = out.splitlines()
    assert lines[:3] == [f"Output: {output}", *(f"Processing: {model}" for model in models)]
    assert lines[4:7] == ["Inferred CPU Model.", "Got 1 bundled input(s) for forward", ""]
    assert [line.startswith("Got ") and line.endswith(" Root Operators.") for line in (lines[3], lines[7])] == [
        True
    ] * 2
    assert selection_of_yaml(output).vm


def test_model_tracer_prints_no_control_codes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Methods are called what their file says."""
    x = torch.rand(1, 3)
    model = penlight.optimize(nn.Linear(3, 2), (x,), bundled_inputs={"forward": [(x,)]})
    image = np.frombuffer(model.to_bytes(), np.uint8)
    text = sections(image)["TEXT"][1].replace(b"forward", b"\x1b[31mab")
    (tmp_path / "m.pen").write_bytes(with_sections(image, {"TEXT": text}).tobytes())
    code, out, err = tracer(
        capsys, "--model_input_path", tmp_path / "m.pen", "--build_yaml_path", tmp_path / "ops.yaml"
    )
    assert code == 0, err
    assert "input(s) for \N{REPLACEMENT CHARACTER}[31mab" in out


def test_model_tracer_says_what_is_missing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    output = tmp_path / "ops.yaml"
    output.write_text("old")
    for arguments, words in (
        (["--build_yaml_path", output], "You must specify the flag --model_input_path\n"),
        (["--model_input_path", "a.ptl"], "You must specify the flag --build_yaml_path\n"),
        (["--model", "a.ptl"], "Failed to parse command line flags! unrecognized arguments: --model a.ptl\n"),
        (
            ["--model_input_path", tmp_path / "none.ptl", "--build_yaml_path", output],
            "ModelTracer has not been able to load the module for the following reasons:\n",
        ),
    ):
        code, _, err = tracer(capsys, *arguments)
        assert code == 1
        assert err.startswith(words)
    assert output.read_text() == "old"
