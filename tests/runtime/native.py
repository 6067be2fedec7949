"""Builds that the C and C++ tests need: the runtime without Python, plain, under sanitizers or for arm, and programs
linked to it.

Builds lie in build/<kind> (never in git) and are brought up to date once a session; a file lock keeps parallel workers
apart, ninja makes the second one a matter of a second. `python -m tests.runtime.native` makes them all, one after the other,
each on all cores and for all to see: `./dev test` begins with it, so that no worker sits waiting for another's compiler.
"""

from __future__ import annotations

import fcntl
import functools
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
JOBS = str(os.cpu_count() or 2)

# What each kind compiles with. Sanitizer builds hold two instruction sets: plain scalar code, of which sanitizers see
# every access, and the one that most machines run; at -O1, which halves the time to build them.
_ISAS = "base;avx2" if platform.machine() in ("x86_64", "AMD64") else "base"
_SANITIZED = ["-DCMAKE_BUILD_TYPE=Sanitized", "-DCMAKE_CXX_FLAGS_SANITIZED=-O1", f"-DPENLIGHT_ISAS={_ISAS}"]
KINDS: dict[str, list[str]] = {
    "plain": [],
    "asan": ["-DPENLIGHT_SANITIZE=address,undefined,float-cast-overflow", *_SANITIZED],
    # a module has one caller; tasks are the same for all instruction sets, and so are the threads that take them
    "tsan": ["-DPENLIGHT_SANITIZE=thread", "-DPENLIGHT_VM=OFF", *_SANITIZED, "-DPENLIGHT_ISAS=base"],
    "fuzz": [
        "-DPENLIGHT_SANITIZE=address,undefined,fuzzer-no-link", *_SANITIZED, "-DPENLIGHT_ISAS=base",
        "-DCMAKE_C_COMPILER=clang-14", "-DCMAKE_CXX_COMPILER=clang++-14",
    ],
}  # fmt: skip
# Other processors: zig compiles, qemu runs. NEON is the base instruction set of both. armv7 is what Android promises
# for armeabi-v7a: NEON without fused multiply-add.
TARGETS = {
    "arm64": (["-target", "aarch64-linux-musl"], "qemu-aarch64-static"),
    "armv7": (["-target", "arm-linux-musleabihf", "-mcpu=generic+v7a+neon"], "qemu-arm-static"),
}
FLAGS = {
    "plain": ["-O2"],
    "arm64": ["-static"],
    "armv7": ["-static"],
    "asan": [
        "-O1",
        "-g",
        "-fno-omit-frame-pointer",
        "-fsanitize=address,undefined,float-cast-overflow",
        "-fno-sanitize-recover=all",
        "-DPEN_PROMISES",  # as the library: handles begin with a mark (base/promise.h)
    ],
    "tsan": ["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=thread", "-DPEN_PROMISES"],
    "fuzz": ["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined,fuzzer", "-DPEN_PROMISES"],
}
WARNINGS = ["-Wall", "-Wextra", "-Werror"]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _call(command: Sequence[str | Path], shown: bool = False, **options: object) -> None:
    done = subprocess.run([str(c) for c in command], capture_output=not shown, text=True, **options)  # type: ignore[call-overload]
    if done.returncode != 0:
        output = "" if shown else f"\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        pytest.fail(" ".join(str(c) for c in command) + output)


