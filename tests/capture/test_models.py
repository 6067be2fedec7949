"""Two models are captured from every source, with fixed and with free sizes. The others, with the freest sizes, are looked at in
tests/test_models.py, where they also run.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim

from tests import models
from tests.capture.check import captured


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("sizes", ["static", "batch", "any size"])
@pytest.mark.parametrize("source", ["export", "script", "trace"])
@pytest.mark.parametrize("name", ["squeezenet1_1", "resnet18"])
def test_capture(name: str, source: str, sizes: str) -> None:
    module = models.build(name)
    inputs = models.example(name, batch=2)
    model: Any = module
    if source == "script":
        model = torch.jit.script(module)
    elif source == "trace":
        model = torch.jit.trace(module, inputs, strict=False, check_trace=False)
    free = {"static": {}, "batch": {0: Dim("n")}, "any size": {0: Dim("n"), 2: Dim.AUTO, 3: Dim.AUTO}}[sizes]
    method = captured(model, inputs, dynamic_shapes=(free,) if free else None)
    expected = {"static": "2, 3, 224, 224", "batch": "n, 3, 224, 224", "any size": "n, 3, {0}_2, {0}_3"}[sizes]
    (image,) = method.graph.inputs
    assert str(image.type) == f"f32[{expected.format(image.name)}]"
    assert all(node.source for node in method.graph.nodes)
    if source == "export":
        parameters = {p.data_ptr() for p in module.parameters()}
        constants = [c.constant for c in method.graph.constants.values() if c.constant is not None]
        shared = [c for c in constants if c.ctypes.data in parameters]
        assert len(shared) >= 0.9 * len(parameters)  # the rest are weights that a converter had to transpose
