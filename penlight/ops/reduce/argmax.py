"""argmax, argmin: where the extreme value lies first. The first NaN is both the largest and the smallest, as in torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.reduce.reduce import emit_reduction, kernel_dtype, reduced_type
from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

argmax = Op(
    "argmax", "x: tensor, dim: int, keepdim: bool", layout="follow", tolerance=0.0, dtypes=("f32", "f64", "i64"), result="i64",
    doc="Index of the first maximum along dim.",
)  # fmt: skip
argmin = Op(
    "argmin", "x: tensor, dim: int, keepdim: bool", layout="follow", tolerance=0.0, dtypes=("f32", "f64", "i64"), result="i64",
    doc="Index of the first minimum along dim.",
)  # fmt: skip


def _convert(g: Emitter, name: str, x: Value, dim: int | None, keepdim: bool) -> Value:
    from penlight.ir.dims import product

    x = g.cast(x, kernel_dtype(g, x.dtype))
    if dim is None or x.rank == 0:  # over all elements, in logical order
        flat = g.reshape(x, (product(x.shape),))
        y = g.emit(name, flat, type=reduced_type(flat, "i64", (0,), True), dim=0, keepdim=True)
        return g.reshape(y, (1,) * (x.rank if keepdim else 0))
    dim %= x.rank
    return g.emit(name, x, type=reduced_type(x, "i64", (dim,), keepdim), dim=dim, keepdim=keepdim)


@argmax.from_aten("argmax")
def _(g: Emitter, x: Value, dim: int | None, keepdim: bool) -> Value:
    return _convert(g, "argmax", x, dim, keepdim)


@argmin.from_aten("argmin")
def _(g: Emitter, x: Value, dim: int | None, keepdim: bool) -> Value:
    return _convert(g, "argmin", x, dim, keepdim)


@argmax.from_aten("max.dim")
def _(g: Emitter, x: Value, dim: int, keepdim: bool) -> Any:
    return emit_reduction(g, "amax", x, (dim,), keepdim, g.out[0]), _convert(g, "argmax", x, dim, keepdim)


@argmin.from_aten("min.dim")
def _(g: Emitter, x: Value, dim: int, keepdim: bool) -> Any:
    return emit_reduction(g, "amin", x, (dim,), keepdim, g.out[0]), _convert(g, "argmin", x, dim, keepdim)


def _samples(name: str) -> Iterator[Sample]:
    import torch

    rand = torch.Generator().manual_seed(0)
    fn = getattr(torch, name)

    def case(label: str, dim: Any, x: Any, keepdim: bool = False) -> Sample:
        return Sample(lambda x: fn(x, dim, keepdim), (x,), label)

    yield case("last", -1, torch.randn(3, 1000, generator=rand))
    yield case("last, odd", 1, torch.randn(5, 19, generator=rand), keepdim=True)
    yield case("channels", 1, torch.randn(2, 21, 9, 7, generator=rand))
    yield case("channels last", 1, torch.randn(2, 21, 9, 7, generator=rand).to(memory_format=torch.channels_last))
    yield case("first", 0, torch.randn(17, 65, generator=rand), keepdim=True)
    yield case("all", None, torch.randn(4, 5, 6, generator=rand))
    yield case("all, keepdim", None, torch.randn(4, 5, generator=rand), keepdim=True)
    yield case("ties", 1, torch.randint(0, 3, (7, 33), generator=rand).float())
    yield case("ties in columns", 0, torch.randint(0, 3, (33, 18), generator=rand).float())
    yield case("rank 0", None, torch.tensor(3.0))
    yield case("size 1", 1, torch.randn(4, 1, generator=rand))
    yield case("no outputs", 1, torch.randn(0, 3, generator=rand))
    yield case("i64", 1, torch.randint(-5, 5, (4, 9), generator=rand))
    yield case("i64 columns", 0, torch.randint(-5, 5, (9, 4), generator=rand))
    special = torch.randn(5, 40, generator=rand)
    special[0, 3] = special[0, 7] = float("nan")
    special[1, 39] = float("nan")
    special[2] = float("-inf")
    special[3] = float("inf")
    special[4] = -0.0
    special[4, 5] = 0.0
    yield case("nan, inf in rows", 1, special)
    yield case("nan, inf in columns", 0, special)
    yield Sample(lambda x: fn(x.transpose(1, 2), 1), (torch.randn(3, 8, 9, generator=rand),), "transposed")
    yield Sample(lambda x: fn(x[:, ::2], 1), (torch.randn(3, 18, generator=rand),), "step 2")
    both = torch.max if name == "argmax" else torch.min
    yield Sample(lambda x: tuple(both(x, 1, True)), (torch.randn(3, 18, 4, generator=rand),), "values and indices")


for _op in (argmax, argmin):
    _op.samples(lambda name=_op.name: _samples(name))  # type: ignore[misc]
