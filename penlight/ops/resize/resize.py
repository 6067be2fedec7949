"""resize: each output pixel is a weighted mean of input pixels around its place: linear of two, cubic of four for each side,
and with antialias of all that a smaller image covers.

Where a place lies is torch's rule, to the bit: with align_corners, output 0 and the last one lie on the first and the
last input; else pixel centres are matched, by the ratio of sizes or by the scale factors that the call gave.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

resize = Op(
    "resize",
    "x: tensor, size: int[], mode: str, align_corners: bool, antialias: bool, scales: float[] = ()",
    layout="follow",
    images=("x",),
    dtypes=("f32", "f64", "q8"),
    quantized="kernels",
    takes_q8=lambda node: node.attrs["mode"] == "linear" and not node.attrs["antialias"],
    doc="Linear or cubic interpolation of [N, C, H, W] to `size`; scales: the call's scale factors for H and W, empty for "
    "the ratio of sizes.",
)


def emit_resize(
    g: Emitter, op: str, x: Value, spatial: int, scales: Sequence[float | None] | None, **attrs: Any
) -> Value:
    """A resize of the last `spatial` dims to those of g.out. `scales`: one factor for each of them, None (for all or one)
    where none was given. One dim is a row of an image; three are images first, then columns of whole planes."""
    from penlight.ir.dims import product
    from penlight.ir.types import TensorType

    factors = [0.0 if s is None else float(s) for s in scales or (0.0,) * spatial]  # torch ignores factors of 0 or less
    dtype, shape = x.dtype, g.out.shape
    if not isinstance(g.out.dtype, str) or x.dtype != g.out.dtype:
        g.fail(f"of a {x.dtype} tensor to {g.out.dtype}")

    def step(x: Value, planes: Sequence[Any], size: Sequence[Any], factors: Sequence[float]) -> Value:
        scales = tuple(factors) if any(f > 0 for f in factors) else ()
        type = TensorType(dtype, (*planes[:2], *size))
        y: Value = g.emit(op, g.reshape(x, tuple(planes)), type=type, size=tuple(size), scales=scales, **attrs)
        return y

    if spatial == 1:
        n, c, w = (1,) * (3 - x.rank) + x.shape
        return g.reshape(step(x, (n, c, 1, w), (1, shape[-1]), (0.0, factors[0])), shape)
    if spatial == 2:
        return g.reshape(step(x, (1,) * (4 - x.rank) + x.shape, shape[-2:], factors), shape)
    lead, (d, h, w) = product(x.shape[:-3]), x.shape[-3:]
    planes = step(x, (lead, d, h, w), shape[-2:], factors[1:])
    wide = product(shape[-2:])
    return g.reshape(step(planes, (lead, 1, d, wide), (shape[-3], wide), (factors[0], 0.0)), shape)


def _convert(g: Emitter, x: Value, spatial: int, scales: Any, mode: str, align_corners: bool, antialias: bool) -> Value:
    """Computed in f32 or f64: half floats are rounded at the end, bytes after each side, the width first, as torch does."""
    from penlight.ir.types import TensorType

    if x.dtype not in ("f32", "f64", "f16", "bf16", "u8"):
        g.fail(f"of a {x.dtype} tensor: f32, f64, f16, bf16 and u8 are supported")
    out, dtype = g.out, "f64" if x.dtype == "f64" else "f32"

    def step(x: Value, shape: Sequence[Any], scales: Any) -> Value:
        g.out = TensorType(dtype, tuple(shape))
        attrs = {"mode": mode, "align_corners": align_corners, "antialias": antialias}
        y = emit_resize(g, "resize", x, spatial, scales, **attrs)
        if out.dtype == "u8":
            y = g.emit("clamp", g.emit("round", y, type=g.out), type=g.out, lo=0.0, hi=255.0)
        return y

    y = g.cast(x, dtype)
    if out.dtype == "u8" and spatial == 2:
        y = step(y, (*out.shape[:-2], x.shape[-2], out.shape[-1]), (None, scales[1]) if scales else None)
        scales = (scales[0], None) if scales else None
    y = step(y, out.shape, scales)
    g.out = out
    return g.cast(y, out.dtype)


def _register(name: str, spatial: int, mode: str, antialias: bool = False) -> None:
    @resize.from_aten(f"{name}.vec")
    def _(g: Emitter, x: Value, size: Any, align_corners: bool, scales: Sequence[float] | None) -> Value:
        return _convert(g, x, spatial, scales, mode, align_corners, antialias)

    @resize.from_aten(name)
    def _(g: Emitter, x: Value, size: Any, align_corners: bool, *scales: float | None) -> Value:
        return _convert(g, x, spatial, scales, mode, align_corners, antialias)


_register("upsample_linear1d", 1, "linear")
_register("upsample_bilinear2d", 2, "linear")
_register("upsample_trilinear3d", 3, "linear")
_register("upsample_bicubic2d", 2, "cubic")
_register("_upsample_bilinear2d_aa", 2, "linear", antialias=True)
_register("_upsample_bicubic2d_aa", 2, "cubic", antialias=True)


@resize.samples
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
    yield case("3d", 2, 3, 4, 5, 6, mode="trilinear", size=(7, 3, 9))
    yield case("3d, factors", 1, 2, 4, 5, 6, mode="trilinear", scale_factor=(1.5, 2, 0.7), align_corners=True)
    yield case("cubic", 2, 17, 6, 7, mode="bicubic", size=(13, 11))
    yield case("cubic, align_corners", 1, 3, 5, 6, mode="bicubic", size=(9, 4), align_corners=True)
    yield case("cubic, few pixels", 1, 2, 2, 1, mode="bicubic", scale_factor=2.3)
    yield case("smooth, smaller", 2, 3, 37, 41, mode="bilinear", size=(9, 11), antialias=True)
    yield case("smooth cubic", 1, 5, 33, 20, mode="bicubic", size=(7, 31), antialias=True)
    many = torch.randn(2, 19, 12, 13, generator=rand).to(memory_format=torch.channels_last)
    yield Sample(lambda x: F.interpolate(x * 2, size=(7, 30), mode="bicubic"), (many,), "cubic, channels_last")
    yield Sample(
        lambda x: F.interpolate(x * 2, size=(7, 5), mode="bicubic", antialias=True), (many,), "smooth, channels_last"
    )
    levels = torch.randint(0, 256, (2, 3, 9, 11), generator=rand).byte()
    for mode, smooth in (("bilinear", False), ("bicubic", True)):
        yield Sample(  # torch's weights have 16 bits there: a level more or less
            lambda x, mode=mode, smooth=smooth: F.interpolate(x, size=(7, 16), mode=mode, antialias=smooth).float(),
            (levels,),
            f"bytes, {mode}",
            tolerance=1 / 225,
        )
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
