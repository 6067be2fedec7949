"""The command line as a whole: help, versions, how it fails."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import penlight
from penlight.tools import inspect as inspecting
from tests.tools.call import Penlight


def test_help_and_version(penlight_command: Penlight) -> None:
    told = penlight_command("--help")
    assert told.code == 0
    assert "optimize" in told.out and "inspect" in told.out and "run" in told.out  # noqa: PT018
    assert penlight.__version__ in penlight_command("--version").out
    for command in ("optimize", "run", "inspect", "bench"):
        told = penlight_command(command, "-h")
        assert (told.code, told.err) == (0, "")
        assert "--debug" in told.out


def test_wrong_calls_exit_with_2(penlight_command: Penlight, tmp_path: Path) -> None:
    for arguments in (["fly"], ["inspect"], ["inspect", "nowhere.pen"], ["inspect", "--wings", "x.pen"]):
        called = penlight_command(*arguments)
        assert called.code == 2, arguments
        assert "Traceback" not in called.err


@pytest.mark.parametrize(
    "words",
    [
        ("optimize", "--read-budget"), ("quantize", "--read-budget"), ("optimize", "--winograd-budget"), ("compare", "--tolerance"),
        ("bench", "--seconds"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("number", ["nan", "-1", "much"])
def test_numbers_that_are_none(
    words: tuple[str, str], number: str, penlight_command: Penlight, classifier: Path
) -> None:
    called = penlight_command(words[0], classifier, words[1], number)
    assert called.code == 2
    assert number in called.err.replace(words[1], "")


@pytest.mark.parametrize(
    ("command", "option", "value", "words"),
    [
        ("bench", "--device", "tpu", "device: expected one of cpu"),
        ("run", "--device", "vulkan:\udc80", "device: expected one of cpu"),
        ("compare", "--devices", "0,0", "device: expected one of cpu"),
        ("bench", "--isa", "z80", "isa: expected one of"),
        ("bench", "--isa", "\udc80", "isa: expected one of"),
        ("run", "--threads", str(2**31), "threads: expected 1 to 2147483647"),
        ("optimize", "--shape", "1,3,1000000,1000000", "an input larger than this machine's memory"),
        ("bench", "--shape", "9" * 400, "an input larger than this machine's memory"),
    ],
)
def test_options_that_no_call_takes(
    command: str, option: str, value: str, words: str, penlight_command: Penlight, classifier: Path, files: Path
) -> None:
    """They are the user's, not a fault of Penlight or of a library below it."""
    file = [files / "classifier.pt"] if command == "optimize" else [classifier]
    image = [files / "photo.png"] if command == "run" else []
    called = penlight_command(command, *file, *image, option, value)
    assert (called.code, "fault" in called.err) == (2, False)
    assert words in " ".join(called.err.split())


def test_nothing_given_is_written_over(penlight_command: Penlight, files: Path, classifier: Path) -> None:
    model, labels = files / "classifier.pt", files / "labels.txt"
    for arguments in (
        ("compare", classifier, "--devices", "cpu,cpu", "--page", classifier),
        ("compare", files / "classifier.pt2", classifier, "--page", files / "classifier.pt2"),
        ("optimize", model, "--labels", labels, "-o", labels),
        ("quantize", model, "--images", files, "--report", model),
        ("quantize", model, "--images", files, "-o", files / "q.pen", "--report", files / "q.pen"),
    ):
        before = {path: path.read_bytes() for path in files.iterdir()}
        called = penlight_command(*arguments)
        assert called.code == 2
        assert "would overwrite" in called.err
        assert {path: path.read_bytes() for path in files.iterdir()} == before


def test_where_nothing_can_be_written_is_told_first(penlight_command: Penlight, files: Path, tmp_path: Path) -> None:
    """Not after minutes of work."""
    np.save(tmp_path / "x.npy", np.zeros(1, np.float32))
    for output, words in (("/dev/null", "is a device"), ("", "is a folder"), (tmp_path / "x.npy", "would overwrite")):
        command = ["run", files / "classifier.pt", "--input", tmp_path / "x.npy", "--output"]
        command = command if output == tmp_path / "x.npy" else ["optimize", files / "classifier.pt", "-o"]
        called = penlight_command(*command, output)
        assert called.code in (1, 2)
        assert words in called.err
        assert "starting PyTorch" not in called.err


