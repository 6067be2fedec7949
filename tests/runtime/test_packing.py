"""Weights are packed in two places: at compile time by numpy (lower/prepack.py: the compiler needs no runtime), and at run time by
the kernel, where they are not constants, integers by the VM. Both must write the same bytes, whatever the shape, groups and layout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from penlight.lower.prepack import PACKERS, UNPACKERS
from penlight.ops.conv.kernels import bytes_layout
from tests.runtime import native

LAYOUTS = ("panel16", "taps", "grouped")


def draw(rng: np.random.Generator) -> tuple[str, int, np.ndarray]:
    """Sizes around the 16 of a panel; any bits as numbers, NaN with their payloads too."""
    layout = str(rng.choice(LAYOUTS))
    groups = int(rng.choice([1, 1, 2, 3, 5, 16, 17]))
    outputs = int(rng.choice([1, 2, 3, 8, 15, 16, 17, 31, 32, 33])) * groups
    inputs = 1 if layout == "taps" else int(rng.integers(1, 9))
    shape = (outputs, inputs, *rng.integers(1, 5, rng.integers(0, 4)))
    return layout, groups, rng.integers(0, 2**32, shape, dtype=np.uint32).view(np.float32)


def draw_integers(rng: np.random.Generator) -> tuple[str, int, np.ndarray]:
    """Of linear layers, maps (a row of one is a map of height 1) and volumes; of all values, or of one extreme, whose sums are the largest."""
    sides = int(rng.choice([0, 2, 2, 3]))
    groups = int(rng.choice([1, 1, 2, 3, 16, 17, 70])) if sides else 1
    outputs = int(rng.choice([1, 1, 2, 15, 16, 17, 33])) * groups
    inputs = int(rng.choice([1, 1, 2, 3, 4, 9, *([700] if outputs < 20 else [])]))
    shape = (outputs, inputs, *rng.integers(1, 6, sides))
    low, high = [(-128, 127), (-128, 127), (-128, -128), (127, 127)][rng.integers(4)]
    return bytes_layout(shape, groups), groups, rng.integers(low, high + 1, shape).astype(np.int8)


@pytest.mark.parametrize("kind", ["plain", pytest.param("asan", marks=pytest.mark.slow)])
def test_compiler_and_runtime_pack_alike(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    cases = [draw(rng) for _ in range(400)] + [draw_integers(rng) for _ in range(300)]
    assert {layout for layout, _, weight in cases if weight.dtype == np.int8} == {"quads16", "taps"}
    with open(tmp_path / "cases", "wb") as f:
        for layout, groups, weight in cases:
            f.write(layout.encode().ljust(16, b"\0"))
            np.array([groups, weight.itemsize, weight.ndim, *weight.shape], np.int64).tofile(f)
            weight.tofile(f)
    native.run([native.program(kind, Path(__file__).parent / "pack.cc"), tmp_path / "cases", tmp_path / "packed"])
    got, at = np.fromfile(tmp_path / "packed", np.uint8), 0
    for layout, groups, weight in cases:
        packed = PACKERS[layout](weight, groups).reshape(-1)
        what = f"{layout} of {weight.dtype} {weight.shape} in {groups} groups"
        np.testing.assert_array_equal(got[at : at + packed.nbytes], packed.view(np.uint8), err_msg=what)
        at += packed.nbytes
        if layout in UNPACKERS and weight.dtype == np.float32:
            again = UNPACKERS[layout](packed, weight.shape, groups)
            np.testing.assert_array_equal(
                np.ascontiguousarray(again).view(np.uint32), weight.view(np.uint32), err_msg=what
            )
    assert at == got.size
