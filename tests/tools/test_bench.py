"""`penlight bench`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penlight
from penlight import limits
from penlight.model import StepTime
from penlight.tools.screen import Screen
from penlight.tools.step_table import Peak, by_kernel, by_step
from tests.tools.call import Penlight

CONVOLUTION, LINEAR = 16 * 16 * 8 * 3 * 3 * 3, 8 * 6  # multiply-adds of the classifier on 32 x 32


def facts(command: Penlight, *arguments: object) -> dict[str, Any]:
    told = command("bench", *arguments, "--json", "--runs", "3")
    assert told.code == 0, told.err
    found: dict[str, Any] = json.loads(told.out)
    return found


def test_latency_table(penlight_command: Penlight, classifier: Path) -> None:
    told = penlight_command("bench", classifier, "--threads", "1,2", "--seconds", "0.01")
    assert told.code == 0, told.err
    lines = told.out.splitlines()
    assert "x 1 × 3 × 32 × 32" in lines[0] or "input 1 × 3 × 32 × 32" in lines[0]
    assert "5.53e-05 G multiply-adds" in lines[0]
    assert [line.split()[0] for line in lines[-2:]] == ["1", "2"]
    assert "timing with 2 threads" in told.err


def test_json(penlight_command: Penlight, classifier: Path) -> None:
    found = facts(penlight_command, classifier, "--threads", "1", "--profile")
    assert found["bytes"] == classifier.stat().st_size
    one = found["threads"]["1"]
    assert one["runs"] == 3
    assert 0 < one["best_s"] <= one["median_s"] <= one["p90_s"] < one["first_s"] + 60
    assert one["multiply_adds"] == CONVOLUTION + LINEAR
    assert one["arena_bytes"] > 0
    assert [s["multiply_adds"] for s in one["steps"] if s["multiply_adds"]] == [CONVOLUTION, LINEAR]
    assert [s["key"].partition(".")[0] for s in one["steps"] if s["multiply_adds"]] == ["conv2d", "linear"]


def test_profile_tables(penlight_command: Penlight, classifier: Path) -> None:
    told = penlight_command("bench", classifier, "--threads", "1", "--runs", "3", "--profile", "--peak", "100,20")
    assert told.code == 0, told.err
    lines = [line.split() for line in told.out.splitlines() if line.strip()]
    assert "of peak" in told.out
    convolution = next(line for line in lines if line[0].startswith("conv2d."))
    assert convolution[2:9] == ["1", "×", "8", "×", "16", "×", "16"]
    calls = [line for line in lines if line[0].partition(".")[0] in ("copy", "conv2d", "mean", "linear")]  # no views
    assert next(line for line in lines if line[0] == "all")[1] == str(len(calls) // 2)
    assert "of peak" not in penlight_command("bench", classifier, "--threads", "1", "--runs", "3", "--profile").out


@pytest.mark.slow
def test_channels_last_is_not_copied(penlight_command: Penlight, classifier: Path) -> None:
    def copies(*options: str) -> int:
        steps = facts(penlight_command, classifier, "--threads", "1", "--profile", *options)["threads"]["1"]["steps"]
        return sum(s["copied"] + (s["key"].startswith("copy.") and s["bytes"] > 0) for s in steps)

    assert copies() <= 1
    assert copies("--channels-last") == 0


@pytest.mark.slow
def test_free_sizes_and_arrays(penlight_command: Penlight, files: Path, tmp_path: Path) -> None:
    path = tmp_path / "free.pen"
    torch = pytest.importorskip("torch")
    penlight.optimize(str(files / "classifier.pt"), (torch.rand(2, 3, 32, 32),), dynamic_shapes="auto").save(path)
    found = facts(penlight_command, path, "--threads", "1", "--shape", "2,3,64,32")
    assert list(found["inputs"].values()) == [[2, 3, 64, 32]]
    assert found["threads"]["1"]["multiply_adds"] == 4 * CONVOLUTION + 2 * LINEAR
    np.save(tmp_path / "image.npy", np.zeros((3, 3, 16, 16), np.float32))
    found = facts(penlight_command, path, "--threads", "1", "--input", tmp_path / "image.npy")
    assert list(found["inputs"].values()) == [[3, 3, 16, 16]]


@pytest.mark.slow
def test_models_that_are_not_optimized_yet(penlight_command: Penlight, files: Path) -> None:
    for name, options in (("classifier.pt2", ()), ("classifier.pt", ("--shape", "1,3,32,32")), ("two.pt2", ())):
        found = facts(penlight_command, files / name, "--threads", "1", *options)
        assert found["file"] == str(files / name)
        assert found["threads"]["1"]["runs"] == 3


def test_wrong_calls(penlight_command: Penlight, classifier: Path, files: Path) -> None:
    for code, options in {
        2: (
            ["--threads", "0"],
            ["--threads", "x"],
            ["--peak", "100"],
            ["--method", "backward"],
            ["--shape", "y=1,2"],
            ["--isa", "z80"],
        ),
        1: (["--shape", "1,3,33,33"],),
    }.items():
        for option in options:
            told = penlight_command("bench", classifier, "--runs", "1", *option)
            assert told.code == code, option
            assert "Traceback" not in told.err
    told = penlight_command("bench", files / "labels.txt")
    assert told.code == 1
    assert "expected a .pen file" in told.err


@pytest.mark.parametrize("arguments", [["bench"], ["compare", "--devices", "cpu,cpu"]])
def test_inputs_that_are_larger_than_memory_are_not_made_up(
    arguments: list[str], penlight_command: Penlight, classifier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of some kilobytes may say that its input takes all there is."""
    monkeypatch.setattr(limits, "free_memory", lambda: 30_000)
    called = penlight_command(*arguments, classifier)
    assert called.code == 1
    assert "expected inputs that can be made up in the memory that is free" in " ".join(called.err.split())


