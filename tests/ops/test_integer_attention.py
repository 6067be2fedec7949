"""Attention of quantized bytes: as exact scores, exponentials rounded to bytes and exact products say, and near torch's attention of the
numbers that the bytes stand for. Every instruction set gives the same bits."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from penlight import PenlightError, _runtime
from penlight.file.reader import read
from penlight.ir.graph import Graph
from penlight.ir.parse import parse_graph
from tests.graphs import compiled

ISAS = [str(isa) for isa in _runtime.isas()]
SCALES, Y_SCALE, Y_ZERO = (0.021, 0.017, 0.013), 0.011, 120
TOLERANCE = 0.03  # of the largest result: what rounding 1 to 255 steps, and a result to bytes, may make of it
f4 = np.float32


@dataclass(frozen=True)
class Case:
    q: tuple[int, ...]
    k: tuple[int, ...]
    v: tuple[int, ...]
    zeros: tuple[int, int, int] = (120, 131, 110)
    scale: float = 0.2
    mask: tuple[int, ...] = ()
    causal: bool = False
    real: bool = True

    def __str__(self) -> str:
        return "-".join(str(v).replace(" ", "") for v in vars(self).values())


CASES = (
    Case((1, 3, 197, 64), (1, 3, 197, 64), (1, 3, 197, 64)),
    Case((1, 3, 197, 64), (1, 3, 197, 64), (1, 3, 197, 64), zeros=(128, 128, 128), scale=2.0, real=False),
    Case((2, 3, 29, 19), (2, 3, 37, 19), (2, 3, 37, 21), zeros=(0, 255, 0)),
    Case((2, 1, 29, 19), (3, 37, 19), (2, 3, 37, 21), real=False),
    Case((1, 2, 65, 16), (1, 2, 700, 16), (1, 2, 700, 40), scale=1.0),  # several blocks of keys
    Case((2, 2, 133, 32), (2, 2, 133, 32), (2, 2, 133, 32), causal=True, real=False),
    Case((1, 1, 300, 8), (1, 1, 600, 8), (1, 1, 600, 8), causal=True),
    Case((2, 3, 17, 8), (2, 3, 23, 8), (2, 3, 23, 8), mask=(17, 23)),
    Case((2, 3, 17, 8), (2, 3, 23, 8), (2, 3, 23, 8), mask=(3, 1, 23), real=False),
    Case((2, 4, 1, 64), (2, 4, 77, 64), (2, 4, 77, 64)),
    Case((1, 5, 1), (1, 1, 1), (1, 1, 300)),
)


def stored(case: Case) -> list[np.ndarray]:
    rng = np.random.default_rng(zlib.crc32(str(case).encode()))
    return [
        np.clip(rng.normal(z, 50, s), 0, 255).astype(np.uint8)
        for s, z in zip((case.q, case.k, case.v), case.zeros, strict=True)
    ]


def masked(case: Case) -> np.ndarray | None:
    return np.random.default_rng(9).standard_normal(case.mask).astype(f4) if case.mask else None


def torch_result(case: Case, bytes_: list[np.ndarray], mask: np.ndarray | None) -> np.ndarray:
    reals = [
        torch.from_numpy((x.astype(np.float64) - z) * s) for x, z, s in zip(bytes_, case.zeros, SCALES, strict=True)
    ]
    added = None if mask is None else torch.from_numpy(mask.astype(np.float64))
    return F.scaled_dot_product_attention(*reals, added, is_causal=case.causal, scale=case.scale).numpy()


def attention(case: Case) -> tuple[Graph, tuple[np.ndarray, ...], np.ndarray]:
    """A graph of reals, its inputs, and what torch makes of the integers' numbers."""
    bytes_, mask = stored(case), masked(case)
    want = torch_result(case, bytes_, mask)
    lines, inputs = [], []
    for name, x, scale, zero in zip("qkv", bytes_, SCALES, case.zeros, strict=True):
        inputs.append(f"%{name}: f32{list(x.shape)}")
        lines.append(f"%{name}q: u8{list(x.shape)} q({scale}, {zero}) = quantize(%{name}, low=0, high=255)")
        lines.append(f"%{name}f: f32{list(x.shape)} = dequantize(%{name}q)")
    if mask is not None:
        inputs.append(f"%m: f32{list(mask.shape)}")
    attrs = f"scale={case.scale}, causal={'true' if case.causal else 'false'}"
    lines.append(f"%c: f32{list(want.shape)} = attention(%qf, %kf, %vf, {'none' if mask is None else '%m'}, {attrs})")
    if not case.real:
        lines.append(f"%y: u8{list(want.shape)} q({Y_SCALE}, {Y_ZERO}) = quantize(%c, low=0, high=255)")
        lines.append(f"%z: f32{list(want.shape)} = dequantize(%y)")
        want = want.clip(-Y_ZERO * Y_SCALE, (255 - Y_ZERO) * Y_SCALE)
    body = "\n".join(lines)
    graph = parse_graph(f"graph forward({', '.join(inputs)}) {{\n{body}\nreturn {'%c' if case.real else '%z'}\n}}", {})
    reals = tuple((x.astype(f4) - f4(z)) * f4(s) for x, s, z in zip(bytes_, SCALES, case.zeros, strict=True))
    return graph, reals if mask is None else (*reals, mask), want


