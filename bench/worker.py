"""One engine in a process of its own: `python -m bench.worker ENGINE THREADS`. It waits for its turn.

Each line on standard input is a request, each line on standard output an answer, both JSON:
    {"open": FOLDER, "layout": "nchw"}   load that case and run it once -> first_run_s, version
    {"run": SECONDS}                     run it for that long           -> times_s
Every answer has the error of the last run against torch, and the peak memory of this process.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.metadata
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.engines import ENGINES

WARM_S = 0.03  # of each turn, at most, goes untimed: the engine before it has emptied the caches


class Runner:
    """The case that is open, with its expected outputs."""

    def __init__(self, engine: str, folder: Path, threads: int, layout: str) -> None:
        image = np.load(folder / "reference" / "input.npy")
        if layout == "nhwc":  # the same shape, channels innermost in memory
            image = np.ascontiguousarray(image.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
        with np.load(folder / "reference" / "outputs.npz") as arrays:
            self.expected = [arrays[name] for name in arrays.files]
        self.image = image  # some engines read it in place, and do not keep it alive
        module = importlib.import_module(f"bench.engines.{ENGINES[engine].module}")
        start = time.perf_counter()
        self.run, self.read = module.load(folder / engine, image, threads)
        self.result = self.run()
        self.first_run_s = time.perf_counter() - start

    def times(self, seconds: float) -> list[float]:
        run, clock = self.run, time.perf_counter
        end = clock() + min(WARM_S, seconds)
        while clock() < end:
            run()
        taken: list[float] = []
        end = clock() + seconds
        while not taken or clock() < end:
            start = clock()
            self.result = run()
            taken.append(clock() - start)
        return taken

    def error(self) -> float:
        return error_of(self.expected, self.read(self.result))


def main(engine: str, threads: str) -> None:
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)  # where it may: what else runs on the machine waits meanwhile
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # some engines print to standard output
    runner: Runner | None = None
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any]
        if "open" in request:
            runner = None  # the case before goes first
            gc.enable()
            gc.collect()
            runner = Runner(engine, Path(request["open"]), int(threads), request["layout"])
            gc.disable()
            answer = {"first_run_s": runner.first_run_s, "version": version_of(ENGINES[engine].package)}
        else:
            assert runner is not None
            answer = {"times_s": runner.times(request["run"])}
        answer |= {"error": runner.error(), "peak_rss_bytes": peak_rss_bytes()}
        print(json.dumps(answer), file=answers, flush=True)


def error_of(expected: list[np.ndarray], got: list[np.ndarray]) -> float:
    """The largest difference over all outputs, of the largest value; infinite where shapes differ or anything is not finite."""
    if len(expected) != len(got):
        return float("inf")
    worst = 0.0
    for want, have in zip(expected, got, strict=True):
        if have.shape != want.shape or not np.isfinite(have).all():
            return float("inf")
        worst = max(worst, float(np.abs(have - want).max() / np.abs(want).max()))
    return worst


def version_of(package: str) -> str:
    version = getattr(sys.modules.get(package), "__version__", None) or importlib.metadata.version(package)
    return str(version).partition("+")[0].partition("-")[0]


def peak_rss_bytes() -> int:
    """Of this program alone: getrusage would also count the parent's pages between fork and exec."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


if __name__ == "__main__":
    main(*sys.argv[1:])
