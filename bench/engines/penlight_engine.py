"""Penlight through its Python API, from a .pen file, results into memory given once; the process never imports torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import penlight
from bench.case import Convertible
from bench.engines import Loaded


def prepare(case: Convertible, folder: Path) -> None:
    penlight.optimize(case.module(), case.inputs()).save(folder / "model.pen")


def load(folder: Path, inputs: list[np.ndarray], threads: int) -> Loaded:
    model = penlight.load(folder / "model.pen", threads=threads)
    results = [np.empty(output.shape, np.float32) for output in model.outputs()]  # sizes are fixed here
    return Loaded(lambda: model.run_into(results, *inputs), lambda _: results, getattr(model, "reset", None))
