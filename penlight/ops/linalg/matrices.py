"""What the converters of linear algebra share: matrices are the last two dims of a value, the dims before count them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from penlight.ir.dims import Dim
    from penlight.ir.graph import Value
    from penlight.ir.types import TensorType
    from penlight.ops.emitter import Emitter


def typed(shape: Sequence[Dim], dtype: str = "f32") -> TensorType:
    from penlight.ir.types import TensorType

    return TensorType(dtype, tuple(shape))


def real(g: Emitter, x: Any) -> Value:
    """An operand of linear algebra: f32, in torch too, or f16 of which torch makes nothing either."""
    from penlight.ir.graph import Value

    if not isinstance(x, Value) or x.dtype != "f32":
        g.fail(f"of a {x.dtype} tensor: only f32 is supported")
    return x


def smaller(g: Emitter, m: Dim, n: Dim) -> Dim:
    """min(m, n)"""
    if m == n or (isinstance(m, int) and isinstance(n, int)):
        return m if m == n else min(m, n)  # type: ignore[type-var]
    return g.fail("of matrices whose smaller side is not known before the run")


def known(g: Emitter, *dims: Dim) -> tuple[int, ...]:
    """Sizes that a constant is made for."""
    found = tuple(d for d in dims if isinstance(d, int))
    if len(found) < len(dims):
        g.fail("of matrices whose size is not known before the run")
    return found


def turned(g: Emitter, x: Value) -> Value:
    """The transposes."""
    return g.permute(x, (*range(x.rank - 2), x.rank - 1, x.rank - 2))


def spread(g: Emitter, x: Value, lead: Sequence[Dim], dims: int = 2) -> Value:
    """`x` for all leading dims of `lead`; its own last `dims` stay."""
    shape = (*lead, *x.shape[x.rank - dims :])
    made: Value = x if shape == x.shape else g.emit("expand", x, type=typed(shape, x.dtype), shape=shape)
    return made


def identity(g: Emitter, n: Dim, columns: Dim, lead: Sequence[Dim]) -> Value:
    import numpy as np

    return spread(g, g.constant(np.eye(*known(g, n, columns), dtype=np.float32)), lead)


def masked(g: Emitter, x: Value, mask: np.ndarray, other: float = 0.0) -> Value:
    """`x` where the mask is set, `other` elsewhere."""
    made: Value = g.emit("where", g.constant(mask), x, g.constant(other), type=typed(x.shape))
    return made


def cut(g: Emitter, x: Value, rows: Dim, columns: Dim) -> Value:
    """The first rows and columns."""
    for dim, size in ((x.rank - 2, rows), (x.rank - 1, columns)):
        if x.shape[dim] != size:
            shape = (*x.shape[:dim], size, *x.shape[dim + 1 :])
            x = g.emit("slice", x, type=typed(shape), dim=dim, start=0, end=size, step=1)
    return x


def diagonal(g: Emitter, x: Value) -> Value:
    """The diagonals of square matrices: each n + 1 elements a new one."""
    *lead, n, _ = x.shape
    (n,) = known(g, n)
    if n == 0:
        return g.reshape(x, (*lead, 0))
    flat = g.reshape(x, (*lead, n * n))
    made: Value = g.emit("slice", flat, type=typed((*lead, n)), dim=len(lead), start=0, end=n * n, step=n + 1)
    return made


def is_vector(a: Any, b: Any) -> bool:
    """Whether torch.linalg.solve takes b for one vector per matrix of a."""
    return b.rank == 1 or (a.rank - 1 == b.rank and tuple(b.shape) == tuple(a.shape[:-1]))
