"""Pooling, normalization, resizing, joining and moving of quantized tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.vm import check
from tests.vm.quantized import engine, quantized, same

LAST = torch.channels_last
MAPS = [(torch.quint8, 100), (torch.quint8, 0), (torch.quint8, 255), (torch.qint8, 3)]


def both_orders(*shape: int, **options: Any) -> list[torch.Tensor]:
    x = quantized(*shape, **options)
    return [x, x.contiguous(memory_format=LAST)]


@pytest.mark.parametrize(("dtype", "zero"), MAPS)
def test_max_pool(dtype: torch.dtype, zero: int) -> None:
    torch.manual_seed(0)
    with engine("qnnpack"):
        for x in both_orders(2, 6, 9, 10, dtype=dtype, zero=zero):
            for name in ("quantized::max_pool2d", "aten::quantized_max_pool2d", "aten::max_pool2d"):
                same(name, x, [3, 2], [2, 1], [1, 0], [1, 1], False)
                same(name, x, [3, 3], [2, 2], [1, 1], [1, 1], True)
                same(name, x, [2, 2], [1, 1], [0, 0], [2, 3], False)
        x = quantized(2, 6, 9, dtype=dtype, zero=zero)
        same("quantized::max_pool1d", x, [3], [2], [1], [1], False)
        same("aten::max_pool1d", x, [3], [2], [1], [1], True)
    with engine("fbgemm"):  # qnnpack has none
        x = quantized(2, 3, 5, 6, 7, dtype=dtype, zero=zero)
        same("aten::quantized_max_pool3d", x, [2, 3, 2], [2, 1, 2], [1, 1, 0], [1, 1, 1], False, layout=False)


@pytest.mark.parametrize(("dtype", "zero"), MAPS)
def test_averages(dtype: torch.dtype, zero: int) -> None:
    torch.manual_seed(1)
    exact = 0 if dtype == torch.quint8 else 1
    with engine("qnnpack"):
        for x in both_orders(2, 7, 8, 12, dtype=dtype, zero=zero):
            same("aten::avg_pool2d", x, [3, 2], [2, 1], [1, 0], False, True, None, steps=exact)
            same("aten::avg_pool2d", x, [3, 3], [2, 2], [1, 1], False, False, None, steps=exact)
            same("aten::avg_pool2d", x, [3, 3], [2, 2], [1, 1], True, False, None, steps=1)
            same("aten::avg_pool2d", x, [3, 3], [2, 2], [1, 1], True, True, 5, steps=1)
            for size in ([1, 1], [4, 3], [8, 12]):
                same("aten::adaptive_avg_pool2d", x, size, steps=exact if size[0] < 8 else 1)
            same("aten::adaptive_avg_pool2d", x, [3, 5], steps=1)
            for dims, keep in (([2, 3], False), ([2, 3], True), ([-1], False), ([1], True), ([0, 2], False)):
                same("aten::mean.dim", x, dims, keep, None, steps=exact if dims == [2, 3] else 1, layout=False)
            same("aten::mean", x, None, steps=1)
        x = quantized(2, 3, 5, 6, 7, dtype=dtype, zero=zero)
        same("aten::avg_pool3d", x, [2, 3, 2], [2, 1, 2], [1, 1, 0], False, True, None, steps=1, layout=False)
        same("aten::adaptive_avg_pool3d", x, [2, 3, 2], steps=1, layout=False)


def test_wide_integers() -> None:
    """qint32: maxima are exact, the rest is computed in f32."""
    torch.manual_seed(6)
    for x in both_orders(2, 6, 9, 10, dtype=torch.qint32, zero=-9):
        same("quantized::max_pool2d", x, [3, 2], [2, 1], [1, 0], [1, 1], False)
        same("aten::avg_pool2d", x, [3, 2], [2, 1], [1, 0], False, True, None, steps=1, layout=False)
        same("aten::adaptive_avg_pool2d", x, [3, 5], steps=1, layout=False)
        same("aten::mean.dim", x, [2, 3], False, None, steps=1, layout=False)
        same("aten::upsample_bilinear2d", x, [8, 12], False, None, None, steps=1, layout=False)


def test_maps_without_batch() -> None:
    torch.manual_seed(7)
    with engine("fbgemm"):  # qnnpack takes none
        x = quantized(6, 9, 10, zero=77)
        same("aten::max_pool2d", x, [3, 2], [2, 1], [1, 0], [1, 1], False)
        same("aten::avg_pool2d", x, [3, 2], [2, 1], [1, 0], False, True, None, steps=1)
        same("aten::adaptive_avg_pool2d", x, [3, 5], steps=1)


@pytest.mark.parametrize(("dtype", "zero"), MAPS)
def test_norms(dtype: torch.dtype, zero: int) -> None:
    torch.manual_seed(2)
    to = zero - 3 if zero > 200 else zero + 7

    def row() -> torch.Tensor:
        return torch.randn(6)

    for x in both_orders(2, 6, 9, 10, dtype=dtype, zero=zero):
        for name in ("batch_norm2d", "batch_norm2d_relu", "batch_norm"):
            same(f"quantized::{name}", x, row(), row(), row(), torch.rand(6) + 0.1, 1e-5, 0.05, to, steps=1)
        same("quantized::instance_norm", x, row(), row(), 1e-5, 0.05, to, steps=1, layout=False)
        same("quantized::instance_norm", x, None, None, 1e-5, 0.05, to, steps=1, layout=False)
        same("quantized::group_norm", x, 3, row(), row(), 1e-5, 0.05, to, steps=1, layout=False)
        same(
            "quantized::layer_norm",
            x,
            [9, 10],
            torch.randn(9, 10),
            torch.randn(9, 10),
            1e-5,
            0.05,
            to,
            steps=1,
            layout=False,
        )
    x = quantized(2, 6, 3, 4, 5, dtype=dtype, zero=zero)
    for name in ("batch_norm3d", "batch_norm3d_relu"):
        same(f"quantized::{name}", x, row(), row(), row(), torch.rand(6) + 0.1, 1e-5, 0.05, to, steps=1, layout=False)
    x = quantized(3, 6, 7, dtype=dtype, zero=zero)
    for name in ("batch_norm1d", "batch_norm1d_relu"):
        same(f"quantized::{name}", x, row(), row(), row(), torch.rand(6) + 0.1, 1e-5, 0.05, to, steps=1, layout=False)


@pytest.mark.parametrize(("dtype", "zero"), MAPS)
def test_resizing(dtype: torch.dtype, zero: int) -> None:
    torch.manual_seed(3)
    for x in both_orders(2, 5, 4, 6, dtype=dtype, zero=zero):
        for size in ([8, 12], [3, 5], [4, 6], [1, 1], [9, 7]):
            for align in (False, True):
                same("aten::upsample_bilinear2d", x, size, align, None, None, steps=1)
            same("aten::upsample_nearest2d", x, size, None, None)
        same("aten::upsample_bilinear2d.vec", x, None, False, [2.0, 1.5], steps=1)
        same("aten::upsample_nearest2d.vec", x, None, [2.0, 1.5])
        same("aten::upsample_nearest2d.vec", x, [7, 7], None)


@pytest.mark.parametrize(("dtype", "zero"), MAPS)
def test_cat(dtype: torch.dtype, zero: int) -> None:
    torch.manual_seed(4)
    to = zero - 3 if zero > 200 else zero + 3
    for order in (0, 1):
        x = both_orders(2, 6, 3, 4, dtype=dtype, zero=zero)[order]
        y = both_orders(2, 3, 3, 4, dtype=dtype, zero=zero, scale=0.11)[order]
        for name in ("cat", "cat_relu"):
            same(f"quantized::{name}", [x, y], 1, 0.07, to, steps=1)
            same(f"quantized::{name}", [x, y, x], 1, None, None, steps=1)
            same(f"quantized::{name}", [x, x], -1, 0.05, zero, layout=False)
        same("aten::cat", [x, x], 1)
        same("aten::cat", [x, x], 0, layout=False)


@pytest.mark.parametrize(("dtype", "zero"), MAPS)
def test_stacks(dtype: torch.dtype, zero: int) -> None:
    """cat after views, in the first one's scale."""
    torch.manual_seed(5)
    for shape in ((5,), (2, 3), (2, 6, 3), (2, 6, 3, 4)):
        x, y = quantized(*shape, dtype=dtype, zero=zero), quantized(*shape, dtype=dtype, zero=zero, scale=0.11)
        for dim in (0, len(shape), -1, 1):
            same("aten::stack", [x, y, x], dim, layout=False)
        for name in ("hstack", "vstack", "dstack", "column_stack"):
            same(f"aten::{name}", [y, x], layout=False)
    for x in both_orders(2, 6, 3, 4, dtype=dtype, zero=zero):
        for dim in (0, 1, 4):
            same("aten::stack", [x, x], dim, layout=False)
    with pytest.raises(check.OperatorError, match="one shape"):
        check.run("aten::stack", [x, x[:1]], 0)


