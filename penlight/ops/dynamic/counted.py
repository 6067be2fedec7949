"""Calls whose result is as large as a number that they compute: bincount, repeat_interleave, tensor_split. The number is read
first (`item`); the rest is made of other operators, a stage later. nonzero_static has the size that it is given."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from penlight.ops.dynamic.item import item
from penlight.ops.dynamic.nonzero import emit_nonzero
from penlight.ops.reduce.reduce import emit_reduction
from penlight.ops.registry import Op, Sample
from penlight.ops.shape.slice import END, emit_slice

if TYPE_CHECKING:
    from penlight.ir.dims import Dim
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

repeat_places = Op(
    "repeat_places",
    "repeats: tensor, size: int",
    tolerance=0.0,
    dtypes=("i64",),
    doc="0 repeats[0] times, 1 repeats[1] times, …: size of them in all.",
)


@item.from_aten("bincount")
def _(g: Emitter, x: Value, weights: Value | None, least: int) -> Value:
    from penlight.ir.types import TensorType

    out, number = g.out, TensorType("i64", ())
    x, last = g.cast(x, "i64"), g.constant(least - 1, "i64")
    if isinstance(x.shape[0], int) and x.shape[0] > 0:
        most = g.emit("maximum", emit_reduction(g, "amax", x, None, False, number), last, type=number)
    else:  # there is no largest of nothing
        most = emit_reduction(
            g, "amax", g.emit("cat", [x, g.reshape(last, (1,))], type=_longer(x, 1), dim=0), None, False, number
        )
    size = g.size_of(g.emit("add", most, g.constant(1, "i64"), type=number), out.shape[0])
    if weights is not None:
        weights = g.cast(weights, "f32")
    type = TensorType("i64" if weights is None else "f32", (size,))
    counts = g.emit("bin_sum", x, weights, type=type, size=size, strict=True)
    return g.cast(counts, out.dtype)


def _longer(x: Value, more: Dim) -> Any:
    from penlight.ir.dims import combine
    from penlight.ir.types import TensorType

    return TensorType(x.dtype, (combine("+", x.shape[0], more), *x.shape[1:]))


def _repeated(g: Emitter, repeats: Value, size: Dim | None, known: Dim | None) -> Value:
    """0 repeats[0] times, then 1 repeats[1] times, …"""
    from penlight.ir.types import TensorType

    number = TensorType("i64", ())
    repeats = g.cast(repeats, "i64")
    if known is None:
        known = g.size_of(emit_reduction(g, "sum", repeats, None, False, number), size)
    places: Value = g.emit("repeat_places", repeats, type=TensorType("i64", (known,)), size=known)
    return places


@repeat_places.from_aten("repeat_interleave.Tensor")
def _(g: Emitter, repeats: Value, known: Dim | None) -> Value:
    return g.cast(_repeated(g, repeats, g.out.shape[0], known), repeats.dtype)


@repeat_places.from_aten("repeat_interleave.self_Tensor")
def _(g: Emitter, x: Value, repeats: Value, dim: int | None, known: Dim | None) -> Value:
    from penlight.ir.types import TensorType

    if dim is None:
        x, dim = g.reshape(x, (-1,)), 0
    x = g.reshape(x, (1,)) if x.rank == 0 else x
    dim %= x.rank
    if repeats.rank == 0 or repeats.shape[0] == 1:
        shape = (x.shape[dim],)
        repeats = g.emit("expand", repeats, type=TensorType(repeats.dtype, shape), shape=shape)
    places = _repeated(g, repeats, g.out.shape[dim], known)
    type = TensorType(x.dtype, (*x.shape[:dim], places.shape[0], *x.shape[dim + 1 :]))
    return g.emit("index_select", x, places, type=type, dim=dim)


@item.from_aten("tensor_split.tensor_indices_or_sections")
def _(g: Emitter, x: Value, indices: Value, dim: int) -> tuple[Value, ...]:
    from penlight.ir.types import TensorType

    if indices.rank == 0:
        g.fail("with a number of sections in a tensor: give it as an int")
    number = TensorType("i64", ())
    bounds: list[Dim] = [0]
    for i in range(len(g.out) - 1):
        if indices.constant is not None:
            bounds.append(int(indices.constant[i]))
        else:
            bounds.append(g.size_of(g.cast(g.emit("select", indices, type=number, dim=0, index=i), "i64")))
    bounds.append(END)
    return tuple(emit_slice(g, x, dim, start, end, 1, None) for start, end in pairwise(bounds))


@item.from_aten("nonzero_static")
def _(g: Emitter, x: Value, size: Dim, fill: int) -> Value:
    from penlight.ir.dims import symbol
    from penlight.ir.types import TensorType

    out = g.out
    found = emit_nonzero(g, x, symbol(g.graph.fresh_name("size")))
    rest = g.emit("expand", g.constant(fill, "i64"), type=out, shape=out.shape)
    both = g.emit("cat", [found, rest], type=TensorType("i64", _longer(found, size).shape), dim=0)
    return g.emit("slice", both, type=out, dim=0, start=0, end=size, step=1)


@repeat_places.samples
def _() -> Iterator[Sample]:
    import torch

    def case(name: str, repeats: Any, *shape: int, dim: int | None = 0) -> Sample:
        return Sample(lambda x, n: x.repeat_interleave(n, dim), (torch.randn(shape), torch.tensor(repeats)), name)

    yield case("rows", [2, 0, 3, 1], 4, 17)
    yield case("columns", [1, 2, 0], 2, 3, 5, dim=1)
    yield case("all alike, flat", [3], 2, 3, dim=None)
    yield case("none", [0, 0], 2, 3)
    yield Sample(lambda n: torch.repeat_interleave(n, output_size=5), (torch.tensor([1, 4]),), "a size that is given")
    yield Sample(
        lambda n, w: (torch.bincount(n), torch.bincount(n, w, minlength=9), torch.nonzero_static(n, size=3)),
        (torch.tensor([3, 0, 3]), torch.randn(3)),
        "bincount, nonzero_static",
    )
    parts = torch.randn(5, 4), torch.tensor([1, -2])
    yield Sample(lambda x, i: torch.tensor_split(x, i), parts, "tensor_split")
