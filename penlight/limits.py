"""What a run may take where the caller says nothing: enough for every real model, and an end for a file that was made to take everything.

memory_limit: the machine's memory, or what its container may have. A run that needs more would be swapped or killed; so nothing that works
is refused, and a kilobyte of code that asks for terabytes ends with an error in words.

max_steps: 2 ** 44, of instructions and of elements that interpreted operators go through: half an hour of elements as fast as memory gives
them, where the longest runs of real models (a language model that writes 2,000 tokens) take a hundredth of it.
"""

from __future__ import annotations

import functools
import math
import operator
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from penlight.errors import ArgumentError, InputError, RunError

MAX_STEPS = 1 << 44
_CONTAINER = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@functools.cache
def machine_memory() -> int:
    """Bytes; 0: the system does not say."""
    try:
        found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, ValueError, OSError):
        return 0
    for path in _CONTAINER:
        try:
            text = Path(path).read_text().strip()
        except OSError:
            continue
        found += [int(text)] if text.isdigit() else []  # "max": no limit
    return max(min(found), 0)


def free_memory() -> int:
    """Bytes that may be taken now, without others being swapped or killed; 0: the system does not say."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return min(int(line.split()[1]) * 1024, machine_memory())
    except (OSError, ValueError):
        pass
    return machine_memory()


def check_made_up(inputs: Iterable[tuple[str, Sequence[int], int]]) -> None:
    """Before inputs are made up for a model (name, dims, bytes of an element): a file may say any sizes, and random numbers are drawn in f64."""
    sizes = {name: math.prod(dims) * (size + 8) for name, dims, size in inputs}
    free = free_memory()
    if free and sum(sizes.values()) > free:
        name = max(sizes, key=sizes.__getitem__)
        raise RunError(
            f"input {name}: expected inputs that can be made up in the memory that is free, {free >> 20} MB, got one for which"
            f" {sizes[name] >> 20} MB are needed",
            status="memory",
        )


def chosen(memory_limit: int | None, max_steps: int | None) -> tuple[int, int]:
    """As the runtime takes them: 0 is no limit."""
    words = "0 (no limit) or more, or None for the default"
    return (
        whole("memory_limit", machine_memory() if memory_limit is None else memory_limit, 0, (1 << 63) - 1, words),
        whole("max_steps", MAX_STEPS if max_steps is None else max_steps, 0, (1 << 63) - 1, words),
    )


def whole(name: str, given: Any, least: int, most: int, words: str) -> int:
    """An argument that is a whole number, of whatever type, from `least` to `most`; `words` say which are expected."""
    try:
        number = operator.index(given)
    except TypeError:
        raise InputError(f"{name}: expected {words}, got {type(given).__name__}") from None
    if not least <= number <= most:
        got = number if abs(number) < 1 << 64 else "a number of more than 64 bits"
        raise ArgumentError(f"{name}: expected {words}, got {got}")
    return number


def flag(name: str, given: Any) -> bool:
    """An argument that is true or false, as anything is in Python but arrays of several."""
    try:
        return bool(given)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"{name}: expected True or False, got {type(given).__name__}") from None
