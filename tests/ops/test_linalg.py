"""Matrices that cannot be factored: calls that torch checks end in an error, the others tell."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import penlight
from tests.compare import assert_same


class Call(nn.Module):
    def __init__(self, fn: Any) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, *args: Any) -> Any:
        return self.fn(*args)


SINGULAR = torch.tensor([[[2.0, 1.0], [1.0, 3.0]], [[1.0, 2.0], [2.0, 4.0]]])


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (torch.linalg.inv, "an invertible matrix.*pivot number 2"),
        (lambda a: torch.linalg.solve(a, a[..., 0]), "an invertible matrix.*pivot number 2"),
        (lambda a: torch.linalg.cholesky(a), "positive-definite matrix.*order 2"),
        (lambda a: torch.linalg.tensorinv(a[1], ind=1), "an invertible matrix"),
    ],
)
def test_checked_calls_refuse(fn: Any, words: str) -> None:
    m = penlight.optimize(Call(fn), (torch.eye(2).expand(2, 2, 2).contiguous() * 2,))
    with pytest.raises(penlight.errors.RunError, match=words):
        m(SINGULAR)
    good = SINGULAR[:1].expand(2, 2, 2).contiguous()
    assert_same(m(good), fn(good), 1e-5)  # an error does not stay


def test_the_others_tell() -> None:
    m = penlight.optimize(Call(lambda a: (torch.linalg.inv_ex(a)[1], torch.linalg.cholesky_ex(a)[1])), (SINGULAR,))
    assert_same(m(SINGULAR), (torch.linalg.inv_ex(SINGULAR)[1], torch.linalg.cholesky_ex(SINGULAR)[1]), 0.0)


def test_pivots_from_outside_are_checked() -> None:
    factors, pivots = torch.linalg.lu_factor(torch.randn(3, 3))
    m = penlight.optimize(Call(torch.linalg.lu_solve), (factors, pivots, torch.randn(3, 1)))
    with pytest.raises(penlight.errors.RunError, match="indices from 1 to 3"):
        m(factors, pivots + 5, torch.randn(3, 1))
