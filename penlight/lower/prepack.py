"""Rearranges constant weights into the layouts that kernels read straight from the mapped file (file/SPEC.md, Layouts).

    @w: f32[64, 32, 3, 3] plain   ->   @w: f32[64, 32, 3, 3] panel16, stored as [1][4][288][16]

The type stays the logical one; only the bytes and the layout name change. A weight that two nodes read in two
layouts is stored twice, one that they read in the same layout once.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from penlight.ir.graph import Graph, Packed, Value
from penlight.lower.select import selection
from penlight.ops.conv.winograd import pack_winograd

PANEL = 16


def pack_panel16(w: np.ndarray, groups: int) -> np.ndarray:
    """[N, K…] -> [groups][ceil(N_g / 16)][K][16]. Convolution weights put K in the order kh, kw, ci. The N tail is
    zero; K is never padded (0 times garbage could be NaN)."""
    n = w.shape[0] // groups
    k = math.prod(w.shape[1:])
    k_last = np.moveaxis(w, 1, -1).reshape(groups, n, k)  # groups, N_g, kh*kw*ci
    panels = -(-n // PANEL)
    padded = np.zeros((groups, panels * PANEL, k), w.dtype)
    padded[:, :n] = k_last
    return np.ascontiguousarray(padded.reshape(groups, panels, PANEL, k).transpose(0, 1, 3, 2))


def pack_taps(w: np.ndarray, groups: int) -> np.ndarray:
    """Depthwise [Co, 1, kh, kw] -> [kh*kw][Co]."""
    return np.ascontiguousarray(w.reshape(w.shape[0], -1).T)


def pack_grouped(w: np.ndarray, groups: int) -> np.ndarray:
    """[Co, Ci_g, kh, kw] -> [ceil(Co / 16)][kh*kw][Ci_g][16], for groups with few outputs each; the last outputs are zero."""
    co, ci = w.shape[:2]
    taps = w.reshape(co, ci, -1)
    padded = np.zeros((-(-co // PANEL) * PANEL, *taps.shape[1:]), w.dtype)
    padded[:co] = taps
    return np.ascontiguousarray(padded.reshape(-1, PANEL, *taps.shape[1:]).transpose(0, 3, 2, 1))


def pack_quads16(w: np.ndarray, groups: int) -> np.ndarray:
    """[N, K…] i8 -> [groups][ceil(N_g / 16)][ceil(K / 4)][16][4]. K in the order kh, kw, ci; what is missing is zero."""
    n, k = w.shape[0] // groups, math.prod(w.shape[1:])
    panels, quads = -(-n // PANEL), -(-k // 4)
    padded = np.zeros((groups, panels * PANEL, quads * 4), w.dtype)
    padded[:, :n, :k] = np.moveaxis(w, 1, -1).reshape(groups, n, k)
    return np.ascontiguousarray(padded.reshape(groups, panels, PANEL, quads, 4).transpose(0, 1, 3, 2, 4))


def turn(w: np.ndarray, groups: int) -> np.ndarray:
    """[Ci, Co / groups, …] of a transposed convolution as [Co, Ci / groups, …]; the same way back."""
    split = w.reshape(groups, -1, *w.shape[1:]).swapaxes(1, 2)
    return split.reshape(-1, *split.shape[2:])


def turned(shape: tuple[int, ...], groups: int) -> tuple[int, ...]:
    return (shape[1] * groups, shape[0] // groups, *shape[2:])


def unpack_panel16(flat: np.ndarray, shape: tuple[int, ...], groups: int) -> np.ndarray:
    n, taps = shape[0] // groups, shape[2:]
    k = flat.size // (groups * -(-n // PANEL) * PANEL)
    k_last = flat.reshape(groups, -1, k, PANEL).transpose(0, 1, 3, 2).reshape(groups, -1, k)[:, :n]
    return np.moveaxis(k_last.reshape(shape[0], *taps, shape[1]), -1, 1)


def unpack_taps(flat: np.ndarray, shape: tuple[int, ...], groups: int) -> np.ndarray:
    return flat.reshape(-1, shape[0]).T.reshape(shape)


def unpack_grouped(flat: np.ndarray, shape: tuple[int, ...], groups: int) -> np.ndarray:
    taps = flat.reshape(-(-shape[0] // PANEL), -1, shape[1], PANEL).transpose(0, 3, 2, 1)
    return taps.reshape(-1, *taps.shape[2:])[: shape[0]].reshape(shape)


UNPACKERS: dict[str, Callable[[np.ndarray, tuple[int, ...], int], np.ndarray]] = {
    "panel16": unpack_panel16,
    "taps": unpack_taps,
    "grouped": unpack_grouped,
    "panel16t": lambda flat, shape, groups: turn(unpack_panel16(flat, turned(shape, groups), groups), groups),
    "groupedt": lambda flat, shape, groups: turn(unpack_grouped(flat, turned(shape, groups), groups), groups),
}
"""The way back, from what is stored and the logical shape; Winograd's transforms have none. The last two are for VM code, which
has weights of transposed convolutions and of products the other way round."""
PACKERS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "panel16": pack_panel16,
    "taps": pack_taps,
    "grouped": pack_grouped,
    "quads16": pack_quads16,
    "winograd2": lambda w, groups: pack_winograd(w, 2),
    "winograd4": lambda w, groups: pack_winograd(w, 4),
    "winograd6": lambda w, groups: pack_winograd(w, 6),
}


def prepack(graph: Graph) -> None:
    packed: dict[tuple[Value, str, object], Value] = {}
    for node in graph.nodes:
        for index, layout in selection(node).packs.items():
            weight = node.inputs[index]
            if weight is None or weight.constant is None or weight.layout == layout:
                continue
            groups = node.attrs.get("groups", 1)
            key = (weight, layout, groups)
            if key not in packed:
                assert isinstance(groups, int)
                array = PACKERS[layout](weight.constant, groups)
                name, origin = graph.fresh_name(weight.name), Packed(weight.constant, groups)
                packed[key] = Value(name, weight.type, constant=array, layout=layout, packed=origin)
            node.set_input(index, packed[key])
    graph.prune_constants()
    for (weight, _, _), value in packed.items():
        if weight.name not in graph.constants:  # nobody reads the plain one any more: its name is free
            value.name = weight.name
        graph.constants[value.name] = value
