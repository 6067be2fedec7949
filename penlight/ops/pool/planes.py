"""Pooling and resizing know one form, [N, C, H, W]; torch has more: one spatial dim, and no batch dim.
`to_nchw` brings a value into that form, `from_nchw` brings the result back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penlight.capture.emitter import Emitter
    from penlight.ir.graph import Value
    from penlight.ir.types import TensorType


def to_nchw(g: Emitter, x: Value, spatial: int) -> Value:
    """`x` with `spatial` (1 or 2) trailing dims, batched or not, as [N, C, H, W]; H is 1 where there is one dim."""
    if x.dtype != "f32":
        g.fail(f"of a {x.dtype} tensor: only f32 is supported")
    shape = (1,) * (spatial + 2 - x.rank) + x.shape
    if spatial == 1:
        shape = (*shape[:-1], 1, shape[-1])
    return x if shape == x.shape else g.reshape(x, shape)


def nchw_type(x: Value, out: TensorType, spatial: int) -> TensorType:
    """The type of a result for `x` of to_nchw that `from_nchw` turns into `out`."""
    from penlight.ir.types import TensorType

    size = out.shape[-spatial:] if spatial == 2 else (1, out.shape[-1])
    return TensorType(out.dtype, (x.shape[0], x.shape[1], *size))


def from_nchw(g: Emitter, y: Value, out: TensorType) -> Value:
    return y if y.shape == out.shape else g.reshape(y, out.shape)


def pair(values: Sequence[Any], spatial: int, missing: Any, default: Sequence[Any] = ()) -> tuple[Any, Any]:
    """torch's argument for `spatial` dims (one number stands for all; empty: `default`) as (for H, for W)."""
    values = list(values) or list(default)
    if spatial == 1:
        return missing, values[0]
    return values[0], values[-1]
