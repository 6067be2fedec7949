"""Ways to prepare a model, to quantize it above all: an engine that has several tries them all, and the fastest that is right stands for it.

Each way is a subfolder of the engine's folder; `chosen` says which one is run, `ways.txt` what they all gave. They are timed in turns on one thread, in the process
that converts, so that nobody has to believe what is said of them elsewhere.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from bench.accuracy import is_right, keep_worst
from bench.case import Case, Convertible
from bench.engines import Load
from bench.machine import alone, come_first
from bench.running import Running

ROUNDS, TURN_S = 4, 0.25


def batches_of(case: Case) -> list[np.ndarray]:
    return list(np.load(case.folder / "calibration" / "batches.npy"))


def chosen(folder: Path) -> str:
    """The way that was kept; empty where the engine has but one."""
    path = folder / "chosen"
    return path.read_text() if path.exists() else ""


def keep_best(case: Convertible, folder: Path, names: list[str], load: Load) -> None:
    """Deletes all ways but the fastest of those that are right; of wrong ones the most accurate stays, and the table says how it is."""
    ways: dict[str, Running] = {}
    told = dict.fromkeys(names, "")
    for name in names:
        try:
            ways[name] = Running(load, folder / name, case.folder, 1)
        except Exception as e:  # of what the engine's own tools made, some is more than it can load
            told[name] = str(e).splitlines()[0][:200]
    if not ways:
        raise RuntimeError(f"none of the ways can be loaded: {told}")
    accuracy = {name: way.accuracy() for name, way in ways.items()}
    best_s = dict.fromkeys(ways, float("inf"))
    come_first()
    with alone():
        for _ in range(ROUNDS):
            for name, way in ways.items():
                best_s[name] = min(best_s[name], *way.times(TURN_S))
                keep_worst(accuracy[name], way.accuracy())
    right = [name for name in ways if is_right(accuracy[name])]
    best = min(right, key=lambda name: best_s[name]) if right else min(ways, key=lambda name: _noise(accuracy[name]))
    told |= {name: f"{1e3 * best_s[name]:.2f} ms, {accuracy[name]}" for name in ways}
    (folder / "ways.txt").write_text("".join(f"{name}: {text}\n" for name, text in told.items()))
    (folder / "chosen").write_text(best)
    for name in names:
        if name != best:
            shutil.rmtree(folder / name)


def _noise(accuracy: dict[str, float]) -> float:
    return -accuracy["sqnr_db"] if "sqnr_db" in accuracy else accuracy["error"]
