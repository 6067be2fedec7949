"""torch, eager: the module in inference mode, its weights channels-last, which is a little faster here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

import penlight  # noqa: F401 (torchvision imports after it)
from bench.case import Convertible, flat
from bench.engines import Loaded

# isort: split
import torchvision  # noqa: F401 (the module's classes: unpickling would import it)


def prepare(case: Convertible, folder: Path) -> None:
    torch.save(case.module().to(memory_format=torch.channels_last), folder / "module.pt")


def load(folder: Path, image: np.ndarray, threads: int) -> Loaded:
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    module = torch.load(folder / "module.pt", weights_only=False, mmap=True)
    inputs = torch.from_numpy(image)

    def run() -> object:
        with torch.inference_mode():
            return module(inputs)

    return Loaded(run, lambda result: [t.numpy() for t in flat(result)])
