"""Tensors inside a pickle: references to storages, sizes, strides and quantizers, as torch's pickler writes them → ScriptTensor."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from penlight.budget import Budget
from penlight.capture.lite.tensors import ElementType, per_channel, tensor
from penlight.errors import CaptureError
from penlight.ir.values import Quantizer, ScriptTensor, Storage

StorageReader = Callable[[str], Storage]
SCHEMES = ("per_tensor_affine", "per_channel_affine", "per_channel_affine_float_qparams")


@dataclass(frozen=True)
class StorageReference:
    storage: Storage
    kind: ElementType


@dataclass(frozen=True)
class Scheme:
    name: str  # of a quantization


class PickledTensors:
    """`read` finds the bytes of a storage by the key that the pickle gives; `error` makes an exception of what is wrong."""

    def __init__(
        self, where: str, read: StorageReader | None, error: Callable[[str], CaptureError], budget: Budget
    ) -> None:
        self.where = where
        self.read = read
        self.error = error
        self.budget = budget
        self.storage_bytes: dict[str, int] = {}  # of the storages in use, by key
        self.scale_bytes = 0  # read from them for quantizers

    def reference(self, given: Any) -> StorageReference:
        """What a pickle says of a storage: ("storage", type, key, device, number of elements)."""
        good = (
            isinstance(given, tuple)
            and len(given) >= 5
            and given[0] == "storage"
            and isinstance(given[1], ElementType)
            and isinstance(given[2], str)
            and isinstance(given[3], str)
            and type(given[4]) is int
        )
        if not good:
            raise self.error("a reference to something else than a tensor's storage")
        _, kind, key, _, count = given[:5]
        if count < 0:
            raise self.error(f"storage {key!r} claims {count} elements")
        if count == 0:
            storage = Storage(np.empty(0, np.uint8), key)
        elif self.read is None:
            raise self.error("a tensor where there are none")
        else:
            storage = self.read(key)
            self.storage_bytes[key] = len(storage.data)
            if count * kind.size > len(storage.data):
                raise self.error(
                    f"storage {key!r} claims {count} elements of {kind.size} bytes, but {storage.name} has {len(storage.data)} bytes"
                )
        return StorageReference(storage, kind)

    def tensor(self, given: tuple[Any, ...], quantized: bool) -> ScriptTensor:
        if len(given) < (6 if quantized else 5) or not isinstance(given[0], StorageReference):
            raise self.error("a tensor without its storage")
        reference, offset, shape, strides = given[:4]
        requires_grad = given[5 if quantized else 4]
        if type(offset) is not int or type(requires_grad) is not bool or not _integers(shape) or not _integers(strides):
            raise self.error("a tensor with sizes, strides or an offset that are no integers")
        if not quantized and len(given) > 6 and given[6]:
            raise self.error("a conjugate or negative view of a tensor is not supported: clone it before saving")
        where = f"{self.where}: a tensor in {reference.storage.name!r}"
        quantizer = self._quantizer(given[4], where) if quantized else None
        return tensor(
            where,
            reference.storage,
            reference.kind,
            offset,
            shape,
            strides,
            quantizer=quantizer,
            requires_grad=requires_grad,
            budget=self.budget,
        )

    def _quantizer(self, given: Any, where: str) -> Quantizer:
        if not isinstance(given, tuple) or not given or not isinstance(given[0], Scheme):
            raise self.error("a quantized tensor without its scheme")
        if given[0].name == "per_tensor_affine":
            if len(given) == 3 and type(given[1]) is float and type(given[2]) is int:
                return Quantizer(given[1], given[2])
        elif (
            len(given) == 4
            and type(given[3]) is int
            and isinstance(given[1], ScriptTensor)
            and isinstance(given[2], ScriptTensor)
        ):
            self.budget.step(math.prod(given[1].shape) + math.prod(given[2].shape))
            self.scale_bytes += given[1].byte_count + given[2].byte_count
            if self.scale_bytes > sum(self.storage_bytes.values()):
                raise self.error("quantized tensors have more scales than the file holds")
            return per_channel(where, given[1], given[2], given[3])
        raise self.error(f"a quantized tensor with wrong parameters of the scheme {given[0].name}")


def _integers(values: Any) -> bool:
    return isinstance(values, tuple) and all(type(v) is int for v in values)
