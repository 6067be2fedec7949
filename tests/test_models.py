"""Whole models against torch: from torch.export and from TorchScript, static and dynamic, one thread and two, contiguous
and channels-last input. Error: at most 1e-4 of max |y|. What is captured on the way is looked at too: sizes are free, and every
node knows its source line."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import penlight
from penlight.capture import capture
from penlight.ir.graph import Program
from penlight.ir.verify import verify
from tests import models
from tests.compare import assert_same

TOLERANCE = 1e-4
SIZE = 128  # pixels, of models that take any; maps are still large enough for every kind of convolution
ODD = (101, 135)  # height and width that no export used


# Files of 100 MB and more, of which traces would show no more than those of the others do.
LARGE = {"resnet50", "deeplabv3_resnet50", "vit_b_16"}


@pytest.fixture(scope="module", params=list(models.MODELS))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def dynamic_shapes(name: str) -> list[dict[int, object]]:
    auto, batch = torch.export.Dim.AUTO, torch.export.Dim("n")
    return [{0: batch, 2: auto, 3: auto}] if models.MODELS[name].any_size else [{0: batch}]


def check(model: penlight.Model, module: torch.nn.Module, x: torch.Tensor, what: str) -> float:
    with torch.no_grad():
        expected = module(x)
    error = assert_same(model(x), expected, TOLERANCE, what)
    if x.dim() == 4:
        assert_same(model(x.to(memory_format=torch.channels_last)), expected, TOLERANCE, f"{what}, channels last")
    return error


@pytest.mark.slow
@pytest.mark.parametrize("source", ["export", "script", "trace"])
def test_model(name: str, source: str, record_property: pytest.RecordProperty, monkeypatch: pytest.MonkeyPatch) -> None:
    if source == "trace" and name in LARGE:
        pytest.skip("large, and tested as a script")

    def looked_at(*args: Any, **options: Any) -> Program:
        program = capture(*args, **options)
        verify(program)
        graph = program.methods["forward"].graph
        (image,) = graph.inputs
        sizes = f"{image.name}_2, {image.name}_3" if models.MODELS[name].any_size else "224, 224"
        assert str(image.type) == f"f32[n, 3, {sizes}]"
        assert all(node.source for node in graph.nodes)
        return program

    monkeypatch.setattr("penlight.capture.capture", looked_at)
    size = SIZE if models.MODELS[name].any_size else None
    module = models.build(name)
    (x,) = models.example(name, 2, size)
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
    errors = [check(model, captured, models.example(name, n, size)[0], f"batch {n}") for n in (1, 3)]
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
