"""bitcast: bytes read as another dtype: Tensor.view(dtype)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penlight.ops.registry import Op, Sample, Selection

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

bitcast = Op(
    "bitcast",
    "x: tensor, to: str",
    tolerance=0.0,
    mixed=("x",),
    select=lambda node: Selection("bitcast.any"),
    doc="The bytes of x as another dtype; the last dim grows or shrinks with the element's size.",
)


@bitcast.from_aten("view.dtype", "view_copy.dtype")
def _(g: Emitter, x: Value, dtype: str) -> Value:
    """Numbers that torch holds as half floats are f32 here: their bits are made for this, and looked at as f32 again."""
    from penlight.ir.types import TensorType

    halves = {"torch.float16": "f16", "torch.bfloat16": "bf16"}
    before, after = (halves.get(str(n.meta["val"].dtype), "") for n in (g.node.args[0], g.node))
    x, dtype = g.cast(x, before or x.dtype), after or g.out.dtype
    if x.dtype == dtype:
        return g.cast(x, g.out.dtype)
    return g.cast(g.emit("bitcast", x, type=TensorType(dtype, g.out.shape), to=dtype), g.out.dtype)


@bitcast.samples
def _() -> Iterator[Sample]:
    import torch

    x = torch.randn(3, 6)
    yield Sample(
        lambda x: [x.view(torch.int32), x.view(torch.uint8), x.view(torch.int64), (x * 2).T.view(torch.int32) + 1,
                   x[:, :0].view(torch.int32), x.half().view(torch.int16).view(torch.bfloat16)],
        (x,), "bits",
    )  # fmt: skip
