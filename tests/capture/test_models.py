"""Every model of the zoo is captured from every source, with fixed and with free sizes; nothing is unsupported.

Numbers are compared in tests/test_models.py, where the models run.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim

from tests import models
from tests.capture.check import captured

# torch.jit.script does not take its blocks (attributes of a namedtuple)
NOT_SCRIPTABLE = {"efficientnet_lite0"}
QUICK = {"squeezenet1_1", "resnet18"}
SIZES = ("static", "batch", "any size")


def cases() -> list[Any]:
    """All combinations for two models; for the others the freest sizes, the hardest case."""
    found = []
    for name, model in models.MODELS.items():
        free = SIZES if model.any_size else SIZES[:2]
        for source in ("export", "script", "trace"):
            for sizes in free if name in QUICK else free[-1:]:
                if source != "script" or name not in NOT_SCRIPTABLE:
                    marks = () if name in QUICK else pytest.mark.slow
                    found.append(pytest.param(name, source, sizes, marks=marks, id=f"{name}-{source}-{sizes}"))
    return found


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize(("name", "source", "sizes"), cases())
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
    if source == "module":
        parameters = {p.data_ptr() for p in module.parameters()}
        constants = [c.constant for c in method.graph.constants.values() if c.constant is not None]
        shared = [c for c in constants if c.ctypes.data in parameters]
        assert len(shared) >= 0.9 * len(parameters)  # the rest are weights that a converter had to transpose
