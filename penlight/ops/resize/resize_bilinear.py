"""resize_bilinear: each output pixel is a mean of the four input pixels around its place, weighted by distance.

Where a place lies is torch's rule, to the bit: with align_corners, output 0 and the last one lie on the first and the
last input; else pixel centres are matched, by the ratio of sizes or by the scale factors that the call gave.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penlight.ops.pool.planes import from_nchw, nchw_type, to_nchw
from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.capture.emitter import Emitter
    from penlight.ir.graph import Value

resize_bilinear = Op(
    "resize_bilinear",
    "x: tensor, size: int[], align_corners: bool, scales: float[] = ()",
    layout="channels",
    doc="Bilinear interpolation to `size`; scales: the call's scale factors for H and W, empty for the ratio of sizes.",
)


def emit_resize(
    g: Emitter, op: str, x: Value, spatial: int, scales: Sequence[float | None] | None, **attrs: Any
) -> Value:
    """A resize to g.out's size. `scales`: one factor for each spatial dim, None (for all or one) where none was given."""
    planes = to_nchw(g, x, spatial)
    type = nchw_type(planes, g.out, spatial)
    factors = tuple(0.0 if s is None else float(s) for s in scales or ())  # torch ignores factors of 0 or less
    if spatial == 1 and factors:
        factors = (0.0, *factors)
    if not any(f > 0 for f in factors):
        factors = ()
    return from_nchw(g, g.emit(op, planes, type=type, size=type.shape[2:], scales=factors, **attrs), g.out)


@resize_bilinear.from_aten("upsample_bilinear2d.vec")
def _(g: Emitter, x: Value, size: Any, align_corners: bool, scales: Sequence[float] | None) -> Value:
    return emit_resize(g, "resize_bilinear", x, 2, scales, align_corners=align_corners)


@resize_bilinear.from_aten("upsample_bilinear2d")
def _(g: Emitter, x: Value, size: Any, align_corners: bool, scale_h: float | None, scale_w: float | None) -> Value:
    return emit_resize(g, "resize_bilinear", x, 2, (scale_h, scale_w), align_corners=align_corners)


@resize_bilinear.from_aten("upsample_linear1d.vec")
def _(g: Emitter, x: Value, size: Any, align_corners: bool, scales: Sequence[float] | None) -> Value:
    return emit_resize(g, "resize_bilinear", x, 1, scales, align_corners=align_corners)


@resize_bilinear.from_aten("upsample_linear1d")
def _(g: Emitter, x: Value, size: Any, align_corners: bool, scale: float | None) -> Value:
    return emit_resize(g, "resize_bilinear", x, 1, (scale,), align_corners=align_corners)


@resize_bilinear.samples
def _() -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    rand = torch.Generator().manual_seed(0)

    def case(name: str, *shape: int, mode: str = "bilinear", **options: Any) -> Sample:
        return Sample(lambda x: F.interpolate(x, mode=mode, **options), (torch.randn(*shape, generator=rand),), name)

    yield case("deeplab head", 1, 21, 17, 17, size=(129, 131))
    yield case("batch, align_corners", 3, 33, 5, 7, size=(11, 9), align_corners=True)
    yield case("twice", 2, 16, 7, 6, scale_factor=2)
    yield case("factor 1.7", 2, 15, 9, 10, scale_factor=1.7)
    yield case("factors", 1, 9, 8, 7, scale_factor=(2.5, 0.6))
    yield case("factor, recomputed", 1, 8, 9, 10, scale_factor=1.7, recompute_scale_factor=True)
    yield case("factor, align_corners", 1, 8, 9, 10, scale_factor=1.7, align_corners=True)
    yield case("smaller", 2, 17, 19, 23, size=(5, 6))
    yield case("smaller, align_corners", 2, 17, 19, 23, size=(5, 6), align_corners=True)
    yield case("from 1x1", 2, 40, 1, 1, size=(9, 8))
    yield case("to 1x1", 2, 5, 9, 8, size=1)
    yield case("to 1x1, align_corners", 2, 5, 9, 8, size=1, align_corners=True)
    yield case("same size", 2, 12, 5, 6, size=(5, 6))
    yield case("one channel", 1, 1, 6, 7, size=(13, 29))
    yield case("three channels", 1, 3, 16, 17, size=(33, 50))
    yield case("one side kept", 1, 20, 6, 7, size=(6, 15))
    yield case("empty batch", 0, 4, 5, 5, size=(7, 7))
    yield case("1d", 2, 5, 9, mode="linear", size=17)
    yield case("1d, factor", 2, 5, 9, mode="linear", scale_factor=1.5)
    special = torch.randn(2, 18, 5, 5, generator=rand)
    special[0, :, 2, 2], special[1, 3, 1, 1] = float("nan"), float("inf")
    yield Sample(lambda x: F.interpolate(x, size=(8, 8), mode="bilinear"), (special,), "nan, inf")
    x = torch.randn(2, 24, 6, 7, generator=rand)
    yield Sample(lambda x: F.interpolate(x[:, 4:21], size=(9, 9), mode="bilinear"), (x,), "channel slice")
    yield Sample(
        lambda x: torch.cat([F.interpolate(x, size=(9, 9), mode="bilinear"), F.interpolate(x * 2, size=(9, 9))], 1),
        (x,),
        "into a cat",
    )
    sides = ({2: torch.export.Dim("h", min=4, max=99), 3: torch.export.Dim("w", min=4, max=99)},)
    yield Sample(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (x,), "dynamic, factor", dynamic=sides)
    yield Sample(lambda x: F.interpolate(x, size=(17, 18), mode="bilinear"), (x,), "dynamic, size", dynamic=sides)
    yield Sample(
        lambda x: F.interpolate(F.avg_pool2d(x, 2), size=x.shape[-2:], mode="bilinear"),
        (x,),
        "dynamic, back to the input",
        dynamic=sides,
    )
