"""softmax, log_softmax along any dim. A row of -inf only, or with a NaN or +inf in it, gives NaN, as in torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

softmax = Op("softmax", "x: tensor, dim: int", layout="follow", doc="exp(x - max) / sum of these, along dim.")
log_softmax = Op("log_softmax", "x: tensor, dim: int", layout="follow", doc="log of softmax, along dim.")


def _convert(g: Emitter, name: str, x: Value, dim: int) -> Value:
    from penlight.ir.types import TensorType

    dtype = "f64" if g.out.dtype == "f64" else "f32"
    x = g.cast(x, dtype)
    if x.rank == 0:
        x, dim = g.reshape(x, (1,)), 0
    if dtype == "f64":
        y = _in_f64(g, name, x, dim % x.rank)
    else:
        y = g.emit(name, x, type=TensorType("f32", x.shape), dim=dim % x.rank)
    y = g.cast(y, g.out.dtype)
    return y if y.shape == g.out.shape else g.reshape(y, g.out.shape)


def _in_f64(g: Emitter, name: str, x: Value, dim: int) -> Value:
    """Too rare for a kernel: by the definition."""
    from penlight.ops.reduce.reduce import reduced_type

    if 0 in x.shape:
        return x
    row = reduced_type(x, "f64", (dim,), True)
    highest = g.emit("amax", x, type=row, dims=(dim,), keepdim=True)
    x = g.emit("sub", x, highest, type=x.tensor)
    powers = g.emit("exp", x, type=x.tensor)
    total = g.emit("sum", powers, type=row, dims=(dim,), keepdim=True)
    if name == "softmax":
        y: Value = g.emit("div", powers, total, type=x.tensor)
    else:
        y = g.emit("sub", x, g.emit("log", total, type=row), type=x.tensor)
    return y


@softmax.from_aten("softmax.int")
def _(g: Emitter, x: Value, dim: int, dtype: str | None) -> Value:
    return _convert(g, "softmax", x, dim)


@softmax.from_aten("_softmax")
def _(g: Emitter, x: Value, dim: int, half_to_float: bool) -> Value:
    return _convert(g, "softmax", x, dim)


@log_softmax.from_aten("log_softmax.int")
def _(g: Emitter, x: Value, dim: int, dtype: str | None) -> Value:
    return _convert(g, "log_softmax", x, dim)


@log_softmax.from_aten("_log_softmax")
def _(g: Emitter, x: Value, dim: int, half_to_float: bool) -> Value:
    return _convert(g, "log_softmax", x, dim)


def _samples(name: str) -> Iterator[Sample]:
    import torch

    rand = torch.Generator().manual_seed(0)
    fn = getattr(torch, name)

    def case(label: str, dim: int, *shape: int, scale: float = 1.0) -> Sample:
        return Sample(lambda x: fn(x, dim), (torch.randn(shape, generator=rand) * scale,), label)

    yield case("classes", -1, 3, 1000)
    yield case("short rows", 1, 33, 5)
    yield case("wide range", 1, 4, 67, scale=60.0)
    yield case("channels", 1, 2, 21, 9, 7)
    yield case("width", 3, 2, 19, 5, 33)
    yield case("first", 0, 17, 50)
    yield case("middle", 1, 3, 8, 19)
    yield case("rank 1", 0, 31)
    yield case("rank 0", 0)
    yield case("size 1", 1, 5, 1)
    yield case("empty rows", 1, 3, 0)
    yield case("no rows", 1, 0, 4)
    yield case("rank 5", 2, 2, 3, 4, 5, 6)
    yield Sample(lambda x: fn(x.transpose(1, 2), -1), (torch.randn(2, 9, 18, generator=rand),), "transposed")
    yield Sample(lambda x: fn(x.expand(4, 3, 20), 1), (torch.randn(3, 20, generator=rand),), "expanded")
    yield Sample(lambda x: fn(x[:, ::2], -1), (torch.randn(5, 40, generator=rand),), "step 2")
    nhwc = torch.randn(2, 37, 5, 6, generator=rand).to(memory_format=torch.channels_last)
    yield Sample(lambda x: fn(x, 1), (nhwc,), "channels_last")
    yield Sample(lambda x: fn(x, 2), (nhwc,), "channels_last, height")
    special = torch.randn(6, 40, generator=rand)
    special[0] = float("-inf")
    special[1, 39] = float("-inf")
    special[2, 5] = float("nan")
    special[3, 38] = float("inf")
    special[4] = 1e38
    yield Sample(lambda x: fn(x, 1), (special,), "nan, inf in rows")
    yield Sample(lambda x: fn(x, 0), (special.T.contiguous(),), "nan, inf in columns")
    free: Any = ({0: torch.export.Dim("n"), 1: torch.export.Dim("k", min=2, max=99)},)
    yield Sample(lambda x: fn(x, 1), (torch.randn(3, 20, generator=rand),), "dynamic", dynamic=free)
    yield Sample(lambda x: fn(x, 1, dtype=torch.float32), (torch.randint(0, 9, (3, 20), generator=rand),), "of i64")
    yield Sample(lambda x: fn(x, 1, dtype=torch.float64), (torch.randn(3, 20, generator=rand),), "f64", tolerance=1e-12)


for _op in (softmax, log_softmax):
    _op.samples(lambda name=_op.name: _samples(name))  # type: ignore[misc]
