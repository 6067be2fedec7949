"""grid_sample: the image at places that a grid names, 2 or 3 spatial dims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.reduce.layer_norm import as_f32
from penlight.ops.registry import Op, Sample, composite

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

grid_sample = Op(
    "grid_sample",
    "x: tensor, grid: tensor, size: int[], mode: str, padding: str, align_corners: bool, pixels: bool = False",
    layout="follow",
    doc="[N, C, *size]: x [N, C, ...] at the places in grid [N, places, 2 or 3], x first; mode nearest, linear or cubic; padding zeros, border or "
    "reflection. Places go from -1 to 1, or count pixels.",
)
MODES = ("linear", "nearest", "cubic")  # by torch's numbers
PADDINGS = ("zeros", "border", "reflection")


@grid_sample.from_aten("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def _(g: Emitter, x: Value, grid: Value, mode: int, padding: int, align_corners: bool) -> Value:
    from penlight.ir.dims import product
    from penlight.ir.types import TensorType

    x, grid = as_f32(g, x, grid)
    size = g.out.shape[2:]
    grid = g.reshape(grid, (grid.shape[0], product(size), len(size)))  # of rank 3 it has no say in the layout
    y = g.emit(
        "grid_sample", x, grid, type=TensorType("f32", g.out.shape), size=size, mode=MODES[mode], padding=PADDINGS[padding],
        align_corners=align_corners,
    )  # fmt: skip
    return g.cast(y, g.out.dtype)


@composite("affine_grid_generator")
def _(theta: Any, size: Any, align_corners: bool) -> Any:
    """Each place is a sum of one term for each axis: only the last sum is as large as the grid."""
    import torch

    def term(axis: int) -> Any:
        steps = size[-1 - axis]
        at = torch.arange(steps, dtype=theta.dtype, device=theta.device)
        if not align_corners:
            at = (2 * at + 1) / steps - 1
        else:
            at = 2 * at / (steps - 1) - 1 if steps > 1 else at
        line = at[:, None] * theta[:, None, :, axis]  # [N, steps, axes]
        spatial = len(size) - 2
        shape = [1] * spatial
        shape[spatial - 1 - axis] = steps
        return line.reshape(theta.shape[0], *shape, spatial)

    rest = theta[:, :, -1].reshape(theta.shape[0], *[1] * (len(size) - 2), len(size) - 2)
    total = term(len(size) - 3) + rest
    for axis in reversed(range(len(size) - 3)):
        total = term(axis) + total
    return total


@grid_sample.samples
def _() -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    rand = torch.Generator().manual_seed(0)

    def case(name: str, x: Any, grid: Any, **options: Any) -> Sample:
        return Sample(lambda x, grid: F.grid_sample(x, grid, **options), (x, grid), name)

    def r(*shape: int) -> Any:
        return torch.randn(*shape, generator=rand)

    x, grid = r(2, 19, 9, 11), r(2, 7, 13, 2)
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding, align in (("zeros", True), ("border", False), ("reflection", False)):
            yield case(f"{mode}, {padding}", x, grid, mode=mode, padding_mode=padding, align_corners=align)
    nhwc = r(1, 5, 8, 6).to(memory_format=torch.channels_last)
    yield case("channels_last, align_corners", nhwc, r(1, 40, 1, 2), padding_mode="reflection", align_corners=True)
    yield case("one pixel", r(3, 1, 1, 1), r(3, 2, 3, 2), padding_mode="reflection", align_corners=True)
    volume = r(2, 3, 4, 5, 6)
    yield case("3d", volume, r(2, 3, 2, 7, 3), align_corners=False)
    yield case("3d, nearest", volume, r(2, 3, 2, 7, 3), mode="nearest", padding_mode="border", align_corners=False)
    edges = torch.tensor([[[[-1.0, -1], [1, 1], [float("nan"), 0], [float("inf"), 0], [0, 1e30], [-1.2, 0.9]]]])
    holes = r(1, 4, 5, 5)
    holes[0, 0, 0, 0], holes[0, 1, 4, 4] = float("nan"), float("inf")
    for padding in ("zeros", "border"):
        yield case(f"nan, inf, edges, {padding}", holes, edges, padding_mode=padding, align_corners=True)
    yield case("no places", x, r(2, 0, 3, 2), align_corners=True)
    theta = torch.tensor([[[0.9, 0.2, 0.1], [-0.3, 1.1, 0.0]]]).expand(2, 2, 3)
    yield Sample(
        lambda x, t: F.grid_sample(x, F.affine_grid(t, x.shape, align_corners=False), align_corners=False),
        (x, theta),
        "affine_grid",
    )
    sides: Any = ({2: torch.export.Dim("h", min=4, max=99), 3: torch.export.Dim("w", min=4, max=99)}, None)
    yield Sample(lambda x, grid: F.grid_sample(x, grid, align_corners=True), (x, grid), "dynamic", dynamic=sides)
    yield Sample(
        lambda x, w, grid: F.grid_sample(F.conv3d(x, w), grid, align_corners=False),
        (volume, r(5, 3, 1, 2, 2), r(2, 3, 2, 7, 3)),
        "3d, nhwc",
    )
