"""The NEON kernels execute what their register tiles imply, and little more: counted under emulation, which no timing on
another processor could replace (bench/instructions.py has the whole table)."""

from __future__ import annotations

import pytest

from bench.instructions import Layer, implied, layer, linear, measure, of_bytes

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
@pytest.mark.parametrize(
    "shape",
    [
        layer(6, 64, 32),  # the least that tiles are filled with
        layer(6, 384, 32),
        layer(6, 1024, 16),
        layer(6, 64, 16, 3),
        layer(6, 128, 16, 3),
        layer(12, 192, 16, 3, 2),
        linear(1, 512, 32),
        linear(197, 192, 32),
    ],
    ids=lambda shape: shape.name,
)
def test_tiles_of_bytes_are_within_a_tenth(isa: str, shape: Layer) -> None:
    tiles, _ = measure(of_bytes(shape, isa), "arm64")
    assert 0 < tiles <= 1.10 * implied(of_bytes(shape, isa), "arm64")


@pytest.mark.parametrize("isa", ["dotprod", "i8mm"])
def test_product_of_bytes_is_within_a_tenth(isa: str) -> None:
    """Edges, gathering and all."""
    shape = of_bytes(layer(14, 384, 64), isa)
    _, everything = measure(shape, "arm64")
    assert everything <= 1.10 * implied(shape, "arm64")


@pytest.mark.parametrize("target", ["arm64", "armv7"])
@pytest.mark.parametrize("shape", [layer(7, 384, 32), layer(12, 64, 32, 3, 2)], ids=lambda shape: shape.name)
def test_bytes_take_less_than_floats(target: str, shape: Layer) -> None:
    """Without an instruction for them too."""
    _, floats = measure(shape, target)
    _, integers = measure(of_bytes(shape, "base"), target)
    assert 0 < integers < floats


def test_matrix_kernel_is_within_a_tenth() -> None:
    """Edges, gathering and all: with 64 channels in, where they weigh most."""
    shape = layer(28, 64, 96)
    _, everything = measure(shape, "arm64")
    assert everything <= 1.10 * implied(shape, "arm64")
