"""penlight_image.h against plain loops: every instruction set of this machine under sanitizers, NEON by emulation."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

from penlight import _runtime
from penlight.build.generate import ISAS
from tests.runtime import native

SOURCES = [native.TESTS / "runtime/image.cc", native.ROOT / "penlight/runtime/image/image.cc"]
ROWS = native.ROOT / "penlight/runtime/image/rows.cc"
FLAGS = ["-std=c++17", *native.WARNINGS, "-ffp-contract=off", "-fno-exceptions", "-fno-rtti", f"-I{native.ROOT}"]


@pytest.mark.slow
@pytest.mark.parametrize("isa", _runtime.isas())
def test_pictures(isa: str, tmp_path: Path) -> None:
    rows = []
    for name in dict.fromkeys(["base", isa]):
        rows.append(tmp_path / f"{name}.o")
        chosen = [] if name == "base" else [f"-DPEN_ISA={name}", *ISAS[name].flags]
        native.run(["g++", *FLAGS, *native.FLAGS["asan"], *chosen, "-c", ROWS, "-o", rows[-1]])
    native.run(["g++", *FLAGS, *native.FLAGS["asan"], *SOURCES, *rows, "-o", tmp_path / "image"])
    assert native.run([tmp_path / "image"], environment={"PENLIGHT_ISA": isa}).stdout == "all well\n"


@pytest.mark.slow
@pytest.mark.parametrize("target", native.TARGETS)
def test_pictures_on_arm(target: str, tmp_path: Path) -> None:
    if importlib.util.find_spec("ziglang") is None or shutil.which(native.TARGETS[target][1]) is None:
        pytest.skip(f"the ziglang package or {native.TARGETS[target][1]} is not installed")
    import ziglang

    zig = Path(ziglang.__file__).parent / "zig"
    program = tmp_path / "image"
    words = [zig, "cc", *native.link_words(target), *FLAGS, "-static", *SOURCES, ROWS, "-o", program, "-lm"]
    native.run(words, timeout=300)
    assert native.run(native.emulated(target, program)).stdout == "all well\n"
