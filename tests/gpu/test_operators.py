"""Every sample of every operator that GPUs have, on both software drivers: the answers are torch's. Where values are stored as f16, torch
is given what f16 can hold, and its answers are rounded so. What the file needs and no GPU has is skipped; test_keys says which operators must be there."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import penlight
from penlight import _runtime
from penlight.file.reader import read
from tests.compare import assert_same
from tests.gpu.conftest import device_of
from tests.ops.recording import Case, all_cases, model_of

F32, F16 = 1e-4, 2e-2


@functools.cache
def _has() -> set[str]:
    return set(_runtime.backend_keys("vulkan"))


def _marked() -> list[object]:
    """On lavapipe all, on SwiftShader and in f16 a third each; the quick tests take the first of each operator on one of them."""
    seen: set[str] = set()
    marked = []
    for case in all_cases():
        first = case.op.name not in seen
        seen.add(case.op.name)
        ways = [("lavapipe", False)]
        if first or case.index % 3 == 0:
            ways.append(("swiftshader", False))
        if first or case.index % 3 == 1:
            ways.append(("lavapipe", True))
        for i, (driver, f16) in enumerate(ways):
            marks = [] if first and i == 0 else [pytest.mark.slow]
            marked.append(pytest.param(case, driver, f16, id=f"{case.name}-{driver}{'-f16' if f16 else ''}", marks=marks))
    return marked


def _tensors(values: Any) -> list[torch.Tensor]:
    return [t for t in pytree.tree_leaves(values) if isinstance(t, torch.Tensor)]


def _halved(values: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, lambda t: t.half().float() if t.dtype == torch.float32 else t, values)


@pytest.mark.parametrize(("case", "driver", "f16"), _marked())
def test_sample(case: Case, driver: str, f16: bool, recording: Path) -> None:
    device = device_of(driver)
    file = model_of(case, recording)
    if missing := set(read(file).keys) - _has():
        pytest.skip(f"no GPU has {', '.join(sorted(missing))}")
    inputs = _halved(case.sample.inputs) if f16 else case.sample.inputs
    with torch.no_grad():
        expected = case.sample.fn(*inputs)
    if f16:
        expected = _halved(expected)
        if any(t.dtype in (torch.int64, torch.int32) for t in _tensors(expected)) and any(t.is_floating_point() for t in _tensors(inputs)):
            pytest.skip("whole numbers of what f16 rounds")
    got = penlight.load(file, device=device, f16=f16)(*inputs)
    assert_same(got, expected, F16 if f16 else max(F32, case.tolerance), case.name)
