"""adaptive_avg_pool2d, adaptive_max_pool2d, the same over three dims, and adaptive_max_pool_indices: the windows follow from
the output size.

Output i of `out` covers [floor(i * in / out), ceil((i + 1) * in / out)). To 1x1, the average is a plain mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.pool.max_pool import with_indices
from penlight.ops.pool.planes import from_nchw, nchw_type, to_nchw
from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

_SCHEMA = "x: tensor, size: int[]"
_DTYPES = ("f32", "f64")

adaptive_avg_pool2d, adaptive_avg_pool3d = (
    Op(
        f"adaptive_avg_pool{n}d",
        _SCHEMA,
        layout="channels",
        images=("x",),
        dtypes=(*_DTYPES, "q8"),
        quantized="kernels",
        doc="Mean of each window.",
    )
    for n in (2, 3)
)
adaptive_max_pool2d, adaptive_max_pool3d = (
    Op(
        f"adaptive_max_pool{n}d",
        _SCHEMA,
        layout="channels",
        images=("x",),
        dtypes=(*_DTYPES, "q8"),
        quantized="same",
        tolerance=0.0,
        doc="Maximum of each window.",
    )
    for n in (2, 3)
)
adaptive_max_pool_indices = Op(
    "adaptive_max_pool_indices",
    _SCHEMA,
    layout="channels",
    images=("x",),
    dtypes=_DTYPES,
    outputs=2,
    tolerance=0.0,
    doc="Maximum of each window, and the number of the pixel that it comes from.",
)


def _average(g: Emitter, x: Value, spatial: int) -> Value:
    rank = len(g.out.shape)
    if rank > spatial + 2:  # torch takes any rank where the maps become one pixel each
        return g.emit("mean", x, type=g.out, dims=tuple(range(rank - spatial, rank)), keepdim=True)
    planes = to_nchw(g, x, spatial, _DTYPES)
    type = nchw_type(planes, g.out, spatial)
    size = type.shape[2:]
    if all(n == 1 for n in size):
        y = g.emit("mean", planes, type=type, dims=tuple(range(2, 2 + len(size))), keepdim=True)
    else:
        y = g.emit("adaptive_avg_pool3d" if spatial == 3 else "adaptive_avg_pool2d", planes, type=type, size=size)
    return from_nchw(g, y, g.out)


@adaptive_avg_pool2d.from_aten("adaptive_avg_pool1d")
def _(g: Emitter, x: Value, size: Any) -> Value:
    return _average(g, x, 1)


@adaptive_avg_pool2d.from_aten("adaptive_avg_pool2d", "_adaptive_avg_pool2d")
def _(g: Emitter, x: Value, size: Any) -> Value:
    return _average(g, x, 2)


@adaptive_avg_pool3d.from_aten("adaptive_avg_pool3d", "_adaptive_avg_pool3d")
def _(g: Emitter, x: Value, size: Any) -> Value:
    return _average(g, x, 3)


def _maximum(g: Emitter, x: Value, spatial: int) -> tuple[Value, Value]:
    size = g.out[0].shape[-spatial:]
    return with_indices(g, "adaptive_max_pool_indices", x, spatial, size=size if spatial > 1 else (1, *size))


@adaptive_max_pool_indices.from_aten("adaptive_max_pool1d")
def _(g: Emitter, x: Value, size: Any) -> tuple[Value, Value]:
    return _maximum(g, x, 1)


@adaptive_max_pool_indices.from_aten("adaptive_max_pool2d")
def _(g: Emitter, x: Value, size: Any) -> tuple[Value, Value]:
    return _maximum(g, x, 2)


@adaptive_max_pool_indices.from_aten("adaptive_max_pool3d")
def _(g: Emitter, x: Value, size: Any) -> tuple[Value, Value]:
    return _maximum(g, x, 3)


def _samples(pool2d: str, pool1d: str) -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    rand = torch.Generator().manual_seed(0)
    two, one = getattr(F, pool2d), getattr(F, pool1d)

    def case(name: str, size: Any, *shape: int) -> Sample:
        return Sample(lambda x: two(x, size), (torch.randn(*shape, generator=rand),), name)

    yield case("to 1x1", 1, 2, 1280, 7, 7)
    yield case("to 1x1, odd", (1, 1), 3, 17, 9, 13)
    yield case("7x7 from 14", (7, 7), 1, 33, 14, 14)
    yield case("6x6 from 13 (alexnet)", (6, 6), 1, 15, 13, 13)
    yield case("windows overlap", (4, 3), 2, 16, 7, 7)
    yield case("larger than the input", (7, 5), 1, 24, 3, 4)
    yield case("one dim kept", (None, 2), 2, 8, 5, 9)
    yield case("no batch dim", (3, 2), 18, 9, 8)
    yield case("empty batch", (2, 2), 0, 8, 6, 6)
    special = torch.randn(2, 19, 9, 9, generator=rand)
    special[0, :, 4, 4] = float("nan")
    special[1, 4, 2, 2] = float("inf")
    yield Sample(lambda x: two(x, (4, 4)), (special,), "nan, inf")
    yield Sample(lambda x: one(x, 4), (torch.randn(2, 7, 33, generator=rand),), "1d")
    sides = {2: torch.export.Dim("h", min=4, max=99), 3: torch.export.Dim("w", min=4, max=99)}
    yield Sample(lambda x: two(x, (3, 3)), (torch.randn(2, 24, 19, 18, generator=rand),), "dynamic", dynamic=(sides,))


@adaptive_avg_pool2d.samples
def _() -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    yield from _samples("adaptive_avg_pool2d", "adaptive_avg_pool1d")
    x = torch.randn(2, 3, 5, 4, 9, generator=torch.Generator().manual_seed(1))
    yield Sample(lambda x: F.adaptive_avg_pool2d(x, 1), (x,), "rank 5 to 1x1")
    yield Sample(lambda x: F.adaptive_avg_pool3d(x.expand(2, *x.shape), 1), (x,), "rank 6 to 1x1x1")


@adaptive_max_pool2d.samples
def _() -> Iterator[Sample]:
    return _samples("adaptive_max_pool2d", "adaptive_max_pool1d")


def _volumes(pool: str, **options: bool) -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    rand = torch.Generator().manual_seed(0)
    fn = getattr(F, pool)

    def case(name: str, size: Any, *shape: int) -> Sample:
        return Sample(lambda x: fn(x, size, **options), (torch.randn(*shape, generator=rand),), name)

    yield case("to 1x1x1", 1, 2, 33, 3, 5, 4)
    yield case("uneven", (2, 3, 5), 1, 19, 5, 7, 9)
    yield case("larger than the input, one dim kept", (6, None, 3), 2, 8, 3, 4, 5)
    yield case("no batch dim", (2, 1, 2), 17, 3, 6, 5)


@adaptive_avg_pool3d.samples
def _() -> Iterator[Sample]:
    return _volumes("adaptive_avg_pool3d")


@adaptive_max_pool3d.samples
def _() -> Iterator[Sample]:
    return _volumes("adaptive_max_pool3d")


@adaptive_max_pool_indices.samples
def _() -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    yield from _volumes("adaptive_max_pool3d", return_indices=True)
    special = torch.randn(2, 19, 9, 9, generator=torch.Generator().manual_seed(1)).round()
    special[0, :, 4, 4] = float("nan")
    special[1, 4] = float("-inf")
    yield Sample(
        lambda x: F.adaptive_max_pool2d(x, (4, 3), return_indices=True), (special,), "2d: equal values, nan, -inf"
    )
    yield Sample(lambda x: F.adaptive_max_pool1d(x[:, :, 0], 4, return_indices=True), (special,), "1d")
    sides = {2: torch.export.Dim("h", min=4, max=99), 3: torch.export.Dim("w", min=4, max=99)}
    yield Sample(
        lambda x: F.adaptive_max_pool2d(x, 3, return_indices=True), (special[:1],), "dynamic", dynamic=(sides,)
    )
