"""masked_scatter: the elements of source, in order, where a mask is true."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

masked_scatter = Op(
    "masked_scatter",
    "x: tensor, mask: tensor, source: tensor",
    tolerance=0.0,
    key_by="size",
    mixed=("mask",),
    doc="The next element of source where mask is true, x elsewhere.",
)


@masked_scatter.from_aten("masked_scatter")
def _(g: Emitter, x: Value, mask: Value, source: Value) -> Value:
    from penlight.ir.types import TensorType

    mask, shape = g.cast(mask, "bool"), g.out.shape
    if mask.shape != shape:
        mask = g.emit("expand", mask, type=TensorType("bool", shape), shape=shape)
    if x.shape != shape:
        x = g.emit("expand", x, type=TensorType(x.dtype, shape), shape=shape)
    return g.emit("masked_scatter", x, mask, g.cast(source, x.dtype))


@masked_scatter.samples
def _() -> Iterator[Sample]:
    import torch

    x, source = torch.randn(5, 33), torch.randn(200)
    yield Sample(lambda x, s: [x.masked_scatter(x > 0, s), x.masked_scatter(x[0] > 0, s)], (x, source), "masks")
    yield Sample(lambda x, s: (x.T + 1).masked_scatter(x.T > 0, s), (x, source), "permuted")
    yield Sample(
        lambda x, s: [x.masked_scatter(x > 99, s[:0]), x[:0].masked_scatter(x[:0] > 0, s)], (x, source), "none"
    )
    yield Sample(lambda x, s: x.long().masked_scatter(x > 0, s.long()), (x * 9, source * 9), "i64")