@pytest.mark.parametrize(("dtype", "zero"), MAPS)
def test_by_reals(dtype: torch.dtype, zero: int) -> None:
    """What torch computes in floats, and quantizes again in the scale of its input."""
    torch.manual_seed(6)
    x = quantized(2, 6, 3, 4, dtype=dtype, zero=zero)
    for form in ("none", "tanh"):
        same("aten::gelu", x, form, steps=1)
    if dtype == torch.quint8:  # torch has it for these alone
        same("aten::std.dim", x, [1], True, False, layout=False, steps=1)
        same("aten::std", x, True, layout=False, steps=1)


@pytest.mark.parametrize(("dtype", "zero"), MAPS)
def test_moving(dtype: torch.dtype, zero: int) -> None:
    """What only moves elements: the integers, and the scale stays."""
    x = quantized(2, 6, 3, 4, dtype=dtype, zero=zero)
    for name, *args in (("view", [2, 18, 4]), ("flatten.using_ints", 1, -1), ("permute", [0, 2, 3, 1]), ("transpose.int", 1, 2), ("slice.Tensor", 1, 1, 5, 2),
                        ("select.int", 1, 2), ("unsqueeze", 0), ("reshape", [-1]), ("clone", None), ("contiguous", 0), ("flip", [1, 3]),
                        ("reflection_pad2d", [1, 2, 1, 0]), ("ravel",), ("broadcast_to", [3, 2, 6, 3, 4]), ("repeat_interleave.self_int", 2, 1, None),
                        ("tensor_split.sections", 4, 1), ("tensor_split.indices", [1, 4], 1), ("hsplit.int", 3), ("vsplit.array", [1])):  # fmt: skip
        same(f"aten::{name}", x, *args, layout=False)
    same("aten::chunk", x, 3, 1, layout=False)
    if dtype == torch.quint8:
        same("aten::channel_shuffle", x, 3, layout=False)
    same("aten::max", x)
    same("aten::min", x)
    same("aten::masked_fill.Scalar", x, torch.rand(2, 6, 3, 4) > 0.5, 0.4, layout=False)
    same("aten::index_select", x, 1, torch.tensor([3, 0, 3]), layout=False)
    if dtype == torch.quint8:
        same("aten::constant_pad_nd", x, [1, 0, 2, 1], 0.7, layout=False)
        for value in (0.7, None, 99.0):
            same("aten::pad", x, [1, 0, 2, 1], "constant", value, layout=False)
        same("aten::pad", x, [1, 0, 2, 1], "reflect", None, layout=False)
    assert torch.equal(check.run("aten::zero_", x.clone()).dequantize(), torch.zeros(2, 6, 3, 4))


