"""Saving and opening: modes, links, the umask, paths that are none, and arguments without an end."""

from __future__ import annotations

import io
import mmap
import os
import stat
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import penlight
from penlight import paths
from penlight.build import shaders
from penlight.build.library import _place
from penlight.build.package import HEADER, copy_headers
from penlight.build.package.maven import Published, write_repository
from penlight.capture.quiet import quiet
from penlight.errors import InputError, PenlightError
from penlight.file.metadata import stored_files
from penlight.paths import replace_file
from penlight.quant.report import Report
from penlight.tools.run import _save as save_arrays
from tests.tools.call import Penlight


@pytest.fixture(scope="module")
def model() -> penlight.Model:
    return penlight.optimize(nn.Linear(3, 2), (torch.rand(1, 3),))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("before", [0o600, 0o640, 0o664, 0o755])
def test_the_mode_stays(model: penlight.Model, tmp_path: Path, before: int) -> None:
    path = tmp_path / "m.pen"
    path.write_bytes(b"old")
    path.chmod(before)
    model.save(path)
    assert mode(path) == before
    assert penlight.load(path).methods == ["forward"]
    assert os.listdir(tmp_path) == ["m.pen"]


def test_a_new_file_has_the_mode_of_others(model: penlight.Model, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"")
    model.save(tmp_path / "m.pen")
    assert mode(tmp_path / "m.pen") == mode(tmp_path / "other")


