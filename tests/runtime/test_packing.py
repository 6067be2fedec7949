"""Weights are packed in two places: at compile time by numpy (lower/prepack.py: the compiler needs no runtime), and at run time by
the kernel, where they are not constants. Both must write the same bytes, whatever the shape, groups and layout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from penlight.lower.prepack import PACKERS, UNPACKERS
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


@pytest.mark.parametrize("kind", ["plain", pytest.param("asan", marks=pytest.mark.slow)])
def test_compiler_and_runtime_pack_alike(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    cases = [draw(rng) for _ in range(400)]
    with open(tmp_path / "cases", "wb") as f:
        for layout, groups, weight in cases:
            f.write(layout.encode().ljust(16, b"\0"))
            np.array([groups, weight.ndim, *weight.shape], np.int64).tofile(f)
            weight.tofile(f)
    native.run([native.program(kind, Path(__file__).parent / "pack.cc"), tmp_path / "cases", tmp_path / "packed"])
    got, at = np.fromfile(tmp_path / "packed", np.uint32), 0
    for layout, groups, weight in cases:
        packed = PACKERS[layout](weight, groups).view(np.uint32).reshape(-1)
        what = f"{layout} of {weight.shape} in {groups} groups"
        np.testing.assert_array_equal(got[at : at + packed.size], packed, err_msg=what)
        again = UNPACKERS[layout](packed.view(np.float32), weight.shape, groups)
        np.testing.assert_array_equal(np.ascontiguousarray(again).view(np.uint32), weight.view(np.uint32), err_msg=what)
        at += packed.size
    assert at == got.size
