"""What the zoo knows of a model: how it is built, what goes in, and which sizes may vary.

Every model is built with random weights from a fixed seed, in eval mode, and with norms and scales that are far from neutral: as
libraries initialise them (mean 0, variance 1, shift 0, layer scale 1e-6) a wrong folding would go unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

SEED = 20
Inputs = tuple[Any, ...]
Size = tuple[int, ...]


@dataclass(frozen=True)
class Entry:
    """`inputs(batch, size, random)` gives example inputs; what `size` counts (pixels, words, frames) is the model's matter."""

    name: str
    family: str
    make: Callable[[], nn.Module]
    inputs: Callable[[int, Size, torch.Generator], Inputs]
    sizes: tuple[Size, ...]  # one that the capture sees, then others, if the model takes other sizes
    quick: bool = False  # small enough to be tested with every change
    batches: bool = True  # whether the batch may vary; where not, one capture for each
    tolerance: float = 1e-4  # of max |y|

    def build(self) -> nn.Module:
        """The model, the same weights on every call, ready for inference."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            model = self.make()
            randomise(model)
        return model.eval()

    def example(self, batch: int, size: Size) -> Inputs:
        return self.inputs(batch, size, torch.Generator().manual_seed(SEED + batch))

    def dynamic_shapes(self) -> tuple[Any, ...]:
        """Every dim varies that is not the same in inputs of another batch and size."""
        first = self.example(2, self.sizes[0])
        other = self.example(3 if self.batches else 2, self.sizes[-1])
        return tuple(_varying(a, b) for a, b in zip(first, other, strict=True))


def _varying(a: Any, b: Any) -> Any:
    if isinstance(a, torch.Tensor):
        sizes = enumerate(zip(a.shape, b.shape, strict=True))
        return {i: torch.export.Dim.AUTO for i, (n, m) in sizes if n != m}
    if isinstance(a, (list, tuple)):
        return type(a)(_varying(x, y) for x, y in zip(a, b, strict=True))
    return None


def images(batch: int, size: Size, random: torch.Generator) -> Inputs:
    """About as normalised photographs are: mean 0, deviation 1."""
    return (torch.randn(batch, 3, *size, generator=random),)


def randomise(model: nn.Module) -> None:
    with torch.no_grad():
        for module in model.modules():
            for name, buffer in module.named_buffers(recurse=False):
                if name == "running_mean":
                    buffer.normal_(0.0, 0.2)
                elif name == "running_var":
                    buffer.uniform_(0.6, 1.6)
            if "Norm" in type(module).__name__ and isinstance(getattr(module, "weight", None), nn.Parameter):
                module.weight.uniform_(0.7, 1.3)
        for parameter in model.parameters():
            largest = float(parameter.abs().max()) if parameter.numel() else 1.0
            if largest == 0.0:
                parameter.normal_(0.0, 0.05)
            elif largest < 1e-3:  # layer scales, which start next to nothing
                parameter.uniform_(0.1, 0.4)
