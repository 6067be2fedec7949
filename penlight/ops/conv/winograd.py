"""Winograd convolution F(m x m, 3 x 3) at export: its weights, and what time it takes (lower/winograd.py chooses by that).

A 3 x 3 filter becomes its values at (m + 2) x (m + 2) points, one matrix [Co, Ci] a point. That saves most of the
multiplications and costs memory: 16, 36 or 64 numbers where there were 9.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

# m, the outputs of a tile in each direction -> the points at which filters, seen as polynomials, are evaluated besides infinity. The
# kernels have the same points built into their transforms of tiles, and conv2d_winograd.cc says why these.
_ROOT = 2.0**0.5
POINTS: dict[int, tuple[float, ...]] = {
    2: (0, 1, -1),
    4: (0, _ROOT / 2, -_ROOT / 2, _ROOT, -_ROOT),
    6: (0, 1, -1, 2, -2, 0.5, -0.5),
}


def filter_matrix(outputs: int) -> np.ndarray:
    """G [m + 2, 3]: row i takes a filter (a polynomial of degree 2) to its value at point i, divided by the product of the
    distances to the other points; the last row, infinity, is its leading coefficient."""
    import numpy as np

    points = POINTS[outputs]
    rows = [np.array([1.0, x, x * x]) / np.prod([x - y for y in points if y != x]) for x in points]
    return np.stack([*rows, np.array([0.0, 0.0, 1.0])])


def pack_winograd(w: np.ndarray, outputs: int) -> np.ndarray:
    """[Co, Ci, 3, 3] -> [(m + 2)^2][ceil(Co / 16)][Ci][16], computed in f64 and rounded once. The tail of Co is zero."""
    import numpy as np

    g = filter_matrix(outputs)
    co, ci = w.shape[:2]
    padded = np.zeros((ceil(co / 16) * 16, ci, 9))
    padded[:co] = w.reshape(co, ci, 9)
    taps = padded.reshape(-1, 16, ci, 9).transpose(3, 0, 2, 1)  # as panels already: G w G^T is one matrix on the 9 taps
    points = np.kron(g, g) @ taps.reshape(9, -1)
    return points.astype(np.float32).reshape(-1, *taps.shape[1:])


@dataclass(frozen=True)
class Layer:
    """A 3 x 3 convolution of stride 1, at the sizes of the example inputs."""

    images: int
    ci: int
    co: int
    size: tuple[int, int]  # of the output
    image: tuple[int, int]  # of the input
    padding: tuple[int, int]  # top, left
    dilation: tuple[int, int]


# What the parts of a convolution cost, in seconds on one core (AVX-512, Zen 4). Only their ratios matter for the choice, and a phone's
# core, several times slower, is so at all three alike.
MULTIPLY = 1 / 57e9  # one multiply-add of a matrix product: it does 57 billion of them a second
TRANSFORM = (
    0.15e-9  # one number of a tile, on its way through the transform: computed, written, and read by the matrix product
)
FETCH = (
    1 / 25e9
)  # one byte of weights from memory, 25 GB/s: it goes on while the product multiplies, so the slower one counts


def plain_seconds(layer: Layer) -> float:
    """As a matrix product, which skips taps that fall on padding where there are many (cut_gemm in conv2d.cc)."""
    taps = 1
    for size, image, pad, step in zip(layer.size, layer.image, layer.padding, layer.dilation, strict=True):
        inside = sum(max(0, min(size, image - o) - max(0, -o)) for o in (k * step - pad for k in range(3)))
        skips = (
            inside * 8 <= 3 * size * 7 and layer.size[1] >= 8
        )  # an eighth of the taps or more falls on padding, in rows worth it
        taps *= inside if skips else 3 * size
    weights = layer.ci * layer.co
    return max(layer.images * taps * weights * MULTIPLY, 9 * weights * 4 * FETCH)


def winograd_seconds(layer: Layer, outputs: int) -> float:
    positions = (outputs + 2) ** 2
    tiles = layer.images
    for size, step in zip(layer.size, layer.dilation, strict=True):
        tiles *= min(step, size) * ceil(ceil(size / step) / outputs)
    weights = positions * layer.ci * layer.co
    transforms = tiles * positions * (layer.ci + layer.co) * TRANSFORM
    return max(tiles * weights * MULTIPLY, weights * 4 * FETCH) + transforms