def by_blocks(case: Case) -> np.ndarray:
    """What the kernel says that it computes, in doubles; for keys of one block, and f32 results."""
    q, k, v = (x.astype(np.float64) - z for x, z in zip(stored(case), case.zeros, strict=True))
    mask = masked(case)
    scores = (q @ np.swapaxes(k, -1, -2)) * (SCALES[0] * SCALES[1] * case.scale) + (0 if mask is None else mask)
    if case.causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    steps = np.rint(e * 255)
    sums, total = steps / 255 @ v, e.sum(-1, keepdims=True)
    if mask is None and not case.causal:
        sums = sums + (total - steps.sum(-1, keepdims=True) / 255) * v.mean(-2, keepdims=True)
    else:
        total = steps.sum(-1, keepdims=True) / 255
    made: np.ndarray = sums * SCALES[2] / total
    return made


def as_here(case: Case) -> tuple[Graph, tuple[np.ndarray, ...], np.ndarray]:
    """The same with what this machine makes of it, near torch as the test below has it: for others, which must give every bit of it."""
    graph, inputs, _ = attention(case)
    return graph, inputs, compiled(graph.copy())(*inputs)[0]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_attention(case: Case) -> None:
    graph, inputs, want = attention(case)
    first = None
    for isa in ISAS:
        for threads in (1, 2):
            model = compiled(graph.copy(), isa=isa, threads=threads)
            got = model(*inputs)[0]
            first = got if first is None else first
            np.testing.assert_array_equal(got, first, err_msg=f"{isa}, {threads} threads")
        most = np.abs(want).max()
        np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE * most, err_msg=isa)
        steps = 0.0 if case.real else Y_SCALE * (want.size / 12) ** 0.5  # what rounding to bytes adds
        assert np.linalg.norm(got - want) < 0.012 * np.linalg.norm(want) + 1.1 * steps
        if case.real and case.k[-2] <= 256:
            exact = by_blocks(case)
            assert (
                np.mean(np.abs(got - exact) < 1e-5 * most) > 0.97
            )  # but for exponentials on the edge between two steps
            np.testing.assert_allclose(got, exact, rtol=0, atol=2 * np.abs(exact).max() / 255)
    assert "attention.q8" in read(model.to_bytes()).keys


def test_keys_that_are_hidden_add_nothing() -> None:
    """Not even by what rounding loses: other values of later keys do not change a bit."""
    text = """graph forward(%q: u8[1, 70, 8] q(0.05, 128), %k: u8[1, 70, 8] q(0.05, 120), %v: u8[1, 70, 8] q(0.05, 90)) {
      %y: f32[1, 70, 8] = attention(%q, %k, %v, none, scale=1.0, causal=true)
      return %y
    }"""
    rng = np.random.default_rng(0)
    q, k, v = (rng.integers(0, 256, (1, 70, 8)).astype(np.uint8) for _ in range(3))
    for isa in ISAS:
        model = compiled(text, isa=isa)
        (first,) = model(q, k, v)
        changed = v.copy()
        changed[:, 40:] = 255 - changed[:, 40:]
        (second,) = model(q, k, changed)
        np.testing.assert_array_equal(first[:, :40], second[:, :40])
        assert (first[:, 40:] != second[:, 40:]).any()


