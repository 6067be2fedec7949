"""torch, eager: the module in inference mode; weights of networks for images channels-last, which is a little faster here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

import penlight  # noqa: F401 (torchvision imports after it)
from bench.case import Convertible, flat
from bench.decoder import Step
from bench.engines import Loaded

# isort: split
import torchvision  # noqa: F401 (the module's classes: unpickling would import it)


def prepare(case: Convertible, folder: Path) -> None:
    module = case.module()
    if case.inputs()[0].dim() == 4:
        module = module.to(memory_format=torch.channels_last)
    torch.save(module, folder / "module.pt")


def load(folder: Path, inputs: list[np.ndarray], threads: int) -> Loaded:
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    module = torch.load(folder / "module.pt", weights_only=False, mmap=True)
    given = list(map(torch.from_numpy, inputs))
    first = [buffer.clone() for buffer in module.buffers()] if isinstance(module, Step) else []

    def run() -> object:
        with torch.inference_mode():
            return module(*given)

    def reset() -> None:
        for buffer, value in zip(module.buffers(), first, strict=True):
            buffer.copy_(value)

    return Loaded(run, lambda result: [t.numpy() for t in flat(result)], reset)
