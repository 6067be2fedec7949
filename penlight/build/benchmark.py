"""The benchmark program speed_benchmark_torch for a phone: its sources, and a binary for each of Android's ABIs.

The binary holds every kernel and the VM, and is linked statically with musl, so that it asks nothing of the phone but its kernel and runs
in `adb shell`. Zig compiles it (from PyPI, no NDK): minutes for the first of an ABI, then what has changed.
"""

from __future__ import annotations

from pathlib import Path

from penlight.build.generate import ROOT
from penlight.build.library import Progress, build_program
from penlight.build.targets import PROGRAMS
from penlight.errors import BuildError

_SOURCES = ROOT / "programs/speed_benchmark_torch"


def program_sources(with_vm: bool = True) -> list[Path]:
    """What is compiled and linked with the runtime; for a library without VM, without what calls it."""
    left_out = "no_interpreter.cc" if with_vm else "interpreted.cc"
    return [path for path in sorted(_SOURCES.glob("*.cc")) if path.name != left_out]


def benchmark_binary(abi: str, progress: Progress | None = None) -> Path:
    """A binary for an ABI, such as "arm64-v8a": the one in the cache, brought up to date."""
    if abi not in PROGRAMS:
        raise BuildError(
            f"there is no benchmark program for {abi!r}, only for {', '.join(PROGRAMS)}: give one with --binary"
        )
    return build_program(PROGRAMS[abi], program_sources(), progress=progress)
