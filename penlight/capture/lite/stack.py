"""Keeps track of the stack while code is translated: which register or constant holds the value at each place of it.

How deep the stack is at each instruction follows from the code alone, so every place of it has a register of its own, a slot, which
is emptied when it is read. A value that LOAD or MOVE pushes is not copied into its slot: as long as its register does not change,
whatever uses the value names that register.

LOAD leaves the value in its register, MOVE takes it out: that register is emptied (by a `drop`) as soon as neither a place on the
stack nor the instruction being translated refers to it any more.
"""

from __future__ import annotations

from typing import Any

from penlight.budget import Budget
from penlight.capture.lite.program import Function
from penlight.errors import CaptureError
from penlight.ir.script import Action, Const

MAX_DEPTH = 1 << 16


class StackCode:
    """Code of one function, and where each value on its stack is: in its own slot, another register, or a constant."""

    def __init__(self, function: Function, file: str, first_slot: int, budget: Budget) -> None:
        self.f = function
        self.file = file
        self.budget = budget
        self.first_slot = first_slot
        self.code: list[Action] = []
        self.stack: list[int | Const] | None = None  # None: nothing leads here
        self.moved: set[int] = set()  # registers to be emptied by their last reader
        self.in_hand: list[int | Const] = []  # popped, and not yet read by an action
        self.block = 0  # where in the code the block at hand begins
        self.deepest = 0
        self.at = 0

    def error(self, at: int, problem: str) -> CaptureError:
        where = self.f.sources[at] if self.f.sources and at < len(self.f.sources) and self.f.sources[at] else ""
        file = f"{self.file}: " if self.file else ""
        return CaptureError(f"{file}{self.f.name}, instruction {at}: {problem}{f' (at {where})' if where else ''}")

    def slot(self, depth: int) -> int:
        if depth >= MAX_DEPTH:
            raise self.error(self.at, "needs a stack of more than 65536 places")
        self.deepest = max(self.deepest, depth + 1)
        return self.first_slot + depth

    def push(self, where: int | Const | None = None) -> None:
        """One more value: in `where`, or in the slot of its own."""
        assert self.stack is not None
        slot = self.slot(len(self.stack))
        self.stack.append(slot if where is None else where)

    def pop(self, count: int) -> list[int | Const]:
        """Values that the instruction at hand takes; those of them that no action reads must be let go by `discard`."""
        assert self.stack is not None
        if count < 0 or count > len(self.stack):
            raise self.error(self.at, f"takes {count} values off a stack of {len(self.stack)}")
        self.in_hand = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return list(self.in_hand)

    def move(self, register: int) -> None:
        """Pushes a register's value; the register is emptied after its last use."""
        self.push(register)
        self.moved.add(register)

    def emit(self, op: str, args: Any = (), results: Any = (), target: Any = None) -> Action:
        """An action of the instruction at hand, on what it took off the stack."""
        for a in args:
            if a in self.in_hand:
                self.in_hand.remove(a)
        return self._write(op, args, results, target)

    def _write(self, op: str, args: Any, results: Any, target: Any = None) -> Action:
        # `_drop` looks at the whole stack each time
        self.budget.step(1 + len(args) + len(results) + len(self.stack or ()) // 16)
        self.budget.take(8 * (len(args) + len(results)) + 64)
        source = self.f.sources[self.at] if self.f.sources and self.at < len(self.f.sources) else ""
        action = Action(op, list(args), list(results), target, None, source or f"in {self.f.method}")
        self.code.append(action)
        if op != "return":  # which empties all registers
            self._drop(dict.fromkeys(action.args), action.results)
        return action

    def _drop(self, values: Any, written: list[int]) -> None:
        """Empties the registers among these whose values were moved and wait nowhere else."""
        assert self.stack is not None
        waiting = {*self.stack, *self.in_hand}
        done = [v for v in values if v in self.moved and v not in waiting]
        self.moved.difference_update(done)
        empty = [v for v in done if v not in written]
        if empty:
            self.code.append(Action("drop", empty, source=self.code[-1].source if self.code else ""))

    def discard(self, value: int | Const) -> None:
        """A value off the stack that nobody reads."""
        self.in_hand = []
        if isinstance(value, int) and value >= self.first_slot:
            self.emit("drop", [value])
        else:
            self._drop([value], [])

    def settle(self, only: int | None = None) -> None:
        """Puts values that wait elsewhere into their slots: all, or those in one register, which is about to change."""
        assert self.stack is not None
        self.budget.step(len(self.stack))
        for depth, where in enumerate(self.stack):
            slot = self.slot(depth)
            if where != slot and (only is None or where == only):
                self.stack[depth] = slot
                self._write("move", [where], [slot])

    def overwrite(self, register: int) -> None:
        """A register is about to change: what waits in it goes to its slots."""
        self.settle(register)
        self.moved.discard(register)

    def store(self, values: list[int | Const], registers: list[int]) -> None:
        """The values just popped, into registers; where the last action made them, it writes there itself."""
        before = len(self.code)
        for register in registers:
            self.settle(register)
        last = self._last() if len(self.code) == before else None
        if last is not None and values and last.results == values and min(last.results) >= self.first_slot:
            last.results = list(registers)
            self._keep(registers)
            self.in_hand = []
        else:
            if len(values) > 1 and any(v in registers for v in values):
                values = self._through_slots(values)
            for value, register in zip(values, registers, strict=True):
                self.emit("move", [value], [register])
        self.moved.difference_update(registers)

    def _last(self) -> Action | None:
        """The last action of this block, but for a drop."""
        at = len(self.code) - (2 if self.code and self.code[-1].op == "drop" else 1)
        return self.code[at] if at >= self.block else None

    def _keep(self, registers: list[int]) -> None:
        """What the last action writes is not dropped after it."""
        if self.code[-1].op == "drop":
            self.code[-1].args = [a for a in self.code[-1].args if a not in registers]
            if not self.code[-1].args:
                self.code.pop()

    def _through_slots(self, values: list[int | Const]) -> list[int | Const]:
        """A register is read and written by the same instruction: its value goes by the slots, which are all free."""
        assert self.stack is not None
        slots: list[int | Const] = []
        for k, value in enumerate(values):
            slot = self.slot(len(self.stack) + k)
            if value != slot:
                self.emit("move", [value], [slot])
            slots.append(slot)
        self.in_hand = list(slots)
        return slots

    def begin_block(self, depth: int | None) -> None:
        """From here on code is reached by jumps too, with so many values on the stack; None: by nothing."""
        self.budget.step(depth or 0)
        self.stack = None if depth is None else [self.slot(d) for d in range(depth)]
        self.moved, self.in_hand = set(), []
        self.block = len(self.code)
