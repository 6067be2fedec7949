"""Convolution, pooling and resizing know two forms, [N, C, H, W] and [N, C, D, H, W]; torch has more: one spatial dim, and
no batch dim. `to_nchw` brings a value into one of them, `from_nchw` brings the result back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ir.types import TensorType
    from penlight.ops.emitter import Emitter

HALVES = ("f16", "bf16")


def to_nchw(g: Emitter, x: Value, spatial: int, dtypes: Sequence[str] = ("f32",)) -> Value:
    """`x` with `spatial` (1, 2 or 3) trailing dims, batched or not, as [N, C, H, W] or [N, C, D, H, W]; H is 1 where there
    is one dim. Of one of these dtypes: others become the first that holds all their values."""
    x = g.cast(x, carrier(g, x.dtype, dtypes))
    shape = (1,) * (spatial + 2 - x.rank) + x.shape
    if spatial == 1:
        shape = (*shape[:-1], 1, shape[-1])
    return x if shape == x.shape else g.reshape(x, shape)


def carrier(g: Emitter, dtype: str, dtypes: Sequence[str]) -> str:
    """The dtype among `dtypes` in which values of `dtype` are computed."""
    if dtype in dtypes:
        return dtype
    if dtype in HALVES and "f32" in dtypes:
        return "f32"
    if dtype in ("u8", "i8", "i16", "i32") and "i64" in dtypes:
        return "i64"
    return g.fail(f"of a {dtype} tensor: only {', '.join(dtypes)} is supported")


def nchw_type(x: Value, out: TensorType, spatial: int, dtype: str = "") -> TensorType:
    """The type of a result for `x` of to_nchw that `from_nchw` turns into `out`."""
    from penlight.ir.types import TensorType

    size = out.shape[-spatial:] if spatial > 1 else (1, out.shape[-1])
    return TensorType(dtype or x.dtype, (x.shape[0], x.shape[1], *size))


def from_nchw(g: Emitter, y: Value, out: TensorType) -> Value:
    y = y if y.shape == out.shape else g.reshape(y, out.shape)
    return g.cast(y, out.dtype)


def sides(values: Sequence[Any], spatial: int, missing: Any, default: Sequence[Any] = ()) -> tuple[Any, ...]:
    """torch's argument for `spatial` dims (one number stands for all; empty: `default`), for each dim of to_nchw."""
    values = list(values) or list(default)
    if spatial == 1:
        return missing, values[0]
    return tuple(values * spatial if len(values) == 1 else values)
