"""`penlight optimize`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import penlight
from penlight.file.reader import read
from tests.tools.call import Penlight

torch = pytest.importorskip("torch")


def test_torchscript_with_metadata(penlight_command: Penlight, files: Path, tmp_path: Path) -> None:
    out = tmp_path / "c.pen"
    told = penlight_command(
        "optimize", files / "classifier.pt", "-o", out, "--shape", "1,3,32,32", "--labels", files / "labels.txt", "--name", "mine",
        "--imagenet", "--crop", "32", "--mean", "0.5", "--std", "0.25,0.25,0.5",
    )  # fmt: skip
    assert told.code == 0, told.err
    assert f"{out}" in told.out
    assert "kernel calls" in told.out
    assert "capturing the model" in told.err  # progress, not among the results
    pen = read(out)
    assert pen.metadata["name"] == "mine"
    assert pen.metadata["labels"][5] == "five"
    steps = pen.metadata["preprocessing"]
    assert (steps["resize"], steps["crop"], steps["mean"], steps["std"]) == (256, 32, [0.5], [0.25, 0.25, 0.5])
    x = torch.rand(1, 3, 32, 32)
    expected = torch.jit.load(files / "classifier.pt")(x)
    torch.testing.assert_close(penlight.load(out)(x), expected, rtol=1e-5, atol=1e-5)


def test_exported_program_and_default_name(penlight_command: Penlight, files: Path, tmp_path: Path) -> None:
    model = tmp_path / "net.pt2"
    model.write_bytes((files / "classifier.pt2").read_bytes())
    assert penlight_command("optimize", model).code == 0
    assert read(tmp_path / "net.pen").metadata == {"name": "net", "backend": "cpu"}


def test_winograd_budget(penlight_command: Penlight, tmp_path: Path) -> None:
    model, x = torch.nn.Conv2d(40, 40, 3, padding=1).eval(), torch.rand(1, 40, 40, 40)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "net.pt2")
    for budget, key in (("0", "conv2d.f32.gemm"), ("1", "conv2d.f32.winograd4")):
        assert penlight_command("optimize", tmp_path / "net.pt2", "--winograd-budget", budget).code == 0
        assert key in read(tmp_path / "net.pen").keys
    told = penlight_command("optimize", tmp_path / "net.pt2", "--winograd-budget", "-1")
    assert told.code == 2
    assert "-1" in told.err


def test_dynamic(penlight_command: Penlight, files: Path, tmp_path: Path) -> None:
    out = tmp_path / "d.pen"
    told = penlight_command("optimize", files / "classifier.pt", "-o", out, "--shape", "2,3,32,32", "--dynamic")
    assert told.code == 0, told.err
    x = torch.rand(3, 3, 41, 27)
    torch.testing.assert_close(penlight.load(out)(x), torch.jit.load(files / "classifier.pt")(x), rtol=1e-5, atol=1e-5)


def test_metadata_file(penlight_command: Penlight, files: Path, tmp_path: Path) -> None:
    described = tmp_path / "about.json"
    described.write_text(json.dumps({"licence": "MIT", "name": "from the file"}))
    labels = tmp_path / "labels.json"
    labels.write_text('["a", "b"]')
    out = tmp_path / "m.pen"
    assert (
        penlight_command(
            "optimize", files / "classifier.pt2", "-o", out, "--metadata", described, "--labels", labels
        ).code
        == 0
    )
    assert read(out).metadata == {"licence": "MIT", "name": "from the file", "labels": ["a", "b"], "backend": "cpu"}


def test_labels_are_lines(penlight_command: Penlight, files: Path, tmp_path: Path) -> None:
    """With the mark that editors of Windows put in front, and letters that end a line for Python alone."""
    labels = tmp_path / "labels.txt"
    labels.write_bytes("\ufeffzero\r\none\u2028two\x0c\n\nthree".encode())
    told = penlight_command("optimize", files / "classifier.pt2", "-o", tmp_path / "m.pen", "--labels", labels)
    assert told.code == 0, told.err
    assert read(tmp_path / "m.pen").metadata["labels"] == ["zero", "one\u2028two\x0c", "", "three"]


def test_what_goes_wrong(penlight_command: Penlight, files: Path, tmp_path: Path) -> None:
    told = penlight_command("optimize", files / "weights.pt", "-o", tmp_path / "x.pen")
    assert told.code == 1
    assert "error: " in told.err
    assert "Traceback" not in told.err
    assert not (tmp_path / "x.pen").exists()
    for arguments, message in (
        (["--shape", "1,b"], "expected sizes between commas"),
        (["--shape", "1,3:f99"], "no dtype 'f99'"),
        (["--shape", "1,-3"], "cannot be below 0"),
        (["--mean", "x"], "expected a number"),
        (["--resize", "1,2,3"], "expected a size such as 224"),
        (["-o", str(tmp_path / "no" / "where.pen")], "there is no folder"),
        (["-o", str(files / "classifier.pt")], "would overwrite"),
    ):
        told = penlight_command("optimize", files / "classifier.pt", *arguments)
        assert told.code == 2, arguments
        assert message in told.err, arguments
    told = penlight_command("optimize", files / "classifier.pt", "--mean", "1,2", "--shape", "1,3,32,32")
    assert told.code == 1
    assert "mean: expected 1 or 3 numbers" in told.err


def test_scripted_model_without_shapes(penlight_command: Penlight, tmp_path: Path) -> None:
    """A convolution says what its input is: one plan. A linear layer takes any rank: interpreted, with plans where they fit."""
    torch.jit.script(torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.ReLU()).eval()).save(tmp_path / "c.pt")
    told = penlight_command("optimize", tmp_path / "c.pt")
    assert told.code == 0
    assert "in   input: f32[input_0, 3, input_2, input_3]" in told.out
    linear = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 4), torch.nn.ReLU()).eval())
    linear.save(tmp_path / "l.pt")
    told = penlight_command("optimize", tmp_path / "l.pt")
    assert told.code == 0
    assert "forward(Tensor input) -> Tensor   interpreted" in told.out
    model = penlight.load(tmp_path / "l.pen")
    for shape in ((2, 3), (3,), (2, 2, 5, 3)):
        x = torch.rand(shape)
        with torch.no_grad():
            torch.testing.assert_close(model(x), linear(x))


def test_methods_and_ptl(penlight_command: Penlight, tmp_path: Path) -> None:
    class Two(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

        @torch.jit.export
        def twice(self, x: torch.Tensor, n: int) -> torch.Tensor:
            return x * n

    script = torch.jit.script(Two())
    script.save(tmp_path / "m.pt")
    script._save_for_lite_interpreter(str(tmp_path / "m.ptl"))
    script._save_for_lite_interpreter(str(tmp_path / "f.ptl"), _use_flatbuffer=True)
    assert penlight_command("optimize", tmp_path / "m.pt", "-o", tmp_path / "a.pen").code == 0
    assert penlight.load(tmp_path / "a.pen").methods == ["forward"]
    x = torch.tensor([1.0, 2.0])
    for source, options in (
        ("m.pt", ["--method", "twice"]),
        ("m.ptl", []),
        ("f.ptl", []),
        ("f.ptl", ["--method", "twice"]),
    ):
        told = penlight_command("optimize", tmp_path / source, "-o", tmp_path / "b.pen", *options)
        assert told.code == 0, told.err
        assert "twice(Tensor x, int n) -> Tensor   interpreted" in told.out
        model = penlight.load(tmp_path / "b.pen")
        torch.testing.assert_close(model.run_method("twice", x, 3), x * 3)
        torch.testing.assert_close(model(x), x + 1)
    told = penlight_command("optimize", tmp_path / "m.pt", "--method", "thrice")
    assert told.code == 1
    assert "has no method thrice" in told.err


def test_unsupported_operators_are_named(penlight_command: Penlight, tmp_path: Path) -> None:
    class Exotic(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x.to_sparse().to_dense())

    torch.export.save(torch.export.export(Exotic(), (torch.eye(4),)), tmp_path / "e.pt2")
    told = penlight_command("optimize", tmp_path / "e.pt2")
    assert told.code == 1
    assert "1 operator of this model cannot run in Penlight yet" in told.err
    assert "aten::to_sparse" in told.err
