"""torchvision's detectors, scripted: loops over images, classes of TorchScript, nms, boxes that are found or not."""

from __future__ import annotations

import pytest
import torch

import penlight
from tests.zoo import ZOO
from tests.zoo.entry import TOLERANCE

DETECTORS = [name for name, entry in ZOO.items() if entry.family == "torchvision detection"]


def _check(name: str, planned: bool) -> None:
    entry = ZOO[name]
    module = entry.build()
    size = entry.sizes[0]
    model = penlight.optimize(torch.jit.script(module), entry.example(1, size) if planned else None, plan=planned)
    assert not model.missing_operators
    assert bool([m for m in model._handle.methods if m.startswith("~")]) == planned
    for batch in (1, 3):
        for inputs in (entry.example(batch, size), *entry.others(batch, size)):
            with torch.no_grad():
                expected = module(*inputs)
            _, found = model(*inputs)  # scripted, they give the losses too
            entry.compare(found, expected, TOLERANCE, f"{name}, batch {batch}")


@pytest.mark.slow
@pytest.mark.parametrize("name", DETECTORS)
def test_interpreted(name: str) -> None:
    _check(name, planned=False)


@pytest.mark.slow
def test_planned() -> None:
    _check("ssdlite320_mobilenet_v3_large", planned=True)
