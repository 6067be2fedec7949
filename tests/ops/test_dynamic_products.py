"""Products whose input is quantized in the run: every bit as torch's qnnpack and as the VM has it, on every instruction set."""

from __future__ import annotations

from dataclasses import replace

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
from tests.vm.quantized import engine

pytestmark = pytest.mark.filterwarnings("ignore")
ISAS = [str(isa) for isa in _runtime.isas()]
SHAPES = [
    (1, 7, 5),
    (3, 16, 16),
    (9, 33, 17),
    (70, 128, 65),
    (1, 256, 200),
    (2, 1, 1),
    (8, 300, 3),
    (5, 1001, 31),
    (0, 8, 6),
]


def linear(rows: int, w: np.ndarray, b: np.ndarray, quant: Quant, high: int = 255) -> Graph:
    n, k = w.shape
    graph = parse_graph(
        f"""graph forward(%x: f32[{rows}, {k}]) {{
      @w: i8[{n}, {k}] q(1.0, 0)
      @b: f32[{n}]
      %s: u8[{rows}, {k}] q(1.0, 0), %t: f32[2] = quantize_dynamic(%x, high={high}, rule="torch", eps=0.0)
      %a: f32[{rows}, {k}] = dequantize_dynamic(%s, %t)
      %c: f32[{n}, {k}] = dequantize(@w)
      %y: f32[{rows}, {n}] = linear(%a, %c, @b, none, act="", act_args=[])
      return %y
    }}""",
        {"w": w, "b": b},
    )
    weight = graph.constants["w"]
    weight.type = replace(weight.tensor, quant=quant)
    return graph


