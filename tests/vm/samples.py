"""Tensors of every dtype and layout to try operators of the VM on, and calls that must go as torch's do, errors included."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch

from tests.vm.check import OperatorError, check, run, torch_run

INF, NAN = math.inf, math.nan
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
EVERY = (*FLOATS, *INTEGERS, torch.bool)
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 3.25, -7.75, 0.1, 1e-3, 20.0, -20.0, 60.0, INF, -INF, NAN]
TOLERANCE = {torch.float32: 3e-6, torch.float64: 1e-12, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def values(dtype: torch.dtype) -> torch.Tensor:
    """Special values, as this dtype takes them."""
    if dtype.is_floating_point:
        return torch.tensor(SPECIAL, dtype=torch.float64).to(dtype)
    if dtype == torch.bool:
        return torch.tensor([True, False, True, True, False, False, True])
    edge = torch.iinfo(dtype)
    return torch.tensor([0, 1, 2, 3, 5, 7, 100, edge.max, edge.min, edge.max - 1], dtype=dtype)


def tensors(dtype: torch.dtype) -> list[torch.Tensor]:
    """The special values, and layouts: permuted, strided, expanded, rank 0, empty."""
    torch.manual_seed(1)
    base = (torch.randn(3, 5, 7) * 4).to(dtype)
    few = [values(dtype), base.permute(2, 0, 1), base[0, 0, 0]]
    if dtype not in (torch.float32, torch.int64):
        return few
    return [*few, base[:, ::2, 1:], base[:, :1].expand(3, 4, 7), base[:, :0]]


def outcome(call: Any, *args: Any) -> Any:
    """What torch gives, or None where it refuses."""
    try:
        return call(*args)
    except (RuntimeError, NotImplementedError, TypeError, IndexError, ValueError):
        return None


def same_as_torch(name: str, *args: Any, tolerance: float | None = None, layout: bool = False) -> bool:
    """Compares, or expects an error where torch gives one. Whether torch took it."""
    expected = outcome(torch_run, name, *copy.deepcopy(args))
    if expected is None:
        with pytest.raises(OperatorError):
            run(name, *copy.deepcopy(args))
        return False
    if isinstance(expected, torch.Tensor) and tolerance is None:
        tolerance = TOLERANCE.get(expected.dtype, 0.0)
    check(name, *args, tolerance=tolerance or 0.0, layout=layout)
    return True
