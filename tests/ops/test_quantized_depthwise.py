"""conv2d.q8.depthwise: every bit as integers and QNNPACK's rounding say, and as torch's qnnpack has it, on every instruction set."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import penlight
from penlight import _runtime
from penlight.file.reader import read
from penlight.ir.graph import Graph
from penlight.ir.parse import parse_graph
from penlight.ir.types import Quant
from penlight.lower.prepack import pack_taps
from tests.graphs import compiled
from tests.vm.quantized import engine

ISAS = [str(isa) for isa in _runtime.isas()]
KEY = "conv2d.q8.depthwise"
X_SCALE, Y_SCALE, Y_ZERO, R_SCALE, R_ZERO = 0.02, 0.05, 31, 0.04, 100
f4 = np.float32


@dataclass(frozen=True)
class Case:
    channels: int
    size: tuple[int, int] = (9, 10)
    kernel: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (1, 1, 1, 1)  # top, left, bottom, right
    dilation: tuple[int, int] = (1, 1)
    batch: int = 1
    zero: int = 77  # of x
    act: str = ""
    residual: bool = False
    real: bool = False  # f32 results
    spread: float = 1.0  # of the scales of weights

    def __str__(self) -> str:
        return "-".join(str(v).replace(" ", "") for v in vars(self).values())

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.batch, self.channels, *self.size)


def same(kernel: tuple[int, int]) -> tuple[int, int, int, int]:
    return (kernel[0] // 2, kernel[1] // 2, kernel[0] // 2, kernel[1] // 2)


CASES = (
    *(Case(c, (5, 7)) for c in (2, 3, 5, 8, 15, 16, 17, 23, 31, 32, 33, 40, 48, 49, 63, 64, 65, 70, 96, 120, 144)),
    Case(960, (7, 7), batch=2),  # cut by channels
    *(
        Case(c, (7, 8), (9, 9), padding=same((9, 9))) for c in (66, 79, 80, 130)
    ),  # so much work that every unit is a task
    Case(32, (40, 41), stride=(2, 2), batch=2),
    Case(70, (13, 12), stride=(2, 2), padding=(0, 0, 1, 1)),  # as TensorFlow pads
    Case(24, (9, 8), stride=(2, 1), padding=(2, 0, 0, 1)),
    Case(24, (9, 8), stride=(1, 3)),
    Case(67, (11, 12), dilation=(2, 2), padding=(2, 2, 2, 2)),
    Case(20, (11, 12), dilation=(2, 1), padding=(3, 0, 1, 2)),
    *(Case(72, (9, 11), (k, k), padding=same((k, k)), batch=2) for k in (1, 2, 4, 5, 6, 7, 9)),
    *(Case(19, (9, 11), (k, k), stride=(2, 2), padding=same((k, k))) for k in (1, 2, 5, 7)),
    Case(19, (9, 11), (5, 3), padding=(2, 1, 2, 1)),
    Case(19, (9, 11), (3, 5), padding=(1, 2, 1, 2)),
    Case(19, (9, 11), (2, 3), padding=(0, 1, 1, 1)),
    Case(80, (1, 30), (1, 9), padding=(0, 4, 0, 4)),
    Case(40, (1, 1), padding=(4, 4, 4, 4)),  # most is padding
    Case(7, (2, 3), padding=(4, 5, 3, 2), stride=(2, 2)),
    Case(70, zero=0),
    Case(70, zero=255, act="clamp"),
    Case(70, residual=True, batch=2),
    Case(9, residual=True, act="clamp"),
    Case(70, real=True, batch=2),
    Case(6, real=True, residual=True, act="clamp"),
    Case(70, (12, 11), (5, 5), padding=(2, 2, 2, 2), real=True, act="silu"),
    *(
        Case(c, (6, 7), residual=True) for c in (3, 12, 16, 31, 32, 48, 64, 96, 120)
    ),  # all ways out of registers, of all widths of blocks
    *(Case(c, (6, 7), real=True, residual=c % 2 == 0) for c in (3, 12, 16, 31, 32, 48, 64, 96, 120)),
    *(Case(c, (7, 9), (5, 5), stride=(2, 2), padding=same((5, 5)), residual=True, act="clamp") for c in (5, 32, 64)),
    *(
        Case(c, size) for c in (2, 3, 5, 11) for size in ((1, 1), (3, 1), (2, 2), (1, 9))
    ),  # a block is more than there is
    # rows that are done in pieces (of 7282 outputs, 3641, or a few hundred)
    Case(64, (1, 15001)),
    Case(70, (1, 29001), stride=(1, 2), padding=(1, 0, 1, 1)),
    *(Case(c, (2, 1300), (301, 5), padding=same((301, 5)), residual=c == 5) for c in (5, 16, 70)),
    Case(40, (2, 1301), (301, 5), stride=(2, 2), padding=same((301, 5)), real=True),
    Case(21, (2, 900), (301, 7), padding=same((301, 7)), dilation=(1, 3)),
    Case(64, (1, 1300), (301, 5), padding=(150, 700, 150, 700)),  # some are padding alone
    Case(70, spread=1e12),  # sums beyond 32 bits in steps of the result
)


def random(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Integers of x, weights, scales of outputs, bias, integers of the residual."""
    rng = np.random.default_rng(zlib.crc32(str(case).encode()))
    x = rng.integers(0, 256, case.shape).astype(np.uint8)
    w = rng.integers(-128, 128, (case.channels, 1, *case.kernel)).astype(np.int8)
    scales = case.spread * rng.uniform(0.2, 1.0, case.channels) / w[0].size ** 0.5 / 40
    bias = rng.standard_normal(case.channels).astype(f4)
    out = convolved(case, np.zeros(case.shape), w).shape
    return x, w, scales, bias, rng.integers(0, 256, out).astype(np.uint8)


