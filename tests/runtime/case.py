"""Cases for C programs (case.h reads them): a model's inputs as they lie in memory, torch's outputs, and how far a result
may be from them.

    f32 tolerance (of the largest finite value, f32 outputs; all others must be equal), i32 inputs, i32 outputs, and for
    each tensor  i32 dtype, i32 rank, i64 dims[rank], i64 strides[rank], i64 elements from the first to the last, these
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import torch

from penlight.ir.types import DTYPES

_CODES = {
    getattr(torch, {"bf16": "bfloat16"}.get(name, numpy_name)): code for name, (code, numpy_name) in DTYPES.items()
}


def tensor_bytes(tensor: torch.Tensor) -> bytes:
    tensor = tensor.detach()
    span = 1 + sum((d - 1) * s for d, s in zip(tensor.shape, tensor.stride(), strict=True)) if tensor.numel() else 0
    shape = (*tensor.shape, *tensor.stride())
    head = struct.pack(f"<ii{len(shape) + 1}q", _CODES[tensor.dtype], tensor.dim(), *shape, span)
    return head + tensor.as_strided((span,), (1,)).contiguous().view(torch.uint8).numpy().tobytes()


def case_bytes(given: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], tolerance: float = 1e-4) -> bytes:
    head = struct.pack("<fii", tolerance, len(given), len(expected))
    return head + b"".join([*map(tensor_bytes, given), *(tensor_bytes(e.contiguous()) for e in expected)])
