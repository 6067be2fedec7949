"""adaptive_avg_pool2d, adaptive_max_pool2d: the windows follow from the output size.

Output i of `out` covers [floor(i * in / out), ceil((i + 1) * in / out)). To 1x1, the average is a plain mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.pool.planes import from_nchw, nchw_type, to_nchw
from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.capture.emitter import Emitter
    from penlight.ir.graph import Value

adaptive_avg_pool2d = Op("adaptive_avg_pool2d", "x: tensor, size: int[]", layout="channels", doc="Mean of each window.")
adaptive_max_pool2d = Op(
    "adaptive_max_pool2d", "x: tensor, size: int[]", layout="channels", tolerance=0.0, doc="Maximum of each window."
)


def _convert(g: Emitter, name: str, x: Value, spatial: int) -> Value:
    out = g.out[0] if isinstance(g.out, tuple) else g.out
    planes = to_nchw(g, x, spatial)
    type = nchw_type(planes, out, spatial)
    size = type.shape[2:]
    if size == (1, 1):
        y = g.emit("mean" if "avg" in name else "amax", planes, type=type, dims=(2, 3), keepdim=True)
    else:
        y = g.emit(name, planes, type=type, size=size)
    return from_nchw(g, y, out)


@adaptive_avg_pool2d.from_aten("adaptive_avg_pool2d", "_adaptive_avg_pool2d")
def _(g: Emitter, x: Value, size: Any) -> Value:
    return _convert(g, "adaptive_avg_pool2d", x, 2)


@adaptive_avg_pool2d.from_aten("adaptive_avg_pool1d")
def _(g: Emitter, x: Value, size: Any) -> Value:
    return _convert(g, "adaptive_avg_pool2d", x, 1)


@adaptive_max_pool2d.from_aten("adaptive_max_pool2d")
def _(g: Emitter, x: Value, size: Any) -> Any:
    return _convert(g, "adaptive_max_pool2d", x, 2), None  # None: an index that is used fails


@adaptive_max_pool2d.from_aten("adaptive_max_pool1d")
def _(g: Emitter, x: Value, size: Any) -> Any:
    return _convert(g, "adaptive_max_pool2d", x, 1), None


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
    return _samples("adaptive_avg_pool2d", "adaptive_avg_pool1d")


@adaptive_max_pool2d.samples
def _() -> Iterator[Sample]:
    return _samples("adaptive_max_pool2d", "adaptive_max_pool1d")
