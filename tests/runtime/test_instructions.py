"""The NEON kernels execute what their register tiles imply, and little more: counted under emulation, which no timing on
another processor could replace (bench/instructions.py has the whole table)."""

from __future__ import annotations

import pytest

from bench.instructions import Layer, implied, layer, measure, of_bytes

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("target", "shape"),
    [
        ("arm64", layer(14, 64, 192)),
        ("arm64", layer(14, 64, 64, 3, 2)),
        ("arm64", layer(112, 8, 8, 3, 1, True)),
        ("arm64", layer(112, 8, 8, 3, 2, True)),
        ("arm64", layer(56, 8, 8, 5, 1, True)),
        ("armv7", layer(7, 512, 64)),
    ],
    ids=lambda value: value.name if isinstance(value, Layer) else value,
)
def test_whole_tiles_are_within_a_tenth(target: str, shape: Layer) -> None:
    tiles, _ = measure(shape, target)
    assert 0 < tiles <= 1.10 * implied(shape, target)


@pytest.mark.parametrize("isa", ["dotprod", "i8mm"])
@pytest.mark.parametrize("shape", [layer(14, 384, 96), layer(14, 192, 64, 3, 2)], ids=lambda shape: shape.name)
def test_tiles_of_bytes_are_within_a_tenth(isa: str, shape: Layer) -> None:
    tiles, _ = measure(of_bytes(shape, isa), "arm64")
    assert 0 < tiles <= 1.10 * implied(of_bytes(shape, isa), "arm64")


def test_matrix_kernel_is_within_a_tenth() -> None:
    """Edges, gathering and all: with 64 channels in, where they weigh most."""
    shape = layer(28, 64, 96)
    _, everything = measure(shape, "arm64")
    assert everything <= 1.10 * implied(shape, "arm64")