def test_ordering() -> None:
    x = torch._make_per_tensor_quantized_tensor(torch.randperm(60).to(torch.uint8).reshape(4, 15), 0.1, 30)
    for largest in (True, False):
        same("aten::topk", x, 4, 1, largest, True, layout=False)
    values, places = check.run("aten::sort", x, 1, False)
    assert torch.equal(values.int_repr(), x.int_repr().sort(1).values)
    assert torch.equal(places, x.int_repr().sort(1).indices)


def test_comparing() -> None:
    x, y = quantized(3, 4), quantized(3, 4, zero=90)
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        same(f"aten::{name}.Tensor", x, y)
        same(f"aten::{name}.Scalar", x, 0.5)
    assert check.run("aten::equal", x, x) is True
    assert check.run("aten::equal", x, y) is False


def test_copying() -> None:
    to, real = quantized(3, 4, scale=0.1, zero=50), torch.randn(3, 4)
    got = check.run("aten::copy_", to.clone(), real)
    assert torch.equal(got.int_repr(), to.clone().copy_(real).int_repr())
    other = quantized(3, 4, scale=0.3, zero=9)
    got = check.run("aten::copy_", to.clone(), other)
    assert torch.equal(got.int_repr(), other.int_repr())
    assert (got.q_scale(), got.q_zero_point()) == (0.3, 9)
    got = check.run("aten::copy_", torch.zeros(3, 4), other)
    assert torch.equal(got, other.dequantize())
    got = check.run("aten::fill_.Scalar", to.clone(), 1.234)
    assert torch.equal(got.int_repr(), to.clone().fill_(1.234).int_repr())


def test_refused() -> None:
    x = quantized(1, 2, 5, 5)
    cases: list[tuple[str, tuple[Any, ...], str]] = [
        ("quantized::max_pool2d", (x, [6, 6], [1, 1], [0, 0], [1, 1], False), "as large as the window"),
        ("quantized::max_pool2d", (x, [2, 2], [0, 1], [0, 0], [1, 1], False), "1 or more"),
        ("quantized::max_pool2d", (x, [2, 2], [1, 1], [2, 2], [1, 1], False), "half the window"),
        ("quantized::max_pool2d", (x, [2, 2, 2, 2], [1], [0], [1], False), "1 or 2 numbers"),
        ("aten::avg_pool2d", (x, [2, 2], [1, 1], [0, 0], False, True, 0), "divisor"),
        ("aten::adaptive_avg_pool2d", (x, [-1, 2]), "sizes from 0"),
        ("aten::mean.dim", (x, [9], False, None), "dim"),
        ("aten::mean.dim", (x, [1, 1], False, None), "once"),
        ("quantized::cat", ([x, quantized(1, 2, 5, 4)], 1, 0.1, 0), "equal size"),
        ("quantized::cat", ([], 1, 0.1, 0), "at least"),
        ("quantized::batch_norm2d", (x, None, None, torch.ones(3), torch.ones(3), 1e-5, 0.1, 0), "one a channel"),
        ("quantized::group_norm", (x, 3, None, None, 1e-5, 0.1, 0), "divided into the groups"),
        ("quantized::layer_norm", (x, [4], None, None, 1e-5, 0.1, 0), "last dims"),
        ("aten::upsample_bilinear2d", (x, [0, 3], False, None, None), "above 0"),
    ]
    for name, args, words in cases:
        with pytest.raises(check.OperatorError, match=words):
            check.run(name, *args)
