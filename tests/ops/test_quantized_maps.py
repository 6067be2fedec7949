"""Pooling, means, resizing and padding of quantized bytes: bit for bit as torch where qnnpack computes it, and as the VM where torch's own
loops do, whose rounding depends on the processor: these are a step apart at most. To another scale: the nearest step of exact numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import penlight
from tests.ops.integers import model, quantized, run, stored, u8
from tests.vm import check
from tests.vm.quantized import engine

SCALE, ZERO = 0.05, 101
CHANNELS = [*range(1, 19), 31, 33, 47, 63, 64, 65, 70]


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).integers(0, 256, shape, dtype=np.uint8)


def one(op: str, x: np.ndarray, shape: Sequence[int], attrs: str, to: tuple[float, int] = (SCALE, ZERO)) -> np.ndarray:
    return run(
        f"graph g(%x: {u8(x.shape, SCALE, ZERO)}) {{\n%y: {u8(shape, *to)} = {op}(%x, {attrs})\nreturn %y\n}}", x
    )


def in_torch(fn: Any, x: np.ndarray) -> np.ndarray:
    """Channels last, as qnnpack has it."""
    given = quantized(x, SCALE, ZERO)
    with engine("qnnpack"):
        return stored(fn(given.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else given))


def assert_as_vm(got: np.ndarray, expected: np.ndarray, name: str, x: np.ndarray, *args: Any) -> None:
    given = quantized(x, SCALE, ZERO)
    np.testing.assert_array_equal(got, stored(check.run(name, given, *args)))
    assert abs(got.astype(int) - expected).max() <= 1


def assert_nearest(got: np.ndarray, steps: np.ndarray) -> None:
    """Bytes that stand for numbers, which are given in steps from the zero point's on."""
    assert abs(got - steps.clip(0, 255)).max() < 0.5001


def text_of(**attrs: Any) -> str:
    words = {True: "true", False: "false", None: "none"}
    return ", ".join(
        f"{k}={words[v] if v is None or isinstance(v, bool) else list(v) if isinstance(v, tuple) else v}"
        for k, v in attrs.items()
    )


@pytest.mark.parametrize("channels", CHANNELS)
def test_max_pool(channels: int) -> None:
    x = draw(2, channels, 9, 7)
    expected = in_torch(lambda t: F.max_pool2d(t, 3, 2, 1), x)
    attrs = text_of(kernel=(3, 3), stride=(2, 2), padding=(1, 1, 1, 1), dilation=(1, 1), ceil_mode=False)
    np.testing.assert_array_equal(one("max_pool2d", x, expected.shape, attrs), expected)


def test_max_pool_of_volumes_and_adaptive() -> None:
    x = draw(2, 37, 5, 6, 7)
    expected = F.max_pool3d(torch.from_numpy(x.astype(np.float32)), 2, 2).numpy()
    attrs = text_of(kernel=(2, 2, 2), stride=(2, 2, 2), padding=(0,) * 6, dilation=(1, 1, 1), ceil_mode=False)
    np.testing.assert_array_equal(one("max_pool3d", x, expected.shape, attrs), expected)
    y = F.adaptive_max_pool2d(torch.from_numpy(x[0].astype(np.float32)), (4, 3)).numpy()
    np.testing.assert_array_equal(one("adaptive_max_pool2d", x[0], y.shape, "size=[4, 3]"), y)


