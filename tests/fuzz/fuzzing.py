"""Runs targets for a share of the time each, restarts those that crash at the next file, makes what was found small, and writes it down.

Findings are told apart by a signature: what a sanitizer says and the first place in Penlight's own code, or the exception and its place.
Each is written once, as TARGET-HASH under build/fuzzing/findings, with what was said beside it (.txt). When one is mended, its file goes to
tests/fuzz/findings/TARGET, which the tests replay.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.fuzz import minimize
from tests.fuzz.targets import BUILD, Target
from tests.fuzz.worker import name_of

SLICE = 60.0  # seconds that one process works: the next one takes what has come into the corpus
SILENCE = 180.0  # seconds without a word: it hangs
MINIMIZING = 60.0
# Where the files lie that are being run, a thousand a second: a disk waits for each that is written again. None: the usual place.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@dataclass
class State:
    """How a target is doing."""

    target: Target
    next: int = 0
    done: int = 0  # executions of processes that have ended
    now: int = 0  # and of the one that runs
    seconds: float = 0.0
    findings: dict[str, Path] = field(default_factory=dict)
    word: str = "waits"

    @property
    def executions(self) -> int:
        return self.done + self.now


def signature(output: str, status: int) -> str:
    """The same for the same mistake, whatever the numbers."""
    kind = re.search(r"SUMMARY: \w+: ([\w-]+)", output) or re.search(r"runtime error: (.+)", output)
    if "a hang" in output:
        kind = re.search(r"(a hang)", output)
    place = re.search(r" in (\S+).*?/(penlight/[\w/.]+:\d+)", output)
    words = re.sub(r"-?\d[\d.e+-]*", "#", kind[1]) if kind else f"exit status {status}"
    without = re.search(r"(\S+): an error without words", output)
    return without[0] if without else f"{words} at {place[2] if place else '?'}"


class Fuzzing:
    def __init__(
        self,
        targets: list[Target],
        seconds: float,
        seed: int,
        *,
        corpus: bool = True,
        told: Callable[[], None] = lambda: None,
    ) -> None:
        self.states = [State(t, next=seed) for t in targets]
        self.seconds, self.keeps, self.told = seconds, corpus, told
        self._turn = threading.Lock()
        self._stopping = False
        self._running: set[subprocess.Popen[str]] = set()

    def run(self, jobs: int) -> None:
        """Until each target had its time; `jobs` of them at once."""
        waiting = list(self.states)

        def work() -> None:
            while not self._stopping:
                with self._turn:
                    if not waiting:
                        return
                    state = waiting.pop(0)
                left = self.seconds - state.seconds
                self.slice(state, min(SLICE, left))
                with self._turn:
                    if state.seconds < self.seconds - 1:
                        waiting.append(state)

        workers = [threading.Thread(target=work) for _ in range(jobs)]
        for w in workers:
            w.start()
        try:
            for w in workers:
                while w.is_alive():
                    w.join(0.5)
        except KeyboardInterrupt:
            self.stop()
            raise
        finally:
            for w in workers:
                w.join()

    def stop(self) -> None:
        self._stopping = True
        for process in list(self._running):
            process.kill()

    def slice(self, state: State, seconds: float) -> None:
        """One process, for so long."""
        target = state.target
        corpus = None
        if self.keeps:
            corpus = BUILD / "corpus" / target.name
            corpus.mkdir(parents=True, exist_ok=True)
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="fuzz-", dir=MEMORY) as folder:
            crash = Path(folder) / "current"
            errors = Path(folder) / "errors"
            state.word = "runs"
            soft: list[tuple[Path, str]] = []
            with open(errors, "w") as err:
                process = subprocess.Popen(
                    target.command(seconds, state.next, crash, corpus), stdout=subprocess.PIPE, stderr=err, text=True,
                    env=target.environment(corpus) | {"TMPDIR": folder},
                )  # fmt: skip
                self._running.add(process)
                first = state.next
                hung = self._listen(process, state, soft)
                status = process.wait()
                self._running.discard(process)
            state.done, state.now = state.done + state.now, 0
            said = errors.read_text(errors="replace")
            for path, name in soft:
                self._note(state, name, path.read_bytes(), said)
            if (status != 0 or hung) and not self._stopping:
                told = "a hang: no word for minutes" if hung else said
                if crash.exists():
                    self._note(state, f"{target.name}: {signature(told, status)}", crash.read_bytes(), said or told)
                else:  # it did not come as far as a file
                    self._note(state, f"{target.name}: does not start, or ends badly", b"", said[-4000:])
                    state.seconds = self.seconds
                state.next = max(state.next, first) + 1
        state.seconds += time.monotonic() - start
        state.word = "waits"
        self.told()

    def _listen(self, process: subprocess.Popen[str], state: State, soft: list[tuple[Path, str]]) -> bool:
        """Reads what it says until it ends; whether it had to be ended."""
        last = [time.monotonic()]
        hung = threading.Event()

        def watch() -> None:
            while process.poll() is None:
                if time.monotonic() - last[0] > SILENCE:
                    hung.set()
                    process.kill()
                    return
                time.sleep(0.5)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        out: IO[str] = process.stdout  # type: ignore[assignment]
        for line in out:
            last[0] = time.monotonic()
            words = line.split()
            if words[:1] == ["executions"]:
                numbers = dict(zip(words[::2], words[1::2], strict=False))
                state.now, state.next = int(numbers["executions"]), int(numbers["next"])
                self.told()
            elif words[:1] == ["finding"]:
                soft.append((Path(words[1]), line.split(None, 2)[2].strip()))
        return hung.is_set()

    def _note(self, state: State, name: str, data: bytes, said: str) -> None:
        if name in state.findings:
            return
        folder = BUILD / "findings"
        folder.mkdir(parents=True, exist_ok=True)
        state.word = "makes a finding smaller"
        self.told()
        path = folder / f"{state.target.name}-{name_of(name.encode())}"
        path.write_bytes(data)
        if data and "a hang" in name and replay(state.target, path)[0] == 0:
            said = f"Not seen again when this file was run alone: a machine that stood still, or a race.\n{said}"
        elif data:
            shrink(state.target, path)
        path.with_suffix(".txt").write_text(
            f"{name}\n./dev fuzz --target {state.target.name} --replay {path}\n\n{said[-20000:]}"
        )
        state.findings[name] = path


def replay(target: Target, path: Path, seconds: float = 90) -> tuple[int, str]:
    """Exit status and what it said; a hang is status 124."""
    try:
        done = subprocess.run(
            target.replay(path),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            env=target.environment(),
        )
    except subprocess.TimeoutExpired:
        return 124, "a hang"
    return done.returncode, done.stdout + done.stderr


def shrink(target: Target, path: Path) -> None:
    """The smallest file that was found in a minute with the same signature."""
    if target.make is not None and target.name != "threads":
        subprocess.run(
            [*target.replay(path)[:4], "--minimize", str(path), str(MINIMIZING)], capture_output=True, env=target.environment(),
            timeout=20 * MINIMIZING, check=False,
        )  # fmt: skip
        return
    data = path.read_bytes()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        candidate = Path(folder) / "candidate"

        def shown(b: bytes) -> str:
            candidate.write_bytes(b)
            status, said = replay(target, candidate)
            return signature(said, status) if status else ""

        wanted = shown(data)
        if wanted and "a hang" not in wanted and target.name != "threads":
            until = time.monotonic() + MINIMIZING
            path.write_bytes(minimize.smallest(data, lambda b: shown(b) == wanted, until, session=target.session))
