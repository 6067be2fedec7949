"""Tensor operators of the VM on arguments drawn at random: shapes, layouts, dtypes and numbers that no model has. Whatever they do,
they end, and an error has words. (Sizes are small, or beyond all memory.)"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from penlight.ops.vm_operators import Param, VmOperator, operators
from tests.vm.check import OperatorError, attempt, run

FAMILIES = ("elementwise", "shape", "index", "random", "sort", "dynamic")
DTYPES = [torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int64, torch.int32, torch.int16,
          torch.int8, torch.uint8, torch.bool]  # fmt: skip
NUMBERS = [0, 1, 2, -1, 0.5, -2.5, 1e30, float("inf"), float("nan"), True, False, 300, 2**63 - 1, -(2**63)]
SMALL = [0, 1, -1, 2, 3, -2, 4, 5, 7, 6, 11, 0, 1, 2]
HUGE = [2**45, -(2**45), 2**62, 2**63 - 1, -(2**63)]
WORDS = ["floor", "trunc", "add", "multiply", "sum", "mean", "amax", "constant", "reflect", "replicate", "circular", "ij", "xy", "tanh", "none", ""]  # fmt: skip


class Draw:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def chance(self, p: float) -> bool:
        return self.random.random() < p

    def integer(self) -> int:
        return self.random.choice(HUGE if self.chance(0.05) else SMALL)

    def tensor(self) -> torch.Tensor:
        rank = self.random.choice([0, 1, 1, 2, 2, 3, 4, 5, 8])
        sizes = [0, 1, 1, 2, 3, 4, 5] if rank < 6 else [1, 1, 2]
        t = (torch.randn([self.random.choice(sizes) for _ in range(rank)]) * self.random.choice([1, 3, 100])).to(
            self.random.choice(DTYPES)
        )
        if rank >= 2 and self.chance(0.3):
            return t.permute(*self.random.sample(range(rank), rank))
        if rank and self.chance(0.2):
            return t[tuple(slice(None, None, self.random.choice([1, 2])) for _ in range(rank))]
        if rank and t.numel() and self.chance(0.2):
            return t[tuple(slice(0, 1) if self.chance(0.4) else slice(None) for _ in range(rank))].expand(t.shape)
        return t

    def value(self, p: Param) -> Any:
        if self.chance(0.01):
            return self.random.choice([None, 3, 2.5, "x", [1], [self.tensor()]])
        if p.optional and p.kind != "tensors" and self.chance(0.3):
            return None
        if p.kind == "tensor":
            t = self.tensor()
            return t.abs().long() % 3 if p.name.startswith("ind") and t.dtype != torch.bool and self.chance(0.6) else t
        if p.kind == "tensors":
            count = self.random.choice([0, 1, 2, 2, 3])
            return [None if p.optional and self.chance(0.3) else self.tensor() for _ in range(count)]
        if p.kind == "integers":
            return [self.integer() for _ in range(self.random.choice([0, 1, 2, 2, 3, 4, 4, 6, 9]))]
        simple = {"integer": self.integer, "boolean": lambda: self.chance(0.5), "string": lambda: self.random.choice(WORDS),
                  "real": lambda: float(self.random.choice(NUMBERS)), "number": lambda: self.random.choice(NUMBERS)}  # fmt: skip
        return simple[p.kind]() if p.kind in simple else None

    def arguments(self, op: VmOperator) -> list[Any]:
        made: list[Any] = []
        for p in op.params:
            if p.default is not None and self.chance(0.3):
                break
            shared = [a for a in made if isinstance(a, torch.Tensor)]
            if p.kind == "tensor" and shared and self.chance(0.4):
                made.append(shared[0] if self.chance(0.5) else shared[0].clone())
            else:
                made.append(self.value(p))
        return made


def attack(seed: int, calls: int, call: Callable[..., object]) -> int:
    """The number of calls that gave a result."""
    draw = Draw(seed)
    found = [(n, op) for n, op in operators().items() if op.source.parent.name in FAMILIES]
    taken = 0
    for _ in range(calls):
        name, op = draw.random.choice(found)
        try:
            call(name, *draw.arguments(op))
            taken += 1
        except OperatorError as e:
            assert str(e), f"{name}: an error without words"
    return taken


def test_anything() -> None:
    assert attack(1, 6000, run) > 2000


@pytest.mark.slow
def test_anything_for_long() -> None:
    for seed in range(2, 40):
        attack(seed, 10000, attempt)
