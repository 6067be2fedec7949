"""Penlight from TorchScript: the scripted model and its example inputs, planned as a whole like one from torch.export."""

from __future__ import annotations

from pathlib import Path

import penlight
from bench.case import Convertible
from bench.engines.penlight_engine import load


def prepare(case: Convertible, folder: Path) -> None:
    import torch

    penlight.optimize(torch.jit.script(case.module()), case.inputs()).save(folder / "model.pen")


__all__ = ["load", "prepare"]
