"""The program of golden/v2.pen: something of each kind that version 2 adds. A branch, a loop, a call, a list, a dict, a string,
a named tuple, an object, state, a planned method with its fallback, defaults, bundled inputs. `expected` is what it means, in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from penlight.ir.graph import Program
from penlight.ir.parse import parse_program
from penlight.ir.script import Bundle
from penlight.ir.values import ScriptObject, ScriptTensor, Storage
from penlight.lower import lower
from penlight.passes.pipeline import optimize
from tests.file.assemble import assemble

PLANNED = """
program {"labels": ["a", "ë"], "name": "golden"}

method scale
symbols n: 1..
inputs {"args": [0]}
outputs 0
graph scale(%x: f32[n, 3]) {
  @w: f32[3]
  %y: f32[n, 3] = mul(%x, @w)
  %z: f32[n, 3] = sigmoid(%y)
  return %z
}
"""
CODE = """
forward(self, x, n, name="sum"):
  r4 = get_attr 0 (r0)
  r4 = aten::add.int(r4, 1)
  set_attr 0 (r0, r4)
  r5 = get_attr 1 (r0)
  r6 = aten::append.t(r5, r3)
  drop(r6)
  r7 = planned scale(r1) -> scaled
  r8 = get_attr 2 (r0)
  r9 = aten::mul.Tensor(r1, r8)
  r7 = aten::sigmoid(r9)
scaled:
  r10 = move(0)
  r11 = move(r2)
  r12 = move(True)
  r13 = move(r7)
again:
  loop(r10, r11, r12, r13) -> over
  r14 = move(r12)
  r13 = call add_step (r13, r14)
  r12 = move(True)
  jump() -> again
over:
  r15 = aten::sum(r10)
  r16 = aten::gt.Scalar(r15, 0)
  r17 = aten::Bool.Tensor(r16)
  branch(r17) -> negative
  r18 = move("positive")
  jump() -> end
negative:
  r18 = move("negative")
end:
  r19 = dict(r18, r10, "n", r2)
  r20 = aten::format("{}: {}", r3, r4)
  r21 = tuple __torch__.Result (r19, r20)
  r22 = list(r21)
  r23 = get_attr 3 (r0)
  r24 = get_attr 0 (r23)
  r25 = aten::__getitem__.t(r24, -1)
  r26 = tuple(r22, r25)
  return(r26)
count(self):
  r1 = get_attr 0 (r0)
  r2 = get_attr 1 (r0)
  r3 = aten::len.t(r2)
  r4 = tuple(r1, r3)
  return(r4)
add_step(x, i):
  r2 = isinstance int|float (r1)
  branch(r2) -> same
  r3 = aten::add.Scalar(r0, r1)
  r4 = create __torch__.Box ()
  set_attr 0 (r4, r3)
  r5 = get_attr 0 (r4)
  return(r5)
same:
  return(r0)
"""
W = np.array([0.5, -2.0, 1.25], np.float32)


def golden_program() -> Program:
    program = parse_program(PLANNED, {"w": W})
    optimize(program)
    program = lower(program)
    storage = Storage(np.concatenate([np.float32([9.0]), W]).view(np.uint8), "w")
    weight = ScriptTensor(storage, "f32", 1, (3,), (1,), name="w")
    names = ScriptObject(
        "__torch__.Names", {"all": ["x", "ÿ", "z"], "pairs": {1: "one", 2.5: None}, "shape": (3, True)}
    )
    program.script = assemble(
        CODE, {"steps": 0, "seen": [], "weight": weight, "names": names},
        {"__torch__.Result": ["scores", "text"], "__torch__.Box": ["value"]},
    )  # fmt: skip
    x = np.linspace(-1, 2, 6, dtype=np.float32).reshape(2, 3)
    out = expected([x], [2], ["bundled"])[0]
    program.bundles = [Bundle("forward", (x, 2, "bundled"), out, True, "two rows", 1e-6, 1e-5), Bundle("count", ())]
    return program


def expected(xs: list[np.ndarray], ns: list[int], names: list[str | None]) -> list[Any]:
    """What calls in a row give."""
    results: list[Any] = []
    for call, (x, n, name) in enumerate(zip(xs, ns, names, strict=True), 1):
        y = 1 / (1 + np.exp(-(x.astype(np.float64) * W)))
        y += sum(range(n))
        key = "positive" if y.sum() > 0 else "negative"
        results.append(([({key: y.astype(np.float32), "n": n}, f"{name or 'sum'}: {call}")], "z"))
    return results
