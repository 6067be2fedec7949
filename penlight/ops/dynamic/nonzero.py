"""nonzero: where a mask is true, one row of indices each, in row-major order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.ir.dims import Dim
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

nonzero = Op(
    "nonzero",
    "mask: tensor",
    tolerance=0.0,
    dtypes=("bool",),
    sized_by_data=True,
    doc="Indices of the elements of mask that are true: [how many, rank].",
)


def as_mask(g: Emitter, x: Value) -> Value:
    from penlight.ir.types import TensorType

    if x.dtype == "bool":
        return x
    zero = g.constant(0, x.dtype)
    mask: Value = g.emit("ne", x, zero, type=TensorType("bool", x.shape))
    return mask


def emit_nonzero(g: Emitter, mask: Value, count: Dim) -> Value:
    """[count, rank]"""
    from penlight.ir.types import TensorType

    found: Value = g.emit("nonzero", as_mask(g, mask), type=TensorType("i64", (count, mask.rank)))
    return found


def emit_places(g: Emitter, mask: Value) -> list[Value]:
    """Where a mask among indices is true: indices for each of its dims. Where the call's result is as long as they are, its
    new symbol says how long."""
    from penlight.ir.dims import symbol
    from penlight.ir.types import TensorType

    if mask.constant is not None:
        import numpy as np

        return [g.constant(places.astype("int64")) for places in np.nonzero(mask.constant)]
    count = symbol(min(g.new_symbols) if g.new_symbols else g.graph.fresh_name("size"))
    found = emit_nonzero(g, mask, count)
    if mask.rank == 1:
        return [g.reshape(found, (count,))]
    return [g.emit("select", found, type=TensorType("i64", (count,)), dim=1, index=i) for i in range(mask.rank)]


@nonzero.from_aten("nonzero", "argwhere")
def _(g: Emitter, x: Value) -> Value:
    return emit_nonzero(g, x, g.out.shape[0])


@nonzero.from_aten("nonzero_numpy", "where")
def _(g: Emitter, x: Value) -> tuple[Value, ...]:
    """One vector of indices for each dim."""
    x = g.reshape(x, (1,)) if x.rank == 0 else x
    found = emit_nonzero(g, x, g.out[0].shape[0])
    if x.rank == 1:
        return (g.reshape(found, (found.shape[0],)),)
    return tuple(g.emit("select", found, type=part, dim=1, index=i) for i, part in enumerate(g.out))


@nonzero.samples
def _() -> Iterator[Sample]:
    import torch

    rand = torch.Generator().manual_seed(0)

    def mask(*shape: int, share: float = 0.5) -> Any:
        return torch.rand(shape, generator=rand) < share

    for shape in ((9,), (3, 5, 7), (1, 1, 33), (), (4, 0, 3), (300, 200)):
        yield Sample(torch.nonzero, (mask(*shape),), f"{list(shape)}")
    yield Sample(torch.nonzero, (mask(301, 211, share=0.01),), "few")
    yield Sample(torch.nonzero, (mask(40, 50, share=0.0),), "none")
    yield Sample(torch.nonzero, (mask(40, 50, share=1.0),), "all")
    special = torch.tensor([0.0, -0.0, float("nan"), float("inf"), 1e-45, 3.0])
    yield Sample(lambda x: (torch.argwhere(x), *torch.nonzero(x, as_tuple=True)), (special,), "floats")
    yield Sample(lambda x: torch.nonzero(x.T % 3), (torch.arange(35).reshape(5, 7),), "transposed integers")

    def twice(x: Any) -> Any:
        rows, columns = torch.where(x > 0)
        kept = x[rows] * columns[:, None]
        return kept, torch.nonzero(kept > 1)[:, 0] + 1, rows + rows.shape[0]

    x = torch.randn(6, 5, generator=rand)
    rows = ({0: torch.export.Dim("rows", min=2, max=99)},)
    yield Sample(twice, (x,), "what follows from it")
    yield Sample(twice, (x - 9,), "what follows from nothing")
    yield Sample(twice, (x,), "dynamic", dynamic=rows)
