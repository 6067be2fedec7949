"""Equal numbers: torch leaves open which of them sort (without stable), topk, kthvalue and median name. Here: any, but each
index once, and it must lead to the value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import penlight
from tests.compare import assert_same

CALLS: dict[str, Callable[[Any], Any]] = {
    "sort": lambda x: x.sort(1),
    "sort, descending": lambda x: x.sort(1, descending=True),
    "topk 3": lambda x: x.topk(3, 1),
    "topk 50": lambda x: x.topk(50, 1),
    "topk 600": lambda x: x.topk(600, 1),
    "topk 3, smallest": lambda x: x.topk(3, 1, largest=False),
    "kthvalue": lambda x: x.kthvalue(100, 1, keepdim=True),
    "median": lambda x: x.median(1, keepdim=True),
    "mode": lambda x: x.mode(1, keepdim=True),
}


class Call(torch.nn.Module):
    def __init__(self, fn: Callable[[Any], Any]) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, x: torch.Tensor) -> Any:
        return tuple(self.fn(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.int32, torch.uint8])
@pytest.mark.parametrize("name", CALLS)
def test_ties(name: str, dtype: torch.dtype) -> None:
    x = torch.randint(0, 40, (4, 2000), generator=torch.Generator().manual_seed(3)).to(dtype)
    if dtype == torch.int64:
        x[1] *= 2**40  # more than 32 bits apart
    call = CALLS[name]
    values, indices = penlight.optimize(Call(call), (x,))(x)
    assert_same(values, call(x).values, 0.0, name)
    assert torch.equal(x.gather(1, indices), values)
    assert all(len(row.unique()) == len(row) for row in indices)
