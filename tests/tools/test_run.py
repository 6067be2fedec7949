"""`penlight run`."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
import torch

import penlight
from penlight.file.writer import to_array
from penlight.preprocess import Preprocessing
from penlight.tools.arrays import load_arrays, save_arrays
from penlight.tools.run import named_arrays, probabilities, top_labels
from tests.file.assemble import program
from tests.tools.call import Penlight


@pytest.fixture(scope="module")
def two(files: Path) -> Path:
    penlight.optimize(str(files / "two.pt2")).save(files / "two.pen")
    np.save(files / "ids.npy", np.arange(10).reshape(2, 5))
    np.save(files / "mask.npy", np.full((2, 5), 0.5, np.float32))
    return files / "two.pen"


def test_labels_with_probabilities(penlight_command: Penlight, files: Path, classifier: Path) -> None:
    told = penlight_command("run", classifier, files / "photo.png", files / "photo.png", "--top", "3", "--threads", "1")
    assert told.code == 0, told.err
    model = penlight.load(classifier)
    steps = Preprocessing.from_metadata(model.metadata["preprocessing"])
    expected = top_labels(probabilities(model(steps(files / "photo.png"))[0]), 3)
    lines = told.out.splitlines()
    assert len(lines) == 8  # two photographs, a line with the name and three labels each
    names = ["zero", "one", "two", "three", "four", "five"]
    assert [line.split() for line in lines[1:4]] == [[f"{p:.2%}", names[i]] for i, p in expected]


def test_options_override_the_metadata(penlight_command: Penlight, files: Path, classifier: Path) -> None:
    plain = penlight_command("run", classifier, files / "photo.png").out
    other = penlight_command("run", classifier, files / "photo.png", "--mean", "0.1").out
    assert plain.splitlines()[1:] != other.splitlines()[1:]


def test_without_preprocessing(penlight_command: Penlight, files: Path, tmp_path: Path) -> None:
    path = tmp_path / "bare.pen"
    penlight.optimize(str(files / "classifier.pt2")).save(path)
    told = penlight_command("run", path, files / "photo.png")
    assert told.code == 2
    assert "does not say how images are prepared" in told.err
    told = penlight_command("run", path, files / "photo.png", "--resize", "32,32")
    assert told.code == 0
    assert "class " in told.out  # no labels: numbers


def test_arrays_by_name_and_in_order(penlight_command: Penlight, files: Path, two: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    told = penlight_command(
        "run", two, "--input", f"mask={files / 'mask.npy'}", "--input", files / "ids.npy", "--output", out
    )
    assert told.code == 0, told.err
    assert "masked" in told.out
    saved = np.load(out)
    np.testing.assert_allclose(saved["masked"], np.arange(10).reshape(2, 5) / 2)
    assert float(saved["total"]) == 5.0


def test_one_output_as_npy(penlight_command: Penlight, files: Path, classifier: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 3, 32, 32), np.float32))
    told = penlight_command("run", classifier, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    assert told.code == 0, told.err
    assert np.load(tmp_path / "y.npy").shape == (1, 6)


def test_what_goes_wrong(penlight_command: Penlight, files: Path, classifier: Path, two: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "small.npy", np.zeros((1, 3, 31, 32), np.float32))
    (tmp_path / "text.npy").write_text("hello")
    mask, ids, photo = files / "mask.npy", files / "ids.npy", files / "photo.png"
    for code, message, *arguments in (
        (2, "give images, or arrays", classifier),
        (2, "give images, or arrays", classifier, photo, "--input", mask),
        (2, "takes 2 inputs, not one image", two, photo, "--imagenet"),
        (2, "no input 'x'; the model takes ids: i64[2, 5], mask: f32[2, 5]", two, "--input", f"x={mask}"),
        (2, "got 1 arrays; the model takes ids", two, "--input", ids),
        (2, "'ids' twice", two, "--input", f"ids={ids}", "--input", f"ids={ids}"),
        (2, "no such file", two, "--input", tmp_path / "none.npy"),
        (2, "not an array saved by numpy", two, "--input", tmp_path / "text.npy"),
        (2, "has no method 'fly'; it has forward", two, "--method", "fly", "--input", ids),
        (2, "the model gives 2 arrays (masked, total)", two, "--input", ids, "--input", mask, "--output", tmp_path / "o.npy"),
        (2, "ends in .npy or .npz", two, "--input", ids, "--output", tmp_path / "o.txt"),
        (1, "no such file", classifier, tmp_path / "none.png"),
        (1, "not an image that can be read", classifier, files / "labels.txt"),
        (1, "expected size 32 in dim 2, got f32[1, 3, 31, 32]", classifier, "--input", tmp_path / "small.npy"),
        (1, "expected a .pen file, got a zip archive", files / "classifier.pt", photo),
    ):  # fmt: skip
        told = penlight_command("run", *arguments)
        assert message in told.err, (message, told.err)
        assert told.code == code, message
        assert "Traceback" not in told.err


@pytest.mark.parametrize("name", ["file", "allow_pickle", "a/b", "\ud800"])
def test_outputs_may_have_any_name(penlight_command: Penlight, name: str, tmp_path: Path) -> None:
    """What an output is called is the file's word: numpy's savez wrote to where one called "file" said."""
    text = f"forward(self, x):\n r2 = dict({name!r}, r1, 'b', r1)\n return(r2)"
    (tmp_path / "m.pen").write_bytes(to_array(program(text)))
    np.save(tmp_path / "x.npy", np.arange(3, dtype=np.float32))
    told = penlight_command("run", tmp_path / "m.pen", "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npz")
    assert told.code == 0, told.err
    with np.load(tmp_path / "y.npz") as saved:
        assert [saved[key].tolist() for key in saved.files] == [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr':'<f4','fortran_order':False,'shape':(1000000000000000,)}", b"{'shape':(99999999999999999999999,),'descr':'<f4','fortran_order':False}",
        b"(" * 5000, b"-" * 5000, b"{[]:1}", b"\t\n  1\n 2",
    ],
    ids=["terabytes", "more than a number", "open", "nested", "no key", "indented"],
)  # fmt: skip
def test_headers_of_arrays_that_are_none(penlight_command: Penlight, two: Path, header: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    (tmp_path / "x.npz").write_bytes(b"PK\x05\x06" + b"\xff" * 18)
    for file in ("x.npy", "x.npz"):
        told = penlight_command("run", two, "--input", tmp_path / file)
        assert (told.code, "not an array saved by numpy" in told.err) == (2, True), told.err


def test_arrays_of_a_compression_that_numpy_does_not_write(tmp_path: Path) -> None:
    """4 kB of it took 8 GB, for a header of some bytes."""
    made = io.BytesIO()
    np.save(made, np.zeros(1 << 20))
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("x.npy", made.getvalue())
    with pytest.raises(click.UsageError, match="got another compression"):
        load_arrays(tmp_path / "x.npz")
    np.savez_compressed(tmp_path / "x.npz", x=np.zeros(1 << 20))
    assert load_arrays(tmp_path / "x.npz")["x"].size == 1 << 20


def test_probabilities() -> None:
    logits = np.array([1.0, 3.0, 2.0], np.float32)
    p = probabilities(logits)
    assert abs(p.sum() - 1) < 1e-12
    np.testing.assert_allclose(probabilities(p.astype(np.float32)), p, rtol=1e-6)  # a distribution stays one
    assert abs(probabilities(p.astype(np.float32), "logits")[0] - p[0]) > 0.1
    assert top_labels(np.array([0.2, 0.5, 0.2, 0.1]), 3) == [(1, 0.5), (0, 0.2), (2, 0.2)]
    assert top_labels(np.array([0.5, 0.5]), 9) == [(0, 0.5), (1, 0.5)]


def test_names_of_nested_outputs() -> None:
    y = np.zeros(1)
    assert list(named_arrays(y)) == ["output"]
    assert list(named_arrays((y, [y, {"a": y}]))) == ["output0", "output1[0]", "output1[1].a"]
    assert list(named_arrays({"out": y, "n": 3})) == ["out"]
    assert list(named_arrays({"a": {"b": y}, "a.b": y})) == ["a.b", "a.b~2"]


def test_names_that_no_archive_has(tmp_path: Path) -> None:
    """Each output is there once, and comes back."""
    names = ["a", "b\0c", "b\0d", "\ud800", "x" * 70_000]
    save_arrays(tmp_path / "y.npz", {name: np.full(1, i) for i, name in enumerate(names)})
    with np.load(tmp_path / "y.npz") as saved:
        assert [saved[name].tolist() for name in saved.files] == [[0], [1], [2], [3], [4]]


class Speech(torch.nn.Module):
    def forward(
        self, wave: torch.Tensor, sr: int, mode: str = "sum", gain: float = 1.0, flip: bool = False
    ) -> torch.Tensor:
        y = wave.flip(0) * gain if flip else wave * gain
        if mode == "16000":
            y = y - 1
        return y * sr


@pytest.fixture(scope="module")
def speech(files: Path) -> Path:
    torch.jit.save(torch.jit.script(Speech()), files / "speech.pt")
    penlight.optimize(files / "speech.pt").save(files / "speech.pen")
    np.save(files / "wave.npy", np.arange(5, dtype=np.float32))
    return files / "speech.pen"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["sr=2"], lambda x: x * 2),
        (["sr=2", "mode=16000", "gain=3"], lambda x: (x * 3 - 1) * 2),
        (["sr=-2", "mode=sum", "gain=0.5", "flip=true"], lambda x: x[::-1] * -1),
    ],
)
def test_arguments_that_are_no_tensors(
    penlight_command: Penlight, files: Path, speech: Path, tmp_path: Path, given: list[str], expected: Any
) -> None:
    options = [part for text in given for part in ("--arg", text)]
    told = penlight_command("run", speech, "--input", files / "wave.npy", "--output", tmp_path / "y.npy", *options)
    assert told.code == 0, told.err
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected(np.arange(5, dtype=np.float32)))
    told = penlight_command("optimize", files / "speech.pt", "-o", tmp_path / "s.pen", "--shape", "5", *options)
    assert told.code == 0, told.err
    assert penlight.load(tmp_path / "s.pen").metadata["name"] == "speech"


@pytest.mark.parametrize(
    ("given", "message"),
    [([], "argument sr (int) is missing: --arg sr=…"), (["sr=2.5"], "--arg sr: expected an int, got '2.5'"),
     (["sr=2", "flip=3"], "--arg flip: expected true or false, got '3'"), (["rate=3"], "--arg rate: no such argument"),
     (["sr"], "expected NAME=VALUE")],
)  # fmt: skip
def test_arguments_in_words(
    penlight_command: Penlight, files: Path, speech: Path, given: list[str], message: str
) -> None:
    options = [part for text in given for part in ("--arg", text)]
    told = penlight_command("run", speech, "--input", files / "wave.npy", *options)
    assert told.code == 2
    assert message in " ".join(told.err.replace("│", " ").split())
