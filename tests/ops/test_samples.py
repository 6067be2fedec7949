"""Every sample of every operator: torch computes it, Penlight captures and runs it under each instruction set of this
machine, and the two must agree (NaN and inf in the same places, the rest within the operator's tolerance)."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import penlight
from penlight import _runtime
from penlight.ops import registry
from tests.compare import assert_same

ISAS = list(_runtime.isas())


def all_samples() -> list[Any]:
    cases = []
    for name, op in sorted(registry.load_all().items()):
        for sampler in op.samplers:
            torch.manual_seed(0)
            for index, sample in enumerate(sampler()):
                cases.append(
                    pytest.param(
                        op, sample, id=f"{name}-{sampler.__name__}-{index}{'-' + sample.name if sample.name else ''}"
                    )
                )
    return cases


class Call(torch.nn.Module):
    def __init__(self, fn: Any) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, *inputs: Any) -> Any:
        return self.fn(*inputs)


def dynamic_shapes(sample: registry.Sample) -> Any:
    """A sample gives one entry per input; `Call.forward(*inputs)` has one parameter, which takes them all."""
    if sample.dynamic is None or isinstance(sample.dynamic, str):
        return sample.dynamic
    return (
        sample.dynamic
        if len(sample.dynamic) == 1 and isinstance(sample.dynamic[0], tuple)
        else (tuple(sample.dynamic),)
    )


@pytest.mark.parametrize(("op", "sample"), all_samples())
def test_sample(op: registry.Op, sample: registry.Sample) -> None:
    with torch.no_grad():
        expected = sample.fn(*sample.inputs)
        model = penlight.optimize(Call(sample.fn).eval(), sample.inputs, dynamic_shapes=dynamic_shapes(sample))
    assert model._bytes is not None
    tolerance = op.tolerance if sample.tolerance is None else sample.tolerance
    for isa in ISAS:
        got = penlight.load(model._bytes, isa=isa, threads=1)(*sample.inputs)
        assert_same(got, expected, tolerance, f"{op.name} on {isa}")


def test_every_operator_has_samples() -> None:
    """An operator without a sample is an operator without a test."""
    rewritten = {"batch_norm", "pack"}  # by passes and lowering: tested through conv2d
    assert {name for name, op in registry.load_all().items() if not op.samplers} <= rewritten


def test_every_operator_is_reachable() -> None:
    """The extension holds kernels for every declared operator that is not rewritten before lowering, and for no other."""
    assert {k.split(".")[0] for k in _runtime.kernel_keys()} == set(registry.load_all()) - {"batch_norm"}
