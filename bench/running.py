"""A case that an engine has loaded: runs it, times it, compares it with torch.

A model with a memory (case.py) gives something else in every run. There are answers of torch for so many runs; then, before the next
run and outside its time, the memory goes back to its beginning.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.accuracy import error_of, sqnr_of
from bench.engines import Load

WARM_S = 0.03  # of each turn, at most, goes untimed: the engine before it has emptied the caches


class Running:
    def __init__(self, load: Load, folder: Path, case: Path, threads: int, layout: str = "nchw") -> None:
        """`folder`: what the engine prepared; `case`: the folder of the case."""
        inputs = read_arrays(case / "reference" / "inputs.npz")
        if layout == "nhwc":  # the same shape, channels innermost in memory
            inputs = [np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) for x in inputs]
        self.inputs = inputs  # some engines read them in place, and do not keep them alive
        self.expected = expected_of(case)
        nearest = case / "calibration" / "nearest.npz"
        self.nearest = read_arrays(nearest) if nearest.exists() else None  # in int8
        start = time.perf_counter()
        self.run, self.read, self.reset = load(folder, inputs, threads)
        self.result = self.run()
        self.first_run_s = time.perf_counter() - start
        self.runs = 1  # since the beginning of its memory

    def times(self, seconds: float) -> list[float]:
        run, clock = self.run, time.perf_counter
        end = clock() + min(WARM_S, seconds)
        while clock() < end:
            self._go_on()
            run()
        taken: list[float] = []
        end = clock() + seconds
        while not taken or clock() < end:
            self._go_on()
            start = clock()
            self.result = run()
            taken.append(clock() - start)
        return taken

    def accuracy(self) -> dict[str, float]:
        """Of the last run."""
        expected, got = self.expected[min(self.runs, len(self.expected)) - 1], self.read(self.result)
        found = {"error": error_of(expected, got)}
        return found if self.nearest is None else {**found, "sqnr_db": sqnr_of(expected, self.nearest, got)}

    def _go_on(self) -> None:
        if self.runs == len(self.expected) > 1:
            assert self.reset is not None
            self.reset()
            self.runs = 0
        self.runs += 1


def expected_of(case: Path) -> list[list[np.ndarray]]:
    """Torch's outputs of the first run, and of those after it where there is a memory."""
    first = read_arrays(case / "reference" / "outputs.npz")
    path = case / "reference" / "further.npz"
    further = read_arrays(path) if path.exists() else []
    return [first, *(further[i : i + len(first)] for i in range(0, len(further), len(first)))]


def read_arrays(path: Path) -> list[np.ndarray]:
    with np.load(path) as arrays:
        return [arrays[name] for name in arrays.files]


def write_arrays(path: Path, arrays: Sequence[np.ndarray]) -> None:
    np.savez(path, *arrays)
