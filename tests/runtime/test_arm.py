"""The whole runtime on arm64 and armv7: cross-compiled by zig without any platform headers but musl's, run by qemu on the
same cases as here. NEON is the base instruction set there."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penlight.build.generate import generate
from tests.runtime import native

TARGETS = {
    "arm64": (["-target", "aarch64-linux-musl"], "qemu-aarch64-static"),
    "armv7": (["-target", "arm-linux-musleabihf", "-mcpu=cortex_a7"], "qemu-arm-static"),
}
FLAGS = [
    "-std=c++17", "-O2", "-fno-exceptions", "-fno-rtti", "-fno-math-errno", "-ffp-contract=off", "-fvisibility=hidden",
    "-fno-threadsafe-statics", "-fno-sanitize=all", '-DPEN_VERSION_STRING="test"', f"-I{native.ROOT}",
]  # fmt: skip


def sources(generated: Path) -> list[str]:
    """What CMakeLists.txt compiles for one instruction set."""
    listed = [
        line.strip(' "') for line in (generated / "sources.cmake").read_text().splitlines() if line.startswith('  "')
    ]
    runtime = [
        str(p)
        for folder in ("base", "file", "exec", "cpu")
        for p in (native.ROOT / "penlight/runtime" / folder).glob("*.cc")
    ]
    return sorted({*listed, *runtime})


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_networks_run_on_arm(target: str, cases: dict[str, tuple[Path, list[Path]]], tmp_path: Path) -> None:
    arguments, emulator = TARGETS[target]
    if importlib.util.find_spec("ziglang") is None or shutil.which(emulator) is None:
        pytest.skip(f"needs the ziglang package and {emulator}")
    generate(tmp_path / "generated", ["base"])
    zig = [sys.executable, "-m", "ziglang"]

    def compile_one(source: str) -> Path:
        out = tmp_path / f"{Path(source).stem}-{abs(hash(source))}.o"
        native.run(
            [*zig, "c++", *arguments, *FLAGS, f"-I{tmp_path / 'generated'}", "-c", source, "-o", out], timeout=300
        )
        return out

    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compile_one, sources(tmp_path / "generated")))
    program = tmp_path / "replay"
    include = [f"-I{native.ROOT / 'penlight/runtime/include'}", f"-I{native.TESTS / 'runtime'}"]
    native.run(
        [
            *zig,
            "cc",
            *arguments,
            "-static",
            "-O2",
            "-fno-sanitize=all",
            *include,
            native.TESTS / "runtime/replay.c",
            *objects,
            "-lm",
            "-o",
            program,
        ],
        timeout=300,
    )
    for model, files in cases.values():
        done = subprocess.run(
            [emulator, str(program), str(model), *map(str, files)], capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