AVERAGES: dict[str, dict[str, Any]] = {
    "whole": {"kernel_size": 7},
    "3x3": {"kernel_size": 3, "stride": 2},
    "padding counted": {"kernel_size": 3, "stride": 1, "padding": 1},
    "ceil_mode": {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    "ceil_mode, padding not counted": {
        "kernel_size": 3,
        "stride": 2,
        "padding": 1,
        "ceil_mode": True,
        "count_include_pad": False,
    },
    "ceil_mode, divisor": {"kernel_size": (3, 2), "stride": 2, "ceil_mode": True, "divisor_override": 5},
}


@pytest.mark.parametrize("options", AVERAGES)
@pytest.mark.parametrize("channels", [1, 5, 16, 35, 64, 70])
def test_avg_pool(channels: int, options: str) -> None:
    given = AVERAGES[options]
    x = draw(2, channels, 7, 9)
    expected = in_torch(lambda t: F.avg_pool2d(t, **given), x)

    def pair(v: Any) -> tuple[int, int]:
        return (v, v) if isinstance(v, int) else v

    kernel = pair(given["kernel_size"])
    attrs = text_of(
        kernel=kernel,
        stride=pair(given.get("stride", kernel)),
        padding=pair(given.get("padding", 0)) * 2,
        ceil_mode=given.get("ceil_mode", False),
        count_include_pad=given.get("count_include_pad", True),
        divisor=given.get("divisor_override"),
    )
    got = one("avg_pool2d", x, expected.shape, attrs)
    if options == "ceil_mode, padding not counted":
        assert_as_vm(got, expected, "aten::avg_pool2d", x, [3, 3], [2, 2], [1, 1], True, False, None)
    else:
        np.testing.assert_array_equal(got, expected)


def test_avg_pool_to_another_scale_with_padding_left_out() -> None:
    x = draw(2, 19, 8, 8)
    real = (torch.from_numpy(x).double() - ZERO) * SCALE
    expected = F.avg_pool2d(real, 3, 2, 1, count_include_pad=False).numpy() / 0.0431 + 77
    attrs = text_of(
        kernel=(3, 3), stride=(2, 2), padding=(1, 1, 1, 1), ceil_mode=False, count_include_pad=False, divisor=None
    )
    assert_nearest(one("avg_pool2d", x, expected.shape, attrs, (0.0431, 77)), expected)


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (6, 9), (4, 5), (7, 11), (1, 9)], ids=str)
def test_adaptive_avg_pool(size: tuple[int, int]) -> None:
    for channels in (1, 16, 33, 70):
        x = draw(2, channels, 6, 9)
        expected = in_torch(lambda t: F.adaptive_avg_pool2d(t, size), x)
        np.testing.assert_array_equal(one("adaptive_avg_pool2d", x, expected.shape, text_of(size=size)), expected)


def test_avg_pool_of_volumes() -> None:
    x = draw(2, 37, 4, 6, 8)
    expected = in_torch(lambda t: F.avg_pool3d(t, 2, 2), x)
    attrs = text_of(
        kernel=(2, 2, 2), stride=(2, 2, 2), padding=(0,) * 6, ceil_mode=False, count_include_pad=True, divisor=None
    )
    got = one("avg_pool3d", x, expected.shape, attrs)
    assert_as_vm(got, expected, "aten::avg_pool3d", x, [2] * 3, [2] * 3, [0] * 3, False, True, None)
    y = in_torch(lambda t: F.adaptive_avg_pool3d(t, (3, 2, 5)), x)
    assert_as_vm(one("adaptive_avg_pool3d", x, y.shape, "size=[3, 2, 5]"), y, "aten::adaptive_avg_pool3d", x, [3, 2, 5])


@pytest.mark.parametrize("channels", CHANNELS)
def test_mean_of_images(channels: int) -> None:
    for sides in ((7, 7), (1, 1), (5, 13)):
        x = draw(3, channels, *sides)
        expected = in_torch(lambda t: t.mean((2, 3)), x)
        np.testing.assert_array_equal(one("mean", x, expected.shape, "dims=[2, 3], keepdim=false"), expected)
        text = f"""
        graph g(%x: {u8(x.shape, SCALE, ZERO)}) {{
          %c: {u8(x.shape, SCALE, ZERO)} nhwc = copy(%x, force=true)
          %y: {u8((3, channels, 1, 1), SCALE, ZERO)} nhwc = mean(%c, dims=[2, 3], keepdim=true)
          %p: {u8((3, channels, 1, 1), SCALE, ZERO)} = copy(%y, force=true)
          return %p
        }}"""
        np.testing.assert_array_equal(run(text, x)[:, :, 0, 0], expected)


@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)], ids=str)
def test_mean_over_any_dims(dims: tuple[int, ...]) -> None:
    for shape in ((5, 6, 70), (3, 300, 1), (40, 71, 67), (1, 2, 3)):
        x = draw(*shape)
        with engine("qnnpack"):
            expected = stored(quantized(x, SCALE, ZERO).mean(dims))
        got = one("mean", x, expected.shape, f"dims={list(dims)}, keepdim=false")
        assert_as_vm(got, expected, "aten::mean.dim", x, list(dims), False, None)


