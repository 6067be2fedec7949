"""Promotion against torch: two tensors with dims, in the compiler's table and in the VM, which has it from there."""

from __future__ import annotations

import itertools

import pytest
import torch

from penlight.ir.dtypes import DTYPES, joined
from tests.vm.check import _TORCH, run


@pytest.mark.parametrize(("a", "b"), itertools.product(DTYPES, DTYPES))
def test_joined(a: str, b: str) -> None:
    expected = torch.promote_types(_TORCH[a], _TORCH[b])
    assert _TORCH[joined(a, b)] == expected
    joined_by_vm = run("aten::cat", [torch.ones(2, dtype=_TORCH[a]), torch.ones(3, dtype=_TORCH[b])], 0)
    assert joined_by_vm.dtype == expected