def tool(name: str) -> str:
    """From the virtual environment that runs the tests, or from the system."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if not found:
        pytest.skip(f"{name} is not installed")
    return found


def link_words(target: str) -> list[str]:
    """What zig is always called with for an arm target: it compiles a C library for each target and way to optimize, for a minute,
    so every link has the same."""
    return [*TARGETS[target][0], "-O2", "-fno-sanitize=all"]


def _cross_compilers(target: str, folder: Path) -> list[str]:
    """What tells CMake to compile for an arm target: zig, as the three programs that CMake wants."""
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("the ziglang package is not installed")
    if shutil.which(TARGETS[target][1]) is None:
        pytest.skip(f"{TARGETS[target][1]} is not installed")
    import ziglang

    zig = Path(ziglang.__file__).parent / "zig"
    folder.mkdir(parents=True, exist_ok=True)
    # C++ goes through `zig cc` too: the runtime needs no C++ library, and `zig c++` would compile one before it does anything.
    words = link_words(target)
    commands = {"cc": ["cc", *words], "c++": ["cc", *words], "ar": ["ar"]}
    for name, command in commands.items():
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec {shlex.join([str(zig), *command])} "$@"\n')
        path.chmod(0o755)
    return [
        "-DCMAKE_SYSTEM_NAME=Linux", f"-DCMAKE_SYSTEM_PROCESSOR={target}", "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY",
        f"-DCMAKE_C_COMPILER={folder / 'cc'}", f"-DCMAKE_CXX_COMPILER={folder / 'c++'}", f"-DCMAKE_AR={folder / 'ar'}",
    ]  # fmt: skip


@functools.cache
def build(kind: str, shown: bool = False) -> Path:
    """The folder of an up-to-date build; libpenlight.a lies in it."""
    folder = ROOT / "build" / kind
    if kind == "plain" and (ROOT / "build/release/libpenlight.a").exists():
        return ROOT / "build/release"  # what `./dev test` has just built
    with locked(ROOT / "build" / f"{kind}.lock"):
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        cross = _cross_compilers(kind, folder) if kind in TARGETS else []
        if not (folder / "build.ninja").exists():
            _call(
                [tool("cmake"), "-S", ROOT, "-B", folder, "-G", "Ninja", "-DPENLIGHT_PYTHON=OFF",
                 f"-DPython_EXECUTABLE={sys.executable}", *KINDS.get(kind, []), *cross], env=environment,
            )  # fmt: skip
        command = [tool("cmake"), "--build", folder, "--target", "penlight_runtime", "--parallel", JOBS]
        _call(command, shown, env=environment)
    return folder


def program(kind: str, *sources: Path, flags: Sequence[str] = (), name: str = "") -> Path:
    """Compiles sources against the static library: .c files with the C compiler alone, which is the point. Named like the first of them,
    if not otherwise."""
    folder = build(kind)
    cpp = any(s.suffix == ".cc" for s in sources)
    c, cxx = {"fuzz": ("clang-14", "clang++-14")}.get(kind, ("gcc", "g++"))
    if kind in TARGETS:
        c, cxx = str(folder / "cc"), str(folder / "c++")
    compiler = cxx if cpp else c
    out = folder / "tests" / (name or sources[0].stem)
    inputs = [*sources, folder / "libpenlight.a", *sources[0].parent.glob("*.h")]
    with locked(out.with_suffix(".lock")):
        if not out.exists() or any(out.stat().st_mtime < i.stat().st_mtime for i in inputs):
            standard = "-std=c++17" if cpp else "-std=c11"
            _call([
                compiler, standard, *WARNINGS, *FLAGS[kind], *flags, f"-I{ROOT}", f"-I{ROOT / 'penlight/runtime/include'}",
                f"-I{folder / 'generated'}", *sources, folder / "libpenlight.a", "-o", out, "-lm", "-lpthread",
            ])  # fmt: skip
    return out


def fuzzer(source: Path) -> Path:
    """A program that exercises the runtime under sanitizers. What it does itself (it draws, mutates, looks through results) is faster
    than the tests' own programs: AddressSanitizer sees what it reads, and only the runtime is asked about undefined behaviour."""
    return program(
        "asan", source, flags=["-O2", "-fno-sanitize=undefined,float-cast-overflow", "-static-libasan", "-lubsan"]
    )


def emulated(target: str, program: Path, cpu: str = "max") -> list[str | Path]:
    """How a program for an arm target is started, on one of the emulator's processors."""
    return [TARGETS[target][1], "-cpu", cpu, program]


def run(
    command: Sequence[str | Path], *, timeout: float = 120, expect: int = 0, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a test program; its output is in the failure, should there be one."""
    sanitizers = {
        "ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1:detect_stack_use_after_return=1:abort_on_error=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:abort_on_error=1",
        "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
    }
    done = subprocess.run(
        [str(c) for c in command], capture_output=True, text=True, errors="replace", timeout=timeout,
        env={**os.environ, **sanitizers, **(environment or {})},
    )  # fmt: skip
    if done.returncode != expect:
        pytest.fail(
            f"exit status {done.returncode}: {' '.join(str(c) for c in command)}\n{done.stdout[-6000:]}\n{done.stderr[-12000:]}"
        )
    return done


def main() -> None:
    for kind in ("asan", "tsan", *TARGETS):  # "plain" is what ./dev build makes, "fuzz" is on request
        print(f"[dev] the runtime for the tests of {kind}", flush=True)
        try:
            build(kind, shown=True)
        except pytest.skip.Exception as e:
            print(f"[dev] left out: {e}; its tests will be skipped", flush=True)


if __name__ == "__main__":
    main()