def test_errors_are_words_unless_debug(penlight_command: Penlight, tmp_path: Path) -> None:
    broken = tmp_path / "broken.pen"
    broken.write_bytes(b"nothing good " * 20)
    called = penlight_command("inspect", broken)
    assert called.code == 1
    assert called.err.startswith("error: ")
    assert "expected a .pen file, got a file that begins with 6e 6f 74 68" in called.err
    assert "Traceback" not in called.err
    assert "Traceback" in penlight_command("inspect", broken, "--debug").err
    assert "Traceback" not in penlight_command("inspect", broken).err


def test_inspecting_what_is_no_model(penlight_command: Penlight, tmp_path: Path) -> None:
    for name, zipped in (("new", True), ("old", False)):
        torch.save({"w": torch.ones(3)}, tmp_path / name, _use_new_zipfile_serialization=zipped)
        called = penlight_command("inspect", tmp_path / name)
        assert called.code == 1
        assert "expected TorchScript, .ptl or .pen, got a pickle of torch.save" in called.err


def test_unexpected_errors_say_so(penlight_command: Penlight, classifier: Path, monkeypatch: object) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the moon is full")

    monkeypatch.setattr(inspecting, "describe", fail)  # type: ignore[attr-defined]
    called = penlight_command("inspect", classifier)
    assert called.code == 1
    assert "RuntimeError: the moon is full" in called.err
    assert "--debug" in called.err


def test_as_a_module_and_without_torch(classifier: Path) -> None:
    code = "import sys; from penlight.tools.main import cli; cli(['inspect', sys.argv[1]], standalone_mode=False); sys.exit('torch' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code, str(classifier)], check=False, stdout=subprocess.DEVNULL).returncode
        == 0
    )
    done = subprocess.run(
        [sys.executable, "-m", "penlight", "inspect", str(classifier)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "conv2d.f32." in done.stdout


def test_a_closed_pipe_is_no_error(classifier: Path) -> None:
    command = f"{sys.executable} -m penlight inspect --graph {classifier} | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], check=False, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


@pytest.mark.parametrize(
    "closed", [*(pytest.param(one, marks=pytest.mark.slow) for one in (">&-", "2>&-")), "<&- >&- 2>&-"]
)
def test_closed_streams_are_no_error(closed: str, files: Path, tmp_path: Path) -> None:
    """Nor does the file that is written get the number of one, to which torch may write."""
    command = f"{sys.executable} -m penlight optimize {files / 'classifier.pt'} --shape 1,3,32,32 -o {tmp_path / 'm.pen'} {closed}"
    done = subprocess.run(["bash", "-c", command], check=False, capture_output=True, text=True)
    assert (done.returncode, "error" in done.stderr) == (0, False)
    assert penlight.load(tmp_path / "m.pen").methods == ["forward"]


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_process_that_dies_says_where() -> None:
    """As torch's operators let it, where a file calls them on what does not fit."""
    code = (
        "import os; from penlight.tools.main import cli, main\n@cli.command()\ndef dies(): os.abort()\nmain(['dies'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode < 0
    assert "Fatal Python error" in done.stderr
    assert "in dies" in done.stderr


def test_where_the_header_and_the_library_are(
    penlight_command: Penlight, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = penlight_command("--cflags", "--torch").out.split()
    for folder, header in zip(flags, ["penlight.h", "penlight.hpp", "torch/script.h"], strict=False):
        assert (Path(folder.removeprefix("-I")) / header).is_file()
    assert penlight_command("--cflags").out.split() == flags[:2]
    assert (Path(penlight_command("--cmake-dir").out.strip()) / "penlight-config.cmake").is_file()
    monkeypatch.setattr(penlight, "__file__", str(tmp_path / "a b/penlight/__init__.py"))
    told = penlight_command("--libs")
    assert (told.code, "expected libpenlight" in " ".join(told.err.split())) == (1, True)
    folder = tmp_path / "a b/penlight/lib"
    folder.mkdir(parents=True)
    (folder / "libpenlight.so").write_bytes(b"")
    words = shlex.split(penlight_command("--cflags", "--libs").out)
    assert words[2:] == [f"-L{folder}", "-lpenlight", f"-Wl,-rpath,{folder}"]
    assert penlight_command().code == 2
