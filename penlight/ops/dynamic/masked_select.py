"""masked_select: the rows of x where a mask is true; x[mask] is it too, with a mask over the first dims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.ir.dims import Dim
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

masked_select = Op(
    "masked_select",
    "x: tensor, mask: tensor",
    tolerance=0.0,
    key_by="size",
    mixed=("mask",),
    sized_by_data=True,
    doc="x[mask], where mask has the shape of the first dims of x.",
)


def emit_masked_select(g: Emitter, x: Value, mask: Value, count: Dim) -> Value:
    from penlight.ir.types import TensorType

    type = TensorType(x.dtype, (count, *x.shape[mask.rank :]))
    found: Value = g.emit("masked_select", x, mask, type=type)
    return found


@masked_select.from_aten("masked_select")
def _(g: Emitter, x: Value, mask: Value) -> Value:
    from penlight.ir.types import TensorType

    rank = max(x.rank, mask.rank)
    padded = [(1,) * (rank - v.rank) + v.shape for v in (x, mask)]
    shape = tuple(b if a == 1 else a for a, b in zip(*padded, strict=True))
    x, mask = (
        v if v.shape == shape else g.emit("expand", v, type=TensorType(v.dtype, shape), shape=shape) for v in (x, mask)
    )
    return emit_masked_select(g, x, mask, g.out.shape[0])


@masked_select.samples
def _() -> Iterator[Sample]:
    import torch

    rand = torch.Generator().manual_seed(0)

    def case(name: str, shape: tuple[int, ...], mask: tuple[int, ...], share: float = 0.5, dtype: Any = None) -> Sample:
        x = torch.randn(shape, generator=rand).mul(9).to(dtype or torch.float32)
        return Sample(torch.masked_select, (x, torch.rand(mask, generator=rand) < share), name)

    yield case("plain", (3, 5, 7), (3, 5, 7))
    yield case("broadcast", (3, 1, 7), (5, 1))
    yield case("rank 0", (), ())
    yield case("empty", (4, 0), (4, 0))
    yield case("none of many", (300, 200), (300, 200), 0.0)
    yield case("most of many", (300, 200), (300, 200), 0.9)
    yield case("i64", (33,), (33,), dtype=torch.int64)
    yield case("bool", (33,), (33,), dtype=torch.bool)
    yield case("f16", (33,), (33,), dtype=torch.float16)
    x = torch.randn(6, 5, generator=rand)
    yield Sample(lambda x: x.T.masked_select(x.T > 0).exp().sum(), (x,), "transposed, then computed with", 1e-6)
    rows = ({0: torch.export.Dim("rows", min=2, max=99)},)
    yield Sample(lambda x: torch.masked_select(x, x[:, :1] > 0).reshape(-1, 5) * 2, (x,), "dynamic", dynamic=rows)
