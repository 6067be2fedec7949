"""Indices out of range at run time: the error names operator, tensor, allowed range and what came. Nothing is read or written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import penlight

X = torch.randn(5, 7)


class Call(torch.nn.Module):
    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> Any:
        return self.fn(x, index)


CASES: dict[str, tuple[Callable[..., Any], tuple[int, ...], int, str]] = {
    "gather": (lambda x, i: x.gather(1, i[:, None]), (5,), 7, "from 0 to 6"),
    "scatter": (lambda x, i: x.scatter(0, i[None].expand(1, 7), 1.0), (7,), -1, "from 0 to 4"),
    "scatter added": (lambda x, i: x.scatter_add(1, i[:, None], x), (5,), 9, "from 0 to 6"),
    "index": (lambda x, i: x[:, i], (3,), 7, "from -7 to 6"),
    "index of two": (lambda x, i: x[i, i], (2, 3), -6, "from -5 to 4"),
    "index_select": (lambda x, i: x.index_select(0, i), (3,), -1, "from 0 to 4"),
    "index_put": (lambda x, i: x.index_put([i], torch.tensor(1.0)), (3,), 5, "from -5 to 4"),
    "index_add": (lambda x, i: x.index_add(1, i, x), (7,), 7, "from -7 to 6"),
    "take": (lambda x, i: x.take(i), (3,), 35, "from -35 to 34"),
    "embedding": (lambda x, i: F.embedding(i, x), (3,), 5, "from 0 to 4"),
    "embedding_bag": (lambda x, i: F.embedding_bag(i[None], x), (3,), 5, "from 0 to 4"),
    "one_hot": (lambda x, i: F.one_hot(i, 4), (3,), 4, "from 0 to 3"),
}


@pytest.mark.parametrize("name", CASES)
def test_out_of_range(name: str) -> None:
    fn, shape, bad, allowed = CASES[name]
    good = torch.zeros(shape, dtype=torch.int64)
    model = penlight.optimize(Call(fn), (X, good))
    assert torch.equal(model(X, good), fn(X, good))
    wrong = good.clone()
    wrong.view(-1)[-1] = bad
    with pytest.raises(penlight.RunError) as caught:
        model(X, wrong)
    text = str(caught.value)
    assert f"indices {allowed}, got {bad}" in text, text
    operator = {"take": "index", "index of two": "index", "one_hot": "scatter", "index_add": "index_put"}.get(
        name, name.split()[0]
    )
    assert text.startswith(f"{operator}."), text
    assert "index" in text.split(":")[1], text
    assert torch.equal(model(X, good), fn(X, good))


def test_masked_scatter_runs_out() -> None:
    model = penlight.optimize(Call(lambda x, s: x.masked_scatter(x > -9, s)), (X, torch.randn(35)))
    short = penlight.optimize(Call(lambda x, s: x.masked_scatter(x > 0, s)), (X, torch.randn(3)))
    assert model(X, torch.ones(35)).sum() == 35
    with pytest.raises(penlight.RunError, match="masked_scatter"):
        short(X.abs(), torch.randn(3))