@pytest.mark.parametrize("channels", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_linear_is_qnnpacks(shape: tuple[int, int, int], channels: bool) -> None:
    rows, k, n = shape
    rng = torch.Generator().manual_seed(k)
    real, b = torch.randn(n, k, generator=rng), torch.randn(n, generator=rng) * 3
    x = torch.randn(rows, k, generator=rng) * 2 + 0.5
    with engine("qnnpack"):
        scales = torch.rand(n, generator=rng).double() * 0.02 + 0.01
        if channels:
            w = torch.quantize_per_channel(real, scales, torch.zeros(n, dtype=torch.int64), 0, torch.qint8)
            quant = Quant(tuple(scales.tolist()), (0,) * n, 0)
        else:
            w, quant = torch.quantize_per_tensor(real, 0.02, 0, torch.qint8), Quant.of(0.02, 0)
        expected = torch.ops.quantized.linear_dynamic(x, torch.ops.quantized.linear_prepack(w, b), False).numpy()
    graph = linear(rows, w.int_repr().numpy(), b.numpy(), quant)
    for isa in ISAS:
        for threads in (1, 2):
            model = compiled(graph.copy(), isa=isa, threads=threads)
            assert np.array_equal(model(x.numpy())[0], expected), isa


def test_it_is_in_integers(tmp_path: object) -> None:
    w, b = np.ones((8, 12), np.int8), np.zeros(8, np.float32)
    model = compiled(linear(3, w, b, Quant.of(0.1, 0)))
    path = f"{tmp_path}/m.pen"
    model.save(path)
    assert set(read(path).keys) == {"quantize_dynamic.f32", "columns_dynamic.i32", "linear.q8"}


def test_seven_bits_are_fbgemms() -> None:
    torch.manual_seed(0)
    w, b, x = (
        torch.quantize_per_tensor(torch.randn(33, 70), 0.02, 0, torch.qint8),
        torch.randn(33),
        torch.randn(9, 70) * 3,
    )
    graph = linear(9, w.int_repr().numpy(), b.numpy(), Quant.of(0.02, 0), high=127)
    with engine("fbgemm"):
        packed = torch.ops.quantized.linear_prepack(w, b)
        expected = torch.ops.quantized.linear_dynamic(x, packed, True)
        full = torch.ops.quantized.linear_dynamic(x, packed, False)
    got = torch.from_numpy(compiled(graph)(x.numpy())[0])
    assert (got - expected).abs().max() <= 1e-6 * expected.abs().max()
    assert (got - full).abs().max() > 1e-3 * expected.abs().max()  # the difference that the flag makes


CONVOLUTIONS = [
    ((1, 8, 7, 9), 20, 1, 0, 1, 128),
    ((2, 3, 19, 21), 33, 3, 1, 1, 128),
    ((2, 12, 9, 9), 40, 3, 1, 1, 0),
    ((1, 70, 9, 11), 70, 3, 1, 70, 128),  # depthwise
    ((1, 24, 9, 9), 24, 5, 2, 24, 0),
    ((2, 24, 9, 9), 36, 3, 1, 3, 128),
]


def convolution(
    case: tuple[tuple[int, int, int, int], int, int, int, int, int],
) -> tuple[Graph, np.ndarray, np.ndarray]:
    """A graph, its input, and the result by the rule: levels from a zero point that is known, and exact sums of them; padding is 0."""
    shape, outputs, kernel, padding, groups, zero = case
    rng = np.random.default_rng(outputs)
    x = rng.standard_normal(shape).astype(np.float32)
    x = np.abs(x) if zero == 0 else x
    w = rng.integers(-127, 128, (outputs, shape[1] // groups, kernel, kernel)).astype(np.int8)
    b = rng.standard_normal(outputs).astype(np.float32)
    scales = rng.uniform(0.001, 0.01, outputs).astype(np.float32)
    step = np.float32(max(x.max() / np.float32(255 - zero), -x.min() / np.float32(zero) if zero else 0.0))
    levels = np.clip(np.rint(x.astype(np.float64) * (np.float32(1) / step)), -zero, 255 - zero)
    sums = F.conv2d(torch.from_numpy(levels), torch.from_numpy(w).double(), None, 1, padding, 1, groups).numpy()
    expected = sums.astype(np.float32) * (scales * step)[:, None, None] + b[:, None, None]
    out, p = list(expected.shape), padding
    graph = parse_graph(
        f"""graph forward(%x: f32{list(shape)}) {{
      @w: i8{list(w.shape)} q(1.0, 0)
      @b: f32[{outputs}]
      %s: u8{list(shape)} q(1.0, {zero}), %t: f32[2] = quantize_dynamic(%x, high=255, rule="fixed", eps=0.0)
      %a: f32{list(shape)} = dequantize_dynamic(%s, %t)
      %c: f32{list(w.shape)} = dequantize(@w)
      %y: f32{out} = conv2d(%a, %c, @b, none, stride=[1, 1], padding=[{p}, {p}, {p}, {p}], dilation=[1, 1], groups={groups}, act="", act_args=[])
      return %y
    }}""",
        {"w": w, "b": b},
    )
    weight = graph.constants["w"]
    weight.type = replace(weight.tensor, quant=Quant(tuple(map(float, scales)), (0,) * outputs, 0))
    return graph, x, expected


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_convolutions(case: tuple[tuple[int, int, int, int], int, int, int, int, int]) -> None:
    graph, x, expected = convolution(case)
    results = [compiled(graph.copy(), isa=isa, threads=threads)(x)[0] for isa in ISAS for threads in (1, 2)]
    assert all(np.array_equal(y, results[0]) for y in results)
    assert np.abs(results[0] - expected).max() <= 1e-6 * np.abs(expected).max()


def test_what_is_shared_is_quantized_once() -> None:
    """As queries, keys and values have it; biases left out."""
    text = """graph forward(%x: f32[3, 20]) {
      @u: i8[8, 20] q(0.1, 0)
      @v: i8[8, 20] q(0.2, 0)
      %s: u8[3, 20] q(1.0, 0), %t: f32[2] = quantize_dynamic(%x, high=255, rule="torch", eps=0.0)
      %a: f32[3, 20] = dequantize_dynamic(%s, %t)
      %b: f32[8, 20] = dequantize(@u)
      %c: f32[8, 20] = dequantize(@v)
      %y: f32[3, 8] = linear(%a, %b, none, none, act="", act_args=[])
      %z: f32[3, 8] = linear(%a, %c, none, none, act="relu", act_args=[])
      return %y, %z
    }"""
    rng = np.random.default_rng(0)
    u, v = (rng.integers(-127, 128, (8, 20)).astype(np.int8) for _ in range(2))
    x = rng.standard_normal((3, 20)).astype(np.float32)
    y, z = compiled(text, {"u": u, "v": v})(x)
    scale, zero = torch._choose_qparams_per_tensor(torch.from_numpy(x), False)
    rounded = torch.quantize_per_tensor(torch.from_numpy(x), scale, zero, torch.quint8).dequantize().numpy()
    assert np.abs(y - rounded @ (u * np.float32(0.1)).T).max() <= 1e-5 * np.abs(y).max()
    assert np.abs(z - np.maximum(rounded @ (v * np.float32(0.2)).T, 0)).max() <= 1e-5 * np.abs(z).max()
