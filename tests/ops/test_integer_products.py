"""Convolutions and linear of quantized bytes: every bit as integers and QNNPACK's rounding say, on every instruction set."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from penlight import _runtime
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
