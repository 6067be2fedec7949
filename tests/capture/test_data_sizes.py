"""Sizes that come out of the data: how they are named, what follows from them, and what cannot be captured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import penlight
from penlight.capture import capture
from penlight.errors import CaptureError
from penlight.ir.text import print_graph


class Call(nn.Module):
    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.fn(*inputs)


def graph(fn: Callable[..., Any], *inputs: torch.Tensor) -> str:
    return print_graph(capture(Call(fn), inputs).methods["forward"].graph)


def same(fn: Callable[..., Any], *cases: tuple[torch.Tensor, ...]) -> None:
    model = penlight.optimize(Call(fn), cases[0])
    for inputs in cases:
        want, got = fn(*inputs), model(*inputs)
        want, got = (r if isinstance(r, (list, tuple)) else (r,) for r in (want, got))
        for w, g in zip(want, got, strict=True):
            if isinstance(w, torch.Tensor):
                torch.testing.assert_close(g, w)
            else:
                assert type(g) is type(w)
                assert g == pytest.approx(w)


X = torch.arange(-6.0, 6.0).reshape(3, 4)


def test_a_node_defines_the_size_of_its_result() -> None:
    text = graph(lambda x: torch.nonzero(x > 0) + 1, X)
    assert "%nonzero_3: i64[u0, 2] = nonzero(%gt_2)" in text
    assert "i64[u0, 2] = add(%nonzero_3" in text


def test_item_defines_a_number() -> None:
    text = graph(lambda x, n: x[: n.item()], X, torch.tensor(2))
    assert '= item(%inputs_1, symbol="u0")' in text
    assert "end=u0" in text


def test_the_length_of_a_slice_follows_from_its_bounds() -> None:
    """torch gives it a symbol of its own; here it is an expression, which later dims use."""
    text = graph(lambda x, n: x[: n.item()].reshape(-1), X, torch.tensor(2))
    assert "u1" not in text
    assert "min(" in text
    same(
        lambda x, n: (x[: n.item()].reshape(-1) * 2, x[n.item() :: 2], x[:, : -n.item()]),
        *((X, torch.tensor(n)) for n in (2, 0, 1, -1, -3, 7)),
    )


def test_a_number_that_only_meets_tensors_needs_no_stage() -> None:
    program = capture(Call(lambda x: x * x.max().long().item()), (X,))
    from penlight.passes.pipeline import optimize

    optimize(program)
    assert not any(node.op == "item" for node in program.methods["forward"].graph.nodes)
    same(lambda x: x * x.max().long().item(), (X,), (X + 3,))


def test_floats_read_from_tensors() -> None:
    same(lambda x: x * (x[0, 0].item() * 2 + 1) - x[1, 1].item() / 3, (X,), (X + 1,))


def test_numbers_as_results() -> None:
    same(
        lambda x, n: (n.item(), n.item() + x.shape[0], torch.nonzero(x).shape[0], x[0, 0].item(), x[0, 0].item() * 2),
        (X, torch.tensor(5)),
        (X * 0, torch.tensor(-9)),
    )


def test_lists_of_numbers() -> None:
    same(lambda x, n: torch.split(x, n.tolist(), 1), (X, torch.tensor([1, 3])), (X, torch.tensor([4, 0])))


def test_parts_at_places_of_a_tensor() -> None:
    same(lambda x, i: torch.tensor_split(x, i, 1), *((X, torch.tensor(i)) for i in ([1, 3], [0, 9], [-1, 4], [3, 1])))


def test_counts() -> None:
    same(lambda n: torch.bincount(n), *((torch.tensor(n),) for n in ([3, 1, 1], [0, 0, 0], [0, 9, 2])))
    same(lambda n: torch.bincount(n, minlength=5) * 2, *((torch.tensor(n),) for n in ([3, 1], [0, 8])))
    same(lambda n, w: torch.bincount(n, w), *((torch.tensor(n), torch.tensor([0.5, 2.0])) for n in ([3, 1], [1, 1])))


def test_repeats() -> None:
    repeats = [torch.tensor(r) for r in ([1, 2, 3], [0, 0, 0], [4, 0, 1])]
    same(lambda x, n: x.repeat_interleave(n, 0) + 1, *((X, r) for r in repeats))
    same(lambda x, n: x.T.repeat_interleave(n, 1), *((X, r) for r in repeats))
    same(lambda n: torch.repeat_interleave(n), *((r,) for r in repeats))
    same(lambda x, n: x.repeat_interleave(n), (X, torch.tensor(2)), (X, torch.tensor([3])[0]))


def test_nonzero_of_a_given_size() -> None:
    same(lambda x: (torch.nonzero_static(x, size=5), torch.nonzero_static(x, size=20, fill_value=7)), (X,), (X * 0,))


def test_assignment_through_masks() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[x > 2] = 0.5
        y[x < -2] = y[x < -2] * 10
        y[:, x[0] > -5] = torch.ones(3, 1)
        return y

    same(fn, (X,), (X * 0,), (-X,))


def test_two_sizes_that_must_agree() -> None:
    same(lambda x: x[x > 0] * torch.nonzero(x > 0)[:, 1], (X,), (X - 9,), (X + 9,))


def test_torchscript_too() -> None:
    class Picks(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[x > 0].exp()

    model = penlight.optimize(torch.jit.script(Picks()), (X,))
    torch.testing.assert_close(model(X), X[X > 0].exp())
    assert model(X - 99).shape == (0,)


def test_a_branch_on_such_a_size_is_refused() -> None:
    with pytest.raises(CaptureError, match="values of a tensor"):
        capture(Call(lambda x: x if torch.nonzero(x).shape[0] > 3 else -x), (X,))