def test_masks_that_hide_everything_and_nan() -> None:
    text = """graph forward(%q: u8[3, 8] q(0.05, 128), %k: u8[5, 8] q(0.05, 120), %v: u8[5, 9] q(0.05, 90), %m: f32[3, 5]) {{
      %y: {} = attention(%q, %k, %v, %m, scale=1.0, causal=false)
      return %y
    }}"""
    rng = np.random.default_rng(0)
    q, k, v = (rng.integers(0, 256, s).astype(np.uint8) for s in ((3, 8), (5, 8), (5, 9)))
    mask = np.zeros((3, 5), f4)
    mask[1], mask[2, 3] = -np.inf, np.nan
    for isa in ISAS:
        (real,) = compiled(text.format("f32[3, 9]"), isa=isa)(q, k, v, mask)
        assert np.isfinite(real[0]).all()
        np.testing.assert_array_equal(real[1], 0)
        assert np.isnan(real[2]).all()
        (stored_,) = compiled(text.format("u8[3, 9] q(0.05, 77)"), isa=isa)(q, k, v, mask)
        np.testing.assert_array_equal(stored_[1], 77)
        np.testing.assert_array_equal(stored_[0], np.clip(np.rint(real[0] / f4(0.05)) + 77, 0, 255))


def test_nothing_to_look_at() -> None:
    text = """graph forward(%q: u8[n, l, 8] q(0.05, 128), %k: u8[n, s, 8] q(0.05, 120), %v: u8[n, s, 9] q(0.05, 90)) {
      %y: u8[n, l, 9] q(0.05, 77) = attention(%q, %k, %v, none, scale=1.0, causal=false)
      return %y
    }"""
    model = compiled(text)
    for n, length, s in ((2, 3, 0), (0, 3, 4), (2, 0, 4), (2, 3, 4)):
        shapes = (n, length, 8), (n, s, 8), (n, s, 9)
        (got,) = model(*(np.full(shape, 200, np.uint8) for shape in shapes))
        np.testing.assert_array_equal(got, np.full((n, length, 9), 77 + (200 - 90 if s else 0)))


def test_refused() -> None:
    text = """graph forward(%q: u8[3, {e}] q(0.05, 0), %k: u8[5, {e}] q(0.05, 0), %v: {v}) {{
      %y: {y} = attention(%q, %k, %v, none, scale=1.0, causal=false)
      return %y
    }}"""
    for e, v, y, words in (
        (33026, "u8[5, 9] q(0.05, 0)", "f32[3, 9]", "sums 32 bits hold.*33026 columns, 33025 at most"),
        (8, "f32[5, 9]", "f32[3, 9]", "a u8 tensor, as q is"),
        (8, "u8[5, 9]", "f32[3, 9]", "a quantized tensor of u8 with one scale"),
        (8, "u8[5, 9] q(0.05, 0)", "i8[3, 9] q(0.05, 0)", "results of f32, or of u8 with one scale"),
    ):
        values = np.zeros((5, 9), f4 if v.startswith("f32") else np.uint8)
        with pytest.raises(PenlightError, match=words):
            compiled(text.format(e=e, v=v, y=y))(np.zeros((3, e), np.uint8), np.zeros((5, e), np.uint8), values)


def test_values_wider_than_memory() -> None:
    """What is kept of every column must fit machines of 32 bits, also where there is no key, and so no value that would take memory."""
    wide = 1 << 28
    text = f"""graph forward(%q: u8[1, 8] q(0.05, 0), %k: u8[0, 8] q(0.05, 0), %v: u8[0, {wide}] q(0.05, 0)) {{
      %y: u8[1, {wide}] q(0.05, 0) = attention(%q, %k, %v, none, scale=1.0, causal=false)
      return %y
    }}"""
    with pytest.raises(PenlightError, match=f"at most 134217728 columns, got {wide}"):
        compiled(text)(np.zeros((1, 8), np.uint8), np.zeros((0, 8), np.uint8), np.zeros((0, wide), np.uint8))
