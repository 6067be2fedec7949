"""The machine that the numbers come from: its name, the cores used, and the most it could do (peak.c)."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.case import ROOT

QUIET = 0.05  # of the processors may go to other programs before it matters


def pinned(threads: int) -> list[str]:
    """The beginning of a command that gets as many cores as threads, before any library counts them. The last cores:
    interrupts mostly go to the first."""
    allowed = sorted(os.sched_getaffinity(0))
    if threads > len(allowed):
        raise SystemExit(f"--threads: expected at most {len(allowed)}, the cores of this machine, got {threads}")
    return ["taskset", "-c", ",".join(map(str, allowed[-threads:]))]


def peak(threads: int) -> dict[str, float]:
    """GFLOP/s and copied GB/s of that many cores."""
    binary = ROOT / "build" / "peak"
    source = ROOT / "bench" / "peak.c"
    if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
        binary.parent.mkdir(exist_ok=True)
        subprocess.run(["cc", "-O2", "-march=native", "-pthread", "-o", str(binary), str(source)], check=True)
    run = subprocess.run([*pinned(threads), str(binary), str(threads)], check=True, capture_output=True)
    return json.loads(run.stdout)  # type: ignore[no-any-return]


def about() -> dict[str, Any]:
    return {"cpu": cpu_name(), "cores": len(os.sched_getaffinity(0)), "system": platform.platform(terse=True)}


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(": ", 1)[1] for line in lines if line.startswith("model name")), platform.machine())


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Only one benchmark measures on this machine at a time; another waits here."""
    with (ROOT / "build" / "bench.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def come_first() -> None:
    """Where it may, this process comes before what else runs on the machine."""
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)


class Busy:
    """How much of the processors other programs took while in its `with` blocks; our own are this process and its
    children that have ended (a worker counts when its case is done)."""

    def __init__(self) -> None:
        self._all = self._used = self._own = 0.0

    def __enter__(self) -> None:
        self._start = _ticks(), _own_s()

    def __exit__(self, *_: object) -> None:
        (used, total), own = _ticks(), _own_s()
        self._used += used - self._start[0][0]
        self._all += total - self._start[0][1]
        self._own += own - self._start[1]

    @property
    def others(self) -> float:
        return max(0.0, self._used - self._own) / self._all if self._all else 0.0


def _ticks() -> tuple[float, float]:
    """Seconds that all cores together worked, and seconds that there were."""
    values = [int(text) for text in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    seconds = 1 / os.sysconf("SC_CLK_TCK")
    return seconds * (sum(values) - values[3] - values[4]), seconds * sum(values)


def _own_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
