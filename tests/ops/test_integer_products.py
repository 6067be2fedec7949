"""Convolutions, linear and matmul of quantized bytes: every bit as integers and QNNPACK's rounding say, on every instruction set."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from penlight import PenlightError, _runtime
from penlight.file.reader import read
from penlight.ir.graph import Graph
from penlight.ir.parse import parse_graph
from penlight.ir.types import Quant
from tests.graphs import compiled

ISAS = [str(isa) for isa in _runtime.isas()]
X_SCALE, Y_SCALE, Y_ZERO, R_SCALE, R_ZERO = 0.02, 0.05, 31, 0.04, 100
f4 = np.float32


@dataclass(frozen=True)
class Case:
    shape: tuple[int, ...]
    outputs: int
    kernel: tuple[int, int] = (1, 1)
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    act: str = ""
    residual: bool = False
    zero: int = 77
    real: bool = False  # f32 results

    def __str__(self) -> str:
        return "-".join(str(v).replace(" ", "") for v in vars(self).values())


CASES = (
    Case((1, 8, 7, 9), 20),
    Case((1, 16, 1, 1), 1),
    Case((2, 3, 19, 21), 33, (3, 3), stride=2, padding=1),  # an image: runs of bytes
    Case((1, 3, 5, 4), 8, (3, 3), padding=3, dilation=2),  # whose windows are copied
    Case((1, 1, 9, 9), 7, (5, 5), padding=2),
    Case((1, 5, 3, 3), 16, zero=0),
    Case((2, 12, 9, 9), 40, (3, 3), padding=1, act="clamp"),
    Case((1, 64, 14, 14), 70, (3, 3), padding=4, dilation=4, residual=True, zero=0),  # taps on padding are left out
    Case((1, 64, 14, 14), 70, (3, 3), padding=4, dilation=4, residual=True),
    Case((2, 24, 9, 9), 36, (3, 3), padding=1, groups=3),
    Case((2, 30, 9, 9), 36, (3, 2), padding=1, groups=3),
    Case((3, 20, 6, 5), 24, (1, 3), stride=2, residual=True, act="clamp"),
    Case((1, 600, 5, 5), 33, (3, 3), padding=1, zero=255),
    Case((2, 12, 9, 9), 40, (3, 3), padding=1, real=True),
    Case((2, 12, 9, 9), 17, real=True, residual=True, act="clamp"),
)


def random(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Integers of x, weights, scales of outputs, bias, integers of the residual."""
    rng = np.random.default_rng(zlib.crc32(str(case).encode()))
    kh, kw = case.kernel
    x = rng.integers(0, 256, case.shape).astype(np.uint8)
    w = rng.integers(-128, 128, (case.outputs, case.shape[1] // case.groups, kh, kw)).astype(np.int8)
    depth = w[0].size
    scales = rng.uniform(0.2, 1.0, case.outputs) / depth**0.5 / 40
    out = F.conv2d(
        torch.zeros(case.shape), torch.zeros(w.shape), None, case.stride, case.padding, case.dilation, case.groups
    ).shape
    return x, w, scales, rng.standard_normal(case.outputs).astype(f4), rng.integers(0, 256, out).astype(np.uint8)


def graph_of(case: Case, w: np.ndarray, scales: np.ndarray, bias: np.ndarray, out: tuple[int, ...]) -> Graph:
    shape, result = list(case.shape), list(out)
    s, p, d = case.stride, case.padding, case.dilation
    args = "[0.0, 6.0]" if case.act else "[]"
    residual = "none" if not case.residual else "%r" if case.real else "%rf"
    quantized = f"""
      %y: u8{result} q({Y_SCALE}, {Y_ZERO}) = quantize(%c, low=0, high=255)
      %z: f32{result} = dequantize(%y)"""
    graph = parse_graph(
        f"""graph forward(%x: f32{shape}, %r: f32{result}) {{
      @w: i8{list(w.shape)} q(axis=0)
      @b: f32[{case.outputs}]
      %q: u8{shape} q({X_SCALE}, {case.zero}) = quantize(%x, low=0, high=255)
      %rq: u8{result} q({R_SCALE}, {R_ZERO}) = quantize(%r, low=0, high=255)
      %xf: f32{shape} = dequantize(%q)
      %rf: f32{result} = dequantize(%rq)
      %wf: f32{list(w.shape)} = dequantize(@w)
      %c: f32{result} = conv2d(%xf, %wf, @b, {residual}, stride=[{s}, {s}], padding=[{p}, {p}, {p}, {p}], dilation=[{d}, {d}], groups={case.groups}, act="{case.act}", act_args={args}){"" if case.real else quantized}
      return {"%c" if case.real else "%z"}
    }}""",
        {"w": w, "b": bias},
    )
    constant = graph.constants["w"]
    constant.type = replace(constant.tensor, quant=Quant(tuple(scales), (0,) * case.outputs, 0))
    return graph


def expected(
    case: Case, x: np.ndarray, w: np.ndarray, scales: np.ndarray, bias: np.ndarray, r: np.ndarray
) -> np.ndarray:
    """In integers and f32, operation by operation: doubles hold the sums exactly."""
    sums = F.conv2d(
        torch.tensor(x.astype(np.float64) - case.zero), torch.tensor(w.astype(np.float64)), None, case.stride, case.padding,
        case.dilation, case.groups,
    ).numpy()  # fmt: skip

    def column(values: np.ndarray) -> np.ndarray:
        return values[None, :, None, None]

    if case.real:
        y = sums.astype(f4) * column(scales.astype(f4) * f4(X_SCALE)) + column(bias)
        y = y + (r.astype(f4) - f4(R_ZERO)) * f4(R_SCALE) if case.residual else y
        return np.clip(y, 0, 6) if case.act else y
    inverse = f4(1) / (scales * X_SCALE).astype(f4)
    sums = sums + column(np.rint((bias * inverse).astype(np.float64)))
    steps = sums.astype(f4) * column(scales.astype(f4) * f4(X_SCALE) * (f4(1) / f4(Y_SCALE)))
    if case.residual:
        steps = steps + (r.astype(f4) - f4(R_ZERO)) * (f4(R_SCALE) / f4(Y_SCALE))
    low, high = (Y_ZERO, min(255, Y_ZERO + round(6 / Y_SCALE))) if case.act else (0, 255)
    return np.clip(np.rint(steps) + Y_ZERO, low, high)


def convolution(case: Case) -> tuple[Graph, tuple[np.ndarray, ...], np.ndarray]:
    """A graph of reals, its inputs, and the result."""
    x, w, scales, bias, r = random(case)
    graph = graph_of(case, w, scales, bias, r.shape)
    reals = (x.astype(f4) - f4(case.zero)) * f4(X_SCALE), (r.astype(f4) - f4(R_ZERO)) * f4(R_SCALE)
    want = expected(case, x, w, scales, bias, r)
    return graph, reals, want if case.real else (want.astype(f4) - f4(Y_ZERO)) * f4(Y_SCALE)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolution(case: Case) -> None:
    graph, reals, want = convolution(case)
    for isa in ISAS:
        for threads in (1, 2):
            model = compiled(graph.copy(), isa=isa, threads=threads)
            (got,) = model(*reals)
            np.testing.assert_array_equal(got, want, err_msg=f"{isa}, {threads} threads")
    assert any(key.startswith("conv2d.q8") for key in read(model.to_bytes()).keys)


LINEARS = [(1, 64, 100), (5, 37, 24), (70, 9, 65), (3, 1, 1), (33, 2048, 300), (0, 8, 8)]


def linear(rows: int, depth: int, columns: int, real: bool) -> tuple[Graph, tuple[np.ndarray, ...], np.ndarray]:
    """A graph of reals, its inputs, and the result."""
    rng = np.random.default_rng(depth)
    x = rng.integers(0, 256, (rows, depth)).astype(np.uint8)
    w = rng.integers(-128, 128, (columns, depth)).astype(np.int8)
    x[:1], x[-1:], w[:1] = 0, 255, -128  # the largest products that there are, of x less 128 too
    scale = f4(1 / depth**0.5 / 40)
    bias = rng.standard_normal(columns).astype(f4)
    tail = (
        ""
        if real
        else f"""
      %y: u8[{rows}, {columns}] q({Y_SCALE}, {Y_ZERO}) = quantize(%c, low=0, high=255)
      %z: f32[{rows}, {columns}] = dequantize(%y)"""
    )
    text = f"""graph forward(%x: f32[{rows}, {depth}]) {{
      @w: i8[{columns}, {depth}] q({float(scale)!r}, 0)
      @b: f32[{columns}]
      %q: u8[{rows}, {depth}] q({X_SCALE}, 13) = quantize(%x, low=0, high=255)
      %xf: f32[{rows}, {depth}] = dequantize(%q)
      %wf: f32[{columns}, {depth}] = dequantize(@w)
      %c: f32[{rows}, {columns}] = linear(%xf, %wf, @b, none, act="", act_args=[]){tail}
      return {"%c" if real else "%z"}
    }}"""
    sums = (x.astype(np.float64) - 13) @ w.T.astype(np.float64)
    if real:
        want = sums.astype(f4) * (scale * f4(X_SCALE)) + bias
    else:
        sums = sums + np.rint((bias * (f4(1) / f4(float(scale) * X_SCALE))).astype(np.float64))
        want = np.clip(np.rint(sums.astype(f4) * (scale * f4(X_SCALE) * (f4(1) / f4(Y_SCALE)))) + Y_ZERO, 0, 255)
        want = (want.astype(f4) - f4(Y_ZERO)) * f4(Y_SCALE)
    return parse_graph(text, {"w": w, "b": bias}), ((x.astype(f4) - f4(13)) * f4(X_SCALE),), want


@pytest.mark.parametrize(("rows", "depth", "columns"), LINEARS)
@pytest.mark.parametrize("real", [False, True])
def test_linear(rows: int, depth: int, columns: int, real: bool) -> None:
    graph, inputs, want = linear(rows, depth, columns, real)
    for isa in ISAS:
        model = compiled(graph.copy(), isa=isa, threads=2)
        (got,) = model(*inputs)
        np.testing.assert_array_equal(got, want, err_msg=isa)
    assert "linear.q8" in read(model.to_bytes()).keys


def test_sums_beyond_the_largest_step() -> None:
    """A scale above 1: sums that 32 bits cannot hold as steps are limited all the same."""
    text = """graph forward(%x: f32[2, 4096]) {
      @w: i8[16, 4096] q(100000.0, 0)
      %q: u8[2, 4096] q(1.0, 0) = quantize(%x, low=0, high=255)
      %xf: f32[2, 4096] = dequantize(%q)
      %wf: f32[16, 4096] = dequantize(@w)
      %c: f32[2, 16] = linear(%xf, %wf, none, none, act="", act_args=[])
      %y: u8[2, 16] q(1.0, 7) = quantize(%c, low=0, high=255)
      %z: f32[2, 16] = dequantize(%y)
      return %z
    }"""
    w = np.full((16, 4096), 127, np.int8)
    w[1] = -127
    w[2] = 0
    for isa in ISAS:
        (got,) = compiled(text, {"w": w}, isa=isa)(np.full((2, 4096), 255, f4))
        np.testing.assert_array_equal(got[:, :3] + 7, [[255, 0, 7]] * 2)


@dataclass(frozen=True)
class Matmul:
    """Shapes of a and b as they lie; a dim order turns them into what is multiplied."""

    a: tuple[int, ...]
    b: tuple[int, ...]
    zeros: tuple[int, int] = (77, 140)
    real: bool = False
    a_dims: tuple[int, ...] | None = None
    b_dims: tuple[int, ...] | None = None

    def __str__(self) -> str:
        return "-".join(str(v).replace(" ", "") for v in vars(self).values())


MATMULS = (
    Matmul((48, 64), (64, 32)),
    Matmul((48, 64), (64, 32), zeros=(0, 128), real=True),
    Matmul((29, 37), (37, 43), zeros=(255, 0)),
    Matmul((29, 38), (38, 43), zeros=(3, 255), real=True),
    Matmul((1, 1), (1, 1)),
    Matmul((1, 70), (70, 51), zeros=(0, 0)),
    Matmul((3, 0), (0, 5)),
    Matmul((0, 4), (4, 5)),
    Matmul((5, 131), (600, 131), b_dims=(1, 0)),  # columns lie along memory; more than one block of them
    Matmul((2, 1, 57, 20), (3, 20, 19)),
    Matmul((17, 20), (2, 3, 20, 19), real=True),
    Matmul((2, 66, 17), (2, 66, 19), a_dims=(0, 2, 1)),
    Matmul((2, 61, 3, 24), (2, 61, 3, 24), a_dims=(0, 2, 1, 3), b_dims=(0, 2, 3, 1)),  # heads
    Matmul((2, 3, 61, 61), (2, 61, 3, 24), b_dims=(0, 2, 1, 3), zeros=(0, 131)),
    Matmul((4, 33025), (33025, 7), zeros=(0, 0), real=True),  # the longest that 32 bits hold
)


def matmul(case: Matmul) -> tuple[Graph, tuple[np.ndarray, ...], np.ndarray]:
    """A graph of reals, its inputs, and the result."""
    rng = np.random.default_rng(zlib.crc32(str(case).encode()))
    stored = [rng.integers(0, 256, shape).astype(np.uint8) for shape in (case.a, case.b)]
    stored[0][..., :1, :], stored[0][..., -1:, :], stored[1][..., :1] = 0, 255, 0  # the largest products that there are
    if case.zeros == (0, 0):
        stored[1][..., :1] = 255
    scales = X_SCALE, 0.011
    orders = [d or tuple(range(x.ndim)) for d, x in zip((case.a_dims, case.b_dims), stored, strict=True)]
    sides = [x.transpose(d) for x, d in zip(stored, orders, strict=True)]
    sums = np.matmul(*(x.astype(np.float64) - z for x, z in zip(sides, case.zeros, strict=True)))
    spread = f4(float(np.abs(sums).max(initial=1)) / 200 * X_SCALE * 0.011)
    lines = []
    for name, x, side, order, scale, zero in zip("ab", stored, sides, orders, scales, case.zeros, strict=True):
        q = f"q({scale}, {zero})"
        lines += [
            f"%{name}q: u8{list(x.shape)} {q} = quantize(%{name}, low=0, high=255)",
            f"%{name}f: f32{list(x.shape)} = dequantize(%{name}q)",
            f"%{name}t: f32{list(side.shape)} = permute(%{name}f, dims={list(order)})",
        ]
    lines.append(f"%c: f32{list(sums.shape)} = matmul(%at, %bt)")
    if not case.real:
        lines.append(f"%y: u8{list(sums.shape)} q({float(spread)!r}, {Y_ZERO}) = quantize(%c, low=0, high=255)")
        lines.append(f"%z: f32{list(sums.shape)} = dequantize(%y)")
    inputs = ", ".join(f"%{name}: f32{list(x.shape)}" for name, x in zip("ab", stored, strict=True))
    body = "\n".join(lines)
    graph = parse_graph(f"graph forward({inputs}) {{\n{body}\nreturn {'%c' if case.real else '%z'}\n}}", {})
    reals = tuple((x.astype(f4) - f4(z)) * f4(s) for x, s, z in zip(stored, scales, case.zeros, strict=True))
    scale = f4(scales[1]) * f4(scales[0])
    if case.real:
        return graph, reals, sums.astype(f4) * scale
    want = np.clip(np.rint(sums.astype(f4) * (scale * (f4(1) / spread))) + Y_ZERO, 0, 255)
    return graph, reals, (want.astype(f4) - f4(Y_ZERO)) * spread


@pytest.mark.parametrize("case", MATMULS, ids=str)
def test_matmul(case: Matmul) -> None:
    graph, reals, want = matmul(case)
    for isa in ISAS:
        for threads in (1, 2):
            model = compiled(graph.copy(), isa=isa, threads=threads)
            (got,) = model(*reals)
            np.testing.assert_array_equal(got, want, err_msg=f"{isa}, {threads} threads")
    assert "matmul.q8" in read(model.to_bytes()).keys


def test_matmul_too_long_for_32_bits() -> None:
    """A file that asks for it is refused in words; the compiler leaves such a product, and one of unknown length, in floats."""
    graph, reals, _ = matmul(Matmul((4, 33026), (33026, 7), zeros=(0, 0)))
    model = compiled(graph)
    assert "matmul.q8" not in read(model.to_bytes()).keys
    model(*reals)
    text = """graph forward(%a: u8[4, {k}] q(0.1, {za}), %b: u8[{k}, 7] q(0.1, {zb})) {{
      %y: u8[4, 7] q(300.0, 3) = matmul(%a, %b)
      return %y
    }}"""
    for za, zb, most in ((0, 0, 33025), (128, 128, 131071), (100, 0, 54332)):
        a, b = np.full((4, most + 1), 255, np.uint8), np.full((most + 1, 7), 255, np.uint8)
        with pytest.raises(PenlightError, match=f"sums 32 bits hold.*{most + 1} columns, {most} at most"):
            compiled(text.format(k=most + 1, za=za, zb=zb))(a, b)
        a, b = np.full((4, most), 255, np.uint8), np.full((most, 7), 255, np.uint8)
        compiled(text.format(k=most, za=za, zb=zb))(a, b)


def test_matmul_of_other_tensors() -> None:
    text = """graph forward(%a: u8[4, 8] q(0.1, 3), %b: u8[8, 7]{b}) {{
      %y: {y} = matmul(%a, %b)
      return %y
    }}"""
    a, b = np.zeros((4, 8), np.uint8), np.zeros((8, 7), np.uint8)
    for given, result, words in (
        ("", "u8[4, 7] q(0.1, 3)", "a quantized tensor of u8 with one scale"),
        (" q(0.1, 3)", "i8[4, 7] q(0.1, 3)", "results of f32, or of u8 with one scale"),
    ):
        with pytest.raises(PenlightError, match=words):
            compiled(text.format(b=given, y=result))(a, b)


def test_matmul_beyond_the_largest_step() -> None:
    """A scale above 1: sums that 32 bits cannot hold as steps are limited all the same."""
    text = """graph forward(%a: u8[3, 4096] q(100.0, 128), %b: u8[4096, 33] q(100.0, 128)) {
      %y: u8[3, 33] q(0.001, 7) = matmul(%a, %b)
      return %y
    }"""
    a, b = np.full((3, 4096), 255, np.uint8), np.full((4096, 33), 255, np.uint8)
    a[1], a[2] = 0, 128
    for isa in ISAS:
        (got,) = compiled(text, isa=isa)(a, b)
        np.testing.assert_array_equal(got, [[255] * 33, [0] * 33, [7] * 33])


def test_matmul_of_dynamic_sizes() -> None:
    text = """graph forward(%a: f32[n, m, 24], %b: f32[n, 24, m]) {
      %aq: u8[n, m, 24] q(0.02, 120) = quantize(%a, low=0, high=255)
      %bq: u8[n, 24, m] q(0.01, 99) = quantize(%b, low=0, high=255)
      %af: f32[n, m, 24] = dequantize(%aq)
      %bf: f32[n, 24, m] = dequantize(%bq)
      %c: f32[n, m, m] = matmul(%af, %bf)
      %bt: f32[n, m, 24] = permute(%bf, dims=[0, 2, 1])
      %d: f32[n, m, 24] = matmul(%c, %bt)
      return %c, %d
    }"""
    model = compiled(text)
    assert {"matmul.q8", "matmul.f32"} <= set(read(model.to_bytes()).keys)
    rng = np.random.default_rng(0)
    for n, m in ((1, 1), (3, 17), (0, 4), (2, 70)):
        a, b = rng.uniform(-2, 2, (n, m, 24)).astype(f4), rng.uniform(-1, 1, (n, 24, m)).astype(f4)
        left = torch.quantize_per_tensor(torch.from_numpy(a), 0.02, 120, torch.quint8)
        right = torch.quantize_per_tensor(torch.from_numpy(b), 0.01, 99, torch.quint8)
        want = torch.matmul(left.dequantize().double(), right.dequantize().double()).numpy()
        np.testing.assert_allclose(model(a, b)[0], want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("level", [1, 127])
def test_sums_beyond_32_bits_are_floats(level: int) -> None:
    """A layer so deep that its sums could wrap computes in floats, unless its weights are too small for that."""
    depth = 70_000
    text = f"""graph forward(%x: f32[1, {depth}]) {{
      @w: i8[3, {depth}] q(0.001, 0)
      %q: u8[1, {depth}] q(0.02, 0) = quantize(%x, low=0, high=255)
      %xf: f32[1, {depth}] = dequantize(%q)
      %wf: f32[3, {depth}] = dequantize(@w)
      %c: f32[1, 3] = linear(%xf, %wf, none, none, act="", act_args=[])
      return %c
    }}"""
    model = compiled(text, {"w": np.full((3, depth), level, np.int8)})
    (got,) = model(np.full((1, depth), 255 * 0.02, f4))
    np.testing.assert_allclose(
        got, 255 * 0.02 * 0.001 * level * depth, rtol=1e-3
    )  # of sums in floats; one that wrapped is below 0
    assert ("linear.q8" in read(model.to_bytes()).keys) == (level == 1)
