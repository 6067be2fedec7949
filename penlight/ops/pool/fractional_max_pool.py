"""fractional_max_pool: the maximum of each window and its place, where windows start at pseudorandom distances, the same in
all rows and columns of a plane but others in each plane. `samples` has a number in [0, 1) for each plane and dim."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.pool.planes import from_nchw, to_nchw
from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

fractional_max_pool = Op(
    "fractional_max_pool",
    "x: tensor, samples: tensor, kernel: int[], size: int[]",
    outputs=2,
    tolerance=0.0,
    doc="Maxima, and the numbers of their pixels; x [N, C, D, H, W], samples [N, C, 3] for D, H, W or [N, C, 2] for W, H.",
)


def _convert(g: Emitter, x: Value, kernel: Any, samples: Value, spatial: int) -> tuple[Value, Value]:
    from penlight.ir.types import TensorType

    planes = to_nchw(g, x, spatial)
    flat = (1,) * (3 - spatial)
    planes = g.reshape(planes, (*planes.shape[:2], *flat, *planes.shape[2:]))
    size = (*flat, *g.out[0].shape[-spatial:])
    y, places = g.emit(
        "fractional_max_pool",
        planes,
        g.cast(samples, "f32"),
        types=tuple(TensorType(dtype, (*planes.shape[:2], *size)) for dtype in ("f32", "i64")),
        kernel=(*flat, *kernel),
        size=size,
    )
    return from_nchw(g, y, g.out[0]), from_nchw(g, places, g.out[1])


@fractional_max_pool.from_aten("fractional_max_pool2d")
def _(g: Emitter, x: Value, kernel: Any, size: Any, samples: Value) -> tuple[Value, Value]:
    return _convert(g, x, kernel, samples, 2)


@fractional_max_pool.from_aten("fractional_max_pool3d")
def _(g: Emitter, x: Value, kernel: Any, size: Any, samples: Value) -> tuple[Value, Value]:
    return _convert(g, x, kernel, samples, 3)


@fractional_max_pool.samples
def _() -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    rand = torch.Generator().manual_seed(0)

    def case(name: str, kernel: Any, size: Any, *shape: int) -> Sample:
        x = torch.randn(*shape, generator=rand)
        x[..., 2, 2] = float("nan")
        pool = F.fractional_max_pool2d if len(kernel) == 2 else F.fractional_max_pool3d
        batch = shape[0] if len(shape) == len(kernel) + 2 else 1
        steps = torch.rand(batch, shape[-len(kernel) - 1], len(kernel), generator=rand)
        return Sample(lambda x, s: pool(x, kernel, size, return_indices=True, _random_samples=s), (x, steps), name)

    yield case("2d", (2, 3), (5, 4), 2, 17, 11, 9)
    yield case("2d, no batch dim, to one column", (2, 2), (5, 1), 3, 9, 8)
    yield case("3d", (2, 2, 3), (3, 4, 2), 2, 5, 7, 9, 6)
