"""What the runtime takes from outside, and what it must not contain: every object of the library, symbol by symbol.

The library must link with a C compiler alone, on systems that have no C++ library; and code compiled for one
instruction set must never be chosen by the linker for another (kernels.md, trap 1).
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from penlight.build.generate import ISAS
from tests.runtime import native

HELPERS = {"_GLOBAL_OFFSET_TABLE_"}  # of compiler and linker


def declared() -> set[str]:
    """Functions that platform.h declares: the allow-list."""
    text = (native.ROOT / "penlight/runtime/base/platform.h").read_text()
    block = text[text.index('extern "C" {') :].split("namespace pen::platform")[0]
    code = re.sub(r"//.*", "", block)
    return set(re.findall(r"^\w[\w\s\*]*?\b\*?(\w+)\(", code, re.MULTILINE))


@pytest.fixture(scope="module")
def archive() -> Path:
    for tool in ("nm", "readelf"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    return native.build("plain") / "libpenlight.a"


def output(*command: str | Path) -> str:
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True).stdout


def members(archive: Path, *options: str) -> dict[str, list[str]]:
    """nm's lines by object."""
    found: dict[str, list[str]] = {}
    for line in output("nm", "-A", *options, archive).splitlines():
        _, member, rest = line.split(":", 2)
        found.setdefault(member, []).append(rest.strip())
    return found


def test_allow_list_is_read() -> None:
    names = declared()
    assert {"malloc", "snprintf", "expf", "mmap", "pthread_create", "__errno_location"} <= names
    assert len(names) > 50


def test_undefined_symbols(archive: Path) -> None:
    defined = {line.split()[-1] for lines in members(archive, "--defined-only").values() for line in lines}
    allowed = declared() | HELPERS | defined
    wrong = {
        member: sorted({line.split()[-1] for line in lines} - allowed)
        for member, lines in members(archive, "-u").items()
    }  # fmt: skip
    assert {m: names for m, names in wrong.items() if names} == {}


def test_weak_symbols_stay_in_their_namespace(archive: Path) -> None:
    """A weak symbol may be merged with its copy from another object: where that is compiled for an instruction set (it defines
    something in the namespace of one), the symbol must be of that namespace too."""
    spaces = tuple(f"pen::{isa}::" for isa in ISAS)
    wrong, seen = [], 0
    for member in output("nm", "-C", "--defined-only", archive).split("\n\n"):
        name, *lines = member.strip().splitlines()
        symbols = [line.split(maxsplit=2) for line in lines]
        if not any(text.startswith(spaces) for _, _, text in symbols):
            continue
        seen += 1
        wrong += [
            f"{name} {text}" for _, kind, text in symbols if kind in "WwVvu" and not any(s in text for s in spaces)
        ]
    assert seen > 20
    assert wrong == []


def test_no_code_runs_before_main(archive: Path) -> None:
    sections = output("readelf", "-S", "-W", archive)
    found = re.findall(r"\s(\.(?:init_array|fini_array|ctors|dtors|preinit_array)\S*)", sections)
    assert found == []


def test_no_thread_local_storage(archive: Path) -> None:
    assert re.findall(r"\s(\.t(?:data|bss)\S*)", output("readelf", "-S", "-W", archive)) == []
    assert [line for line in output("readelf", "-s", "-W", archive).splitlines() if " TLS " in line] == []


def test_no_exception_tables(archive: Path) -> None:
    assert ".gcc_except_table" not in output("readelf", "-S", "-W", archive)


def test_platform_check_covers_platform_h() -> None:
    checked = set(
        re.findall(
            r"PEN_SAME\w*\((\w+)(?:,[^)]*)?\);", (native.ROOT / "penlight/runtime/base/platform_check.cc").read_text()
        )
    )
    others = {"__error", "__errno", "__errno_location"}  # one of them a platform
    assert declared() - others == checked - others


def test_shared_library(archive: Path) -> None:
    """It needs libc, libm and threads, and shows nothing but the C interface."""
    library = archive.with_suffix(".so")
    if not library.exists():
        pytest.skip("this build has no shared library")
    needed = re.findall(r"\(NEEDED\).*\[(.+?)\]", output("readelf", "-d", library))
    assert {n.split(".")[0] for n in needed} <= {"libc", "libm", "libpthread", "ld-linux-x86-64", "ld-linux-aarch64"}
    exported = {line.split()[-1] for line in output("nm", "-D", "--defined-only", library).splitlines()}
    header = (native.ROOT / "penlight/runtime/include/penlight.h").read_text()
    assert exported == set(re.findall(r"\b(pen_\w+)\(", header))
