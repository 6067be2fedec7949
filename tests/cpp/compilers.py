"""C++ programs over the bindings' headers, by each compiler that there is, linked with the static library."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.runtime import native

CPP = native.ROOT / "bindings/cpp"
COMPILERS = ("g++", "clang")


def compiler(name: str) -> list[str]:
    """`clang` is Debian's, or the one that zig has, with a C++ library of its own."""
    if name == "g++":
        return ["g++"]
    found = shutil.which("clang++") or shutil.which("clang++-14")
    if found:
        return [found]
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("there is no clang: neither Debian's (apt-get install clang) nor the ziglang package's")
    import ziglang

    return [str(Path(ziglang.__file__).parent / "zig"), "c++"]


def program(name: str, source: Path, out: Path, flags: Sequence[str] = (), library: Path | None = None) -> Path:
    includes = [f"-I{CPP / 'compat'}", f"-I{CPP / 'include'}", f"-I{native.ROOT / 'penlight/runtime/include'}"]
    library = library or native.build("plain") / "libpenlight.a"
    command = [*compiler(name), "-std=c++17", *native.WARNINGS, *flags, *includes, source, library, "-o", out]
    done = subprocess.run([*map(str, command), "-lm", "-lpthread", "-ldl"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-6000:]
    return out
