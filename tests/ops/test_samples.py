"""Every sample of every operator: torch computes it, Penlight captures and runs it, and the two must agree (NaN and inf in
the same places, the rest within the operator's tolerance). Here on the best instruction set of this machine; on the
others in tests/runtime/test_isa.py and test_arm.py, from what is recorded here."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import penlight
from penlight import _runtime
from penlight.ops import registry
from tests.compare import assert_same
from tests.ops.recording import Case, all_cases, model_of


def _marked() -> list[object]:
    """The quick tests take the first sample of each operator and every eighth of all."""
    seen: set[str] = set()
    marked = []
    for case in all_cases():
        quick = case.op.name not in seen or case.index % 8 == 0
        seen.add(case.op.name)
        marked.append(pytest.param(case, id=case.name, marks=[] if quick else [pytest.mark.slow]))
    return marked


@pytest.mark.parametrize("case", _marked())
def test_sample(case: Case, recording: Path) -> None:
    with torch.no_grad():
        expected = case.sample.fn(*case.sample.inputs)
    got = penlight.load(model_of(case, recording), threads=1)(*case.sample.inputs)
    assert_same(got, expected, case.tolerance, case.name)


def test_every_operator_has_samples() -> None:
    """An operator without a sample is an operator without a test."""
    rewritten = {"batch_norm", "pack"}  # by passes and lowering: tested through conv2d
    rewritten |= {"lookup"}  # torch has none: tests/ops/test_quantized_elementwise.py
    # samples are real numbers, whose types say nothing: tests/capture/test_quantized_ways.py, tests/ops/test_integer_products.py
    rewritten |= {"quantize", "dequantize"}
    rewritten |= {"columns_dynamic", "dequantize_dynamic"}  # tests/ops/test_dynamic_products.py
    assert {name for name, op in registry.load_all().items() if not op.samplers} <= rewritten


def test_every_operator_is_reachable() -> None:
    """The extension holds kernels for every declared operator that is not rewritten before lowering, and for no other."""
    assert {k.split(".")[0] for k in _runtime.kernel_keys()} == set(registry.load_all()) - {"batch_norm"}
