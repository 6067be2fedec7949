"""roi_align, roi_pool: what an image has in each of some regions, as torchvision computes it, and their position-sensitive kin.

torchvision's operators live in its C++ part. Where that does not load, the samples declare them, with a plain-Python
implementation to compare with."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from math import ceil, floor
from typing import TYPE_CHECKING, Any

from penlight.ops.reduce.layer_norm import as_f32
from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

roi_align = Op(
    "roi_align",
    "x: tensor, rois: tensor, scale: float, size: int[], sampling: int, aligned: bool, sensitive: bool = False",
    layout="channels",
    doc="[R, C, *size]: means of x at sampling^2 points (0: one for each pixel) in each bin of the regions rois [R, 5] (image, x1, "
    "y1, x2, y2). sensitive: each bin has channels of its own.",
)
roi_pool = Op(
    "roi_pool",
    "x: tensor, rois: tensor, scale: float, size: int[], mean: bool = False, sensitive: bool = False",
    layout="channels",
    doc="The maximum, or the mean, of x over the pixels of each bin of the regions; as roi_align.",
)


def _emit(g: Emitter, op: str, x: Value, rois: Value, scale: float, h: Any, w: Any, **attrs: Any) -> Value:
    from penlight.ir.types import TensorType

    out = g.out[0] if isinstance(g.out, tuple) else g.out
    x, rois = as_f32(g, x, rois)
    y = g.emit(op, x, rois, type=TensorType("f32", out.shape), scale=scale, size=(h, w), **attrs)
    return g.cast(y, out.dtype)


@roi_align.from_aten("torchvision::roi_align")
def _(g: Emitter, x: Value, rois: Value, scale: float, h: Any, w: Any, sampling: int, aligned: bool) -> Value:
    return _emit(g, "roi_align", x, rois, scale, h, w, sampling=max(sampling, 0), aligned=aligned)


@roi_align.from_aten("torchvision::ps_roi_align")
def _(g: Emitter, x: Value, rois: Value, scale: float, h: Any, w: Any, sampling: int) -> Any:
    y = _emit(g, "roi_align", x, rois, scale, h, w, sampling=max(sampling, 0), aligned=True, sensitive=True)
    return y, None  # which channel was looked at: for gradients


@roi_pool.from_aten("torchvision::roi_pool")
def _(g: Emitter, x: Value, rois: Value, scale: float, h: Any, w: Any) -> Any:
    return _emit(g, "roi_pool", x, rois, scale, h, w), None


@roi_pool.from_aten("torchvision::ps_roi_pool")
def _(g: Emitter, x: Value, rois: Value, scale: float, h: Any, w: Any) -> Any:
    return _emit(g, "roi_pool", x, rois, scale, h, w, mean=True, sensitive=True), None


def _align_values(x: Any, rois: Any, scale: float, h: int, w: int, sampling: int, aligned: bool) -> Any:
    y = x.new_zeros((rois.shape[0], x.shape[1], h, w))
    for r, i, j, ys, xs in _sample_points(rois, scale, h, w, sampling, aligned):
        points = [_at(x[int(rois[r, 0])], a, b) for a in ys for b in xs]
        y[r, :, i, j] = sum(points) / max(len(points), 1)
    return y


def _ps_align_values(x: Any, rois: Any, scale: float, h: int, w: int, sampling: int) -> Any:
    import torch

    y = x.new_zeros((rois.shape[0], x.shape[1] // (h * w), h, w))
    for r, i, j, ys, xs in _sample_points(rois, scale, h, w, sampling, True):
        points = [_at(x[int(rois[r, 0]), i * w + j :: h * w], a, b) for a in ys for b in xs]
        y[r, :, i, j] = sum(points) / max(len(points), 1)
    return y, y.new_zeros(y.shape, dtype=torch.int32)


def _sample_points(rois: Any, scale: float, h: int, w: int, sampling: int, aligned: bool) -> Iterator[Any]:
    offset = 0.5 if aligned else 0.0
    for r in range(rois.shape[0]):
        x1, y1, x2, y2 = (float(v) * scale - offset for v in rois[r, 1:])
        width, height = (x2 - x1, y2 - y1) if aligned else (max(x2 - x1, 1.0), max(y2 - y1, 1.0))
        rows, columns = (sampling,) * 2 if sampling > 0 else (max(ceil(height / h), 0), max(ceil(width / w), 0))
        for i in range(h):
            for j in range(w):
                ys = [y1 + (i + (a + 0.5) / rows) * height / h for a in range(rows)]
                xs = [x1 + (j + (b + 0.5) / columns) * width / w for b in range(columns)]
                yield r, i, j, ys, xs


def value_at(image: Any, y: float, x: float) -> Any:
    """image [C, H, W] at one point, zeros around it: for deformable convolution."""
    h, w = image.shape[1:]
    total = image.new_zeros(image.shape[0])
    for i in (floor(y), floor(y) + 1):
        for j in (floor(x), floor(x) + 1):
            if 0 <= i < h and 0 <= j < w:
                total += image[:, i, j] * (1 - abs(y - i)) * (1 - abs(x - j))
    return total


def _at(image: Any, y: float, x: float) -> Any:
    """image [C, H, W] at one point; up to a pixel outside, the edge."""
    h, w = image.shape[1:]
    if not (-1 <= y <= h and -1 <= x <= w):
        return image.new_zeros(image.shape[0])
    y, x = min(max(y, 0.0), h - 1.0), min(max(x, 0.0), w - 1.0)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, h - 1), min(left + 1, w - 1)
    a, b = y - top, x - left
    upper = image[:, top, left] * (1 - b) + image[:, top, right] * b
    return upper * (1 - a) + (image[:, bottom, left] * (1 - b) + image[:, bottom, right] * b) * a


def _pool_values(x: Any, rois: Any, scale: float, h: int, w: int) -> Any:
    import torch

    y = x.new_zeros((rois.shape[0], x.shape[1], h, w))
    for r, i, j, rows, columns in _covered(x, rois, scale, h, w, False):
        part = x[int(rois[r, 0]), :, rows, columns]
        y[r, :, i, j] = part.amax((1, 2)) if part.numel() else 0.0
    return y, y.new_zeros(y.shape, dtype=torch.int32)


def _ps_pool_values(x: Any, rois: Any, scale: float, h: int, w: int) -> Any:
    import torch

    y = x.new_zeros((rois.shape[0], x.shape[1] // (h * w), h, w))
    for r, i, j, rows, columns in _covered(x, rois, scale, h, w, True):
        part = x[int(rois[r, 0]), i * w + j :: h * w, rows, columns]
        y[r, :, i, j] = part.mean((1, 2)) if part.numel() else 0.0
    return y, y.new_zeros(y.shape, dtype=torch.int32)


def _covered(x: Any, rois: Any, scale: float, h: int, w: int, sensitive: bool) -> Iterator[Any]:
    def bins(low: float, high: float, count: int, size: int) -> list[slice]:
        start, end = (floor(abs(v) + 0.5) * (1 if v >= 0 else -1) for v in (low, high))
        each = max(end - start + (0 if sensitive else 1), 1) / count
        edges = [(start + floor(k * each), start + ceil((k + 1) * each)) for k in range(count)]
        return [slice(min(max(a, 0), size), min(max(b, 0), size)) for a, b in edges]

    for r in range(rois.shape[0]):
        x1, y1, x2, y2 = (float(v) * scale for v in rois[r, 1:])
        rows, columns = bins(y1, y2, h, x.shape[2]), bins(x1, x2, w, x.shape[3])
        for i in range(h):
            for j in range(w):
                yield r, i, j, rows[i], columns[j]


def _shape(x: Any, rois: Any, scale: float, h: Any, w: Any, *_: Any) -> Any:
    return x.new_empty((rois.shape[0], x.shape[1], h, w))


def _two_shapes(x: Any, rois: Any, scale: float, h: Any, w: Any, *_: Any, sensitive: bool = False) -> Any:
    """Beside the values, what torchvision's backward pass needs."""
    import torch

    y = x.new_empty((rois.shape[0], x.shape[1] // (h * w) if sensitive else x.shape[1], h, w))
    return y, y.new_empty(y.shape, dtype=torch.int32)


_sensitive = functools.partial(_two_shapes, sensitive=True)
_GRID = "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
STAND_INS = {  # for penlight/torchvision.py: schema, values, shape
    "roi_align": (f"{_GRID}, int sampling_ratio, bool aligned) -> Tensor", _align_values, _shape),
    "ps_roi_align": (f"{_GRID}, int sampling_ratio) -> (Tensor, Tensor)", _ps_align_values, _sensitive),
    "roi_pool": (f"{_GRID}) -> (Tensor, Tensor)", _pool_values, _two_shapes),
    "ps_roi_pool": (f"{_GRID}) -> (Tensor, Tensor)", _ps_pool_values, _sensitive),
}


def _regions(torch: Any, rand: Any, count: int, images: int) -> Any:
    corner, size = torch.rand(count, 2, generator=rand) * 40 - 4, torch.rand(count, 2, generator=rand) * 30
    which = torch.randint(0, images, (count, 1), generator=rand).float()
    return torch.cat([which, corner, corner + size], 1)


@roi_align.samples
def _() -> Iterator[Sample]:
    import torch

    from penlight.torchvision import declare_operators

    declare_operators()
    rand = torch.Generator().manual_seed(0)
    ops = torch.ops.torchvision

    def r(*shape: int) -> Any:
        return torch.randn(*shape, generator=rand)

    rois = _regions(torch, rand, 5, 3)
    yield Sample(lambda x, b: ops.roi_align(x, b, 0.25, 3, 2, 2, False), (r(3, 19, 9, 11), rois), "two samples")
    yield Sample(lambda x, b: ops.roi_align(x, b, 0.5, 2, 3, 0, True), (r(3, 5, 18, 16), rois), "aligned, adaptive")
    yield Sample(lambda x, b: ops.roi_align(x, b, 0.25, 2, 2, 2, True), (r(3, 4, 9, 9), rois[:0]), "no regions")
    yield Sample(lambda x, b: ops.ps_roi_align(x, b, 0.25, 3, 2, 2)[0], (r(3, 24, 9, 11), rois), "sensitive")
    free: Any = (None, {0: torch.export.Dim("n", min=1, max=99)})
    x = r(3, 16, 9, 11)
    yield Sample(lambda x, b: ops.roi_align(x, b, 0.25, 2, 2, 2, False), (x, rois), "dynamic", dynamic=free)


@roi_pool.samples
def _() -> Iterator[Sample]:
    import torch

    from penlight.torchvision import declare_operators

    declare_operators()
    rand = torch.Generator().manual_seed(1)
    ops = torch.ops.torchvision

    def r(*shape: int) -> Any:
        return torch.randn(*shape, generator=rand)

    rois = _regions(torch, rand, 6, 2)
    yield Sample(lambda x, b: ops.roi_pool(x, b, 0.25, 3, 2)[0], (r(2, 19, 9, 11), rois), "maximum")
    yield Sample(lambda x, b: ops.ps_roi_pool(x, b, 0.25, 3, 2)[0], (r(2, 24, 9, 11), rois), "sensitive")
