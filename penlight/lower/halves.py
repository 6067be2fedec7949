"""Constants whose numbers f16 holds exactly are stored as such: half the bytes, the same numbers.

    @w: f32[64, 32] panel16   ->   @w: f32[64, 32] f16_panel16

Only where the user asks for it (weights="f16", quant/weight_only.py): they are expanded when the file is loaded, which takes time and memory
that weights in a mapped file do not.
"""

from __future__ import annotations

import numpy as np

from penlight.ir.graph import HALVES, Graph

FEWEST = 64  # elements: below, alignment eats up what is gained


def store_halves(graph: Graph) -> int:
    """After weights are packed. How many constants changed."""
    changed = 0
    for value in graph.constants.values():
        array = value.constant
        assert array is not None
        if value.dtype == "f32" and array.size >= FEWEST and not value.layout.startswith(HALVES) and _is_exact(array):
            value.layout, value.packed = HALVES + value.layout, None
            changed += 1
    return changed


def _is_exact(array: np.ndarray) -> bool:
    with np.errstate(over="ignore"):
        return np.array_equal(array.astype(np.float16).astype(np.float32), array, equal_nan=True)
