"""What runs in a process of its own: what comes back, and that every way in which it can go wrong is words here."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penlight.apart
from penlight import limits
from penlight.apart import ApartError, apart

Point = namedtuple("Point", "x y")


def test_what_it_gives_comes_back() -> None:
    assert apart(math.hypot, 3.0, 4.0) == 5.0
    np.testing.assert_array_equal(apart(np.arange, 3), np.arange(3))


def test_named_tuples_whose_class_no_module_has() -> None:
    nameless = namedtuple("Nameless", "a b")
    found = apart(sorted, [nameless(2, [3]), Point(1, [4])])
    assert found == [(1, [4]), (2, [3])]
    assert [type(f).__name__ for f in found] == ["Point", "Nameless"]
    assert found[1].b == [3]


@pytest.mark.parametrize(
    ("function", "args", "words"),
    [
        (divmod, (1, 0), "ZeroDivisionError: .*by zero"), (os._exit, (3,), "exit status 3"), (os._exit, (0,), "exit status 0"),
        (int, ("x" * 10 + "\n" + "y" * 100_000,), "ValueError: [^\n]*$"), (memoryview, (b"x",), "TypeError: cannot pickle"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_told(function: Any, args: tuple[Any, ...], words: str) -> None:
    with pytest.raises(ApartError, match=words):
        apart(function, *args)


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_process_that_dies() -> None:
    with pytest.raises(ApartError, match=r"signal 6 \(SIGABRT\)"):
        apart(os.abort)


def test_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(penlight.apart, "SECONDS", 1.0)
    began = time.monotonic()
    with pytest.raises(ApartError, match="no end within 1 seconds"):
        apart(time.sleep, 1000)
    assert time.monotonic() - began < 30
    apart(time.sleep, 1.5, work=10 * penlight.apart.BYTES_A_SECOND)  # more to do, more time


@pytest.mark.skipif(sys.platform != "linux", reason="where the system limits what a process maps")
def test_memory() -> None:
    """More than half of what is free. Nobody touches it: zeros are mapped."""
    with pytest.raises(ApartError, match="MemoryError"):
        apart(bytes, limits.free_memory() // 4 * 3)


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c() -> None:
    began = time.monotonic()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    try:
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            apart(time.sleep, 1000)
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - began < 30


def test_modules_of_the_folder_at_hand_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`penlight optimize` may be called where a model was unpacked, with anything beside it."""
    for name in ("pickle", "json", "numpy", "penlight"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'written')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    assert apart(len, "abc") == 3
    assert not (tmp_path / "written").exists()


def test_without_a_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a program that brings one within itself: it would start itself again."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(ApartError, match="no Python"):
        apart(len, "abc")
