"""Tensors of a file, checked: every element lies in its storage, and sizes and element types are ones that exist."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from penlight.budget import Budget
from penlight.errors import CaptureError
from penlight.ir.values import Quantizer, ScriptTensor, Storage

MAX_RANK = 64
MAX_ELEMENTS = 1 << 34  # also of expanded tensors, which occupy little of the file


@dataclass(frozen=True)
class ElementType:
    """What torch calls a scalar type."""

    name: str  # torch's: "Float"
    dtype: str  # Penlight's: "f32"; "" where we cannot hold it
    size: int  # in bytes
    quantized: bool = False
    per_byte: int = 1  # elements in one


# In the order of torch's ScalarType, whose numbers flatbuffer files have
ELEMENT_TYPES = (
    ElementType("Byte", "u8", 1),
    ElementType("Char", "i8", 1),
    ElementType("Short", "i16", 2),
    ElementType("Int", "i32", 4),
    ElementType("Long", "i64", 8),
    ElementType("Half", "f16", 2),
    ElementType("Float", "f32", 4),
    ElementType("Double", "f64", 8),
    ElementType("ComplexHalf", "", 4),
    ElementType("ComplexFloat", "c64", 8),
    ElementType("ComplexDouble", "c128", 16),
    ElementType("Bool", "bool", 1),
    ElementType("QInt8", "i8", 1, quantized=True),
    ElementType("QUInt8", "u8", 1, quantized=True),
    ElementType("QInt32", "i32", 4, quantized=True),
    ElementType("BFloat16", "bf16", 2),
    ElementType("QUInt4x2", "u4x2", 1, quantized=True, per_byte=2),
    ElementType("QUInt2x4", "", 1, quantized=True),
)
BY_STORAGE = {t.name + "Storage": t for t in ELEMENT_TYPES}


def tensor(
    where: str,
    storage: Storage,
    kind: ElementType,
    offset: int,
    shape: Sequence[int],
    strides: Sequence[int],
    *,
    quantizer: Quantizer | None = None,
    requires_grad: bool = False,
    budget: Budget | None = None,
) -> ScriptTensor:
    """A checked tensor. `where` begins the error message."""
    if not kind.dtype:
        raise CaptureError(f"{where} has elements of type {kind.name}, which Penlight cannot hold")
    if kind.quantized != (quantizer is not None):
        raise CaptureError(
            f"{where} has elements of type {kind.name} {'without' if kind.quantized else 'with'} a quantizer"
        )
    if len(shape) != len(strides) or len(shape) > MAX_RANK:
        raise CaptureError(f"{where} has {len(shape)} sizes and {len(strides)} strides (at most {MAX_RANK})")
    if any(n < 0 for n in shape) or any(s < 0 for s in strides) or offset < 0:
        raise CaptureError(
            f"{where} has negative numbers: sizes {tuple(shape)}, strides {tuple(strides)}, offset {offset}"
        )
    if math.prod(shape) > MAX_ELEMENTS or max(shape, default=0) > MAX_ELEMENTS:
        raise CaptureError(f"{where} claims {math.prod(shape)} elements; at most {MAX_ELEMENTS} are read")
    last = 0 if 0 in shape else offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1
    if kind.per_byte > 1 and (offset or not is_dense(shape, strides)):
        raise CaptureError(f"{where} is a view of elements of type {kind.name}: clone it before saving")
    needed = -(-last // kind.per_byte) * kind.size
    if needed > len(storage.data):
        raise CaptureError(
            f"{where} reaches outside of its storage: sizes {tuple(shape)}, strides {tuple(strides)}, offset {offset} need "
            f"{needed} bytes, {storage.name or 'the storage'} has {len(storage.data)}"
        )
    if quantizer is not None and quantizer.axis is not None:
        _check_channels(where, quantizer, shape)
    made = ScriptTensor(storage, kind.dtype, offset, tuple(shape), tuple(strides), quantizer, requires_grad)
    if budget is not None:
        budget.step(1 + len(shape))
        budget.take(made.byte_count)  # written out, as a plan does with it, it takes that many
    return made


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    expected = 1
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n > 1 and stride != expected:
            return False
        expected *= n
    return True


def per_channel(where: str, scales: ScriptTensor, zero_points: ScriptTensor, axis: int) -> Quantizer:
    """A quantizer from the tensors that hold its parameters. (Zero points are floats in the scheme of embeddings.)"""
    for values, name in ((scales, "scales"), (zero_points, "zero points")):
        if (
            len(values.shape) != 1
            or (values.shape[0] > 1 and values.strides[0] != 1)
            or values.quantizer
            or values.dtype in ("c64", "c128", "bf16")
        ):
            raise CaptureError(f"{where}: its {name} are {values.dtype}{list(values.shape)}, not a row of numbers")
    points = zero_points.array().tolist()
    return Quantizer(tuple(map(float, scales.array().tolist())), tuple(points), axis)


def _check_channels(where: str, quantizer: Quantizer, shape: Sequence[int]) -> None:
    scale, points, axis = quantizer.scale, quantizer.zero_point, quantizer.axis
    assert isinstance(scale, tuple)
    assert isinstance(points, tuple)
    assert axis is not None
    if not 0 <= axis < len(shape) or len(scale) != shape[axis] or len(points) != shape[axis]:
        raise CaptureError(
            f"{where} of sizes {tuple(shape)} has {len(scale)} scales and {len(points)} zero points along axis {axis}"
        )
