"""Whole models against torch: from torch.export and from TorchScript, static and dynamic, one thread and two, contiguous
and channels-last input. Error: at most 1e-4 of max |y|."""

from __future__ import annotations

import pytest
import torch

import penlight
from tests import models
from tests.compare import assert_same

TOLERANCE = 1e-4
ODD = (197, 231)  # height and width that no export used


@pytest.fixture(scope="module", params=list(models.MODELS))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def dynamic_shapes(name: str) -> list[dict[int, object]]:
    auto = torch.export.Dim.AUTO
    return [{0: auto, 2: auto, 3: auto}] if models.MODELS[name].any_size else [{0: auto}]


def check(model: penlight.Model, module: torch.nn.Module, x: torch.Tensor, what: str) -> float:
    with torch.no_grad():
        expected = module(x)
    error = assert_same(model(x), expected, TOLERANCE, what)
    if x.dim() == 4:
        assert_same(model(x.to(memory_format=torch.channels_last)), expected, TOLERANCE, f"{what}, channels last")
    return error


@pytest.mark.slow
@pytest.mark.parametrize("source", ["export", "script", "trace"])
def test_model(name: str, source: str, record_property: pytest.RecordProperty) -> None:
    module = models.build(name)
    (x,) = models.example(name, batch=2)
    captured: torch.nn.Module = module
    if source == "script":
        if name == "efficientnet_lite0":
            pytest.skip(
                "torch.jit.script itself refuses this package's code (its block arguments, a namedtuple attribute, become a plain tuple)"
            )
        captured = torch.jit.script(module)
    elif source == "trace":
        captured = torch.jit.trace(module, x, strict=False, check_trace=False)
    model = penlight.optimize(captured, (x,), dynamic_shapes=dynamic_shapes(name))
    # TorchScript is compared with itself: its containers differ (a Dict is a dict where eager gives an OrderedDict).
    errors = [check(model, captured, models.example(name, batch=n)[0], f"batch {n}") for n in (1, 3)]
    if models.MODELS[name].any_size:
        errors.append(check(model, captured, torch.rand(2, 3, *ODD), "odd size"))
    record_property("error", max(errors))


@pytest.mark.slow
def test_static_model_from_file(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Exported at batch 1 with fixed shapes, saved, loaded without torch's help, at one and two threads."""
    module = models.build(name)
    (x,) = models.example(name, batch=1)
    path = tmp_path_factory.mktemp(name) / "model.pen"
    penlight.optimize(module, (x,)).save(path)
    with torch.no_grad():
        expected = module(x)
    one = penlight.load(path, threads=1, verify=True)(x)
    two = penlight.load(path, threads=2)(x)
    assert_same(one, expected, TOLERANCE)
    assert_same(two, one, 0.0, "two threads must give the very bits of one")