def convolved(case: Case, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Doubles hold these sums exactly."""
    top, left, bottom, right = case.padding
    padded = F.pad(torch.tensor(x), (left, right, top, bottom))
    return F.conv2d(
        padded, torch.tensor(w.astype(np.float64)), None, case.stride, 0, case.dilation, case.channels
    ).numpy()


def expected(
    case: Case, x: np.ndarray, w: np.ndarray, scales: np.ndarray, bias: np.ndarray, r: np.ndarray
) -> np.ndarray:
    def column(values: np.ndarray) -> np.ndarray:
        return values[None, :, None, None]

    sums = convolved(case, x.astype(np.float64) - case.zero, w)
    if case.real:
        y = sums.astype(f4) * column(scales.astype(f4) * f4(X_SCALE)) + column(bias)
        y = y + (r.astype(f4) - f4(R_ZERO)) * f4(R_SCALE) if case.residual else y
        return np.clip(y, 0, 6) if case.act == "clamp" else y
    inverse = f4(1) / (scales * X_SCALE).astype(f4)
    sums = sums + column(np.rint((bias * inverse).astype(np.float64)))
    steps = sums.astype(f4) * column(scales.astype(f4) * f4(X_SCALE) * (f4(1) / f4(Y_SCALE)))
    if case.residual:
        steps = steps + (r.astype(f4) - f4(R_ZERO)) * (f4(R_SCALE) / f4(Y_SCALE))
    low, high = (Y_ZERO, min(255, Y_ZERO + round(6 / Y_SCALE))) if case.act else (0, 255)
    return np.clip(np.rint(steps) + Y_ZERO, low, high)


def conv(case: Case, x: str, residual: str = "none") -> str:
    args = "[0.0, 6.0]" if case.act == "clamp" else "[]"
    return f"""conv2d({x}, %wf, @b, {residual}, stride={list(case.stride)}, padding={list(case.padding)}, dilation={list(case.dilation)}, groups={case.channels}, act="{case.act}", act_args={args})"""


def with_scales(graph: Graph, scales: np.ndarray) -> Graph:
    constant = graph.constants["w"]
    constant.type = replace(constant.tensor, quant=Quant(tuple(scales), (0,) * len(scales), 0))
    return graph


def graph_of(case: Case, w: np.ndarray, scales: np.ndarray, bias: np.ndarray, out: tuple[int, ...]) -> Graph:
    shape, result = list(case.shape), list(out)
    residual = "none" if not case.residual else "%r" if case.real else "%rf"
    quantized = f"""
      %y: u8{result} q({Y_SCALE}, {Y_ZERO}) = quantize(%c, low=0, high=255)
      %z: f32{result} = dequantize(%y)"""
    text = f"""graph forward(%x: f32{shape}, %r: f32{result}) {{
      @w: i8{list(w.shape)} q(axis=0)
      @b: f32[{case.channels}]
      %q: u8{shape} q({X_SCALE}, {case.zero}) = quantize(%x, low=0, high=255)
      %rq: u8{result} q({R_SCALE}, {R_ZERO}) = quantize(%r, low=0, high=255)
      %xf: f32{shape} = dequantize(%q)
      %rf: f32{result} = dequantize(%rq)
      %wf: f32{list(w.shape)} = dequantize(@w)
      %c: f32{result} = {conv(case, "%xf", residual)}{"" if case.real else quantized}
      return {"%c" if case.real else "%z"}
    }}"""
    return with_scales(parse_graph(text, {"w": w, "b": bias}), scales)


def reals(x: np.ndarray, scale: float, zero: int) -> np.ndarray:
    return (x.astype(f4) - f4(zero)) * f4(scale)


def depthwise(case: Case) -> tuple[Graph, tuple[np.ndarray, ...], np.ndarray]:
    """A graph of reals, its inputs, and the result."""
    x, w, scales, bias, r = random(case)
    want = expected(case, x, w, scales, bias, r)
    inputs = reals(x, X_SCALE, case.zero), reals(r, R_SCALE, R_ZERO)
    return graph_of(case, w, scales, bias, r.shape), inputs, want if case.real else reals(want, Y_SCALE, Y_ZERO)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_bit(case: Case) -> None:
    graph, inputs, want = depthwise(case)
    for isa in ISAS:
        for threads in (1, 2):
            model = compiled(graph.copy(), isa=isa, threads=threads)
            (got,) = model(*inputs)
            if case.act == "silu":
                np.testing.assert_allclose(got, F.silu(torch.tensor(want)).numpy(), rtol=1e-6, atol=1e-6, err_msg=isa)
                continue
            np.testing.assert_array_equal(got, want, err_msg=f"{isa}, {threads} threads")
    assert KEY in read(model.to_bytes()).keys


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c.padding[:2] == c.padding[2:] and c.spread == 1.0 and not (c.real or c.residual or c.act)],
    ids=str,
)
def test_as_torch(case: Case) -> None:
    """torch's own quantized convolution, but for steps beyond 32 bits, which it lets overflow."""
    x, w, scales, bias, r = random(case)
    with engine("qnnpack"):
        zeros = torch.zeros(case.channels, dtype=torch.long)
        weight = torch._make_per_channel_quantized_tensor(torch.tensor(w), torch.tensor(scales), zeros, 0)
        packed = torch.ops.quantized.conv2d_prepack(
            weight, torch.tensor(bias), case.stride, case.padding[:2], case.dilation, case.channels
        )
        quantized = torch._make_per_tensor_quantized_tensor(torch.tensor(x), X_SCALE, case.zero)
        want = torch.ops.quantized.conv2d(quantized, packed, Y_SCALE, Y_ZERO).int_repr().numpy()
    (got,) = compiled(graph_of(case, w, scales, bias, r.shape))(reals(x, X_SCALE, case.zero), reals(r, R_SCALE, R_ZERO))
    np.testing.assert_array_equal(np.rint(got / f4(Y_SCALE)) + Y_ZERO, want)


@pytest.mark.parametrize("channels", [5, 16, 24, 70, 144])
@pytest.mark.parametrize("stride", [1, 2])
def test_channels_among_others(channels: int, stride: int) -> None:
    """Pixels further apart than the channels: of a slice of channels, into a part of a concatenation. No neighbour is touched."""
    case = Case(channels, (8, 9), stride=(stride, stride), batch=2)
    x, w, scales, bias, r = random(case)
    rng = np.random.default_rng(channels)
    before, after = (rng.integers(0, 256, (2, n, 8, 9)).astype(np.uint8) for n in (3, 10))
    wide = np.concatenate([before, x, after], 1)
    shape, inner, out = list(wide.shape), list(case.shape), list(r.shape)
    both = [2, 2 * channels, *out[2:]]
    one = f"u8{out} q({Y_SCALE}, {Y_ZERO})"
    text = f"""graph forward(%x: f32{shape}) {{
      @w: i8{list(w.shape)} q(axis=0)
      @b: f32[{channels}]
      %q: u8{shape} q({X_SCALE}, {case.zero}) = quantize(%x, low=0, high=255)
      %s: u8{inner} q({X_SCALE}, {case.zero}) = slice(%q, dim=1, start=3, end={3 + channels}, step=1)
      %sf: f32{inner} = dequantize(%s)
      %wf: f32{list(w.shape)} = dequantize(@w)
      %c: f32{out} = {conv(case, "%sf")}
      %d: f32{out} = {conv(replace(case, act="clamp"), "%sf")}
      %cq: {one} = quantize(%c, low=0, high=255)
      %dq: {one} = quantize(%d, low=0, high=255)
      %y: u8{both} q({Y_SCALE}, {Y_ZERO}) = cat(%cq, %dq, dim=1)
      %z: f32{both} = dequantize(%y)
      return %z
    }}"""
    want = [expected(c, x, w, scales, bias, r) for c in (case, replace(case, act="clamp"))]
    for isa in ISAS:
        model = compiled(with_scales(parse_graph(text, {"w": w, "b": bias}), scales), isa=isa, threads=2)
        (got,) = model(reals(wide, X_SCALE, case.zero))
        np.testing.assert_array_equal(np.rint(got / f4(Y_SCALE)) + Y_ZERO, np.concatenate(want, 1), err_msg=isa)
    assert KEY in read(model.to_bytes()).keys


def test_packing() -> None:
    """Where SPEC.md says that a weight lies."""
    w = np.random.default_rng(0).integers(-128, 128, (21, 1, 5, 3)).astype(np.int8)
    flat, (kh, kw) = pack_taps(w, 21).reshape(-1), w.shape[2:]
    for c, y, x in np.ndindex(21, kh, kw):
        assert flat[(y * kw + x) * 21 + c] == w[c, 0, y, x]
    assert flat.size == w.size


def test_few_channels_beside_others(tmp_path: Path) -> None:
    """What is stored behind the last of few channels must not reach those that follow, of another value in the same memory."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(3)
            self.first = torch.nn.ModuleList(torch.nn.Conv2d(3, c, 1) for c in (5, 7, 3))
            self.deep = torch.nn.ModuleList(torch.nn.Conv2d(c, c, 3, padding=1, groups=c) for c in (5, 7, 3))
            self.last = torch.nn.Conv2d(15, 8, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(torch.cat([d(f(x)) for f, d in zip(self.first, self.deep, strict=True)], 1))

    net, images = Net().eval(), [torch.randn(1, 3, 11, 13) for _ in range(4)]
    q = penlight.quantize(net, images, sensitivity=False, speed=False)
    assert sum(key == KEY for key in read(q.to_bytes()).keys) >= 1
    with torch.no_grad():
        want = net(images[0])
    q.save(tmp_path / "few.pen")
    for isa in ISAS:
        got = penlight.load(tmp_path / "few.pen", isa=isa)(images[0])
        assert float((got - want).norm() / want.norm()) < 0.05, isa