def test_mean_of_much_is_cut_into_parts() -> None:
    x = draw(1, 20, 200, 200)
    expected = in_torch(lambda t: t.mean((2, 3)), x)
    text = f"""
    graph g(%x: {u8(x.shape, SCALE, ZERO)}) {{
      %c: {u8(x.shape, SCALE, ZERO)} nhwc = copy(%x, force=true)
      %y: {u8((1, 20), SCALE, ZERO)} = mean(%c, dims=[2, 3], keepdim=false)
      return %y
    }}"""
    np.testing.assert_array_equal(run(text, x), expected)


def test_mean_to_another_scale() -> None:
    x = draw(3, 33, 7, 5)
    expected = (x.astype(np.float64) - ZERO).mean((2, 3)) * SCALE / 0.0137 + 44
    assert_nearest(one("mean", x, (3, 33), "dims=[2, 3], keepdim=false", (0.0137, 44)), expected)


def test_a_mean_of_nothing_is_an_error() -> None:
    text = f"graph g(%x: {u8((3, 0), 0.1, 7)}) {{\n%y: {u8((3,), 0.1, 7)} = mean(%x, dims=[1], keepdim=false)\nreturn %y\n}}"
    with pytest.raises(penlight.PenlightError, match="at least one element to reduce"):
        model(text)(draw(3, 0))


@pytest.mark.parametrize("nhwc", [True, False])
@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("size", [(10, 14), (5, 7), (11, 3), (1, 1), (13, 7), (3, 20)], ids=str)
def test_bilinear(size: tuple[int, int], align: bool, nhwc: bool) -> None:
    for channels in (1, 3, 16, 35, 70):
        x = draw(2, channels, 5, 7)
        expected = stored(F.interpolate(quantized(x, SCALE, ZERO), size, mode="bilinear", align_corners=align))
        got = resized(x, expected.shape, size, align, (SCALE, ZERO), nhwc)
        np.testing.assert_array_equal(got, expected)


def resized(
    x: np.ndarray, shape: Sequence[int], size: Sequence[int], align: bool, to: tuple[float, int], nhwc: bool
) -> np.ndarray:
    lies = " nhwc" if nhwc else ""
    text = f"""
    graph g(%x: {u8(x.shape, SCALE, ZERO)}) {{
      %c: {u8(x.shape, SCALE, ZERO)}{lies} = copy(%x, force=true)
      %y: {u8(shape, *to)}{lies} = resize(%c, size={list(size)}, mode="linear", align_corners={str(align).lower()}, antialias=false, scales=[])
      %p: {u8(shape, *to)} = copy(%y, force=true)
      return %p
    }}"""
    return run(text, x)


def test_bilinear_to_another_scale() -> None:
    x = draw(2, 21, 5, 7)
    real = F.interpolate((torch.from_numpy(x).double() - ZERO) * SCALE, (9, 12), mode="bilinear").numpy()
    assert_nearest(resized(x, real.shape, (9, 12), False, (0.0431, 77), True), real / 0.0431 + 77)


def test_cubic_is_refused_in_words() -> None:
    text = f"""graph g(%x: {u8((1, 3, 4, 4), 0.1, 7)}) {{
      %y: {u8((1, 3, 8, 8), 0.1, 7)} = resize(%x, size=[8, 8], mode="cubic", align_corners=false, antialias=false, scales=[])
      return %y
    }}"""
    with pytest.raises(penlight.PenlightError, match="mode linear without antialias"):
        model(text)(draw(1, 3, 4, 4))


@pytest.mark.parametrize("value", [0.0, 1.3, -100.0, 1e9])
def test_pad_with_what_stands_for_a_number(value: float) -> None:
    x = draw(2, 5, 4, 6)
    expected = in_torch(lambda t: F.pad(t, (1, 2, 0, 3), value=value), x)
    got = one("pad", x, expected.shape, f'padding=[1, 2, 0, 3], value={value!r}, mode="constant"')
    np.testing.assert_array_equal(got, expected)


