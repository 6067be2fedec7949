"""One engine in a process of its own: `python -m bench.worker ENGINE THREADS`. It waits for its turn.

Each line on standard input is a request, each line on standard output an answer, both JSON:
    {"open": FOLDER, "layout": "nchw"}   load that case and run it once -> first_run_s, version, way (variants.py)
    {"run": SECONDS}                     run it for that long           -> times_s
Every answer has the error of the last run against torch (in int8 also its SQNR), and the peak memory of this process.
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

from bench.accuracy import error_of, sqnr_of
from bench.engines import ENGINES
from bench.variants import chosen

WARM_S = 0.03  # of each turn, at most, goes untimed: the engine before it has emptied the caches


class Runner:
    """The case that is open, with its expected outputs."""

    def __init__(self, engine: str, folder: Path, threads: int, layout: str) -> None:
        image = np.load(folder / "reference" / "input.npy")
        if layout == "nhwc":  # the same shape, channels innermost in memory
            image = np.ascontiguousarray(image.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
        self.expected = _arrays(folder / "reference" / "outputs.npz")
        quantized = ENGINES[engine].precision == "int8"
        self.nearest = _arrays(folder / "calibration" / "nearest.npz") if quantized else None
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

    def accuracy(self) -> dict[str, float]:
        got = self.read(self.result)
        found = {"error": error_of(self.expected, got)}
        return found if self.nearest is None else {**found, "sqnr_db": sqnr_of(self.expected, self.nearest, got)}


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
            folder = Path(request["open"])
            runner = Runner(engine, folder, int(threads), request["layout"])
            gc.disable()
            version = version_of(ENGINES[engine].package)
            answer = {"first_run_s": runner.first_run_s, "version": version, "way": chosen(folder / engine)}
        else:
            assert runner is not None
            answer = {"times_s": runner.times(request["run"])}
        answer |= {**runner.accuracy(), "peak_rss_bytes": peak_rss_bytes()}
        print(json.dumps(answer), file=answers, flush=True)


def _arrays(path: Path) -> list[np.ndarray]:
    with np.load(path) as arrays:
        return [arrays[name] for name in arrays.files]


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
