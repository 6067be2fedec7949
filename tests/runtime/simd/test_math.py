"""Errors of the vector functions under each instruction set (math_test.cc): a sweep over the floats, one in 1021."""

from __future__ import annotations

import importlib.util
import pathlib
import platform
import shutil
import subprocess
import sys

import pytest

from tests.runtime.simd.test_simd import ARM, FLAGS, X86, cpu_has

SOURCE = pathlib.Path(__file__).parent / "math_test.cc"


def build_and_run(compiler: list[str], flags: list[str], binary: pathlib.Path, runner: list[str], step: int) -> None:
    subprocess.run([*compiler, *FLAGS, *flags, str(SOURCE), "-o", str(binary), "-lm"], check=True)
    done = subprocess.run([*runner, str(binary), str(step)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.parametrize("isa", X86)
def test_x86(isa: str, tmp_path: pathlib.Path) -> None:
    compiler = shutil.which("g++") or shutil.which("clang++") or shutil.which("c++")
    if compiler is None or platform.machine() != "x86_64" or not cpu_has(isa):
        pytest.skip(f"needs a C++ compiler and an x86-64 CPU with {isa}")
    build_and_run([compiler], [f"-DPEN_ISA={isa}", *X86[isa]], tmp_path / isa, [], 1021)


def test_neon(tmp_path: pathlib.Path) -> None:
    flags, emulator = ARM["arm64"]
    if importlib.util.find_spec("ziglang") is None or shutil.which(emulator) is None:
        pytest.skip(f"needs the ziglang package and {emulator}")
    compiler = [sys.executable, "-m", "ziglang", "c++"]
    build_and_run(compiler, [*flags, "-static", "-DPEN_ISA=neon"], tmp_path / "arm64", [emulator], 65521)
