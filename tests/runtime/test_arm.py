"""The whole runtime on arm64 and armv7: cross-compiled by zig without any platform headers but musl's, run by qemu on the
same samples and networks as here. NEON is the base instruction set there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ops.recording import record_all
from tests.runtime import native

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "file/golden/v2.pen"
pytestmark = [pytest.mark.slow, pytest.mark.parametrize("target", native.TARGETS)]


def test_networks(target: str, cases: dict[str, tuple[Path, list[Path]]]) -> None:
    program = native.program(target, HERE / "replay.c")
    for model, files in cases.values():
        native.run([*native.emulated(target, program), model, *files], timeout=300)


def test_vm_code(target: str) -> None:
    """The golden file of VM code, through the C interface."""
    program = native.program(target, HERE / "module.c")
    assert native.run([*native.emulated(target, program), GOLDEN]).stdout == "all well\n"


def test_samples(target: str, recording: Path) -> None:
    """Every sample of every operator gives torch's result."""
    program = native.program(target, HERE / "samples.c")
    native.run(
        [*native.emulated(target, program), record_all(recording, subnormals=target != "armv7"), "base"], timeout=300
    )
