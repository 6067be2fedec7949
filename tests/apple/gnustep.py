"""Objective-C++ programs, compiled by clang against GNUstep's Foundation and the language's runtime of GCC: what there is outside of Apple's
machines. (Debian: apt-get install clang gobjc libgnustep-base-dev)"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cpp import compilers
from tests.runtime import native

OBJC = native.ROOT / "bindings/apple/PenlightObjC"
INCLUDES = [f"-I{folder}" for folder in (OBJC / "include", compilers.CPP / "compat", compilers.CPP / "include")]
INCLUDES.append(f"-I{native.ROOT / 'penlight/runtime/include'}")


def program(sources: Sequence[Path], out: Path, flags: Sequence[str] = ()) -> Path:
    """Some sources, with our classes, and the static library."""
    clang = shutil.which("clang++") or shutil.which("clang++-14")
    headers = sorted(Path("/usr/lib/gcc").glob("*/*/include/objc/objc.h"))
    if not clang or not headers or not shutil.which("gnustep-config"):
        pytest.skip("Objective-C is not installed: apt-get install clang gobjc libgnustep-base-dev")
    words = [_config("--objc-flags"), _config("--base-libs")]
    if any("sanitize=address" in flag for flag in flags) and not _file(clang, "libclang_rt.asan-x86_64.a").exists():
        pytest.skip("clang's sanitizers are not installed: apt-get install libclang-rt-14-dev")
    # what GNUstep compiles itself with, but for files of dependencies that -MMD would leave behind
    compile_words = [w for w in words[0] if w not in ("-MMD", "-MP", "-g", "-O2", "-DGSWARN", "-DGSDIAGNOSE", "-Wall")]
    command = [
        clang,
        "-std=c++17",
        "-fobjc-runtime=gcc",
        *native.WARNINGS,
        *flags,
        *compile_words,
        "-isystem",
        headers[-1].parents[1],
    ]
    command += [*INCLUDES, *sorted(OBJC.glob("*.mm")), *sources, native.build("plain") / "libpenlight.a", "-o", out]
    done = subprocess.run([*map(str, command), *words[1], "-lpthread", "-ldl"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-6000:]
    return out


def _config(part: str) -> list[str]:
    return subprocess.run(["gnustep-config", part], capture_output=True, text=True, check=True).stdout.split()


def _file(clang: str, name: str) -> Path:
    asked = [clang, f"--print-file-name={name}"]
    return Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
