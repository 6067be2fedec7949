"""16 threads that load models, run them and drop them, for a while: right numbers all along, and memory that does not grow.

One execution is one run. Every "file" is a seed, and a few thousand runs; memory is looked at after each, when all but the files is dropped.
"""

from __future__ import annotations

import ctypes
import gc
import json
import random
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.python_target import Finding

THREADS = 16
GROWTH = 48 << 20  # bytes above the least that was seen after the first rounds: arenas of malloc come and go


def resident() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no VmRSS")


class Threads:
    """{"seed": 3, "runs": 40}: so many runs in each thread."""

    def __init__(self) -> None:
        import torch

        import penlight
        from penlight.capture.quiet import quiet
        from tests.fuzz.small_models import planned, scripted

        torch.set_num_threads(1)
        self.executions, self.rounds, self.least = 0, 0, 0
        self.folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
        self.files: list[tuple[Path, list[tuple[Any, Any]]]] = []
        with quiet():
            models = {"planned": planned(), "scripted": scripted()}
        for name, (model, cases) in models.items():
            path = self.folder / f"{name}.pen"
            model.save(path)
            self.files.append((path, cases))
        self.penlight = penlight
        self.shared = [penlight.load(path, threads=2) for path, _ in self.files]

    def make(self, number: int, corpus: list[bytes]) -> bytes:
        return json.dumps({"seed": number, "runs": 40}).encode()

    def run(self, data: bytes) -> str:
        told = json.loads(data)
        wrong: list[str] = []
        counts = [0] * THREADS
        workers = [
            threading.Thread(target=self._work, args=(told["seed"] * THREADS + i, told["runs"], i, counts, wrong))
            for i in range(THREADS)
        ]
        for w in workers:
            w.start()
        for w in workers:
            w.join(300)
            if w.is_alive():
                raise Finding("threads: a hang", "a thread has not ended after 300 seconds")
        self.executions += sum(counts)
        if wrong:
            raise Finding(f"threads: {wrong[0].splitlines()[0][:100]}", "\n".join(wrong[:3]))
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        now = resident()
        self.rounds += 1
        if self.rounds <= 5 or now < self.least:
            self.least = now
        if now > self.least + GROWTH:
            raise Finding(
                "threads: memory grows", f"{self.least} bytes after the first rounds, {now} after {self.rounds}"
            )
        return ""

    def _work(self, seed: int, runs: int, index: int, counts: list[int], wrong: list[str]) -> None:
        r = random.Random(seed)
        own: list[Any] = [None] * len(self.files)
        try:
            while counts[index] < runs:
                i = r.randrange(len(self.files))
                path, cases = self.files[i]
                model = self.shared[i]
                if r.random() < 0.7:
                    if own[i] is None or r.random() < 0.3:
                        options: dict[str, Any] = {"threads": r.choice((1, 1, 2, 4)), "copy": r.random() < 0.5}
                        own[i] = self.penlight.load(path if r.random() < 0.7 else path.read_bytes(), **options)
                    model = own[i]
                    if r.random() < 0.2:
                        own[i] = None
                given, expected = r.choice(cases)
                for got, wanted in zip(model(*given), expected, strict=True):
                    if not np.array_equal(np.asarray(got), wanted):
                        wrong.append(f"{path.name}: other numbers than in one thread")
                        return
                counts[index] += 1
        except Exception as e:  # it must reach the finding, not the thread's end
            import traceback

            wrong.append(f"{type(e).__name__} in a thread\n{traceback.format_exc()}")
