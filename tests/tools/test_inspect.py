"""`penlight inspect`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import penlight
from penlight.file.reader import read
from penlight.tools.inspect import example_shapes
from penlight.tools.options import Shape
from tests.file.small import small_file
from tests.tools.call import Penlight


def small(folder: Path) -> Path:
    path = folder / "small[bold].pen"  # a name that looks like markup
    path.write_bytes(small_file())
    return path


def test_shows_everything(penlight_command: Penlight, classifier: Path) -> None:
    told = penlight_command("inspect", classifier)
    assert (told.code, told.err) == (0, "")
    for text in (
        "name: classifier", "labels: 6: zero, one, two, three, …", '"crop": 32', "in   input: f32[1, 3, 32, 32]", "out  ", "f32[1, 6]",
        "arena  ", "conv2d.f32.", "linear.f32", "panel16", "Weights: ",
    ):  # fmt: skip
        assert text in told.out, text
    assert "\x1b" not in told.out  # no colours in a pipe


def test_symbolic_dims_and_names_as_they_are(penlight_command: Penlight, tmp_path: Path) -> None:
    told = penlight_command("inspect", small(tmp_path))
    assert told.code == 0
    assert "small[bold].pen" in told.out
    assert "in   x: f32[x_0, 3, x_2, 8]   (x_0 1 … 16, x_2 ≥ 8)" in told.out
    assert "out  out: f32[x_0, 5]" in told.out
    assert "at x=[1, 3, 224, 8], bias=[5]" in told.out
    told = penlight_command("inspect", small(tmp_path), "--shape", "x=2,3,10,8")
    assert "at x=[2, 3, 10, 8], bias=[5]" in told.out


def test_json(penlight_command: Penlight, tmp_path: Path) -> None:
    told = penlight_command("inspect", small(tmp_path), "--json", "--graph")
    facts = json.loads(told.out)
    assert facts["bytes"] == len(small_file())
    assert facts["methods"]["forward"]["inputs"][0] == {
        "name": "x", "dtype": "f32", "shape": ["x_0", 3, "x_2", 8], "limits": [[1, 16], [3, 3], [8, None], [8, 8]],
    }  # fmt: skip
    assert facts["operators"]["conv2d"] == 3
    assert facts["kernels"]["conv2d.f32.grouped"] == 1
    assert "clamp.f32" not in facts["kernels"]  # kernels do it by themselves
    assert sum(w["bytes"] for w in facts["weights"]) == facts["weight_bytes"]
    assert facts["memory"]["forward"]["arena_bytes"] > 0
    assert facts["graph"].startswith("method forward")


def test_graph(penlight_command: Penlight, tmp_path: Path) -> None:
    told = penlight_command("inspect", small(tmp_path), "--graph")
    assert "%c: f32[x_0, 20, x_2 // 2, 4] nhwc = conv2d.f32." in told.out


def test_a_shape_that_does_not_fit_is_told(penlight_command: Penlight, tmp_path: Path) -> None:
    told = penlight_command("inspect", small(tmp_path), "--shape", "x=2,3,10,9")
    assert told.code == 0
    assert "unknown at x=[2, 3, 10, 9]" in told.out
    told = penlight_command("inspect", small(tmp_path), "--shape", "z=1")
    assert told.code == 2
    assert "no input 'z'; forward takes x: f32[x_0, 3, x_2, 8]" in told.err


def test_verify(penlight_command: Penlight, tmp_path: Path) -> None:
    path = small(tmp_path)
    assert "(verified)" in penlight_command("inspect", path, "--verify").out
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    told = penlight_command("inspect", path, "--verify")
    assert told.code == 1
    assert "not what its hash describes" in told.err
    assert penlight_command("inspect", path).code == 0


def test_example_shapes_follow_the_preprocessing() -> None:
    method = read(small_file()).method()
    assert example_shapes(method, {"preprocessing": {"crop": [40, 50]}}, [])[0] == (1, 3, 40, 8)
    assert example_shapes(method, {"preprocessing": {"crop": [2, 50]}}, [])[0] == (1, 3, 8, 8)  # the file's own limit
    assert example_shapes(method, {"preprocessing": "nonsense"}, [])[0] == (1, 3, 224, 8)
    assert example_shapes(method, {}, [Shape("", (4, 3, 9, 8), "")]) == [(4, 3, 9, 8), (5,)]


def test_activations_that_are_kernels_too(penlight_command: Penlight, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 1), torch.nn.SiLU())
    penlight.optimize(network, (torch.rand(1, 3, 4, 4),)).save(tmp_path / "m.pen")
    assert re.search(r"\(fused into these\) +silu\.f32", penlight_command("inspect", tmp_path / "m.pen").out)
