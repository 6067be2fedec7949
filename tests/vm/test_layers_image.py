"""Pooling, resizing, sampling and torchvision's operators of the VM beside torch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from penlight.torchvision import declare_operators
from tests.vm.check import OperatorError, check, compare, run, torch_run
from tests.vm.samples import FLOATS, INF, NAN, same_as_torch

R = torch.randn


def _same(name: str, *args: Any, tolerance: float | None = None) -> None:
    """As torch, and as it lies in torch."""
    same_as_torch(name, *args, tolerance=tolerance, layout=True)


TOLERANCE = {torch.float32: 3e-6, torch.float64: 1e-13, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def _layouts(spatial: int, dtype: torch.dtype) -> list[torch.Tensor]:
    x = R((2, 5, 9, 8, 7)[: 2 + spatial])
    x.view(-1)[3], x.view(-1)[11] = NAN, -INF
    made = [x, x[0]]
    if spatial == 2:
        made += [x.contiguous(memory_format=torch.channels_last), x.transpose(2, 3)]
    return [t.to(dtype) for t in made]


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_pools(spatial: int) -> None:
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        for x in _layouts(spatial, dtype):
            for k, s, p, d, ceil in (
                (2, None, 0, 1, False),
                (3, 2, 1, 1, True),
                (3, 1, 1, 2, False),
                (2, 3, 0, 1, True),
                (3, 1, 2, 1, False),
            ):
                kernel, stride = [k] * spatial, [] if s is None else [s] * spatial
                args = (x, kernel, stride, [p] * spatial, [d] * spatial, ceil)
                _same(f"aten::max_pool{spatial}d", *args, tolerance=0.0)
                if spatial > 1:
                    _same(f"aten::max_pool{spatial}d_with_indices", *args, tolerance=0.0)
                clean = x.nan_to_num(0.5, 1.0, -1.0)
                for counted in (True, False) if spatial < 3 or dtype != torch.bfloat16 else ():
                    more = [None] if spatial > 1 else []
                    means = (clean, kernel, stride, [p] * spatial, ceil, counted)
                    _same(f"aten::avg_pool{spatial}d", *means, *more, tolerance=TOLERANCE[dtype])
                    if spatial > 1:
                        _same(f"aten::avg_pool{spatial}d", *means, 5, tolerance=TOLERANCE[dtype])
            for size in ([1] * spatial, [2, 3, 4][:spatial], [11, 3, 10][:spatial], [0] * spatial):
                if 0 not in size:
                    _same(f"aten::adaptive_avg_pool{spatial}d", clean, size, tolerance=TOLERANCE[dtype])
                    _same(f"aten::adaptive_max_pool{spatial}d", x, size, tolerance=0.0)


def test_pools_of_integers_and_wrong_ones() -> None:
    x = torch.randint(-99, 99, (2, 3, 7, 8))
    check("aten::max_pool2d", x, [2, 2])
    check("aten::avg_pool2d", x, [3, 2])
    for args in ((R(2, 3, 7, 8), [0, 2]), (R(2, 3, 7, 8), [2, 2, 2]), (R(2, 3, 7, 8), [2, 2], [0, 1]), (R(2, 3, 7, 8), [2, 2], [1], [2]), (R(3), [2]),
                 (R(2, 3, 7, 8), [9, 9]), (R(2, 3, 7, 8), [2**40, 2**40], [2**40], [2**39], [2**62])):  # fmt: skip
        with pytest.raises(OperatorError):
            run("aten::max_pool2d", *args)
        with pytest.raises(OperatorError):
            run("aten::max_pool2d", args[0].double(), *args[1:])
    with pytest.raises(OperatorError):
        run("aten::avg_pool2d", R(2, 3, 7, 8), [2, 2], [], [0], False, True, 0)
    with pytest.raises(OperatorError):
        run("aten::adaptive_avg_pool2d", R(2, 3, 0, 8), [2, 2])
    with pytest.raises(OperatorError):
        run("aten::adaptive_avg_pool2d", R(2, 3, 5, 8), [-2, 2])


def test_adaptive_pools_of_more_dims() -> None:
    """torch takes any rank where maps become one pixel each."""
    check("aten::adaptive_avg_pool2d", R(2, 2, 3, 4, 9), [1, 1], tolerance=1e-6)
    check("aten::adaptive_avg_pool3d", R(2, 2, 3, 4, 5, 6), [1, 1, 1], tolerance=1e-6)
    with pytest.raises(OperatorError):
        run("aten::adaptive_avg_pool2d", R(2, 2, 3, 4, 9), [1, 2])


@pytest.mark.parametrize("spatial", [2, 3])
def test_unpooling(spatial: int) -> None:
    for x in (
        R(2, 3, 6, 6, 6)[(slice(None),) * 2 + (slice(None),) * spatial + (0,) * (3 - spatial)],
        R(3, 6, 6, 6)[(slice(None),) * (1 + spatial) + (0,) * (3 - spatial)],
    ):
        pool = torch.nn.functional.max_pool2d if spatial == 2 else torch.nn.functional.max_pool3d
        y, places = pool(x, 2, return_indices=True)
        more = ([2] * 3, [0] * 3) if spatial == 3 else ()
        same_as_torch(f"aten::max_unpool{spatial}d", y, places, [6] * spatial, *more)
        same_as_torch(f"aten::max_unpool{spatial}d", y, places, [3] * spatial, *more)  # places outside
        same_as_torch(f"aten::max_unpool{spatial}d", y, places[..., :1], [6] * spatial, *more)


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_resizing(spatial: int) -> None:
    smooth = {1: ["upsample_linear1d"], 2: ["upsample_bilinear2d", "upsample_bicubic2d"], 3: ["upsample_trilinear3d"]}[
        spatial
    ]
    for dtype in (*FLOATS, torch.uint8):
        for x in _layouts(spatial, torch.float32):
            if x.dim() == spatial + 1:
                continue
            x = (x.nan_to_num(0.5, 1.0, -1.0) * 20 + 100).to(dtype)
            factors, none = [2.5, 0.7, 1.9][:spatial], [None] * spatial
            sizes = ([9, 3, 5][:spatial], [18, 16, 14][:spatial])
            for name in ("upsample_nearest", "_upsample_nearest_exact"):
                for size in sizes:
                    check(f"aten::{name}{spatial}d.vec", x, size, None)
                    check(f"aten::{name}{spatial}d", x, size, *none)
                check(f"aten::{name}{spatial}d.vec", x, None, factors)
                scaled = [int(n * f) for n, f in zip(x.shape[2:], factors, strict=True)]
                check(f"aten::{name}{spatial}d", x, scaled, *factors)
            if dtype == torch.uint8 and spatial != 2:
                continue
            antialiased = (
                ["_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"]
                if spatial == 2 and dtype in (torch.float32, torch.uint8)
                else []
            )
            tolerance = 2 * TOLERANCE.get(
                dtype, 1 / 140
            )  # torch's weights of bytes have 16 bits: a level off in each of two passes
            for name in (*smooth, *antialiased):
                for corners in (True, False):
                    check(f"aten::{name}.vec", x, sizes[0], corners, None, tolerance=tolerance)
                    check(f"aten::{name}.vec", x, None, corners, factors, tolerance=tolerance)
                    check(f"aten::{name}", x, sizes[1], corners, *none, tolerance=tolerance)
    for args in ((R(2, 3, 4, 4), None, None), (R(2, 3, 4, 4), [2], None), (R(3, 4, 4), [2, 2], None), (R(2, 3, 4, 4), [0, 2], None),
                 (R(2, 3, 4, 4), None, [1e30, 1.0]), (R(2, 3, 0, 4), [2, 2], None), (R(2, 3, 4, 4), [2**50, 2**50], None)):  # fmt: skip
        with pytest.raises(OperatorError):
            run("aten::upsample_nearest2d.vec", *args)


def test_sampling() -> None:
    for mode in (0, 1, 2):
        for padding in (0, 1, 2):
            for corners in (True, False):
                grid = torch.rand(2, 7, 8, 2) * 2.4 - 1.2
                check("aten::grid_sampler", R(2, 3, 5, 6), grid, mode, padding, corners, tolerance=1e-5)
                grid = torch.rand(2, 3, 7, 8, 3) * 2.4 - 1.2
                _same("aten::grid_sampler", R(2, 3, 4, 5, 6), grid, mode, padding, corners, tolerance=1e-5)
    for corners in (True, False):
        check("aten::affine_grid_generator", R(2, 2, 3), [2, 3, 4, 5], corners, tolerance=1e-6)
        check("aten::affine_grid_generator", R(2, 3, 4).double(), [2, 3, 4, 5, 1], corners, tolerance=1e-13)
    for args in ((R(2, 3, 5, 6), R(2, 7, 8, 3)), (R(2, 3, 5, 6), R(3, 7, 8, 2)), (R(2, 3, 5), R(2, 7, 2))):
        with pytest.raises(OperatorError):
            run("aten::grid_sampler", *args, 0, 0, True)


def test_columns() -> None:
    for x in (R(2, 3, 7, 8), R(3, 7, 8), R(2, 3, 8, 7).transpose(2, 3)):
        _same("aten::im2col", x, [2, 3], [1, 2], [1, 0], [2, 1])
    for x in (R(2, 12, 12), R(12, 12)):
        _same("aten::col2im", x, [5, 4], [2, 2], [1, 1], [0, 0], [1, 1])
        _same("aten::col2im", x, [5, 5], [2, 2], [1, 1], [0, 0], [1, 1])
    _same("aten::im2col", R(2, 3, 7, 8), [0, 3], [1, 2], [1, 0], [2, 1])


def test_embedding_bag() -> None:
    table, words, offsets = R(9, 5), torch.randint(0, 9, (11,)), torch.tensor([0, 3, 3, 8])
    calls: list[tuple[Any, ...]] = [
        (table, words, offsets, False, 0, False, None, False),
        (table, words.int(), offsets.int(), False, 1, False, None, False),
        (table, words, torch.tensor([0, 3, 3, 8, 11]), False, 2, False, None, True),
        (table, words, offsets, False, 0, False, R(11), False),
        (table.half(), words, offsets, False, 0, False, None, False),
    ]
    for args in calls:
        for name, more in (("embedding_bag", ()), ("embedding_bag.padding_idx", (3,)), ("embedding_bag.padding_idx", (-2,)),
                           ("embedding_bag.padding_idx", (None,))):  # fmt: skip
            expected = torch_run(f"aten::{name}", *args, *more)[0]
            compare(
                run(f"aten::{name}", *args, *more)[0], expected, 2e-3 if args[0].dtype == torch.float16 else 1e-6, name
            )
    with pytest.raises(OperatorError):
        run("aten::embedding_bag", table, torch.tensor([1, 99]), torch.tensor([0]))


def test_torchvision() -> None:
    declare_operators()
    corner = torch.rand(50, 2) * 20
    boxes = torch.cat([corner, corner + torch.rand(50, 2) * 10], 1)
    for n in (50, 1, 0):
        check("torchvision::nms", boxes[:n], torch.rand(n), 0.3)
    rois = torch.cat([torch.randint(0, 2, (5, 1)).float(), torch.rand(5, 2) * 8, torch.rand(5, 2) * 8 + 9], 1)
    x = R(2, 40, 16, 18)
    for image in (x[:, :3], x[:, :3].contiguous(memory_format=torch.channels_last)):
        check("torchvision::roi_align", image, rois, 0.7, 4, 5, 2, True, tolerance=1e-5)
        check("torchvision::roi_align", image, rois, 0.7, 4, 5, -1, False, tolerance=1e-5)
    for name, more in (("roi_pool", ()), ("ps_roi_align", (2,)), ("ps_roi_pool", ())):
        expected = torch_run(f"torchvision::{name}", x, rois, 0.7, 4, 5, *more)[0]
        compare(run(f"torchvision::{name}", x, rois, 0.7, 4, 5, *more)[0], expected, 1e-5, name)
    offset, mask = R(2, 36, 7, 8), torch.rand(2, 18, 7, 8)
    check(
        "torchvision::deform_conv2d",
        R(2, 6, 7, 8),
        R(4, 3, 3, 3),
        offset,
        mask,
        R(4),
        1,
        1,
        1,
        1,
        1,
        1,
        2,
        2,
        True,
        tolerance=1e-5,
    )
    for args in ((x[:, :3], rois + 7), (x[:, :3], rois[:, :4]), (x[0], rois)):
        with pytest.raises(OperatorError):
            run("torchvision::roi_align", *args, 0.7, 4, 5, 2, True)
    with pytest.raises(OperatorError):
        run("torchvision::nms", boxes, torch.rand(49), 0.3)
