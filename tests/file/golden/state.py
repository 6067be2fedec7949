"""The program of golden/v4.pen, which keeps state: a table of rows, large enough to be changed in place, and a counter; and numpy's numbers
for calls in a row."""

from __future__ import annotations

import numpy as np

from penlight.ir.graph import Program
from penlight.ir.parse import parse_program
from penlight.lower import lower
from penlight.passes.pipeline import optimize

TEXT = """program {"name": "golden state"}

method forward
symbols n: 1..8
inputs {"args": [0, 1], "kwargs": {}, "names": ["rows", "at"]}
outputs {"tuple": [0, 1]}
state @table: f32[40, 32]
state @calls: i64[] = [5]
graph forward(%rows: f32[n, 32], %at: i64[n], %table: f32[40, 32], %calls: i64[]) {
  @one: i64[] = [1]
  %put: f32[40, 32] = index_put(%table, %rows, %at, at=0, reduce="")
  %next: i64[] = add(%calls, @one)
  %total: f32[32] = sum(%put, dims=[0], keepdim=false)
  %told: i64[] = copy(%next, force=true)
  return %total, %told, %put, %next
}
"""


def table() -> np.ndarray:
    return np.random.default_rng(4).standard_normal((40, 32)).astype(np.float32)


def state_program() -> Program:
    program = parse_program(TEXT, {"table": table()})
    optimize(program)
    return lower(program)


def calls() -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(5)
    return [(rng.standard_normal((n, 32)).astype(np.float32), rng.permutation(40)[:n]) for n in (3, 1, 8, 1)]


def expected() -> list[tuple[np.ndarray, int]]:
    kept, results = table(), []
    for i, (rows, at) in enumerate(calls()):
        kept[at] = rows
        results.append((kept.sum(0), 6 + i))
    return results
