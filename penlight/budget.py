"""How much work a model file may cause while it is read: steps, bytes and depth, in proportion to its size.

A few kilobytes can ask for anything: containers that hold themselves many times, code that doubles a stack, tensors of one element that
claim a billion. Every reader spends from the one budget of its file, and beyond it there is one error in words. What ordinary files
take is a small part of it; `read_budget=2` (`--read-budget 2`) doubles it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from penlight.errors import ArgumentError, BudgetError

_STEPS, _STEPS_PER_BYTE, _MOST_STEPS = 1_000_000, 16, 100_000_000  # a step takes a microsecond or less
_BYTES, _BYTES_PER_BYTE = 64 << 20, 16
_MOST = 1e12  # times as much: no limit
MAX_DEPTH = 200  # of values inside each other

_factor: ContextVar[float] = ContextVar("read_budget", default=1.0)


@contextmanager
def reading(factor: float = 1.0) -> Iterator[None]:
    """Budgets that are made inside are this many times as large."""
    if not isinstance(factor, (int, float)) or not factor > 0:
        raise ArgumentError(f"read_budget: expected a number above 0, got {factor!r}")
    token = _factor.set(min(factor, _MOST))
    try:
        yield
    finally:
        _factor.reset(token)


class Budget:
    """What is left for one file. `size`: of the file, in bytes; `file`: its name, for the error; `what`: what it is that has this size."""

    def __init__(self, size: int, file: str, what: str = "") -> None:
        self.file = file
        self.what = what or f"a file of {size} bytes"
        self.size = size
        factor = _factor.get()
        self.most_steps = int(factor * min(_STEPS + _STEPS_PER_BYTE * size, _MOST_STEPS))
        self.most_bytes = int(factor * (_BYTES + _BYTES_PER_BYTE * size))
        self._steps = self.most_steps
        self._complex_keys = 0
        self._bytes = self.most_bytes

    def step(self, count: int = 1) -> None:
        """Some values are looked at, made or compared."""
        self._steps -= count
        if self._steps < 0:
            raise self.exceeded(f"more than {self.most_steps} steps")

    def key(self, key: Any, size: int = 1) -> None:
        """Something is about to be hashed: all of it is walked, shared parts each time. Complex numbers of one hash are easily made, and
        each is compared with all of those before it."""
        self.step(size)
        if type(key) is complex:
            self._complex_keys += 1
            self.step(self._complex_keys)

    def take(self, size: int) -> None:
        """Some bytes of memory are needed, or will be for what the file says."""
        self._bytes -= size
        if self._bytes < 0:
            raise self.exceeded(f"more than {self.most_bytes} bytes of memory")

    def json(self, content: bytes | str) -> Any:
        """What it says. Each value is a step, before there is any: three characters make an object that is twenty times as large."""
        text = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        self.step(sum(map(text.count, (b",", b"[", b"{"))))
        return json.loads(content)

    def exceeded(self, what: str) -> BudgetError:
        return BudgetError(
            f"{self.file}: reading it takes {what}, which is out of proportion for {self.what}: its parts refer to each other so often,"
            " or claim so much, that it looks like an attack. If it is yours, give a larger read_budget (--read-budget, now"
            f" {_factor.get():g})"
        )
