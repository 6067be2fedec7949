"""Random stack programs, translated to register code and run by the VM: each gives what a plain stack machine gives.

Programs load and move registers in any order, leave values on the stack over branches and loops, and store over registers
whose values still wait there.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import penlight
from tests.capture.lite import build

REGISTERS = 6  # 1 is self, 2 and 3 are the arguments
OPERATORS = (("aten::add", "int", 2), ("aten::sub", "int", 2), ("aten::lt", "int", 2), ("aten::neg", "int", 1))
CONSTANTS = (1, 7, -3, True, 3)


class Writer:
    """Writes a random program that is right: `full` holds the registers with a value."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.code: list[tuple[str, int, int]] = [("STOREN", 1, 3), ("DROPR", 1, 0)]
        self.full = {2, 3}
        self.depth = 0

    def emit(self, op: str, x: int = 0, n: int = 0) -> int:
        self.code.append((op, x, n))
        return len(self.code) - 1

    def load(self) -> None:
        register = self.random.choice(sorted(self.full))
        if self.random.random() < 0.5 and len(self.full) > 1:
            self.emit("MOVE", register)
            self.full.remove(register)
        else:
            self.emit("LOAD", register)
        self.depth += 1

    def condition(self) -> None:
        """Often of a register that is loaded more than once."""
        register = self.random.choice(sorted(self.full))
        for op in self.random.choice((["LOAD"], ["LOAD", "LOAD"], ["LOAD", "MOVE"], ["MOVE"])):
            if op == "MOVE":
                if len(self.full) < 2:
                    op = "LOAD"
                else:
                    self.full.remove(register)
            self.emit(op, register)
            self.depth += 1
        self.emit("LOADC", 0)
        self.emit("OP", 2)  # lt

    def block(self, budget: int, nesting: int) -> None:
        floor = self.depth
        for _ in range(budget):
            kind = self.random.random()
            if kind < 0.35 or self.depth == floor:
                self.load()
            elif kind < 0.45:
                self.emit("LOADC", self.random.randrange(3))
                self.depth += 1
            elif kind < 0.6:
                register = self.random.randint(2, REGISTERS)
                self.emit("STORE", register)
                self.full.add(register)
                self.depth -= 1
            elif kind < 0.68 and self.depth >= floor + 2:
                first = self.random.randint(2, REGISTERS - 1)
                self.emit("STOREN", first, 2)
                self.full |= {first, first + 1}
                self.depth -= 2
            elif kind < 0.72:
                self.emit("DROP")
                self.depth -= 1
            elif kind < 0.75 and len(self.full) > 1:
                register = self.random.choice(sorted(self.full))
                self.emit("DROPR", register)
                self.full.remove(register)
            elif kind < 0.9 and self.depth >= floor + 2:
                self.emit("OP", self.random.randrange(2))
                self.depth -= 1
            elif nesting and kind < 0.96:
                self.branch(nesting - 1)
            elif nesting:
                self.loop(nesting - 1)
        while self.depth > floor + 3:
            self.emit("OP", 0)
            self.depth -= 1

    def branch(self, nesting: int) -> None:
        self.condition()
        jump = self.emit("JF")
        self.depth -= 1
        before, full = self.depth, set(self.full)
        self.side(before, nesting)
        end = self.emit("JMP")
        self.code[jump] = ("JF", end + 1 - jump, 0)
        then, self.full, self.depth = self.full, full, before
        self.side(before, nesting)
        self.code[end] = ("JMP", len(self.code) - end, 0)
        self.full &= then
        self.ensure()

    def side(self, before: int, nesting: int) -> None:
        """One side of a branch, which leaves one value more."""
        self.block(self.random.randint(1, 6), nesting)
        while self.depth > before + 1:
            self.emit("DROP")
            self.depth -= 1
        if self.depth == before:
            self.emit("LOADC", 1)
            self.depth += 1

    def loop(self, nesting: int) -> None:
        """for _ in range(3): one value is carried, registers change as they like."""
        self.emit("LOADC", 1)
        self.emit("STORE", REGISTERS + 1)
        for constant in (0, 4, 3, 1):  # trip count (from 1), limit, condition, carried
            self.emit("LOADC", constant)
        top = self.emit("LOOP", 0, 3)
        base = self.depth
        self.depth += 2  # the trip count and what is carried
        for register in sorted(self.full):  # a register that is empty after the body must be empty before
            self.emit("LOAD", register)
            self.emit("STORE", register)
        full = set(self.full)
        self.block(self.random.randint(1, 6), nesting)
        for register in sorted(full - self.full):
            self.emit("LOADC", 1)
            self.emit("STORE", register)
        self.full |= full
        while self.depth > base + 1:
            self.emit("OP", 0)
            self.depth -= 1
        self.emit("STORE", REGISTERS + 1)
        self.emit("LOADC", 3)  # goes on
        self.emit("LOAD", REGISTERS + 1)
        end = self.emit("JMP", 0)
        self.code[end] = ("JMP", top - end, 0)
        self.code[top] = ("LOOP", len(self.code) - top, 3)
        self.full = full
        self.depth = base + 1

    def ensure(self) -> None:
        if not self.full:
            self.emit("LOADC", 1)
            self.emit("STORE", 2)
            self.full.add(2)

    def program(self) -> list[tuple[str, int, int]]:
        self.block(25, 2)
        for register in sorted(self.full):
            self.emit("LOAD", register)
            self.depth += 1
        self.emit("LIST_CONSTRUCT", 0, self.depth)
        self.emit("RET")
        return self.code