def test_nearest_and_reflected_move_integers() -> None:
    x = draw(2, 5, 4, 6)
    expected = in_torch(lambda t: F.interpolate(t, (8, 9), mode="nearest"), x)
    np.testing.assert_array_equal(
        one("resize_nearest", x, expected.shape, "size=[8, 9], exact=false, scales=[]"), expected
    )
    padded = np.pad(x, [(0, 0), (0, 0), (1, 0), (2, 1)], mode="reflect")
    got = one("pad", x, padded.shape, 'padding=[2, 1, 1, 0], value=0.0, mode="reflect"')
    np.testing.assert_array_equal(got, padded)


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (1, 16), (1, 17), (3, 33), (7, 19), (24, 64)], ids=str)
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 8, 9])
def test_planes_become_pixels(channels: int, size: tuple[int, int]) -> None:
    """An image in planes, quantized as pixels: every number at its place, NaN and what is out of range too."""
    x = np.random.default_rng(channels).normal(0, 3, (2, channels, *size)).astype(np.float32)
    x.flat[:: max(x.size // 7, 1)] = [np.nan, np.inf, -np.inf, 1e30, -1e30, 0.0, -0.0, 0.5][
        : len(x.flat[:: max(x.size // 7, 1)])
    ]
    got = run(
        f"""
        graph g(%x: f32[{", ".join(map(str, x.shape))}]) {{
          %q: {u8(x.shape, SCALE, ZERO)} nhwc = quantize(%x, low=0, high=255)
          %y: f32[{", ".join(map(str, x.shape))}] = dequantize(%q)
          return %y
        }}
        """,
        x,
    )
    real = torch.from_numpy(np.nan_to_num(x, nan=np.inf, posinf=np.inf, neginf=-np.inf))  # NaN is the largest
    want = torch.quantize_per_tensor(real, SCALE, ZERO, torch.quint8).dequantize()
    np.testing.assert_array_equal(got, want.numpy())


@pytest.mark.parametrize("channels", range(1, 71))
def test_planes_become_pixels_and_pixels_planes(channels: int) -> None:
    """Squares of bytes and what is left of them, on both sides, bit for bit; each image of a batch by itself, at any zero point."""
    rng = np.random.default_rng(channels)
    for pixels in {*range(1, 10), *rng.integers(10, 68, 6).tolist(), 16, 67, 131}:
        zero, low, high = int(rng.integers(0, 256)), int(rng.integers(0, 20)), int(rng.integers(200, 256))
        x = rng.normal(0, 5, (2, channels, 1, pixels)).astype(np.float32)
        x.flat[:: max(x.size // 9, 1)] = np.nan
        x.flat[1 :: max(x.size // 8, 2)] = np.inf
        x.flat[2 :: max(x.size // 7, 3)] = -np.inf
        there, back = there_and_back(x, zero, low, high)
        np.testing.assert_array_equal(there, back)


@pytest.mark.parametrize("channels", [2, 3, 4, 7, 16, 24, 65])
def test_planes_of_several_tasks_and_of_i8(channels: int) -> None:
    x = np.random.default_rng(channels).normal(0, 3, (1, channels, 71, 211)).astype(np.float32)
    there, back = there_and_back(x, -5, -128, 127, "i8")
    np.testing.assert_array_equal(there, back)


@pytest.mark.parametrize("channels", [3, 4, 13, 16, 21, 64])
def test_planes_of_a_crop_become_pixels(channels: int) -> None:
    """Rows of pixels that do not follow each other."""
    x = np.random.default_rng(channels).normal(0, 3, (2, channels, 9, 40)).astype(np.float32)
    there, back = there_and_back(x, 101, 0, 255, crop=3)
    np.testing.assert_array_equal(there, back)


def there_and_back(
    x: np.ndarray, zero: int, low: int, high: int, dtype: str = "u8", crop: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Planes to pixels to planes, and what numpy makes of them. Product and sum are rounded once, NaN is the largest."""
    whole = f"f32[{', '.join(map(str, x.shape))}]"
    given, x = x, x[..., crop:]
    real = f"f32[{', '.join(map(str, x.shape))}]"
    stored_as = f"{dtype}{real[3:]} q({SCALE!r}, {zero})"
    got = run(
        f"""
        graph g(%x: {whole}) {{
          %c: {real} = slice(%x, dim=3, start={crop}, end={given.shape[3]}, step=1)
          %q: {stored_as} nhwc = quantize(%c, low={low}, high={high})
          %y: {real} = dequantize(%q)
          return %y
        }}
        """,
        given,
    )
    inverse = np.float64(np.float32(1) / np.float32(SCALE))
    steps = (x.astype(np.float64) * inverse + zero).astype(np.float32)
    steps = np.rint(np.where(np.isnan(steps), np.float32(high), steps.clip(low, high)))
    return got, ((steps - np.float32(zero)) * np.float32(SCALE)).astype(np.float32)
