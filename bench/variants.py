"""Ways to quantize: an engine that has several tries them all, and the fastest that is right stands for it.

Each way is a subfolder of the engine's folder; `chosen` says which one is run, `ways.txt` what they all gave. They are timed in turns on one thread, in the process
that converts, so that nobody has to believe what is said of them elsewhere.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.accuracy import is_right, sqnr_of
from bench.case import Case
from bench.engines import Loaded

ROUNDS, TURN_S = 4, 0.25
Load = Callable[[Path, np.ndarray, int], Loaded]


def batches_of(case: Case) -> list[np.ndarray]:
    return list(np.load(case.folder / "calibration" / "batches.npy"))


def chosen(folder: Path) -> str:
    """The way that was kept; empty where the engine has but one."""
    path = folder / "chosen"
    return path.read_text() if path.exists() else ""


def keep_best(case: Case, folder: Path, names: list[str], load: Load) -> None:
    """Deletes all ways but the fastest of those that are right; of wrong ones the most accurate stays, and the table says how it is."""
    image = np.load(case.folder / "reference" / "input.npy")
    expected, nearest = (_arrays(case, name) for name in ("reference/outputs.npz", "calibration/nearest.npz"))
    loaded = {name: load(folder / name, image, 1) for name in names}
    sqnr_db = {name: sqnr_of(expected, nearest, way.read(way.run())) for name, way in loaded.items()}
    best_s = dict.fromkeys(names, float("inf"))
    for _ in range(ROUNDS):
        for name, way in loaded.items():
            best_s[name] = min(best_s[name], _best_s(way.run))
    right = [name for name in names if is_right({"sqnr_db": sqnr_db[name]})]
    best = min(right, key=lambda name: best_s[name]) if right else max(names, key=lambda name: sqnr_db[name])
    told = [f"{name}: {1e3 * best_s[name]:.2f} ms, {sqnr_db[name]:.1f} dB\n" for name in names]
    (folder / "ways.txt").write_text("".join(told))
    (folder / "chosen").write_text(best)
    for name in names:
        if name != best:
            shutil.rmtree(folder / name)


def _arrays(case: Case, path: str) -> list[np.ndarray]:
    with np.load(case.folder / path) as arrays:
        return [arrays[name] for name in arrays.files]


def _best_s(run: Callable[[], object]) -> float:
    best, end = float("inf"), time.perf_counter() + TURN_S
    while time.perf_counter() < end:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best
