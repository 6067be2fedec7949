"""How operators on images are drawn: convolution, pooling, resizing, padding, and torchvision's. As families.py, for the rest."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from tests.ops.draw import F32, F64, I64, NUMBERS, Draw, family

aten: Any = torch.ops.aten


def image(d: Draw, rank: int, channels: int | None = None, dtype: torch.dtype = F32) -> torch.Tensor:
    """[N, C, *sizes], tiny batches."""
    sizes = [d.randint(1, 4) for _ in range(rank)] if d.chance(0.5) else d.sizes(rank, 3000 // (channels or 9))
    return d.tensor(d.choice((1, 1, 2, 3)), channels or d.size(24), *sizes, dtype=dtype)


def window(d: Draw, x: torch.Tensor, rank: int) -> tuple[list[int], list[int], list[int], list[int]]:
    """kernel, stride, padding and dilation that fit into x."""
    while True:
        kernel = [d.choice((1, 1, 1, 2, 3, 3, 4, 5)) for _ in range(rank)]
        dilation = [d.choice((1, 1, 1, 2, 3)) for _ in range(rank)]
        padding = [d.choice((0, 0, 1, 2, 3)) for _ in range(rank)]
        if d.chance(0.6):
            kernel, dilation, padding = ([v[0]] * rank for v in (kernel, dilation, padding))
        reach = [(k - 1) * s + 1 for k, s in zip(kernel, dilation, strict=True)]
        if all(n + 2 * p >= r for n, p, r in zip(x.shape[2:], padding, reach, strict=True)):
            return kernel, [d.choice((1, 1, 2, 2, 3)) for _ in range(rank)], padding, dilation


def channels(d: Draw) -> tuple[int, int, int]:
    """in, out, groups"""
    kind = d.name("dense few few depthwise multiplied grouped")
    if kind == "depthwise":
        c = d.size()
        return c, c, c
    if kind == "multiplied":
        c = d.size(9)
        return c, c * d.randint(2, 3), c
    if kind == "grouped":
        g = d.randint(2, 4)
        return g * d.size(9), g * d.size(17), g
    return d.randint(1, 4) if kind == "few" else d.size(), d.size(), 1


@family("conv2d conv3d pack copy", share=5)
def convolution(d: Draw) -> Any:
    rank, (ci, co, groups) = d.choice((1, 2, 2, 2, 2, 3)), channels(d)
    dtype = d.choice((*[F32] * 12, I64, F64))
    x = image(d, rank, ci, dtype)
    kernel, stride, padding, dilation = window(d, x, rank)
    w, b = d.weight(co, ci // groups, *kernel, dtype=dtype), d.optional(d.weight(co, dtype=dtype))
    y = (F.conv1d, F.conv2d, F.conv3d)[rank - 1](x, w, b, stride, padding, dilation, groups)
    return d.after(y)


@family("conv2d")
def winograd(d: Draw) -> Any:
    x = d.tensor(1, d.choice((16, 24, 33)), d.randint(20, 30), d.randint(20, 30))
    w, b = d.numbers((d.choice((16, 32, 40)), x.shape[1], 3, 3)), d.optional(d.weight(1))
    return d.after(F.conv2d(x, w, None if b is None else b.expand(w.shape[0]), 1, d.randint(0, 2), d.choice((1, 1, 2))))


@family("expand_depthwise")
def expanded(d: Draw) -> Any:
    """1x1 into many channels, then depthwise: one kernel where that pays."""
    x = d.tensor(d.randint(1, 2), d.choice((8, 16, 24)), d.randint(3, 30), d.randint(3, 30))
    wide = x.shape[1] * d.choice((2, 4, 6))
    y = F.relu6(F.conv2d(x, d.numbers((wide, x.shape[1], 1, 1)), d.numbers((wide,))))
    k = d.choice((3, 3, 5))
    y = F.conv2d(y, d.numbers((wide, 1, k, k)), d.numbers((wide,)), d.randint(1, 2), k // 2, 1, wide)
    return d.after(F.hardtanh(y) if d.chance(0.7) else y)


@family("conv_transpose2d conv_transpose3d")
def transposed(d: Draw) -> Any:
    rank, (ci, co, groups), dtype = d.choice((1, 2, 2, 3)), channels(d), d.choice((*[F32] * 8, I64, F64))
    x = image(d, rank, ci, dtype)
    kernel = [d.randint(1, 4) for _ in range(rank)]
    stride, dilation = ([d.choice((1, 1, 2, 3)) for _ in range(rank)] for _ in range(2))
    padding = [d.randint(0, (k - 1) * s) if k > 1 else 0 for k, s in zip(kernel, dilation, strict=True)]
    extra = [d.randrange(max(a, b)) for a, b in zip(stride, dilation, strict=True)]
    reach = [(n - 1) * a + (k - 1) * s + 1 for n, k, a, s in zip(x.shape[2:], kernel, stride, dilation, strict=True)]
    padding = [min(p, (r - 1) // 2) for p, r in zip(padding, reach, strict=True)]  # something is left
    w, b = d.weight(ci, co // groups, *kernel, dtype=dtype), d.optional(d.weight(co, dtype=dtype))
    call = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
    return d.after(call(x, w, b, stride, padding, extra, groups, dilation))


@family("im2col col2im", special=True)
def columns(d: Draw) -> Any:
    x = image(d, 2)
    kernel, stride, padding, dilation = window(d, x, 2)
    y = F.unfold(x, kernel, dilation, padding, stride)
    return y if d.chance(0.5) else F.fold(d.tensor(*y.shape), x.shape[2:], kernel, dilation, padding, stride)


@family("max_pool2d max_pool3d max_pool_indices avg_pool2d avg_pool3d max_unpool", special=True)
def pooling(d: Draw) -> Any:
    rank, dtype = d.choice((1, 2, 2, 3)), d.choice((*[F32] * 8, I64, F64))
    x = image(d, rank, dtype=dtype)
    kernel, stride, padding, dilation = window(d, x, rank)
    padding = [min(p, k // 2) for p, k in zip(padding, kernel, strict=True)]
    ceil = d.chance(0.4)
    if d.chance(0.4):
        more = () if rank == 1 else (d.optional(d.randint(1, 5), 0.3),)
        call = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[rank - 1]
        return d.after(call(x, kernel, stride, padding, ceil, d.chance(0.5), *more))
    if d.chance(0.5):
        return d.after((F.max_pool1d, F.max_pool2d, F.max_pool3d)[rank - 1](x, kernel, stride, padding, dilation, ceil))
    call = (torch.max_pool1d_with_indices, aten.max_pool2d_with_indices, aten.max_pool3d_with_indices)[rank - 1]
    y, places = call(x, kernel, stride, padding, dilation, ceil)
    if d.chance(0.5) or rank == 1:
        return y, places
    return (
        aten.max_unpool2d(y, places, x.shape[2:])
        if rank == 2
        else aten.max_unpool3d(y, places, x.shape[2:], [1] * 3, [0] * 3)
    )


@family(
    "adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d adaptive_max_pool_indices fractional_max_pool",
    special=True,
)
def adaptive_pooling(d: Draw) -> Any:
    rank = d.choice((1, 2, 2, 3))
    x = image(d, rank)
    size = [d.randint(1, 7) for _ in range(rank)]
    if d.chance(0.4):
        return d.after((F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[rank - 1](x, size))
    if d.chance(0.7) or rank == 1:
        call = (torch.adaptive_max_pool1d, aten.adaptive_max_pool2d, aten.adaptive_max_pool3d)[rank - 1]
        y, places = call(x, size)
        return d.after(y) if d.chance(0.5) else (y, places)
    kernel = [d.randint(1, n) for n in x.shape[2:]]
    size = [d.randint(1, n - k + 1) for n, k in zip(x.shape[2:], kernel, strict=True)]
    samples = d.values(torch.rand(*x.shape[:2], rank, generator=d.generator))
    return (aten.fractional_max_pool2d, aten.fractional_max_pool3d)[rank - 2](x, kernel, size, samples)


@family("resize resize_nearest")
def resizing(d: Draw) -> Any:
    rank = d.choice((1, 2, 2, 2, 3))
    x = image(d, rank)
    mode = d.choice(("nearest", "nearest-exact", ("linear", "bilinear", "trilinear")[rank - 1], "bicubic"))
    mode = "nearest" if mode == "bicubic" and rank != 2 else mode
    align = {} if mode.startswith("nearest") else {"align_corners": d.chance(0.4)}
    if mode in ("bilinear", "bicubic") and d.chance(0.3):  # not to a width of 1: all rows of torch's result are alike
        size = [d.size(20), d.randint(2, 20)]
        return d.after(F.interpolate(x, size, mode=mode, align_corners=False, antialias=True))
    if d.chance(0.5):
        return d.after(F.interpolate(x, [d.size(20) for _ in range(rank)], mode=mode, **align))
    scale = [d.choice((0.5, 1.0, 1.5, 2.0, 2.0, 3.0, 0.7)) for _ in range(rank)]
    if any(int(n * s) < 1 for n, s in zip(x.shape[2:], scale, strict=True)):
        scale = [2.0] * rank
    return d.after(F.interpolate(x, None, scale, mode=mode, recompute_scale_factor=d.optional(True, 0.2), **align))


@family("pad", special=True)
def padding(d: Draw) -> Any:
    mode = d.name("constant constant reflect replicate circular")
    if mode == "constant":
        x = d.tensor(*d.sizes(d.randint(1, 5), empty=0.02), dtype=d.choice(NUMBERS))
        amounts = [d.choice((0, 0, 1, 2, 5, -1)) for _ in range(2 * d.randint(1, x.dim()))]
        amounts = [max(a, 0) if x.shape[-1 - i // 2] < 3 else a for i, a in enumerate(amounts)]
        return d.after(F.pad(x, amounts, mode, d.choice((0, 1, 3))))
    rank = d.randint(1, 3)
    x = image(d, rank)
    limits = [n - 1 if mode == "reflect" else n if mode == "circular" else 4 for n in x.shape[:1:-1] for _ in (0, 1)]
    return d.after(F.pad(x, [d.randint(0, min(4, most)) for most in limits], mode))


@family("grid_sample roi_align roi_pool")
def vision(d: Draw) -> Any:
    kind = d.name("grid grid grid3d align pool ps_align ps_pool deform")
    ops: Any = torch.ops.torchvision
    if kind.startswith("grid"):
        x = image(d, 3 if kind == "grid3d" else 2)
        rank = x.dim() - 2
        grid = d.values(torch.rand(x.shape[0], *d.sizes(rank, 90), rank, generator=d.generator) * 2.6 - 1.3)
        mode = d.choice(("bilinear", "nearest", *(["bicubic"] if rank == 2 else [])))
        return d.after(F.grid_sample(x, grid, mode, d.name("zeros border reflection"), d.chance(0.5)))
    if kind == "deform":
        k, groups, of = d.randint(1, 2), d.randint(1, 2), d.randint(1, 2)
        x = d.tensor(d.randint(1, 2), groups * of, d.randint(2, 4), d.randint(2, 4))
        h, w = x.shape[2] + 2 - k + 1, x.shape[3] + 2 - k + 1
        offset, mask = d.tensor(x.shape[0], of * k * k * 2, h, w), d.tensor(x.shape[0], of * k * k, h, w)
        co = groups * d.randint(1, 3)
        return ops.deform_conv2d(
            x, d.weight(co, of, k, k), offset, mask, d.weight(co), 1, 1, 1, 1, 1, 1, groups, of, d.chance(0.5)
        )
    oh, ow = d.randint(1, 3), d.randint(1, 3)
    c = d.randint(1, 3) * (oh * ow if kind.startswith("ps") else 1)
    x = d.tensor(d.randint(1, 2), c, d.randint(1, 9), d.randint(1, 9))
    count = d.randint(1, 3)
    corner = torch.rand(count, 2, generator=d.generator) * 12 - 2
    images = torch.randint(0, x.shape[0], (count, 1), generator=d.generator)
    rois = d.values(torch.cat([images, corner, corner + torch.rand(count, 2, generator=d.generator) * 14], 1))
    scale = d.choice((0.25, 0.5, 1.0))
    if kind == "align":
        return ops.roi_align(x, rois, scale, oh, ow, d.randint(0, 2), d.chance(0.5))
    if kind == "ps_align":
        return ops.ps_roi_align(x, rois, scale, oh, ow, d.randint(0, 2))[0]
    return (ops.roi_pool if kind == "pool" else ops.ps_roi_pool)(x, rois, scale, oh, ow)[0]
