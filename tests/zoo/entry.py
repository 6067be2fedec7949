"""What the zoo knows of a model: how it is built, what goes in, and which sizes may vary.

Every model is built with random weights from a fixed seed, in eval mode, and with norms and scales that are far from neutral: as
libraries initialise them (mean 0, variance 1, shift 0, layer scale 1e-6) a wrong folding would go unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

import penlight
from tests.compare import assert_same

SEED = 20
TOLERANCE = 1e-4  # of max |y|
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
    names: tuple[str, ...] = ()  # of the arguments, where they are passed by name
    free: Callable[[], Inputs] | None = None  # dynamic_shapes, where dims depend on each other
    batches: bool = True  # whether one capture serves every batch; where not, there is one for each
    settle: Callable[[nn.Module], None] | None = None  # what there is to do to the model after `randomise`
    compare: Callable[[Any, Any, float, str], float] = assert_same  # (got, expected, tolerance, what) -> the error
    others: Callable[[int, Size], list[Inputs]] = lambda batch, size: []  # further inputs of that batch and size
    worth: Callable[[Inputs, Any], None] = lambda inputs, expected: None  # asserts that the comparison says something

    def build(self) -> nn.Module:
        """The model, the same weights on every call, ready for inference."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            model = self.make()
            randomise(model)
            if self.settle:
                self.settle(model)
        return model.eval()

    def example(self, batch: int, size: Size) -> Inputs:
        return self.inputs(batch, size, torch.Generator().manual_seed(SEED + batch))

    def call(self, model: Callable[..., Any], inputs: Inputs) -> Any:
        with torch.no_grad():
            return model(**dict(zip(self.names, inputs, strict=True))) if self.names else model(*inputs)

    def capture(self, module: nn.Module, batch: int = 2, **options: Any) -> penlight.Model:
        """Every dim is free that is not the same in inputs of another batch and size."""
        first = self.example(batch, self.sizes[0])
        other = self.example(batch + 1 if self.batches else batch, self.sizes[-1])
        free = self.free() if self.free else [_varying(a, b) for a, b in zip(first, other, strict=True)]
        if self.names:
            named, shapes = dict(zip(self.names, first, strict=True)), dict(zip(self.names, free, strict=True))
            return penlight.optimize(module, (), kwargs=named, dynamic_shapes=shapes, **options)
        return penlight.optimize(module, first, dynamic_shapes=tuple(free), **options)

    def errors(self, module: nn.Module, models: dict[int, penlight.Model]) -> Iterator[float]:
        """Of batch 1 and 3 at the size that was captured, and of the other sizes: as a fraction of max |y|. `models`: the
        captures by batch, where one does not serve all; what is missing is made."""
        runs = [(1, self.sizes[0]), (3, self.sizes[0]), *((2 if self.batches else 1, size) for size in self.sizes[1:])]
        for batch, size in runs:
            captured = 2 if self.batches else batch
            if captured not in models:
                models[captured] = self.capture(module, captured)
            for inputs in (self.example(batch, size), *self.others(batch, size)):
                expected = _plain(self.call(module, inputs))
                self.worth(inputs, expected)
                yield self.compare(
                    self.call(models[captured], inputs), expected, TOLERANCE, f"batch {batch}, size {size}"
                )


def _plain(result: Any) -> Any:
    """Results of transformers are dataclasses that are dicts too; Penlight gives back dicts."""
    if hasattr(result, "to_tuple"):
        return {k: _plain(v) for k, v in result.items()}
    return result


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
