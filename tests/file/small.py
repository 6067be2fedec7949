"""A small program that has one of everything a .pen file can hold, written as IR text: symbolic dims, all packed layouts,
every kind of attribute, containers, metadata. No torch needed."""

from __future__ import annotations

import numpy as np

from penlight.file.writer import to_array
from penlight.ir.graph import Program
from penlight.ir.parse import parse_program
from penlight.lower import lower
from penlight.passes.pipeline import optimize

TEXT = """
program {"labels": ["dark", "bright"], "name": "small ☀"}

method forward
symbols n: 1..16, h: 8..
inputs {"args": [0], "kwargs": {"bias": 1}, "names": ["x", "bias"]}
outputs {"dict": {"out": 0, "rows": {"dim": "h // 2"}}}
graph forward(%x: f32[n, 3, h, 8], %bias: f32[5]) {
  @w: f32[20, 3, 3, 3]
  @d: f32[20, 1, 3, 3]
  @g: f32[8, 5, 1, 1]
  @l: f32[5, 8]
  %c: f32[n, 20, h // 2, 4] = conv2d(%x, @w, none, none, stride=[2, 2], padding=[1, 1, 0, 0], dilation=[1, 1], groups=1, act="", act_args=[])  # model.py:3, in forward: x = self.stem(x)
  %r: f32[n, 20, h // 2, 4] = clamp(%c, lo=0.0, hi=6.0)
  %d1: f32[n, 20, h // 2, 4] = conv2d(%r, @d, none, none, stride=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1], groups=20, act="", act_args=[])
  %g1: f32[n, 8, h // 2, 4] = conv2d(%d1, @g, none, none, stride=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=4, act="", act_args=[])
  %m: f32[n, 8] = mean(%g1, dims=[2, 3], keepdim=false)
  %y: f32[n, 5] = linear(%m, @l, none, none, act="", act_args=[])
  %z: f32[n, 5] = add(%y, %bias)
  return %z
}
"""


def small_program() -> Program:
    """Optimized and lowered; the same on every call."""
    rng = np.random.default_rng(7)
    shapes = {"w": (20, 3, 3, 3), "d": (20, 1, 3, 3), "g": (8, 5, 1, 1), "l": (5, 8)}
    program = parse_program(TEXT, {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()})
    optimize(program)
    return lower(program)


def small_file() -> bytes:
    return to_array(small_program()).tobytes()
