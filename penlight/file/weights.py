"""The DATA section while a file is written: arrays go in, each gets its place, and what is there already is not stored again.

A packed constant also says what it was made from (ir/graph.py, Packed): VM code that holds the same weight refers to the packed
one, and the runtime unpacks it if it is ever read.
"""

from __future__ import annotations

import numpy as np

from penlight.file import format as f
from penlight.ir.array_map import ArrayMap, as_bytes
from penlight.ir.graph import Value
from penlight.ir.types import TensorType
from penlight.ir.values import ScriptTensor
from penlight.lower.prepack import UNPACKERS, turn, turned

MOST_GROUPS = 2**16 - 1  # of a Constant record


class Weights:
    def __init__(self) -> None:
        self.size = 0
        self._arrays: list[np.ndarray] = []
        self._offsets: ArrayMap[int] = ArrayMap()
        self._packed: ArrayMap[Value] = ArrayMap()
        self._by_size: dict[int, list[Value]] = {}

    def place(self, array: np.ndarray) -> int:
        """The offset of these bytes."""
        offset = -(-self.size // f.ALIGNMENT) * f.ALIGNMENT
        found = self._offsets.setdefault(array, offset)
        if found == offset:
            self._arrays.append(as_bytes(array))
            self.size = offset + array.nbytes
        return found

    def remember(self, value: Value) -> None:
        """A constant that may have been packed, by what it was made from."""
        packed = value.packed
        if packed is None or value.layout not in UNPACKERS or value.dtype != "f32" or not packed.plain.size:
            return
        if packed.groups <= MOST_GROUPS and self._packed.setdefault(packed.plain, value) is value:
            self._by_size.setdefault(packed.plain.nbytes, []).append(value)

    def packed(self, t: ScriptTensor) -> tuple[TensorType, str, int, np.ndarray] | None:
        """A packed constant that was made from the storage of this tensor: the storage's type, and layout, groups and bytes of
        the constant. None where there is none, or where the storage is there as it is."""
        flat = as_bytes(t.storage.data)
        if t.dtype != "f32" or self._offsets.get(flat) is not None:
            return None
        same = self._packed.get(flat)
        if same is not None:
            assert same.packed is not None
            return _as_storage(same, same.packed.plain.shape, same.layout)
        if flat.nbytes not in self._by_size or t.offset or not np.array_equal(as_bytes(t.array()), flat):
            return None
        made = (rearranged(value, t.array()) for value in self._by_size[flat.nbytes])
        return next((m for m in made if m is not None), None)

    def in_order(self) -> list[tuple[bytes, np.ndarray]]:
        """All arrays, each with the padding before it."""
        data, position = [], 0
        for array in self._arrays:
            pad = -position % f.ALIGNMENT
            data.append((b"\0" * pad, array))
            position += pad + array.nbytes
        return data


def rearranged(value: Value, w: np.ndarray) -> tuple[TensorType, str, int, np.ndarray] | None:
    """As Weights.packed, where a pass has rearranged the weight before it was packed."""
    assert value.packed is not None
    groups = value.packed.groups
    plain, w = (np.ascontiguousarray(a).view(np.uint32) for a in (value.packed.plain, w))  # 0.0 is not -0.0
    if w.ndim < 2 or w.shape[0] % groups:
        return None
    if w.shape == plain.shape and w.ndim == 2:  # a flatten that moved into a linear
        for channels in (c for c in range(2, w.shape[1]) if w.shape[1] % c == 0):
            by_channel = w.reshape(w.shape[0], channels, -1)
            is_first = np.array_equal(by_channel[0].T.reshape(-1), plain[0])  # most do not get further
            if is_first and np.array_equal(by_channel.swapaxes(1, 2).reshape(plain.shape), plain):
                return _as_storage(value, by_channel.shape, value.layout)
    # a transposed convolution, a product
    is_turned = value.layout != "taps" and turned(w.shape, groups)[:2] == plain.shape[:2]
    if is_turned and np.array_equal(turn(w, groups).reshape(plain.shape), plain):
        return _as_storage(value, w.shape, f"{value.layout}t")
    return None


def _as_storage(value: Value, shape: tuple[int, ...], layout: str) -> tuple[TensorType, str, int, np.ndarray]:
    assert value.packed is not None
    assert value.constant is not None
    return TensorType("f32", shape), layout, value.packed.groups, value.constant
