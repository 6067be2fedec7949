"""What a run may take where the caller says nothing: enough for every real model, and an end for a file that was made to take everything.

memory_limit: the machine's memory, or what its container may have. A run that needs more would be swapped or killed; so nothing that works
is refused, and a kilobyte of code that asks for terabytes ends with an error in words.

max_steps: 2 ** 44, of instructions and of elements that interpreted operators go through: half an hour of elements as fast as memory gives
them, where the longest runs of real models (a language model that writes 2,000 tokens) take a hundredth of it.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

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


def chosen(memory_limit: int | None, max_steps: int | None) -> tuple[int, int]:
    """As the runtime takes them: 0 is no limit."""
    for name, given in (("memory_limit", memory_limit), ("max_steps", max_steps)):
        if given is not None and not 0 <= given < 1 << 63:
            raise ValueError(f"{name}: expected 0 (no limit) or more, or None for the default, got {given}")
    return (
        machine_memory() if memory_limit is None else memory_limit,
        MAX_STEPS if max_steps is None else max_steps,
    )
