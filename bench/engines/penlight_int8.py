"""Penlight in int8: `penlight.quantize` with the batches of the calibration, then as in f32; the process never imports torch."""

from __future__ import annotations

from pathlib import Path

import penlight
from bench.case import Case
from bench.engines.penlight_engine import load
from bench.variants import batches_of


def prepare(case: Case, folder: Path) -> None:
    import torch

    batches = [torch.from_numpy(batch) for batch in batches_of(case)]
    penlight.quantize(case.module(), batches, example_inputs=case.inputs()).save(folder / "model.pen")


__all__ = ["load", "prepare"]
