"""pen_model_check: what a file needs of a library, asked beforehand, from a path, from memory and from a descriptor."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penlight.file import format as f
from penlight.file.reader import read
from tests.runtime.native import ROOT

OK, FORMAT, VERSION, KERNEL, CHECKSUM = 0, 2, 3, 4, 10
LOAD_VERIFY = 1
WITHOUT_STATE = f.VERSION_WITH_STATE - 1  # what a library for models that keep none reads


class Needs(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("newest_version", ctypes.c_uint32), ("hash", ctypes.c_char * 65),
                ("missing_count", ctypes.c_uint32), ("missing", ctypes.c_char * 512)]  # fmt: skip


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int32), ("message", ctypes.c_char * 768), ("rest", ctypes.c_char * 704)]


def check(library: Path, file: Path, flags: int = 0) -> Iterator[tuple[int, Needs, str]]:
    """By each of the three ways in; the third with the file inside another."""
    opened = ctypes.CDLL(str(library))
    data = file.read_bytes()
    around = file.with_suffix(".around")
    around.write_bytes(b"x" * 100 + data + b"y")
    fd = os.open(around, os.O_RDONLY)
    ways: list[tuple[str, tuple[Any, ...]]] = [
        ("", (str(file).encode(),)),
        ("_memory", (data, ctypes.c_size_t(len(data)))),
        ("_fd", (fd, ctypes.c_uint64(100), ctypes.c_uint64(len(data)))),
    ]
    for name, arguments in ways:
        needs, error = Needs(), Error()
        status = opened[f"pen_model_check{name}"](*arguments, flags, ctypes.byref(needs), ctypes.byref(error))
        yield status, needs, error.message.decode()
    os.close(fd)


def test_a_file_that_runs(library: Any, models: dict[str, Path], tmp_path: Path) -> None:
    file = tmp_path / "m.pen"
    file.write_bytes(models["planned"].read_bytes())
    about = read(file)
    for status, needs, _ in check(library("host").path, file, LOAD_VERIFY):
        assert status == OK
        assert (needs.version, needs.newest_version) == (about.version, WITHOUT_STATE)
        assert needs.hash.decode() == about.hash
        assert (needs.missing_count, needs.missing) == (0, b"")


def test_a_file_that_needs_more(library: Any, models: dict[str, Path], tmp_path: Path) -> None:
    """Of a library without VM and without these kernels; the command is whole where the file has a name."""
    file = tmp_path / "m.pen"
    file.write_bytes(models["interpreted"].read_bytes())
    for status, needs, message in check(library("host").path, file):
        assert status == KERNEL
        assert needs.missing_count > 0
        assert needs.hash.decode() == read(file).hash
        assert needs.missing.decode() in message
        assert "penlight build --model" in message
        assert "--target host" in message
    assert "--model m.pen " in next(iter(check(library("host").path, file)))[2]


def test_operators_of_vm_code(models: dict[str, Path], tmp_path: Path) -> None:
    """A model opens without them; the check tells."""
    whole = ROOT / "build/release/libpenlight.so"
    if not whole.exists():
        pytest.skip("./dev build makes the library that this test asks")
    file = tmp_path / "m.pen"
    file.write_bytes(models["interpreted"].read_bytes())
    assert [status for status, _, _ in check(whole, file)] == [OK] * 3
    file.write_bytes(file.read_bytes().replace(b"aten::stack\0", b"aten::stuck\0"))
    for status, needs, message in check(whole, file):
        assert (status, needs.missing_count, needs.missing) == (KERNEL, 1, b"aten::stuck")
        assert "needs 1 more: aten::stuck" in message


def test_files_that_are_wrong(library: Any, models: dict[str, Path], tmp_path: Path) -> None:
    path, file, good = library("host").path, tmp_path / "m.pen", models["planned"].read_bytes()
    file.write_bytes(good[:8] + (f.VERSION + 7).to_bytes(4, "little") + good[12:])
    for status, needs, message in check(path, file):
        assert (status, needs.version, needs.newest_version) == (VERSION, f.VERSION + 7, WITHOUT_STATE)
        assert f"version {f.VERSION + 7}" in message
    file.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    assert [s for s, _, _ in check(path, file, LOAD_VERIFY)] == [CHECKSUM] * 3
    for wrong in (good[:-1], b"PK\3\4 is a zip archive" + bytes(100)):
        file.write_bytes(wrong)
        assert [s for s, _, _ in check(path, file)] == [FORMAT] * 3
    assert next(iter(check(path, file)))[1].version == 0
