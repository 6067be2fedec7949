"""Legacy files, end to end: Penlight gives what PyTorch Mobile's own runtime gave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import penlight
from penlight.capture.lite import read
from tests.capture.lite import legacy

CASES = list(legacy.cases())


@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_results_are_those_of_the_original(case: legacy.Case) -> None:
    compare(case, penlight.optimize(str(case.path)))


@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_results_after_saving(case: legacy.Case, tmp_path: Path) -> None:
    if case.name.startswith(("small", "control")) and case.version not in (4, 9):
        pytest.skip("the same code as in the other versions")
    path = tmp_path / "model.pen"
    penlight.optimize(str(case.path)).save(str(path))
    compare(case, penlight.load(str(path)))


def compare(case: legacy.Case, model: Any) -> None:
    """Every call of a case, in order, on one model."""
    tolerance = step(case) if case.name.startswith(("static", "quantized")) else 0.0
    for call in case.calls:
        try:
            got = model.run_method(call.method, *[_given(a) for a in call.args])
        except penlight.RunError as e:
            assert call.error, str(e)
            assert call.error.removeprefix("AssertionError: ") in str(e)
            continue
        assert not call.error, f"expected the error {call.error!r}"
        _same(got, call.expected, tolerance, "dynamic" in case.name)


def step(case: legacy.Case) -> float:
    """What lies between two values of the output, which is quantized: the scale, among the program's constants, of which all
    results are multiples."""
    constants = [c for f in read(case.path).functions.values() for c in f.constants if isinstance(c, float) and c > 0]
    results = np.concatenate([call.expected.ravel() for call in case.calls])
    return max(c for c in constants if np.allclose(results / c, np.round(results / c), atol=1e-3))


def _given(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return torch.tensor(value)
    if isinstance(value, list):
        return [_given(v) for v in value]
    return {k: _given(v) for k, v in value.items()} if isinstance(value, dict) else value


def _same(got: Any, expected: Any, step: float, dynamic: bool) -> None:
    if isinstance(expected, np.ndarray):
        got = np.asarray(got)
        assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
        # activations are quantized by their own range: a value on the edge of two steps may fall to either side
        scale = float(np.abs(expected).max(initial=0))
        bound = 0.02 * scale if dynamic else max(1.01 * step, 1e-5 * scale)
        np.testing.assert_allclose(got, expected, rtol=0, atol=bound)
    elif isinstance(expected, (list, tuple)):
        assert len(got) == len(expected)
        for a, b in zip(got, expected, strict=True):
            _same(a, b, step, dynamic)
    elif isinstance(expected, dict):
        assert list(got) == list(expected)
        for key in expected:
            _same(got[key], expected[key], step, dynamic)
    else:
        assert type(got) is type(expected)
        assert got == expected


@pytest.mark.slow
@pytest.mark.skipif(bool(legacy.original_missing()), reason=legacy.original_missing())
def test_every_file_of_the_original(tmp_path: Path) -> None:
    legacy.make(tmp_path, legacy.ORIGINAL_PYTHON)
    for case in legacy.cases(tmp_path):
        compare(case, penlight.optimize(str(case.path)))
