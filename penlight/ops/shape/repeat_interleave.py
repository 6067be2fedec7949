"""repeat_interleave by a number: a broadcast and a copy. By a tensor, its size depends on the data: ops/dynamic/counted.py."""

from __future__ import annotations

from typing import Any

from penlight.ops.registry import composite


@composite("repeat_interleave.self_int")
def _(x: Any, repeats: int, dim: int | None = None, *, output_size: Any = None) -> Any:
    if dim is None:
        x, dim = x.flatten(), 0
    if x.dim() == 0:
        x, dim = x.reshape(1), 0
    dim %= x.dim()
    wide = x.unsqueeze(dim + 1).expand(*x.shape[: dim + 1], repeats, *x.shape[dim + 1 :])
    return wide.clone().flatten(dim, dim + 1)
