"""unique_consecutive: the first of each run of equal rows, how long the runs are, and to which each row belongs. unique is that
of rows in order; `lexsort` gives the order of rows with more than one element."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.reduce.reduce import kernel_dtype
from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.ir.dims import Dim
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

unique_consecutive = Op(
    "unique_consecutive",
    "x: tensor, order: tensor?",
    tolerance=0.0,
    dtypes=("f32", "f64", "i64"),
    mixed=("order",),
    outputs=3,
    nan="differs from itself",
    sized_by_data=True,
    doc="Of the rows x[i]: those that differ from the one before; the number of the run of row i, at place order[i]; their lengths.",
)
lexsort = Op(
    "lexsort",
    "x: tensor",
    tolerance=0.0,
    dtypes=("f32", "f64", "i64"),
    nan="goes last",
    doc="The places of the rows x[i] in rising order, compared element by element; equal ones stay in order.",
)


def _unique(
    g: Emitter, x: Value, dim: int | None, in_order: bool, inverse: bool, counts: bool
) -> tuple[Value | None, ...]:
    """Values; inverse and counts where they are asked for. `in_order`: of all rows, not only of neighbours."""
    from penlight.ir.dims import product
    from penlight.ir.types import TensorType

    values = g.out[0]
    dtype, place = x.dtype, 0 if dim is None else dim % x.rank
    count: Dim = values.shape[place]
    x = g.cast(x, kernel_dtype(g, x.dtype))
    if dim is None:
        x = g.reshape(x, (product(x.shape),))
    order = [place, *(d for d in range(x.rank) if d != place)]
    x = g.permute(x, order)
    places = None
    if in_order and x.rank == 1:
        x, places = g.emit("sort", x, types=[x.type, TensorType("i64", x.shape)], dim=0, descending=False)
    elif in_order:
        places = g.emit("lexsort", x, type=TensorType("i64", x.shape[:1]))
        x = g.emit("index_select", x, places, type=x.tensor, dim=0)
    runs = TensorType("i64", x.shape[:1])
    found = TensorType(x.dtype, (count, *x.shape[1:])), runs, TensorType("i64", (count,))
    rows, run, lengths = g.emit("unique_consecutive", x, places, types=found)
    rows = g.permute(g.cast(rows, dtype), [order.index(d) for d in range(x.rank)])
    return rows, g.reshape(run, g.out[1].shape) if inverse else None, lengths if counts else None


@unique_consecutive.from_aten("_unique2")
def _(g: Emitter, x: Value, sorted: bool, inverse: bool, counts: bool) -> tuple[Value | None, ...]:
    return _unique(g, x, None, True, inverse, counts)


@unique_consecutive.from_aten("unique_dim")
def _(g: Emitter, x: Value, dim: int, sorted: bool, inverse: bool, counts: bool) -> tuple[Value | None, ...]:
    return _unique(g, x, dim, True, inverse, counts)


@unique_consecutive.from_aten("unique_consecutive")
def _(g: Emitter, x: Value, inverse: bool, counts: bool, dim: int | None) -> tuple[Value | None, ...]:
    return _unique(g, x, dim, False, inverse, counts)


@unique_consecutive.samples
def _() -> Iterator[Sample]:
    import torch

    rand = torch.Generator().manual_seed(0)

    def numbers(*shape: int, high: int = 9) -> Any:
        return torch.randint(-high, high, shape, generator=rand)

    def both(dim: int | None = None) -> Any:
        def fn(x: Any) -> Any:
            options = {"return_inverse": True, "return_counts": True, "dim": dim}
            return [*torch.unique(x, **options), *torch.unique_consecutive(x, **options)]

        return fn

    yield Sample(both(), (numbers(3, 17),), "integers")
    yield Sample(both(), (numbers(40000, high=2),), "long runs")
    yield Sample(both(), (numbers(30000, high=9999).float(),), "many floats")
    yield Sample(both(), (numbers(0),), "none")
    yield Sample(both(), (torch.tensor(3.0),), "one")
    yield Sample(both(), (numbers(7) > 0,), "bools")
    yield Sample(both(0), (numbers(200, 3, 2, high=2).float(),), "rows")
    yield Sample(both(1), (numbers(2, 65, high=2).int(),), "columns")
    special = torch.tensor([1.0, float("inf"), -0.0, 0.0, float("-inf"), 0.0, 1.0])
    yield Sample(both(), (special,), "special")
    rows = ({0: torch.export.Dim("rows", min=2, max=99)},)
    yield Sample(lambda x: torch.unique(x) * 2, (numbers(8, 3),), "dynamic", dynamic=rows)


@lexsort.samples
def _() -> Iterator[Sample]:
    import torch

    rand = torch.Generator().manual_seed(0)
    for shape in ((1, 3), (33, 2), (200, 17)):
        x = torch.randint(0, 3, shape, generator=rand)
        yield Sample(lambda x: torch.unique(x, dim=0, return_inverse=True), (x,), f"{shape}")
