"""add, mul and lookup on quantized bytes, bit for bit as torch's qnnpack engine has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

import penlight
from tests.ops.integers import model, quantized, run, stored, u8
from tests.vm.quantized import engine

SCALES = {
    "near": ((0.02, 3), (0.05, 200), (0.06, 100)),
    "zero points at the ends": ((0.1, 0), (0.1, 255), (0.1, 0)),
    "one is tiny": ((1e-4, 128), (0.5, 10), (0.5, 12)),
    "too far apart for fixed point": ((1e-5, 128), (0.5, 10), (0.5, 12)),
    "large results": ((0.9, 13), (0.7, 77), (0.004, 99)),
    "beyond all results": ((1e20, 13), (1e20, 77), (1e-20, 99)),
}
TORCH: dict[str, Callable[..., torch.Tensor]] = {"add": torch.ops.quantized.add, "mul": torch.ops.quantized.mul}


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).integers(0, 256, shape, dtype=np.uint8)


def binary(
    op: str, a: np.ndarray, b: np.ndarray, scales: str = "near", layout: str = ""
) -> tuple[np.ndarray, np.ndarray]:
    """What Penlight gives, and torch."""
    (sa, za), (sb, zb), (sy, zy) = SCALES[scales]
    shape = np.broadcast_shapes(a.shape, b.shape)
    copies = [
        f"%{n}1: {u8(x.shape, s, z)}{layout} = copy(%{n}, force=true)"
        for n, x, s, z in (("a", a, sa, za), ("b", b, sb, zb))
    ]
    text = f"""
    graph g(%a: {u8(a.shape, sa, za)}, %b: {u8(b.shape, sb, zb)}) {{
      {copies[0]}
      {copies[1]}
      %y: {u8(shape, sy, zy)}{layout} = {op}(%a1, %b1)
      %p: {u8(shape, sy, zy)} = copy(%y, force=true)
      return %p
    }}"""
    got = run(text, a, b)
    if scales == "beyond all results" or (
        op == "add" and scales == "too far apart for fixed point"
    ):  # qnnpack refuses, or gives noise
        return got, in_f32(op, a, b, scales)
    with engine("qnnpack"):
        expected = stored(TORCH[op](quantized(a, sa, za), quantized(b, sb, zb), sy, zy))
    if op == "add" and a.shape != b.shape:  # by torch's own loops, whose rounding depends on the processor
        assert abs(expected.astype(int) - got).max(initial=0) <= 1
        expected = in_f32(op, a, b, scales)
    return got, expected


def in_f32(op: str, a: np.ndarray, b: np.ndarray, scales: str) -> np.ndarray:
    """What integers stand for, added or multiplied, and what stands for that: each step rounded to f32."""
    (sa, za), (sb, zb), (sy, zy) = ((np.float32(s), z) for s, z in SCALES[scales])
    x, y = a.astype(np.int32) - za, b.astype(np.int32) - zb
    with np.errstate(over="ignore"):
        reals = (
            x.astype(np.float32) * sa + y.astype(np.float32) * sb
            if op == "add"
            else (x * y).astype(np.float64) * sa * sb
        )
        return (np.rint(np.asarray(reals * (np.float32(1) / sy))).astype(np.float64) + zy).clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("op", TORCH)
def test_scales(op: str, scales: str) -> None:
    pairs = np.stack(np.meshgrid(np.arange(256, dtype=np.uint8), np.arange(256, dtype=np.uint8)))
    got, expected = binary(op, pairs[0], pairs[1], scales)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("channels", [*range(1, 20), 31, 32, 33, 63, 64, 65, 70])
@pytest.mark.parametrize("op", TORCH)
def test_channels(op: str, channels: int) -> None:
    got, expected = binary(op, draw(2, channels, 3, 5), draw(2, channels, 3, 5, seed=1), layout=" nhwc")
    np.testing.assert_array_equal(got, expected)


BROADCAST: list[tuple[Sequence[int], Sequence[int]]] = [
    ((2, 37, 6, 5), (2, 37, 1, 1)),
    ((2, 37, 1, 1), (2, 37, 6, 5)),
    ((2, 5, 6, 7), (6, 1)),
    ((3, 1, 5), (1, 4, 1)),
    ((70,), (3, 70)),
    ((4, 5), ()),
    ((3, 0, 5), (3, 1, 5)),
    ((2, 3, 4, 5), (1, 1, 1, 5)),
]


@pytest.mark.parametrize("shapes", BROADCAST, ids=str)
@pytest.mark.parametrize("op", TORCH)
def test_broadcast(op: str, shapes: tuple[Sequence[int], Sequence[int]]) -> None:
    layouts = ["", " nhwc"] if len(shapes[0]) == len(shapes[1]) == 4 else [""]
    for layout in layouts:
        got, expected = binary(op, draw(*shapes[0]), draw(*shapes[1], seed=1), layout=layout)
        np.testing.assert_array_equal(got, expected)


def test_slices_and_concatenation_in_place() -> None:
    """Inputs and outputs that lie inside of larger tensors."""
    x = draw(2, 40, 9, 7)
    text = f"""
    graph g(%x: {u8(x.shape, 0.1, 7)}) {{
      %a: {u8((2, 19, 9, 7), 0.1, 7)} = slice(%x, dim=1, start=1, end=20, step=1)
      %b: {u8((2, 19, 9, 7), 0.1, 7)} = slice(%x, dim=1, start=21, end=40, step=1)
      %s: {u8((2, 19, 9, 7), 0.2, 9)} = add(%a, %b)
      %p: {u8((2, 19, 9, 7), 0.2, 9)} = mul(%a, %s)
      %m: {u8((2, 19, 9, 7), 0.2, 9)} = max_pool2d(%s, kernel=[3, 3], stride=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1], ceil_mode=false)
      %y: {u8((2, 57, 9, 7), 0.2, 9)} = cat(%s, %p, %m, dim=1)
      return %y
    }}"""
    with engine("qnnpack"):
        a, b = quantized(x[:, 1:20].copy(), 0.1, 7), quantized(x[:, 21:].copy(), 0.1, 7)
        s = torch.ops.quantized.add(a, b, 0.2, 9)
        p = torch.ops.quantized.mul(a, s, 0.2, 9)
        m = torch.nn.functional.max_pool2d(s, 3, 1, 1)
        expected = np.concatenate([stored(s), stored(p), stored(m)], 1)
    np.testing.assert_array_equal(run(text, x), expected)


def test_large_ones_are_cut_into_tasks() -> None:
    a, b = draw(3, 67, 41, 43), draw(3, 67, 41, 43, seed=1)
    for op in TORCH:
        got, expected = binary(op, a, b, layout=" nhwc")
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("shape", [(1,), (63,), (300,), (2, 33, 5, 7), (3, 64, 40, 41), (0, 4), (7, 1, 9)], ids=str)
def test_lookup(shape: Sequence[int]) -> None:
    x, table = draw(*shape), np.random.default_rng(5).permutation(256).astype(np.uint8)
    text = f"""
    graph g(%x: {u8(shape, 0.1, 7)}) {{
      @table: u8[256]
      %y: {u8(shape, 0.2, 9)} = lookup(%x, @table)
      return %y
    }}"""
    np.testing.assert_array_equal(run(text, x, table=table), table[x])


def test_lookup_of_strided_bytes() -> None:
    x, table = draw(5, 6, 70), np.random.default_rng(5).permutation(256).astype(np.uint8)
    text = f"""
    graph g(%x: {u8((5, 6, 70), 0.1, 7)}) {{
      @table: u8[256]
      %s: {u8((5, 6, 24), 0.1, 7)} = slice(%x, dim=2, start=0, end=70, step=3)
      %t: {u8((24, 6, 5), 0.1, 7)} = permute(%s, dims=[2, 1, 0])
      %y: {u8((24, 6, 5), 0.2, 9)} = lookup(%t, @table)
      return %y
    }}"""
    np.testing.assert_array_equal(run(text, x, table=table), table[x[:, :, ::3].transpose(2, 1, 0)])


def test_errors_in_words() -> None:
    x = draw(4)
    text = f"graph g(%x: {u8((4,), 0.1, 7)}) {{\n@t: u8[255]\n%y: {u8((4,), 0.1, 7)} = lookup(%x, @t)\nreturn %y\n}}"
    with pytest.raises(penlight.PenlightError, match="a table of 256 numbers of u8"):
        model(text, t=np.zeros(255, np.uint8))(x)
    text = f"graph g(%x: {u8((4,), 0.1, 7)}, %z: u8[4]) {{\n%y: {u8((4,), 0.1, 7)} = add(%x, %z)\nreturn %y\n}}"
    with pytest.raises(penlight.PenlightError, match="a quantized tensor of u8 with one scale"):
        model(text)(x, x)
    text = f"graph g(%x: {u8((4,), 0.1, 7)}) {{\n%y: f32[4] = mul(%x, %x)\nreturn %y\n}}"
    with pytest.raises(penlight.PenlightError, match="a result of u8 with one scale"):
        model(text)(x)
    text = f"graph g(%x: {u8((4,), 0.1, 7)}, %z: {u8((3,), 0.1, 7)}) {{\n%y: {u8((4,), 0.1, 7)} = add(%x, %z)\nreturn %y\n}}"
    with pytest.raises(penlight.PenlightError, match="a size that broadcasts"):
        model(text)(x, x[:3])