def test_the_umask_is_not_touched(model: penlight.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other threads create files meanwhile."""

    def touched(mask: int) -> int:
        raise AssertionError("os.umask was called")

    monkeypatch.setattr(os, "umask", touched)
    model.save(tmp_path / "m.pen")


def test_links_are_followed(model: penlight.Model, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    target, link, chain = tmp_path / "far" / "real.pen", tmp_path / "link.pen", tmp_path / "chain.pen"
    target.write_bytes(b"old")
    target.chmod(0o600)
    link.symlink_to(target)
    chain.symlink_to("link.pen")
    model.save(chain)
    assert chain.is_symlink()
    assert link.is_symlink()
    assert mode(target) == 0o600
    assert target.read_bytes() == model.to_bytes()
    dangling = tmp_path / "dangling.pen"
    dangling.symlink_to(tmp_path / "far" / "new.pen")
    model.save(dangling)
    assert dangling.is_symlink()
    assert (tmp_path / "far" / "new.pen").read_bytes() == model.to_bytes()


def test_a_loop_of_links_stays(model: penlight.Model, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels"):
        model.save(tmp_path / "a")
    assert (tmp_path / "a").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "told"), [("new.pen/", "is a folder"), ("missing/../m.pen", "missing'$"), ("", "folder")]
)
def test_names_that_no_file_can_have(
    model: penlight.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, told: str
) -> None:
    """As open() has it, although the path could be tidied up to one that could be written."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError, match=told):
        model.save(name)
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs /proc")
def test_a_file_that_has_no_name_any_more(model: penlight.Model, tmp_path: Path) -> None:
    """Its link says "x (deleted)", which is a name that a new file could have."""
    with open(tmp_path / "x", "wb") as out:
        os.unlink(tmp_path / "x")
        with pytest.raises(FileNotFoundError, match="without a name"):
            model.save(f"/proc/self/fd/{out.fileno()}")
    assert os.listdir(tmp_path) == []


def test_setuid_does_not_stay(model: penlight.Model, tmp_path: Path) -> None:
    """Whoever writes into such a file in place takes that off, too."""
    path = tmp_path / "m.pen"
    path.write_bytes(b"old")
    path.chmod(0o6755)
    model.save(path)
    assert mode(path) == 0o755


@pytest.mark.parametrize(("may", "expected"), [("all", 0o664), ("group", 0o664), ("nothing", 0o604)])
def test_a_file_of_another_user(
    model: penlight.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, may: str, expected: int
) -> None:
    """What its group could do, that of the caller may not."""
    path = tmp_path / "m.pen"
    path.write_bytes(b"old")
    path.chmod(0o664)

    def fchown(handle: int, user: int, group: int) -> None:
        if may == "nothing" or (may == "group" and user != -1):
            raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", fchown)
    model.save(path)
    assert mode(path) == expected


def test_a_system_without_owners(model: penlight.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows, where Python has fchmod from 3.13 on."""
    monkeypatch.delattr(os, "fchown")
    model.save(tmp_path / "m.pen")
    assert model.save(tmp_path / "m.pen") == len(model.to_bytes())


class Slow(io.RawIOBase):
    """A file without a buffer, which takes a few bytes at a time, and in the end none."""

    def __init__(self, room: int) -> None:
        self.taken, self.room = b"", room

    def write(self, data: Any) -> int | None:
        piece = bytes(data[: min(100, self.room - len(self.taken))])
        self.taken += piece
        return len(piece) or None


class Silent:
    """As many write one."""

    taken = b""

    def write(self, data: Any) -> None:
        assert memoryview(data).readonly  # it is the model
        self.taken += data


def test_open_files_get_all_bytes(model: penlight.Model) -> None:
    for out in (Slow(1 << 20), Silent()):
        assert model.save(out) == len(model.to_bytes())  # type: ignore[arg-type]
        assert out.taken == model.to_bytes()
    with pytest.raises(BlockingIOError, match="takes no more after 150"):
        model.save(Slow(150))  # type: ignore[arg-type]
    backwards = io.RawIOBase()
    backwards.write = lambda _: -1  # type: ignore[method-assign,assignment]
    with pytest.raises(BlockingIOError, match="takes no more after 0"):
        model.save(backwards)  # type: ignore[arg-type]


def test_it_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(handle: int) -> None:
        events.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else f"file of {os.fstat(handle).st_size}")
        fsync(handle)

    def replaced(a: Any, b: Any) -> None:
        events.append("replace")
        replace(a, b)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    replace_file(tmp_path / "x", lambda out: out.write(b"12345"))
    assert events == ["file of 5", "replace", "folder"]


@pytest.mark.parametrize("fails", ["write", "fsync", "replace"])
def test_the_old_file_survives(fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    if fails != "write":
        monkeypatch.setattr(os, fails, full)
    with pytest.raises(OSError, match=f"No space left on device: '{path}'"):
        replace_file(path, lambda out: full() or 0 if fails == "write" else out.write(b"new"))
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]


def report(path: Path) -> None:
    Report("a name \ud800", "minmax", 16).save(path)  # which no UTF-8 has


def arrays(path: Path) -> None:
    save_arrays(path, {"file": np.ones(3)})


def library(path: Path) -> None:
    made = path.with_name("made")
    made.write_bytes(b"library")
    made.chmod(0o755)
    _place(made, path)


def headers(path: Path) -> None:
    copy_headers({path.name: HEADER}, path.parent)


def archive(path: Path) -> None:
    write_repository(path.parents[4], "org.pytorch", "1", [Published("penlight", b"zip")])


@pytest.mark.parametrize(
    ("write", "name"),
    [
        (report, "r.html"),
        (arrays, "y.npy"),
        (arrays, "y.npz"),
        (archive, "penlight-1.aar"),
        (library, "libpenlight.so"),
        (headers, "penlight.h"),
    ],
)
def test_every_file_is_whole_before_it_has_its_name(
    write: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "org/pytorch/penlight/1" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"old")
    path.chmod(0o600)
    write(path)
    new = path.read_bytes()
    path.write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write(path)
    assert path.read_bytes() == b"old" != new
    assert mode(path) == 0o600
    assert not [p for p in path.parent.iterdir() if p.name.startswith(".")]


def test_a_program_stays_one(tmp_path: Path) -> None:
    library(tmp_path / "new")
    assert mode(tmp_path / "new") == mode(tmp_path / "made")


def test_shaders_that_are_kept_for_later_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later builds take them as they are: a part of one would be in every library from then on."""
    spirv = {(next(iter(shaders.shaders().values())).name, False): bytes(64)}
    write_bytes = Path.write_bytes

    def killed(path: Path, data: bytes) -> int:
        write_bytes(path, data[:3])
        raise KeyboardInterrupt

    monkeypatch.setattr(shaders, "pack", lambda *_: b"packed")
    monkeypatch.setattr(shaders, "as_bytes", lambda _: b"")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", killed)
        with pytest.raises(KeyboardInterrupt):
            shaders.programs_source(spirv, tmp_path)
    assert ",".join(map(str, b"packed")) in shaders.programs_source(spirv, tmp_path)


@pytest.mark.parametrize("name", ["文" * 83 + ".pen", "é" * 125 + ".pen", "a" * 251 + ".pen"])
def test_a_name_as_long_as_the_system_takes(model: penlight.Model, tmp_path: Path, name: str) -> None:
    """Its bytes count, not its characters."""
    path = tmp_path / name
    assert len(os.fsencode(name)) > 250
    model.save(path)
    model.save(path)
    assert penlight.load(path).methods == ["forward"]
    assert os.listdir(tmp_path) == [name]


@pytest.mark.skipif(os.name == "nt", reason="names there are Unicode")
def test_names_that_are_not_unicode(model: penlight.Model, tmp_path: Path, penlight_command: Penlight) -> None:
    class Bytes:
        def __fspath__(self) -> bytes:
            return os.fsencode(tmp_path) + b"/\xff.pen"

    path = os.fsdecode(Bytes().__fspath__())
    model.save(path)
    model.save(Bytes())  # type: ignore[arg-type]
    for source in (path, Bytes()):
        loaded = penlight.load(source)  # type: ignore[arg-type]
        assert loaded.to_bytes() == model.to_bytes()
        assert "\ufffd.pen" in repr(loaded)
    for command in ("inspect", "lint"):
        assert "fault of Penlight" not in penlight_command(command, path).err


def test_text_is_no_path_when_it_comes_from_a_file(model: penlight.Model, tmp_path: Path) -> None:
    model.save(tmp_path / "m.pen")
    (tmp_path / "text").write_text(str(tmp_path / "m.pen"))
    with (
        (tmp_path / "text").open() as stream,
        pytest.raises(TypeError, match="opened for reading in binary, got one that reads str"),
    ):
        penlight.load(stream)  # type: ignore[arg-type]


@pytest.mark.parametrize("source", [(0, 1), (-1, 0, 1), (1 << 31, 0, 1), (0, -1, 1), (0, 0, 1 << 70), (0, "0", 1)])
def test_descriptors_that_are_none(source: Any) -> None:
    with pytest.raises(ValueError, match="descriptor, offset, size"):
        penlight.load(source)


def test_ctrl_c_after_the_file_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace

    def interrupted(a: Any, b: Any) -> None:
        replace(a, b)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replace_file(tmp_path / "x", lambda out: out.write(b"new"))
    assert (tmp_path / "x").read_bytes() == b"new"


def test_ctrl_c_between_any_two_lines(tmp_path: Path) -> None:
    path, lines = tmp_path / "x", 0
    while True:
        path.write_bytes(b"old")
        left = [lines]

        def traced(frame: Any, event: str, _: Any, left: list[int] = left) -> Any:
            if frame.f_code.co_filename != paths.__file__:
                return None
            if event == "line":
                left[0] -= 1
                if left[0] == -1:
                    raise KeyboardInterrupt
            return traced

        before = sys.gettrace()
        sys.settrace(traced)
        try:
            paths.replace_file(path, lambda out: out.write(b"new"))
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        assert path.read_bytes() in (b"old", b"new")
        assert os.listdir(tmp_path) == ["x"]
        if left[0] >= 0:  # there were fewer
            break
        lines += 1
    assert lines > 20
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("call", ["save", "load", "optimize"])
def test_a_nul_does_not_end_a_path(model: penlight.Model, tmp_path: Path, call: str) -> None:
    path = f"{tmp_path}/m.pen\0.txt"
    model.save(tmp_path / "m.pen")
    with pytest.raises(ValueError, match="NUL"):
        {"save": model.save, "load": penlight.load, "optimize": penlight.optimize}[call](path)
    assert os.listdir(tmp_path) == ["m.pen"]


def test_pipes_and_devices_are_refused(model: penlight.Model, tmp_path: Path, penlight_command: Penlight) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/null"), Path("/dev/zero")):
        for call in (model.save, penlight.load, penlight.optimize):
            with pytest.raises(PenlightError, match="expected a file"):
                call(path)
    for command in ("inspect", "lint", "optimize", "bench", "run"):
        told = penlight_command(command, pipe, *(["x.npy"] if command == "run" else []))
        assert told.code != 0
        assert "pipe" in told.err
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_files_that_cannot_be_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too large, on a file system that cannot, or cut short between two calls."""
    path = tmp_path / "x"
    path.write_bytes(b"1")
    for error in (OSError(19, "No such device"), ValueError("cannot mmap an empty file")):

        def fails(*_: Any, error: Exception = error, **__: Any) -> None:
            raise error

        monkeypatch.setattr(mmap, "mmap", fails)
        with pytest.raises(
            PenlightError, match=f"x': expected a file that can be mapped into memory, got .*{error.args[-1]}"
        ):
            penlight.optimize(path)


@pytest.mark.parametrize("ending", ["ptl", "pt", "pt2"])
@pytest.mark.parametrize("then", ["replaced", "gone"])
def test_a_file_that_is_not_there_any_more_when_it_is_compiled(tmp_path: Path, ending: str, then: str) -> None:
    """Its extra files are not those of the one that took its place."""
    path = tmp_path / f"m.{ending}"

    def write(path: Path, extra: str) -> None:
        if ending == "pt2":
            exported = torch.export.export(nn.Linear(3, 2), (torch.rand(1, 3),))
            torch.export.save(exported, path, extra_files={"labels": extra})
            return
        script = torch.jit.trace(nn.Linear(3, 2), torch.rand(1, 3))
        save = script.save if ending == "pt" else script._save_for_lite_interpreter
        save(str(path), _extra_files={"labels": extra})

    write(path, "mine")
    write(tmp_path / "other", "another's")

    def progress(stage: str) -> None:
        if stage == "capturing the model" and then == "gone":
            path.unlink()
        elif stage == "capturing the model":
            os.replace(tmp_path / "other", path)

    with quiet():
        made = penlight.optimize(path, (torch.rand(1, 3),), progress=progress)
    assert made.extra_files == {"labels": b"mine"}


def test_texts_that_come_to_no_end(model: penlight.Model, tmp_path: Path, penlight_command: Penlight) -> None:
    """Labels of /dev/zero would take all memory there is."""
    traced = torch.jit.trace(nn.Linear(3, 2), torch.rand(1, 3))
    traced.save(tmp_path / "m.pt")
    for option in ("--labels", "--metadata"):
        told = penlight_command("optimize", tmp_path / "m.pt", "--shape", "1,3", option, "/dev/zero")
        assert told.code != 0
        assert "at most 67108864 bytes" in told.err
    told = penlight_command("build", "--ops", "/dev/zero", "-o", tmp_path / "out")
    assert told.code == 1
    assert "at most 67108864 bytes" in told.err
    read, write = os.pipe()  # labels from another program, which have an end
    os.write(write, b"one\ntwo\n")
    os.close(write)
    told = penlight_command(
        "optimize", tmp_path / "m.pt", "--shape", "1,3", "--labels", f"/dev/fd/{read}", "-o", tmp_path / "l.pen"
    )
    os.close(read)
    assert told.code == 0, told.err
    assert penlight.load(tmp_path / "l.pen").metadata["labels"] == ["one", "two"]


@pytest.mark.parametrize("command", ["optimize", "trace", "quantize"])
@pytest.mark.filterwarnings("ignore:calibrated on one example")
def test_commands_that_write_into_a_loop_of_links(
    model: penlight.Model, tmp_path: Path, penlight_command: Penlight, command: str
) -> None:
    (tmp_path / "a.pen").symlink_to("b.pen")
    (tmp_path / "b.pen").symlink_to("a.pen")
    torch.jit.trace(nn.Linear(3, 2), torch.rand(1, 3)).save(tmp_path / "m.pt")
    penlight.optimize(nn.Linear(3, 2), (torch.rand(1, 3),), bundled_inputs={"forward": [(torch.rand(1, 3),)]}).save(
        tmp_path / "m.pen"
    )
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((1, 3), np.float32))
    words = {"optimize": ["--shape", "1,3"], "trace": [], "quantize": ["--input", tmp_path / "x.npy"]}[command]
    told = penlight_command(
        command, tmp_path / f"m.{'pen' if command == 'trace' else 'pt'}", *words, "-o", tmp_path / "a.pen"
    )
    assert "Too many levels of symbolic links" in told.err
    assert "fault of Penlight" not in told.err
    assert (tmp_path / "a.pen").is_symlink()


def test_a_pipe_can_be_read_by_who_opens_it(model: penlight.Model, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(model.to_bytes()))
    writer.start()
    with open(pipe, "rb") as stream:
        loaded = penlight.load(stream)
    writer.join()
    x = np.ones((1, 3), np.float32)
    np.testing.assert_array_equal(loaded(x), model(x))


class Rows(nn.Module):
    def forward(self, rows: list[torch.Tensor], names: dict[str, list[int]]) -> int:
        return len(rows) + len(names)


def test_a_list_that_contains_itself() -> None:
    with quiet():
        script = torch.jit.script(Rows())
    interpreted = penlight.optimize(script)
    rows: list[Any] = [torch.ones(1)]
    assert interpreted(rows, {"a": [1]}) == 2
    rows.append(rows)
    with pytest.raises(InputError, match="contains itself"):
        interpreted(rows, {})
    names: dict[str, Any] = {}
    names["a"] = [names]
    with pytest.raises(InputError, match="contains itself"):
        interpreted([], names)
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(InputError, match="nested deeper"):
        interpreted(deep, {})
    for call in (
        lambda: penlight.optimize(Rows(), (rows, {})),
        lambda: penlight.optimize(Rows(), kwargs={"rows": rows, "names": {}}),
        lambda: penlight.optimize(script, bundled_inputs={"forward": [([], names)]}),
        lambda: penlight.quantize(Rows(), [(rows, {})]),
    ):
        with pytest.raises(InputError, match="contains itself"):
            call()
    shared = [torch.ones(1)]
    assert interpreted([*shared, *shared], {}) == 2  # what is there twice is no cycle


def test_metadata_that_is_odd(model: penlight.Model) -> None:
    cycle: dict[str, Any] = {}
    cycle["cycle"] = cycle
    with pytest.raises(penlight.ArgumentError, match="metadata: expected a dict of names"):
        model.with_metadata(cycle)
    assert model.with_metadata({"a": "\ud800"}).metadata["a"] == "?"  # as in the names of files, which are bytes
    with pytest.raises(InputError, match="an extra file: expected text or bytes, got int"):
        stored_files({"a": 1 << 50})  # type: ignore[dict-item]
