"""index_put: x with values at x[:, i, j], or combined with what is there; index_add, index_copy, index_fill, index_reduce
and put are forms of it. With one mask it is a where.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penlight.ir.dims import broadcast
from penlight.ops.index.index import is_mask, neighbours
from penlight.ops.index.scatter import combined, filled, select_by_reduce
from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    import numpy as np

    from penlight.ir.dims import Dim
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter


def _fold(x: np.ndarray, value: np.ndarray, *indices: np.ndarray, at: int, reduce: str) -> np.ndarray:
    import numpy as np

    y = x.copy()
    where: Any = (*[slice(None)] * at, *indices)
    if not reduce:
        y[where] = value
    else:
        {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[reduce].at(y, where, value)
    return y


index_put = Op(
    "index_put",
    "x: tensor, value: tensor, indices: tensor[], at: int, reduce: str = ''",
    tolerance=1e-6,
    mixed=("indices",),
    select=select_by_reduce,
    fold=_fold,
    doc="x with x[:, i, j] = value, see index; reduce add, mul, max or min combines with what is there, in index order.",
)


def _emit(
    g: Emitter, x: Value, value: Value, indices: list[Value], at: int, how: str, include_self: bool = True
) -> Value:
    """`value` must be broadcast to what the indices select."""

    def put(x: Value, value: Value, reduce: str) -> Value:
        made: Value = g.emit("index_put", x, value, indices, type=x.tensor, at=at, reduce=reduce)
        return made

    return combined(g, x, value, how, include_self, put) if how else put(x, g.cast(value, x.dtype), "")


def _broadcast(g: Emitter, value: Value, shape: tuple[Dim, ...]) -> Value:
    from penlight.ir.types import TensorType

    if value.shape == shape:
        return value
    made: Value = g.emit("expand", value, type=TensorType(value.dtype, shape), shape=shape)
    return made


def _by_mask(g: Emitter, x: Value, indices: Sequence[Value | None], value: Value, accumulate: bool) -> Value | None:
    """x[:, mask] = value, where one value serves for all that the mask selects; None where there is one for each."""
    from penlight.ir.types import TensorType
    from penlight.ops.elementwise.arithmetic import add
    from penlight.ops.elementwise.comparison import where
    from penlight.ops.elementwise.rules import apply

    at = next(d for d, i in enumerate(indices) if i is not None)
    mask = indices[at]
    assert mask is not None
    after = x.rank - at - mask.rank
    if value.rank > after and value.shape[value.rank - after - 1] != 1:
        return None
    if value.rank > after:  # its dim for what the mask selects becomes the mask's dims
        lead = value.rank - after - 1
        value = g.reshape(value, (*value.shape[:lead], *[1] * mask.rank, *value.shape[lead + 1 :]))
    mask = g.cast(g.reshape(mask, (*[1] * at, *mask.shape, *[1] * after)), "bool")
    value = g.cast(value, x.dtype)
    if accumulate:
        value = apply(g, add, x, value, type=x.tensor)
    return apply(g, where, mask, value, x, type=TensorType(x.dtype, x.shape))


@index_put.from_aten("index_put", "_unsafe_index_put")
def _(g: Emitter, x: Value, indices: Sequence[Value | None], value: Value, accumulate: bool) -> Value:
    used = [i for i in indices if i is not None]
    if len(used) == 1 and is_mask(used[0]) and used[0].constant is None:
        filled_in = _by_mask(g, x, indices, value, accumulate)
        if filled_in is not None:
            return filled_in
    if not used:
        return g.cast(_broadcast(g, value, x.shape), x.dtype)
    moved, order, at, places = neighbours(g, x, indices)
    selected = broadcast(*(i.shape for i in places))
    shape = (*moved.shape[:at], *selected, *moved.shape[at + len(places) :])
    y = _emit(g, moved, _broadcast(g, value, shape), places, at, "sum" if accumulate else "")
    return g.permute(y, [order.index(d) for d in range(len(order))])


def _along(g: Emitter, x: Value, dim: int, index: Value, value: Any, how: str, include_self: bool = True) -> Value:
    """The operators that take a rank-1 index for one dim."""
    from penlight.ir.graph import Value

    shape = x.shape
    x = g.reshape(x, (1,)) if x.rank == 0 else x
    index = g.cast(g.reshape(index, (1,)) if index.rank == 0 else index, "i64")
    dim %= x.rank
    selected = (*x.shape[:dim], index.shape[0], *x.shape[dim + 1 :])
    if not isinstance(value, Value):
        value = filled(g, value, x.dtype, selected)
    elif value.rank == 0:
        value = _broadcast(g, value, selected)
    return g.reshape(_emit(g, x, g.reshape(value, selected), [index], dim, how, include_self), shape)


@index_put.from_aten("index_add")
def _(g: Emitter, x: Value, dim: int, index: Value, source: Value, alpha: Any) -> Value:
    from penlight.ops.elementwise.arithmetic import mul
    from penlight.ops.elementwise.rules import apply

    if alpha != 1:
        source = apply(g, mul, source, alpha, type=source.tensor)
    return _along(g, x, dim, index, source, "sum")


@index_put.from_aten("index_copy")
def _(g: Emitter, x: Value, dim: int, index: Value, source: Value) -> Value:
    return _along(g, x, dim, index, source, "")


@index_put.from_aten("index_fill.int_Scalar", "index_fill.int_Tensor")
def _(g: Emitter, x: Value, dim: int, index: Value, value: Any) -> Value:
    return _along(g, x, dim, index, value, "")


@index_put.from_aten("index_reduce")
def _(g: Emitter, x: Value, dim: int, index: Value, source: Value, reduce: str, include_self: bool) -> Value:
    return _along(g, x, dim, index, source, reduce, include_self)


@index_put.from_aten("put")
def _(g: Emitter, x: Value, index: Value, source: Value, accumulate: bool) -> Value:
    flat, index = g.reshape(x, (-1,)), g.cast(index, "i64")
    value = g.reshape(source, index.shape)
    return g.reshape(_emit(g, flat, value, [index], 0, "sum" if accumulate else ""), x.shape)


@index_put.samples
def _() -> Iterator[Sample]:
    import torch

    rand = torch.Generator().manual_seed(0)

    def r(*shape: int) -> Any:
        return torch.randn(*shape, generator=rand)

    def i(n: int, *shape: int) -> Any:
        return torch.randint(-n, n, shape, generator=rand)

    def put(accumulate: bool, *places: Any) -> Any:
        return lambda x, v, *i: torch.ops.aten.index_put(
            x, [None if p is None else i[p] for p in places], v, accumulate
        )

    unique = torch.randperm(17, generator=rand)[:9]
    yield Sample(put(False, 0), (r(17, 5), r(9, 5), unique), "rows")
    yield Sample(put(True, None, 0, 1), (r(3, 5, 6, 33), r(7, 33), i(5, 7), i(6, 7)), "two, added, broadcast")
    yield Sample(put(True, 0, None, 1), (r(5, 4, 6), r(7, 3, 4), i(5, 7, 3), i(6, 3)), "moved to the front")
    yield Sample(put(True, 0), (r(9), r(40, 30), i(9, 40, 30)), "many into few")
    yield Sample(put(True, 0), (torch.arange(9), torch.arange(6).reshape(2, 3), i(9, 2, 3)), "i64")
    yield Sample(put(True, 0, 1), (r(6, 5), r(2, 1).expand(2, 7), i(6, 2, 1), i(5, 7)), "expanded value")
    yield Sample(put(False, 0), (r(5, 3), r(0, 3), i(5, 0)), "none")
    yield Sample(
        lambda x, v: x.index_put([torch.tensor([True, False, True]), torch.tensor([1, 0])], v),
        (r(3, 2), r(2)),
        "known mask",
    )
    yield Sample(
        lambda x, m: [x.masked_fill(m, 2), x.index_put([m], torch.tensor(1.5)), x.index_put([m], x[0, 0] + 1, True)],
        (r(3, 5), r(3, 5) > 0),
        "masks",
    )
    yield Sample(
        lambda x, m: [
            x.index_put([m], x[m] * 2),
            torch.ops.aten.index_put(x, [None, m[0]], x[:, m[0]] + 1, True),
            x.index_put([m], x[m][:1]),
        ],
        (r(3, 5, 4), r(3, 5) > 0),
        "masks with a value for each",
    )
    for how in ("prod", "mean", "amax", "amin"):
        yield Sample(
            lambda x, i, s, how=how: [
                x.index_reduce(1, i, s, how), x.index_reduce(1, i, s, how, include_self=False)
            ],
            (r(3, 9, 5), torch.tensor([1, 7, 1, 1, 0]), r(3, 5, 5)),
            how,
        )  # fmt: skip
    n = torch.export.Dim("n", min=2, max=99)
    yield Sample(
        lambda x, v: [x.index_add(0, torch.tensor([1, 0, 1]), v, alpha=2), x.index_fill(1, torch.tensor([1, 3]), 7.0)],
        (r(4, 5), r(3, 5)),
        "dynamic",
        dynamic=({0: n}, None),
    )
