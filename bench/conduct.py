"""Runs the engines of one case in turns: every engine waits in its own process, one at a time is told to run.

A machine that slows down so slows all of them. What goes wrong with an engine (not installed, does not convert, dies,
answers wrongly) becomes words in its result; the others go on.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bench.accuracy import is_right, keep_worst
from bench.case import ROOT, Case
from bench.engines import ENGINES
from bench.machine import alone, pinned
from bench.prepare import is_ready, python_of, steps
from bench.sequence_list import SequenceCase

ANSWER_S = 300.0  # longest wait for one answer
SETTLE_S = 0.1  # between turns on several threads: those of some engines spin for half as long after a run

PYTHONS = {
    "project": sys.executable,
    "peers": str(ROOT / "build" / "peers" / "bin" / "python"),
    "debian": "/usr/bin/python3",
}


AnyCase = Case | SequenceCase


class Failure(Exception):
    """An engine cannot do it; the message says why."""


def prepare(case: AnyCase, engines: Iterable[str], say: Callable[[str], None]) -> dict[str, str]:
    """Converts what is not on disk yet. Gives back the engines that cannot have this case, and why."""
    failed: dict[str, str] = {}
    wanted = []
    for engine in engines:
        if case.batch > 1 and not ENGINES[engine].batches:
            failed[engine] = "has no batch"
        else:
            wanted.append(engine)
    case.folder.mkdir(parents=True, exist_ok=True)
    with (case.folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another benchmark may be preparing the same
        for step in steps(wanted):
            source = ENGINES[step].source if step in ENGINES else ""
            if source in failed:
                failed[step] = failed[source]
            elif not is_ready(step, case):
                say(f"{case.model}: preparing {step}")
                try:
                    _convert(step, case)
                except Failure as failure:
                    if step in ("reference", "calibration"):
                        raise
                    failed[step] = str(failure)
    return failed


def _convert(step: str, case: AnyCase) -> None:
    log = case.folder / f"{step}.log"
    command = [PYTHONS[python_of(step)], "-m", "bench.prepare", step, *case.words]
    with log.open("w") as file:
        try:
            done = subprocess.run(
                command, stdout=file, stderr=file, stdin=subprocess.DEVNULL, cwd=ROOT, env=_environment(1)
            )
        except FileNotFoundError:
            raise Failure("is not installed") from None
    if done.returncode:
        raise Failure(f"does not convert: {last_words(log, done.returncode)}")


class Worker:
    """An engine in its process, which opens cases and runs them when told to."""

    def __init__(self, engine: str, threads: int, log: Path) -> None:
        self.log = log
        command = [*pinned(threads), PYTHONS[ENGINES[engine].python], "-m", "bench.worker", engine, str(threads)]
        pipe = subprocess.PIPE
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=errors, cwd=ROOT, env=_environment(threads)
            )

    def open(self, folder: Path, layout: str = "nchw") -> dict[str, Any]:
        """Loads a case and runs it once."""
        return self._ask({"open": str(folder), "layout": layout})

    def turn(self, seconds: float) -> dict[str, Any]:
        """Lets it run for that long; gives back times and error."""
        return self._ask({"run": seconds})

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failure(f"does not run: {last_words(self.log, self.process.wait())}") from None
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], ANSWER_S)[0]:
            raise Failure(f"gave no answer in {ANSWER_S:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            raise Failure(f"does not run: {last_words(self.log, self.process.wait())}")
        return json.loads(line)  # type: ignore[no-any-return]

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.close()
            self.process.wait(timeout=5)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


Results = dict[
    str, dict[str, Any]
]  # by engine: with times; or `failed`, in words; or only how wrong it is (accuracy.py)


def measure(
    case: AnyCase,
    engines: list[str],
    threads: int,
    rounds: int,
    block: float,
    step: Callable[[str], None],
    failed: dict[str, str],
) -> Results:
    """One case in all engines, each in a fresh process."""
    results: Results = {engine: {"failed": failed.get(engine, "")} for engine in engines}
    workers: dict[str, Worker] = {}
    settle = SETTLE_S if threads > 1 else 0.0
    try:
        with alone():
            for engine in engines:
                if engine in failed:
                    continue
                step(f"{case.model}: loading {engine}")
                try:
                    workers[engine] = Worker(engine, threads, case.folder / f"{engine}.log")
                    results[engine] = workers[engine].open(case.folder)
                except Failure as failure:
                    results[engine] = {"failed": str(failure)}
            take_turns(workers, results, rounds, block, lambda text: step(f"{case.model}: {text}"), settle)
    finally:
        for worker in workers.values():
            worker.close()
    return results


def take_turns(
    workers: dict[str, Worker],
    results: Results,
    rounds: int,
    block: float,
    step: Callable[[str], None],
    settle: float = 0.0,
) -> None:
    """Lets the workers run the case that they have open, one after the other, and adds what they measured to the results."""
    times: dict[str, list[float]] = {engine: [] for engine in workers}
    for number in range(rounds):
        # Another one begins each round, so that nobody always runs after the same neighbour.
        first = number % max(len(workers), 1)
        for engine in [*workers][first:] + [*workers][:first]:
            if not is_right(results[engine]):
                continue
            step(f"round {number + 1}, {engine}")
            time.sleep(settle)
            try:
                answer = workers[engine].turn(block)
                times[engine] += answer["times_s"]
                results[engine]["peak_rss_bytes"] = answer["peak_rss_bytes"]
                keep_worst(results[engine], answer)
            except Failure as failure:
                results[engine] = {"failed": str(failure)}
    for engine, taken in times.items():
        add_times(results[engine], taken)


def add_times(result: dict[str, Any], times: list[float]) -> None:
    """Adds best and median to the result, if it is right: a wrong result never has a time."""
    if is_right(result) and times:
        result.update(best_s=min(times), median_s=statistics.median(times), runs=len(times))
    for measure in ("error", "sqnr_db"):
        if measure in result and not math.isfinite(result[measure]):
            result[measure] = None  # JSON knows no infinity


def last_words(log: Path, code: int) -> str:
    """What a process said before it ended: the last line of its log that is not empty."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    ending = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    return (
        (lines[-1][:200] if lines else ending)
        if code >= 0
        else f"{ending}; last: {lines[-1][:160] if lines else 'nothing'}"
    )


def _environment(threads: int) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(threads)}
