"""torchvision's deformable convolution: each tap of the kernel looks at a place of its own for each output pixel. The image at
all these places is one grid_sample; what is left is a matrix product."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.reduce.layer_norm import as_f32
from penlight.ops.registry import Sample
from penlight.ops.vision.grid_sample import grid_sample

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter


@grid_sample.from_aten("torchvision::deform_conv2d")
def _(
    g: Emitter, x: Value, w: Value, offset: Value, mask: Value, b: Value, stride_h: Any, stride_w: Any, pad_h: Any,
    pad_w: Any, dilation_h: Any, dilation_w: Any, groups: Any, offset_groups: Any, use_mask: bool,
) -> Value:  # fmt: skip
    import numpy as np

    from penlight.ir.dims import product
    from penlight.ir.types import TensorType

    x, w, offset, mask, b = as_f32(g, x, w, offset, mask, b)
    if not all(isinstance(d, int) for d in (*w.shape, *g.out.shape[2:], groups, offset_groups)):
        g.fail("with a size of the output, or of the weight, that is not known at export")
    sizes: tuple[Any, ...] = (*w.shape, *g.out.shape[2:])
    co, ci, kh, kw, h, width = sizes
    n, c = x.shape[0], ci * groups
    taps, places = kh * kw, h * width

    def f32(*shape: Any) -> TensorType:
        return TensorType("f32", shape)

    # Where each tap lies without its offset, as (x, y): [taps, OH, OW, 2].
    rows = np.arange(kh)[:, None] * dilation_h + np.arange(h)[None, :] * stride_h - pad_h
    columns = np.arange(kw)[:, None] * dilation_w + np.arange(width)[None, :] * stride_w - pad_w
    at = np.zeros((kh, kw, h, width, 2), np.float32)
    at[..., 0], at[..., 1] = columns[None, :, None, :], rows[:, None, :, None]
    # Offsets are [N, groups, taps, (y, x), OH, OW].
    each = product((n, offset_groups))
    moves = g.permute(g.reshape(offset, (each, taps, 2, places)), (0, 1, 3, 2))
    moves = g.emit("flip", moves, type=moves.tensor, dims=(3,))
    grid = g.emit("add", moves, g.constant(at.reshape(taps, places, 2)), type=moves.tensor)
    image = g.reshape(x, (each, c // offset_groups, *x.shape[2:]))
    seen = g.emit(
        "grid_sample", image, g.reshape(grid, (each, taps * places, 2)), type=f32(each, c // offset_groups, taps, places),
        size=(taps, places), mode="linear", padding="zeros", align_corners=True, pixels=True,
    )  # fmt: skip
    if use_mask:
        seen = g.emit("mul", seen, g.reshape(mask, (each, 1, taps, places)), type=seen.tensor)
    seen = g.reshape(seen, (n, groups, c // groups * taps, places))
    weight = g.reshape(w, (groups, co // groups, c // groups * taps))
    y = g.emit("matmul", weight, seen, type=f32(n, groups, co // groups, places))
    y = g.emit("add", g.reshape(y, (n, co, places)), g.reshape(b, (co, 1)), type=f32(n, co, places))
    return g.cast(g.reshape(y, g.out.shape), g.out.dtype)


def _values(
    x: Any, w: Any, offset: Any, mask: Any, b: Any, sh: int, sw: int, ph: int, pw: int, dh: int, dw: int, groups: int,
    offset_groups: int, use_mask: bool,
) -> Any:  # fmt: skip
    import torch

    from penlight.ops.vision.roi_align import value_at

    n, c = x.shape[:2]
    kh, kw = w.shape[2:]
    oh, ow = offset.shape[2:]
    moves = offset.reshape(n, offset_groups, kh * kw, 2, oh, ow)
    seen = x.new_zeros(n, offset_groups, c // offset_groups, kh * kw, oh, ow)
    images = x.reshape(n, offset_groups, c // offset_groups, *x.shape[2:])
    for index in torch.cartesian_prod(*(torch.arange(s) for s in (n, offset_groups, kh * kw, oh, ow))).tolist():
        i, j, k, a, d = index
        y = a * sh - ph + k // kw * dh + float(moves[i, j, k, 0, a, d])
        z = d * sw - pw + k % kw * dw + float(moves[i, j, k, 1, a, d])
        seen[i, j, :, k, a, d] = value_at(images[i, j], y, z)
    if use_mask:
        seen = seen * mask.reshape(n, offset_groups, 1, kh * kw, oh, ow)
    seen = seen.reshape(n, groups, c // groups * kh * kw, oh * ow)
    y = torch.matmul(w.reshape(groups, w.shape[0] // groups, -1), seen).reshape(n, w.shape[0], oh, ow)
    return y + b[:, None, None]


def _shape(x: Any, w: Any, offset: Any, *_: Any) -> Any:
    return x.new_empty((x.shape[0], w.shape[0], *offset.shape[2:]))


_SCHEMA = (
    "(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, SymInt pad_h, "
    "SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor"
)
STAND_INS = {"deform_conv2d": (_SCHEMA, _values, _shape)}  # for penlight/torchvision.py: schema, values, shape


@grid_sample.samples
def _() -> Iterator[Sample]:
    import torch

    from penlight.torchvision import declare_operators

    declare_operators()
    rand = torch.Generator().manual_seed(3)

    def r(*shape: int) -> Any:
        return torch.randn(*shape, generator=rand)

    w, b = r(6, 2, 3, 2), r(6)
    call = torch.ops.torchvision.deform_conv2d
    yield Sample(
        lambda x, o, m: call(x, w, o, m, b, 1, 2, 1, 0, 1, 2, 2, 2, True),
        (r(2, 4, 6, 9), r(2, 24, 6, 4), r(2, 12, 6, 4).sigmoid()),
        "deform_conv2d",
    )