def plain(code: list[tuple[str, int, int]], a: int, b: int) -> Any:
    """The stack machine, as simple as can be."""
    stack: list[Any] = [None, a, b]
    registers: dict[int, Any] = {}
    at = 0
    while True:
        op, x, n = code[at]
        step = 1
        if op in ("STORE", "STOREN"):
            for k in reversed(range(n or 1)):
                registers[x + k] = stack.pop()
        elif op in ("LOAD", "MOVE"):
            stack.append(registers[x] if op == "LOAD" else registers.pop(x))
        elif op == "LOADC":
            stack.append(CONSTANTS[x])
        elif op == "DROP":
            stack.pop()
        elif op == "DROPR":
            registers.pop(x)
        elif op == "OP":
            name, _, takes = OPERATORS[x]
            args = [stack.pop() for _ in range(takes)][::-1]
            stack.append(
                {"aten::add": sum, "aten::sub": lambda v: v[0] - v[1], "aten::lt": lambda v: v[0] < v[1]}[name](args)
            )
        elif op == "JF":
            step = 1 if stack.pop() else x
        elif op == "JMP":
            step = x
        elif op == "LOOP":
            trip, limit, go = stack[-(n + 1) : -(n - 2)]
            if trip < limit and go:
                stack[-(n + 1) : -(n - 2)] = [trip + 1, limit, trip]
            else:
                del stack[-(n + 1) : -(n - 2)]
                step = x
        elif op == "LIST_CONSTRUCT":
            values = stack[len(stack) - n :]
            del stack[len(stack) - n :]
            stack.append(values)
        else:
            return stack.pop()
        at += step


@pytest.mark.parametrize("chunk", range(4))
def test_random_programs(chunk: int, tmp_path: Path) -> None:
    functions, expected = [], {}
    for seed in range(chunk * 100, chunk * 100 + 100):
        code = Writer(seed).program()
        table = build.code(
            tuple(code),
            tuple((name, overload, takes) for name, overload, takes in OPERATORS),
            CONSTANTS,
            ("List[int]",),
            REGISTERS + 1,
        )
        schema = build.schema(("self", "__torch__.M"), ("a", "int"), ("b", "int"))
        functions.append((f"__torch__.M.f{seed}", table, schema))
        expected[seed] = plain(code, seed % 7 - 3, seed % 5)
    path = tmp_path / "programs.ptl"
    path.write_bytes(build.program(functions=tuple(functions)))
    model = penlight.optimize(str(path))
    for seed, result in expected.items():
        assert model.run_method(f"f{seed}", seed % 7 - 3, seed % 5) == result, f"program {seed}"
