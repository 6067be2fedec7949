"""Cases for C programs (case.h reads them): a model's inputs as they lie in memory, torch's outputs, and how far a result
may be from them.

    f32 tolerance (of the largest finite value, f32 and f64 outputs; all others must be equal), i32 inputs, i32 outputs, and
    for each tensor  i32 dtype, i32 rank, f64 scale (if larger than its largest value: of a complex result's other part),
                     i64 dims[rank], i64 strides[rank], i64 elements from the first to the last, these
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import torch

from penlight.ir.types import DTYPES

_CODES = {
    getattr(torch, {"bf16": "bfloat16"}.get(name, numpy_name)): code for name, (code, numpy_name) in DTYPES.items()
}


def tensor_bytes(tensor: torch.Tensor, scale: float = 0.0) -> bytes:
    tensor = tensor.detach()
    span = 1 + sum((d - 1) * s for d, s in zip(tensor.shape, tensor.stride(), strict=True)) if tensor.numel() else 0
    shape = (*tensor.shape, *tensor.stride())
    head = struct.pack(f"<iid{len(shape) + 1}q", _CODES[tensor.dtype], tensor.dim(), scale, *shape, span)
    return head + tensor.as_strided((span,), (1,)).contiguous().view(torch.uint8).numpy().tobytes()


def case_bytes(
    given: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
    tolerance: float = 1e-4,
    scales: Mapping[int, float] | None = None,
) -> bytes:
    """scales: of expected tensors that have one."""
    head = struct.pack("<fii", tolerance, len(given), len(expected))
    known = scales or {}
    outputs = (tensor_bytes(e.contiguous(), known.get(i, 0.0)) for i, e in enumerate(expected))
    return head + b"".join([*map(tensor_bytes, given), *outputs])
