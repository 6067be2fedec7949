"""norm: the p-norm over dims, for the p that need no power of each element (0, 1, 2, inf, -inf). For any other p it is a
sum of powers; torch's own decompositions bring the norms of matrices here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penlight.ops.reduce.reduce import SCHEMA, emit_reduction
from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

norm = Op("norm", f"{SCHEMA}, p: float", layout="follow", doc="The p-norm over dims; p is 0, 1, 2, inf or -inf.")
_DIRECT = (0.0, 1.0, 2.0, float("inf"), float("-inf"))


def _norm(g: Emitter, x: Value, p: Any, dims: Sequence[int] | None, keepdim: bool) -> Value:
    from penlight.ir.types import TensorType

    out = g.out
    if out.dtype == "f64" or x.dtype == "f64":
        g.fail("of f64 values: f32 is supported")
    p = 2.0 if p is None else float(p)
    f32 = TensorType("f32", out.shape)
    if p in _DIRECT:
        return g.cast(emit_reduction(g, "norm", g.cast(x, "f32"), dims, keepdim, f32, p=p), out.dtype)
    whole = TensorType("f32", x.shape)
    powers = g.emit("pow", g.emit("abs", g.cast(x, "f32"), type=whole), g.constant(p, "f32"), type=whole)
    total = emit_reduction(g, "sum", powers, dims, keepdim, f32)
    return g.cast(g.emit("pow", total, g.constant(1 / p, "f32"), type=f32), out.dtype)


@norm.from_aten("linalg_vector_norm")
def _(g: Emitter, x: Value, p: Any, dims: Sequence[int] | None, keepdim: bool, dtype: str | None) -> Value:
    return _norm(g, x, p, dims, keepdim)


@norm.from_aten("norm.Scalar")
def _(g: Emitter, x: Value, p: Any) -> Value:
    return _norm(g, x, p, None, False)


@norm.from_aten("norm.ScalarOpt_dim")
def _(g: Emitter, x: Value, p: Any, dims: Sequence[int], keepdim: bool) -> Value:
    return _norm(g, x, p, dims, keepdim)


@norm.from_aten("norm.ScalarOpt_dim_dtype")
def _(g: Emitter, x: Value, p: Any, dims: Sequence[int], keepdim: bool, dtype: str) -> Value:
    return _norm(g, x, p, dims, keepdim)


@norm.from_aten("norm.ScalarOpt_dtype")
def _(g: Emitter, x: Value, p: Any, dtype: str) -> Value:
    return _norm(g, x, p, None, False)


@norm.samples
def _() -> Iterator[Sample]:
    import torch

    rand = torch.Generator().manual_seed(0)
    inf = float("inf")
    x = torch.randn(5, 9, 37, generator=rand)
    x[1, 2] = 0

    def every(x: Any, dim: Any) -> list[Any]:
        return [torch.linalg.vector_norm(x, p, dim) for p in (0, 1, 2, inf, -inf, 3.5, 0.5)]

    yield Sample(lambda x: every(x, -1), (x,), "last")
    yield Sample(lambda x: every(x, (0, 1)), (x,), "first two")
    yield Sample(lambda x: every(x, None), (x,), "all")
    special = x[:2].clone()
    special[0, 0, 0], special[0, 1, 36], special[1, 3, 5] = inf, float("nan"), -inf
    yield Sample(lambda x: every(x, 2)[:5], (special,), "nan, inf")
    yield Sample(lambda x: torch.linalg.vector_norm(x[..., ::2], 2, 1, keepdim=True), (x,), "step 2")
    yield Sample(
        lambda x: torch.linalg.vector_norm(x, 2, 0),
        (torch.randn(4, 3, 5, generator=rand),),
        "dynamic",
        dynamic=({0: torch.export.Dim("n"), 2: torch.export.Dim("w", min=2, max=99)},),
    )
