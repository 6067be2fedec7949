"""Every sample of every operator that GPUs have, on both software drivers: the answers are torch's. Values stored as f16 are compared
with torch's answers for the inputs that f16 can hold, as f16 can hold them;
devices may take f32 numbers below 2**-126 for 0. What the file needs and no GPU has is skipped; test_names says which operators must be
there."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree

import penlight
from penlight import _runtime
from penlight.file.reader import read
from tests.compare import assert_same
from tests.gpu.conftest import device_of
from tests.ops.recording import Case, all_cases, model_of

ALL = os.environ.get("PENLIGHT_GPU") == "all"
F32, F16 = 1e-4, 2e-2
BEYOND_F16 = {
    "group_norm-_-7-large mean", "layer_norm-_-4-large mean",  # 100 + x / 1000 is 100 there
    "gelu-automatic-2-special values",  # 1e30 is inf there, of which torch's vectorized gelu makes NaN, its others inf
}  # fmt: skip


@functools.cache
def _has() -> set[str]:
    return set(_runtime.backend_keys("vulkan"))


def _marked() -> list[object]:
    """On lavapipe all, on SwiftShader and in f16 a third each (PENLIGHT_GPU=all: all); the quick tests take the first of each operator on one of them."""
    seen: set[str] = set()
    marked = []
    for case in all_cases():
        first = case.op.name not in seen
        seen.add(case.op.name)
        ways = [("lavapipe", False)]
        if ALL or first or case.index % 3 == 0:
            ways.append(("swiftshader", False))
        if (ALL or first or case.index % 3 == 1) and case.name not in BEYOND_F16:
            ways.append(("lavapipe", True))
        for i, (driver, f16) in enumerate(ways):
            marks = [] if first and i == 0 else [pytest.mark.slow]
            marked.append(
                pytest.param(case, driver, f16, id=f"{case.name}-{driver}{'-f16' if f16 else ''}", marks=marks)
            )
    return marked


def _held(values: Any, f16: bool) -> Any:
    """As a GPU holds them."""

    def one(x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or x.dtype != torch.float32:
            return x
        return x.half().float() if f16 else torch.where(x.abs() < torch.finfo(x.dtype).tiny, x * 0, x)

    return pytree.tree_map(one, values)


def _has_whole(values: Any) -> bool:
    return any(t.dtype in (torch.int64, torch.int32) for t in pytree.tree_leaves(values) if isinstance(t, torch.Tensor))


@pytest.mark.parametrize(("case", "driver", "f16"), _marked())
def test_sample(case: Case, driver: str, f16: bool, recording: Path) -> None:
    device = device_of(driver)
    file = model_of(case, recording)
    if missing := set(read(file).keys) - _has():
        pytest.skip(f"no GPU has {', '.join(sorted(missing))}")
    inputs = _held(case.sample.inputs, f16)
    with torch.no_grad():
        expected = case.sample.fn(*inputs)
    expected = _held(expected, f16)
    if (
        f16
        and _has_whole(expected)
        and any(t.dtype == torch.float32 for t in pytree.tree_leaves(inputs) if isinstance(t, torch.Tensor))
    ):
        pytest.skip("whole numbers of what f16 rounds on the way")
    got = penlight.load(file, device=device, f16=f16)(*inputs)
    assert_same(got, expected, F16 if f16 else max(F32, case.tolerance), case.name)
