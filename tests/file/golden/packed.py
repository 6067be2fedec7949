"""The program of golden/v2_packed.pen: a plan and the code behind it, whose weights the file holds once, as the plan's kernels read
them. All layouts that can be undone are there, in groups, with tails, as attributes, as a constant, and with a second view."""

from __future__ import annotations

import numpy as np

from penlight.ir.graph import Program
from penlight.ir.parse import parse_program
from penlight.ir.values import ScriptTensor, Storage
from penlight.lower import lower
from penlight.passes.pipeline import optimize
from tests.file.assemble import assemble

PLANNED = """
program {"name": "packed"}

method map
symbols n: 1..4
inputs {"args": [0]}
outputs 0
graph map(%x: f32[n, 3, 6, 6]) {
  @a: f32[20, 3, 3, 3]
  @b: f32[20, 1, 3, 3]
  @c: f32[40, 10, 1, 1]
  @d: f32[10, 4, 1, 1]
  @e: f32[5, 10]
  @f: f32[5]
  @g: f32[6, 5]
  %1: f32[n, 20, 6, 6] = conv2d(%x, @a, none, none, stride=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1], groups=1, act="", act_args=[])
  %2: f32[n, 20, 4, 4] = conv2d(%1, @b, none, none, stride=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=20, act="", act_args=[])
  %3: f32[n, 40, 4, 4] = conv2d(%2, @c, none, none, stride=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=2, act="", act_args=[])
  %4: f32[n, 10, 4, 4] = conv2d(%3, @d, none, none, stride=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=10, act="", act_args=[])
  %5: f32[n, 10] = mean(%4, dims=[2, 3], keepdim=false)
  %6: f32[n, 5] = linear(%5, @e, @f, none, act="", act_args=[])
  %7: f32[n, 6] = linear(%6, @g, none, none, act="", act_args=[])
  return %7
}
"""
CODE = """
forward(self, x):
  r2 = planned map(r1) -> done
  r3 = get_attr 0 (r0)
  r4 = aten::conv2d(r1, r3, None, [1, 1], [1, 1], [1, 1], 1)
  r4 = aten::conv2d(r4, k0, None, [1, 1], [0, 0], [1, 1], 20)
  r3 = get_attr 1 (r0)
  r4 = aten::conv2d(r4, r3, None, [1, 1], [0, 0], [1, 1], 2)
  r3 = get_attr 2 (r0)
  r4 = aten::conv2d(r4, r3, None, [1, 1], [0, 0], [1, 1], 10)
  r4 = aten::mean.dim(r4, [2, 3])
  r3 = get_attr 3 (r0)
  r5 = get_attr 4 (r0)
  r4 = aten::linear(r4, r3, r5)
  r3 = get_attr 5 (r0)
  r2 = aten::matmul(r4, r3)
done:
  return(r2)
weights(self):
  r1 = get_attr 0 (r0)
  r2 = get_attr 1 (r0)
  r3 = get_attr 2 (r0)
  r4 = get_attr 3 (r0)
  r5 = get_attr 4 (r0)
  r6 = get_attr 5 (r0)
  r7 = get_attr 6 (r0)
  r8 = list(r1, k0, r2, r3, r4, r5, r6, r7)
  return(r8)
state(self):
  return(r0)
double(self):
  r1 = get_attr 3 (r0)
  r2 = aten::mul_.Scalar(r1, 2)
  return(None)
"""


def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    shapes: dict[str, tuple[int, ...]] = {
        "a": (20, 3, 3, 3), "b": (20, 1, 3, 3), "c": (40, 10, 1, 1), "d": (10, 4, 1, 1), "e": (5, 10), "f": (5,), "g": (5, 6),
    }  # fmt: skip
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def packed_program() -> Program:
    arrays = weights()
    program = parse_program(PLANNED, {**arrays, "g": arrays["g"].T.copy()})
    optimize(program)
    program = lower(program)
    tensors = {name: tensor(array, name) for name, array in arrays.items()}
    kept = {name: t for name, t in tensors.items() if name != "b"}
    turned = ScriptTensor(tensors["e"].storage, "f32", 3, (7, 5), (1, 10), name="turned")  # e[:, 3:].T
    program.script = assemble(CODE, {**kept, "turned": turned}, constants=[tensors["b"]])
    return program


def tensor(array: np.ndarray, name: str = "") -> ScriptTensor:
    strides = tuple(s // array.itemsize for s in array.strides)
    return ScriptTensor(Storage(array.reshape(-1).view(np.uint8).copy()), "f32", 0, array.shape, strides, name=name)


def expected(x: np.ndarray) -> np.ndarray:
    import torch
    from torch.nn import functional as F

    w = {name: torch.from_numpy(array).double() for name, array in weights().items()}
    y = F.conv2d(torch.from_numpy(x).double(), w["a"], padding=1)
    for name, groups in (("b", 20), ("c", 2), ("d", 10)):
        y = F.conv2d(y, w[name], groups=groups)
    return (F.linear(y.mean((2, 3)), w["e"], w["f"]) @ w["g"]).numpy()  # type: ignore[no-any-return]