def test_sums_and_fractions(capsys: pytest.CaptureFixture[str]) -> None:
    def step(key: str, seconds: float, size: int, work: int, copied: int = 0) -> StepTime:
        return StepTime(key, "y", "m.py:1", seconds, ((1, 2),), (1, 2), size, work, copied)

    steps = [
        step("conv2d.f32.gemm", 1e-3, 1_000_000, 25_000_000),
        step("conv2d.f32.gemm", 1e-3, 1_000_000, 50_000_000, 1),
        step("add.f32", 2e-3, 10_000_000, 0),
        step("reshape.view", 0.0, 0, 0),
    ]
    out = Screen(piped=True)
    out.print(by_kernel("", steps, Peak(100, 10)))
    rows = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()[2:] if line.strip()}
    assert rows["conv2d.f32.gemm"] == ["2", "2.000", "50.0%", "75.0", "75.0", "2.00", "1.0", "75%"]
    assert rows["add.f32"] == ["1", "2.000", "50.0%", "10.00", "5.0", "50%"]
    assert rows["all"][:3] == ["3", "4.000", "100.0%"]
    assert "reshape.view" not in rows
    out.print(by_step("", steps))
    text = capsys.readouterr().out
    assert "(1 copied)" in text
    assert "of peak" not in text


@pytest.mark.slow
def test_interpreted_methods(penlight_command: Penlight, tmp_path: Path) -> None:
    """They do not say how large their inputs are: shapes, arrays or bundled inputs do."""
    import torch

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if bool(x.sum() > 0) else x

    script, file, bundled = torch.jit.script(Model()), tmp_path / "m.pen", tmp_path / "bundled.pen"
    penlight.optimize(script).save(file)
    penlight.optimize(script, bundled_inputs={"forward": [(torch.rand(3, 5),)]}).save(bundled)
    told = penlight_command("bench", file)
    assert told.code == 2
    assert "forward(x) is interpreted" in told.err
    assert facts(penlight_command, file, "--shape", "2,7", "--threads", "1")["inputs"] == {"x": [2, 7]}
    assert facts(penlight_command, bundled, "--threads", "1")["inputs"] == {"x": [3, 5]}
    np.save(tmp_path / "x.npy", np.ones((2, 2), np.float32))
    told = penlight_command("run", file, "--input", tmp_path / "x.npy")
    assert told.code == 0, told.err
    assert "[2, 2]" in told.out
