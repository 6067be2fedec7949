"""max_unpool: every value goes back to the place that its index says, among zeros. Images are rows here: [planes, pixels]."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ir.dims import product
from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

max_unpool = Op(
    "max_unpool",
    "x: tensor, indices: tensor, size: int",
    tolerance=0.0,
    key_by="size",
    mixed=("indices",),
    doc="y[p, indices[p, i]] = x[p, i], zeros elsewhere: planes of `size` pixels. Of equal indices the last counts.",
)


def _convert(g: Emitter, x: Value, indices: Value, spatial: int) -> Value:
    from penlight.ir.types import TensorType

    planes = product(x.shape[:-spatial])
    size = product(g.out.shape[-spatial:])
    rows = (planes, product(x.shape[-spatial:]))
    places = g.reshape(g.cast(indices, "i64"), rows)
    y = g.emit("max_unpool", g.reshape(x, rows), places, type=TensorType(x.dtype, (planes, size)), size=size)
    return g.reshape(y, g.out.shape)


@max_unpool.from_aten("max_unpool2d")
def _(g: Emitter, x: Value, indices: Value, size: Any) -> Value:
    return _convert(g, x, indices, 2)


@max_unpool.from_aten("max_unpool3d")
def _(g: Emitter, x: Value, indices: Value, size: Any, stride: Any, padding: Any) -> Value:
    return _convert(g, x, indices, 3)


@max_unpool.samples
def _() -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    rand = torch.Generator().manual_seed(0)

    def there_and_back(x: Any) -> Any:
        dims = x.dim() - 2
        values, places = getattr(F, f"max_pool{dims}d")(x, 2, 2, return_indices=True)
        return getattr(F, f"max_unpool{dims}d")(values, places, 2, 2, output_size=x.shape)

    yield Sample(there_and_back, (torch.randn(3, 17, 9, 11, generator=rand),), "2d")
    yield Sample(there_and_back, (torch.randn(2, 5, 4, 6, 7, generator=rand),), "3d")
    yield Sample(there_and_back, (torch.randn(2, 5, 33, generator=rand),), "1d")
    x = torch.randn(2, 3, 4, 4, generator=rand)
    yield Sample(lambda x: F.max_unpool2d(x, torch.full((2, 3, 4, 4), 5), [2, 2]), (x,), "all to one place")
    yield Sample(
        there_and_back,
        (torch.randn(2, 4, 8, 10, generator=rand),),
        "dynamic",
        dynamic=({0: torch.export.Dim("n", min=2, max=64)},),
    )
