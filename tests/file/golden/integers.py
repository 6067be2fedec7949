"""The program of golden/v3.pen: quantized tensors in a region, in every packed layout that integers have, with scales that are known and one that
the run chooses, and torch's numbers for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F

from penlight.ir.graph import Method, Program
from penlight.ir.parse import parse_graph
from penlight.ir.types import Quant
from penlight.lower import lower
from penlight.passes.pipeline import optimize

RESULT_STEP = 0.03

TEXT = """graph forward(%image: f32[2, 3, 9, 11]) {
  @stem: i8[20, 3, 3, 3] q(axis=0)
  @stem_bias: f32[20]
  @depthwise: i8[20, 1, 5, 3] q(axis=0)
  @depthwise_bias: f32[20]
  @point: i8[20, 20, 1, 1] q(0.0009765625, 0)
  @head: i8[7, 20] q(0.001953125, 0)
  @head_bias: f32[7]
  @last: i8[5, 7] q(axis=0)
  @last_bias: f32[5]
  %q: u8[2, 3, 9, 11] q(0.03125, 120) = quantize(%image, low=0, high=255)
  %x: f32[2, 3, 9, 11] = dequantize(%q)
  %w1: f32[20, 3, 3, 3] = dequantize(@stem)
  %c1: f32[2, 20, 5, 6] = conv2d(%x, %w1, @stem_bias, none, stride=[2, 2], padding=[1, 1, 1, 1], dilation=[1, 1], groups=1, act="clamp", act_args=[0.0, 6.0])
  %q1: u8[2, 20, 5, 6] q(0.0234375, 0) = quantize(%c1, low=0, high=255)
  %x1: f32[2, 20, 5, 6] = dequantize(%q1)
  %w2: f32[20, 1, 5, 3] = dequantize(@depthwise)
  %c2: f32[2, 20, 5, 6] = conv2d(%x1, %w2, @depthwise_bias, none, stride=[1, 1], padding=[2, 1, 2, 1], dilation=[1, 1], groups=20, act="", act_args=[])
  %q2: u8[2, 20, 5, 6] q(0.03125, 110) = quantize(%c2, low=0, high=255)
  %x2: f32[2, 20, 5, 6] = dequantize(%q2)
  %w3: f32[20, 20, 1, 1] = dequantize(@point)
  %c3: f32[2, 20, 5, 6] = conv2d(%x2, %w3, none, %x1, stride=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=1, act="", act_args=[])
  %q3: u8[2, 20, 5, 6] q(0.0625, 100) = quantize(%c3, low=3, high=250)
  %x3: f32[2, 20, 5, 6] = dequantize(%q3)
  %m: f32[2, 20] = mean(%x3, dims=[2, 3], keepdim=false)
  %q4: u8[2, 20] q(0.03125, 100) = quantize(%m, low=0, high=255)
  %x4: f32[2, 20] = dequantize(%q4)
  %w5: f32[7, 20] = dequantize(@head)
  %y: f32[2, 7] = linear(%x4, %w5, @head_bias, none, act="", act_args=[])
  %s: u8[2, 7] q(1.0, 0), %t: f32[2] = quantize_dynamic(%y, high=255, rule="pt2e", eps=0.0)
  %x5: f32[2, 7] = dequantize_dynamic(%s, %t)
  %w6: f32[5, 7] = dequantize(@last)
  %z: f32[2, 5] = linear(%x5, %w6, @last_bias, none, act="", act_args=[])
  return %z
}
"""


def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)

    def integers(*shape: int) -> np.ndarray:
        return rng.integers(-127, 128, shape).astype(np.int8)

    def bias(n: int) -> np.ndarray:
        return rng.standard_normal(n).astype(np.float32)

    return {
        "stem": integers(20, 3, 3, 3), "stem_bias": bias(20), "depthwise": integers(20, 1, 5, 3), "depthwise_bias": bias(20),
        "point": integers(20, 20, 1, 1), "head": integers(7, 20), "head_bias": bias(7),
        "last": integers(5, 7), "last_bias": bias(5),
    }  # fmt: skip


def scales() -> np.ndarray:
    return np.linspace(0.001, 0.004, 20).astype(np.float32)


def integer_program() -> Program:
    graph = parse_graph(TEXT, weights())
    for name in ("stem", "depthwise", "last"):
        constant = graph.constants[name]
        outputs = constant.constant.shape[0]  # type: ignore[union-attr]
        constant.type = replace(constant.tensor, quant=Quant(tuple(map(float, scales()[:outputs])), (0,) * outputs, 0))
    inputs = {"args": [0], "kwargs": {}, "names": ["image"]}
    program = Program({"forward": Method(graph, inputs, 0)}, {"name": "integers"})
    optimize(program)
    return lower(program)


def expected(image: np.ndarray) -> np.ndarray:
    """The same in torch, its numbers rounded where integers are: a sum that lies between two steps may go either way."""
    w = {name: torch.tensor(array.astype(np.float64)) for name, array in weights().items()}
    each = torch.tensor(scales().astype(np.float64)).reshape(20, 1, 1, 1)

    def rounded(x: torch.Tensor, scale: float, zero: int, low: int = 0, high: int = 255) -> torch.Tensor:
        return (torch.clamp(torch.round(x / scale) + zero, low, high) - zero) * scale

    x = rounded(torch.tensor(image, dtype=torch.float64), 0.03125, 120)
    x1 = rounded(F.conv2d(x, w["stem"] * each, w["stem_bias"], 2, 1).clamp(0, 6), 0.0234375, 0)
    x2 = rounded(F.conv2d(x1, w["depthwise"] * each, w["depthwise_bias"], 1, (2, 1), groups=20), 0.03125, 110)
    x3 = rounded(F.conv2d(x2, w["point"] * 0.0009765625) + x1, 0.0625, 100, 3, 250)
    x4 = rounded(x3.mean((2, 3)), 0.03125, 100)
    y = F.linear(x4, w["head"] * 0.001953125, w["head_bias"])
    step = float(y.max().clamp(min=0) - y.min().clamp(max=0)) / 255
    x5 = rounded(y, step, -round(float(y.min().clamp(max=0)) / step))
    return F.linear(x5, w["last"] * each[:5, :, 0, 0], w["last_bias"]).numpy()
