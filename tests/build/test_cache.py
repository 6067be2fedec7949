"""The cache of compiled files: below its limit, by age, and safe from builds that run at the same time."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penlight.build import library as of_libraries
from penlight.build.cache import MARK, alone, cache_folder, cache_limit, prune
from penlight.build.library import build_library, stub_library
from penlight.build.targets import TARGETS
from penlight.errors import BuildError

USER = "import sys, pathlib; from penlight.build.cache import alone\nwith alone(pathlib.Path(sys.argv[1])): pass\nprint(flush=True); input()"


def folder(cache: Path, name: str, age: int, size: int = 1000) -> Path:
    made = cache / name
    (made / "objects").mkdir(parents=True)
    (made / "objects/a.o").write_bytes(bytes(size))
    (made / MARK).touch()
    os.utime(made / MARK, (time.time() - age,) * 2)
    return made


def test_what_was_used_longest_ago_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, other = tmp_path / "cache", tmp_path / "another/file"
    other.parent.mkdir()
    other.touch()
    old, older, new = (folder(cache, name, age) for name, age in (("b", 200), ("a", 300), ("c", 100)))
    foreign = folder(cache, "documents", 900)
    (foreign / MARK).unlink()
    (older / "root").symlink_to(other.parent)
    monkeypatch.setenv("PENLIGHT_CACHE_LIMIT", "10 kB")
    assert prune(cache) == []
    monkeypatch.setenv("PENLIGHT_CACHE_LIMIT", "2.5kB")
    assert prune(cache) == [older]
    with alone(old):
        pass
    monkeypatch.setenv("PENLIGHT_CACHE_LIMIT", "0")
    assert prune(cache) == [new], "this process has used the other"
    assert sorted(p.name for p in cache.iterdir()) == ["b", "documents"]
    assert (foreign / "objects/a.o").exists(), "none of ours"
    assert other.exists(), "links are not followed"


def test_what_another_process_uses_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENLIGHT_CACHE_LIMIT", "0")
    used = folder(tmp_path, "used", 1000)
    with subprocess.Popen(
        [sys.executable, "-c", USER, used], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as user:
        assert user.stdout is not None
        user.stdout.readline()
        assert prune(tmp_path) == []
        user.communicate("\n")
    assert prune(tmp_path) == [used]
    assert not used.exists()


def test_a_folder_that_goes_while_one_waits_for_it(tmp_path: Path) -> None:
    used = folder(tmp_path, "used", 1000)

    def build() -> None:
        with alone(used):
            (used / "made").touch()

    with open(used / MARK) as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        waiting = threading.Thread(target=build)
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        used.rename(tmp_path / "gone")
    waiting.join(10)
    assert (used / "made").exists()
    assert (used / MARK).exists()


@pytest.mark.parametrize(("text", "limit"), [("", 4e9), ("500 MB", 5e8), ("1.5G", 1.5e9), ("7", 7)])
def test_limits(text: str, limit: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENLIGHT_CACHE_LIMIT", text)
    assert cache_limit() == limit
    for wrong in ("much", "9" * 400):
        monkeypatch.setenv("PENLIGHT_CACHE_LIMIT", wrong)
        with pytest.raises(BuildError, match=f"expected a size such as 4 GB or 500 MB, got '{wrong}'"):
            cache_limit()


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container: commands that need no cache do not ask where it is."""
    monkeypatch.delenv("PENLIGHT_CACHE", raising=False)

    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    with pytest.raises(BuildError, match="set PENLIGHT_CACHE"):
        cache_folder()
    code = "import pathlib, os; os.path.expanduser = lambda path: path; import penlight.tools.main"
    environment = {k: v for k, v in os.environ.items() if k != "PENLIGHT_CACHE"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_a_build_that_is_stopped_leaves_no_stub_of_another_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every later build would link with it."""
    made = tmp_path / "libc.so"

    def linked(command: Any) -> None:
        Path(command[-1]).write_bytes((tmp_path / "libc.so.s").read_bytes())

    def stopped(command: Any) -> None:
        raise KeyboardInterrupt

    def build(*names: str) -> bytes:
        return stub_library(tmp_path, "", (), "", made.name, dict.fromkeys(names, ""), tmp_path).read_bytes()

    monkeypatch.setattr(of_libraries, "run_tool", linked)
    first = build("memcpy")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(of_libraries, "run_tool", stopped)
        build("memcpy", "memset")
    assert b"memset" in build("memcpy", "memset")
    assert build("memcpy") == first


def test_a_full_disk_leaves_no_part_of_the_compilers_own_functions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "whole-builtins.o").write_bytes(b"")
    monkeypatch.setattr(of_libraries, "run_tool", lambda _: None)
    monkeypatch.setattr(of_libraries, "without_definitions", lambda *_: b"object")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        of_libraries._builtins(TARGETS["android-armv7"], Path("zig"), tmp_path, set())
    assert not (tmp_path / "builtins.o").exists()


def test_builds_at_the_same_time(library: Any, cache: Path, tmp_path: Path) -> None:
    """Two libraries in one folder of the cache: each is what it is when built alone."""
    first = library("android-arm64")
    fewer = replace(first.selection, keys=first.selection.keys - {"sigmoid.f32"})
    alone_built = build_library(first.target, fewer, tmp_path / "alone", cache=cache)

    def build(i: int) -> bytes:
        chosen = (first.selection, fewer)[i % 2]
        return build_library(first.target, chosen, tmp_path / str(i), cache=cache, jobs=1).path.read_bytes()

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(build, range(4)))
    assert made == [first.path.read_bytes(), alone_built.path.read_bytes()] * 2
