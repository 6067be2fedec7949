"""The simd layer under each instruction set: one C++ program (simd_test.cc), compiled and run once per set.

x86 sets run natively where the CPU has them. NEON is cross-compiled by zig, where that is installed, and run by qemu; WebAssembly's
vectors likewise, by Node.
"""

from __future__ import annotations

import importlib.util
import pathlib
import platform
import shutil
import subprocess
import sys

import pytest

from penlight.build.generate import ISAS
from tests.runtime import native

ROOT = pathlib.Path(__file__).parents[3]
SOURCE = pathlib.Path(__file__).parent / "simd_test.cc"
FLAGS = ["-std=c++17", "-O2", "-fno-exceptions", "-fno-rtti", "-fno-math-errno", "-ffp-contract=off", f"-I{ROOT}",
         "-Wall", "-Wextra", "-Werror"]  # fmt: skip
X86 = {name: isa.flags for name, isa in ISAS.items() if isa.processors in ("any", "x86_64")}
CPU_FLAG = {"avx512x2": "avx512dq", "avx512": "avx512dq", "avxvnni": "avx_vnni", "avx2": "avx2", "sse4": "sse4_1"}
ARM = {
    "arm64": [],
    "armv7": ["-mcpu=cortex_a7"],
}  # which has fused multiply-add: the whole runtime is tested without (test_arm.py)


def cpu_has(isa: str) -> bool:
    info = pathlib.Path("/proc/cpuinfo")
    return isa == "base" or (info.exists() and CPU_FLAG[isa] in info.read_text().split())


def check_x86(source: pathlib.Path, isa: str, folder: pathlib.Path, *arguments: str) -> None:
    compiler = shutil.which("g++") or shutil.which("clang++") or shutil.which("c++")
    if compiler is None or platform.machine() != "x86_64" or not cpu_has(isa):
        pytest.skip(f"needs a C++ compiler and an x86-64 CPU with {isa}")
    build_and_run([compiler], [compiler], [], [f"-DPEN_ISA={isa}", *X86[isa]], source, folder, [], arguments)


def check_arm(source: pathlib.Path, target: str, folder: pathlib.Path, *arguments: str) -> None:
    emulator = native.TARGETS[target][1]
    if importlib.util.find_spec("ziglang") is None or shutil.which(emulator) is None:
        pytest.skip(f"needs the ziglang package and {emulator}")
    # Linked as C: as C++ zig would first compile its whole C++ library for the target, for minutes.
    zig = [sys.executable, "-m", "ziglang"]
    words = native.link_words(target)
    flags = [*ARM[target], "-DPEN_ISA=neon"]
    build_and_run([*zig, "c++"], [*zig, "cc", "-static"], words, flags, source, folder, [emulator], arguments)


def check_wasm(source: pathlib.Path, folder: pathlib.Path, *arguments: str) -> None:
    if importlib.util.find_spec("ziglang") is None or shutil.which("node") is None:
        pytest.skip("needs the ziglang package and Node")
    zig, node = [sys.executable, "-m", "ziglang"], ["node", "--no-warnings", str(ROOT / "tests/web/wasi.mjs")]
    target = ["-target", "wasm32-wasi"]
    build_and_run([*zig, "c++"], [*zig, "cc"], target, ["-DPEN_ISA=wasm", "-msimd128"], source, folder, node, arguments)


def build_and_run(
    compiler: list[str], linker: list[str], target: list[str], flags: list[str], source: pathlib.Path, folder: pathlib.Path,
    runner: list[str], arguments: tuple[str, ...],
) -> None:  # fmt: skip
    compiled, program = str(folder / "test.o"), str(folder / "test")
    subprocess.run([*compiler, *target, *FLAGS, *flags, "-c", str(source), "-o", compiled], check=True)
    subprocess.run([*linker, *target, compiled, "-lm", "-o", program], check=True)
    done = subprocess.run([*runner, program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("isa", X86)
def test_x86(isa: str, tmp_path: pathlib.Path) -> None:
    check_x86(SOURCE, isa, tmp_path)


@pytest.mark.parametrize("target", ARM)
def test_neon(target: str, tmp_path: pathlib.Path) -> None:
    check_arm(SOURCE, target, tmp_path)


def test_wasm(tmp_path: pathlib.Path) -> None:
    check_wasm(SOURCE, tmp_path)
