"""Penlight's VM alone: the scripted model without example inputs, operator by operator, as a lite interpreter runs it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import penlight
from bench.case import Convertible
from bench.engines import Loaded


def prepare(case: Convertible, folder: Path) -> None:
    import torch

    penlight.optimize(torch.jit.script(case.module()), plan=False).save(folder / "model.pen")


def load(folder: Path, inputs: list[np.ndarray], threads: int) -> Loaded:
    model = penlight.load(folder / "model.pen", threads=threads)
    return Loaded(lambda: model(*inputs), lambda result: [np.asarray(result)])
