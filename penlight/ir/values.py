"""Values that VM code computes with, as plain data: what a module holds at the start, constants, bundled inputs.

They are Python's own (None, bool, int, float, complex, str, list, tuple, dict) and the classes below; lists and dicts from a file are
TypedList and TypedDict. Capture makes them from TorchScript and .ptl files, the file stores them. Nothing here needs torch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penlight.ir.types import itemsize, numpy_dtype


@dataclass(eq=False)
class Storage:
    """Bytes that tensors lie in; two tensors on one Storage alias each other."""

    data: np.ndarray  # uint8, one-dimensional, may be mapped from the file and read-only
    name: str = ""  # where it lies in the file, for error messages


@dataclass(frozen=True)
class Quantizer:
    """real = (stored - zero_point) * scale; per channel, both are arrays along `axis`."""

    scale: float | tuple[float, ...]
    zero_point: int | tuple[int, ...]
    axis: int | None = None  # None: one scale for the whole tensor


@dataclass(eq=False)
class ScriptTensor:
    """A strided view of a Storage. `dtype` is Penlight's name (ir/types.py) of what is stored: quint8 is "u8" with a quantizer,
    qint8 "i8", qint32 "i32". complex64/128 are "c64"/"c128": read, not run. "u4x2" (tables of embeddings) has
    two elements in a byte, the first in the lower half, all of the tensor without gaps."""

    storage: Storage
    dtype: str
    offset: int  # in elements
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements
    quantizer: Quantizer | None = None
    requires_grad: bool = False
    name: str = ""  # path of the attribute that holds it ("features.0.weight"), where there is one

    @property
    def byte_count(self) -> int:
        """Of its elements; less than that may be stored."""
        size = {"u4x2": 1, "c64": 8, "c128": 16}.get(self.dtype) or itemsize(self.dtype)
        return math.prod(self.shape) * size

    def array(self) -> np.ndarray:
        """The elements as a numpy array of this shape (bf16 as uint16, u4x2 as uint8), a view where possible."""
        if self.dtype == "u4x2":
            count = math.prod(self.shape)
            raw = self.storage.data[: (count + 1) // 2]
            return np.stack([raw & 15, raw >> 4], 1).reshape(-1)[:count].reshape(self.shape)
        kind = np.dtype(
            {"bf16": "uint16", "c64": "complex64", "c128": "complex128"}.get(self.dtype) or numpy_dtype(self.dtype)
        )
        count = (
            1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)) if 0 not in self.shape else 0
        )
        start = self.offset * kind.itemsize
        flat = self.storage.data[start : start + count * kind.itemsize]
        flat = flat.view(kind) if flat.ctypes.data % kind.itemsize == 0 else np.frombuffer(flat.tobytes(), kind)
        return np.lib.stride_tricks.as_strided(
            flat, self.shape, tuple(s * kind.itemsize for s in self.strides), writeable=False
        )


@dataclass(eq=False)
class ScriptObject:
    """An instance of a TorchScript class (a module above all), or of a TorchBind class. The attributes are in the order of the
    slots that GET_ATTR and SET_ATTR count.

    Classes with __getstate__ were saved as what that returned: `has_state` is then true, and `attributes` is empty until
    something unpacks `state`: packed.py for TorchBind classes, for others the function "<type_name>.__setstate__"."""

    type_name: str  # "__torch__.M", "__torch__.torch.classes.quantized.LinearPackedParamsBase"
    attributes: dict[str, Any] = field(default_factory=dict)
    state: Any = None
    has_state: bool = False

    @property
    def is_custom(self) -> bool:
        return self.type_name.startswith("__torch__.torch.classes.")


def tensors_in(roots: Iterable[Any]) -> Iterator[tuple[ScriptTensor, bool]]:
    """All tensors in these values, and whether each lies in a list, tuple or dict (or else in an object, or alone)."""
    left = [(root, False) for root in roots]
    seen: set[tuple[int, bool]] = set()
    while left:
        value, inside = left.pop()
        if (id(value), inside) in seen:
            continue
        seen.add((id(value), inside))
        if isinstance(value, ScriptTensor):
            yield value, inside
        elif isinstance(value, ScriptObject):
            left += [(v, False) for v in value.attributes.values()]
        elif isinstance(value, (list, tuple, dict)):
            left += [(v, True) for v in (value.values() if isinstance(value, dict) else value)]


class TypedList(list[Any]):
    """A list, and TorchScript's type of it, which tells what an empty one holds."""

    def __init__(self, values: Iterable[Any] = (), type: str = "") -> None:
        super().__init__(values)
        self.type = type  # "List[int]"


class TypedDict(dict[Any, Any]):
    def __init__(self, values: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = (), type: str = "") -> None:
        super().__init__(values)
        self.type = type  # "Dict[str, Tensor]"


@dataclass(frozen=True)
class Device:
    name: str  # "cpu", "cuda:0"


@dataclass(frozen=True)
class EnumValue:
    type_name: str
    value: Any
