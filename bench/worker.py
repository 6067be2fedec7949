"""One engine in a process of its own: `python -m bench.worker ENGINE THREADS`. It waits for its turn.

Each line on standard input is a request, each line on standard output an answer, both JSON:
    {"open": FOLDER, "layout": "nchw"}   load that case and run it once -> first_run_s, version, way (variants.py)
    {"run": SECONDS}                     run it for that long           -> times_s
Every answer has the error of the last run against torch (in int8 also its SQNR), and the peak memory of this process.
"""

from __future__ import annotations

import gc
import importlib
import importlib.metadata
import json
import os
import sys
from pathlib import Path
from typing import Any

from bench.engines import ENGINES
from bench.machine import come_first
from bench.running import Running
from bench.variants import chosen


def main(engine: str, threads: str) -> None:
    come_first()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # some engines print to standard output
    running: Running | None = None
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any]
        if "open" in request:
            running = None  # the case before goes first
            gc.enable()
            gc.collect()
            folder = Path(request["open"])
            module = importlib.import_module(f"bench.engines.{ENGINES[engine].module}")
            running = Running(module.load, folder / engine, folder, int(threads), request["layout"])
            gc.disable()
            version = version_of(ENGINES[engine].package)
            answer = {"first_run_s": running.first_run_s, "version": version, "way": chosen(folder / engine)}
        else:
            assert running is not None
            answer = {"times_s": running.times(request["run"])}
        answer |= {**running.accuracy(), "peak_rss_bytes": peak_rss_bytes()}
        print(json.dumps(answer), file=answers, flush=True)


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
