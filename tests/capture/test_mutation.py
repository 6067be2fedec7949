"""In-place calls: the cheap way where it is safe, torch's where it is not, and the numbers of eager torch in every case."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from penlight.capture.export import exported_program as exported
from penlight.errors import CaptureError
from tests.capture.check import assert_captures, captured

X = torch.linspace(-2, 2, 12).view(3, 4)


def chain(x: torch.Tensor) -> Any:
    y = x * 2
    z = y.add_(1).relu_()
    return y, z, y + z  # y is z


def residual(x: torch.Tensor) -> Any:
    out = x * 3
    out += x
    return F.relu(out, inplace=True)


def view_made_later(x: torch.Tensor) -> Any:
    y = x * 2
    y.add_(1)
    return y.view(-1), y.t()


def old_value_used_before(x: torch.Tensor) -> Any:
    y = x * 2
    before = y + 1
    y.mul_(5)
    return before, y


def identity_dropout(x: torch.Tensor) -> Any:
    y = F.dropout(x * 2, 0.5, training=False)
    return y.add_(1)


def no_copy_after_all(x: torch.Tensor) -> Any:
    y = x * 2
    z = y.contiguous()
    z.relu_()
    return y, z


SAFE = [chain, residual, view_made_later, old_value_used_before, identity_dropout, no_copy_after_all]


def through_a_view(x: torch.Tensor) -> Any:
    y = x * 2
    y[:, 1].add_(1)
    return y


def view_made_before(x: torch.Tensor) -> Any:
    y = x * 2
    flat = y.view(-1)
    y.add_(1)
    return flat * 2


def sibling_views(x: torch.Tensor) -> Any:
    y = x * 2
    a, b = y.chunk(2, 1)
    a.mul_(b)
    b.add_(a)
    return y, a, b


def reshaped(x: torch.Tensor) -> Any:
    y = x * 2
    z = y.reshape(2, -1)
    z.relu_()
    return y, z


def narrower_dtype(x: torch.Tensor) -> Any:
    y = (x * 2).to(torch.int64)
    z = x.to(torch.int32)
    z.add_(y)  # stays int32
    return z


def set_item(x: torch.Tensor) -> Any:
    y = x.clone()
    y[1] = 0.0
    return y


HARD = [through_a_view, view_made_before, sibling_views, reshaped, narrower_dtype, set_item]


class Module(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


@pytest.mark.parametrize("function", SAFE, ids=lambda f: f.__name__)
def test_plain_cases_need_no_second_trace(function: Any) -> None:
    with mock.patch.object(exported, "_decompose", side_effect=AssertionError("traced again")):
        assert_captures(Module(function), (X,), (X * 2,))


@pytest.mark.parametrize("function", HARD, ids=lambda f: f.__name__)
def test_aliases_are_left_to_torch(function: Any) -> None:
    with mock.patch.object(exported, "_decompose", wraps=exported._decompose) as decompose:
        assert_captures(Module(function), (X,), (X * 2,))
    assert decompose.called


def writes_its_input(x: torch.Tensor) -> Any:
    return x.add_(1) * 2


def writes_a_view_of_its_input(x: torch.Tensor) -> Any:
    x.view(-1)[0] = 1
    return x * 2


@pytest.mark.parametrize("function", [writes_its_input, writes_a_view_of_its_input], ids=lambda f: f.__name__)
def test_writing_into_inputs_is_an_error_in_words(function: Any) -> None:
    with pytest.raises(CaptureError, match="changes its input in place: x"):
        captured(Module(function), (X.clone(),))
