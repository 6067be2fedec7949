"""repeat_interleave: which element each place of a repeated tensor comes from, where a tensor says how often."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.registry import Op, Sample, Selection, composite

if TYPE_CHECKING:
    from penlight.capture.emitter import Emitter
    from penlight.ir.dims import Dim
    from penlight.ir.graph import Value

repeat_interleave = Op(
    "repeat_interleave",
    "repeats: tensor, size: int",
    tolerance=0.0,
    mixed=("repeats",),
    select=lambda node: Selection("repeat_interleave.i64"),
    doc="Index i, repeats[i] times, for all i in turn: `size` indices, as many as the repeats add up to.",
)


@repeat_interleave.from_aten("repeat_interleave.Tensor")
def _(g: Emitter, repeats: Value, size: Dim | None) -> Value:
    from penlight.ir.types import TensorType

    if size is None:
        g.fail("without output_size, so that the result's size depends on the data: give output_size")
    y = g.emit("repeat_interleave", repeats, type=TensorType("i64", g.out.shape), size=size)
    return g.cast(y, g.out.dtype)


@composite("repeat_interleave.self_int")
def _(x: Any, repeats: int, dim: int | None = None, *, output_size: Any = None) -> Any:
    if dim is None:
        x, dim = x.flatten(), 0
    if x.dim() == 0:
        x, dim = x.reshape(1), 0
    dim %= x.dim()
    wide = x.unsqueeze(dim + 1).expand(*x.shape[: dim + 1], repeats, *x.shape[dim + 1 :])
    return wide.clone().flatten(dim, dim + 1)


@repeat_interleave.samples
def _() -> Iterator[Sample]:
    import torch

    x, repeats = torch.randn(3, 4, 5), torch.tensor([2, 0, 1, 3])
    yield Sample(
        lambda x, r: [x.repeat_interleave(r, 1, output_size=6), x[0].repeat_interleave(r.int(), 0, output_size=6)],
        (x, repeats), "by a tensor",
    )  # fmt: skip
    yield Sample(
        lambda x: [x.repeat_interleave(2, 1), x.repeat_interleave(3), x.repeat_interleave(2, -1)], (x,), "by a number"
    )
