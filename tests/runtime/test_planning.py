"""Where values lie: in-place results, concatenations whose parts are computed in place, views, lifetimes. Everything that
may share memory is compared with torch, in shapes where a mistake shows in the numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import penlight
from tests.runtime.networks import flat


class Call(nn.Module):
    def __init__(self, fn: Callable[..., object]) -> None:
        super().__init__()
        self.fn = fn
        self.a = nn.Conv2d(4, 6, 3, padding=1)
        self.b = nn.Conv2d(4, 10, 1)
        self.c = nn.Conv2d(6, 4, 1)

    def forward(self, x: torch.Tensor) -> object:
        return self.fn(self, x)


def row_of_itself(m: Call, x: torch.Tensor) -> torch.Tensor:
    y = x.abs() + 0.5  # rows longer than a block: in place, the first row would change under the rest
    return y / y[:, :1] + 1.0


def column_of_itself(m: Call, x: torch.Tensor) -> torch.Tensor:
    y = x.abs() + 0.5
    return y - y[:, :, :, :1]


def transposed_self(m: Call, x: torch.Tensor) -> torch.Tensor:
    y = x[0, 0, :300, :300] * 2.0
    return y + y.t()


def both_operands(m: Call, x: torch.Tensor) -> torch.Tensor:
    y = x * 2.0
    return (y + y) * y


def used_later(m: Call, x: torch.Tensor) -> torch.Tensor:
    y = x + 1.0
    z = torch.relu(y)
    return z * 2.0 + y.sum((2, 3), keepdim=True)


def view_outlives(m: Call, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = m.a(x)
    part = y[:, 2:5]
    z = torch.relu(y) * 3.0
    return z.sum((2, 3)), part * 1.0


def channel_cat(m: Call, x: torch.Tensor) -> torch.Tensor:
    return F.relu(torch.cat([m.a(x), m.b(x), x], 1))


def cat_used_twice(m: Call, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a, b = m.a(x), m.b(x)
    return torch.cat([a, b, a], 1) * 1.0, torch.cat([b, a], 1) + 1.0, a * 2.0


def nested_cat(m: Call, x: torch.Tensor) -> torch.Tensor:
    a, b = m.a(x), m.b(x)
    y = x
    for i in range(24):  # deeper than placing goes
        y = torch.cat([y, m.c(a) * float(i)], 1) if i % 2 else torch.cat([m.c(a) + float(i), y], 1)
    return torch.cat([torch.cat([a, b], 1), y, torch.cat([b, a], 1)], 1).mean((2, 3))


def batch_cat(m: Call, x: torch.Tensor) -> torch.Tensor:
    return torch.cat([m.a(x), m.a(x + 1.0), F.relu(m.a(x))], 0) * 0.5


def row_cat(m: Call, x: torch.Tensor) -> torch.Tensor:
    y = x[:1] * 2.0
    return torch.cat([y + 1.0, y * 3.0, torch.relu(y)], 1).sum(1)


def spatial_cat(m: Call, x: torch.Tensor) -> torch.Tensor:
    return torch.cat([m.a(x), m.a(x) * 2.0], 2) + torch.cat([m.a(x) * 2.0, m.a(x)], 2)


def cat_then_in_place(m: Call, x: torch.Tensor) -> torch.Tensor:
    a = m.a(x)
    joined = torch.cat([F.relu(a), torch.sigmoid(a)], 1)
    return F.relu(joined * 2.0 - 0.5) + joined


def slice_of_cat(m: Call, x: torch.Tensor) -> torch.Tensor:
    joined = torch.cat([m.a(x), m.b(x)], 1)
    return torch.cat([joined[:, 5:9], joined[:, :2]], 1) * joined[:, 3:9]


def cat_of_empty(m: Call, x: torch.Tensor) -> torch.Tensor:
    return torch.cat([m.a(x)[:, :0], m.b(x), x[:, 4:]], 1) * 2.0


def same_output_twice(m: Call, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = m.a(x)
    return y, y, y[:, 1:3], y.flatten(1), x


def output_feeds_on(m: Call, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = F.relu(m.a(x))
    z = m.c(y)
    return y, F.relu(z), z


def constants_only(m: Call, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.ones(3), m.a.weight, m.b.bias.reshape(2, 5).t(), x + 1.0


def wide_pixels(m: Call, x: torch.Tensor) -> torch.Tensor:
    """512 channels: the padded pitch."""
    y = F.conv2d(x, torch.linspace(-1, 1, 512 * 4).reshape(512, 4, 1, 1))
    z = torch.cat([y, x], 1)
    return F.relu(F.conv2d(z, torch.linspace(-1, 1, 512 * 516).reshape(512, 516, 1, 1)) + y)[:, ::37]


CASES = [
    row_of_itself, column_of_itself, transposed_self, both_operands, used_later, view_outlives, channel_cat, cat_used_twice,
    nested_cat, batch_cat, row_cat, spatial_cat, cat_then_in_place, slice_of_cat, cat_of_empty, same_output_twice,
    output_feeds_on, constants_only, wide_pixels,
]  # fmt: skip
SIZES = {transposed_self: (1, 4, 300, 300), row_of_itself: (2, 4, 30, 40), column_of_itself: (2, 4, 3, 700)}


@pytest.mark.parametrize("fn", CASES, ids=lambda fn: fn.__name__)
def test_like_torch(fn: Callable[..., object]) -> None:
    module = Call(fn).eval()
    x = torch.randn(SIZES.get(fn, (2, 4, 7, 9)))
    with torch.no_grad():
        expected = flat(module(x))
        model = penlight.optimize(module, (x,))
        for threads in (1, 3):
            got = flat(penlight.load(model._bytes, threads=threads)(x))
            assert len(got) == len(expected)
            for a, b in zip(got, expected, strict=True):
                assert a.shape == b.shape
                assert (a - b).abs().max() <= 1e-4 * b.abs().max() if b.numel() else True


def test_results_are_independent() -> None:
    """A later run changes neither an earlier result nor its inputs; a view that is returned has memory of its own."""
    module = Call(same_output_twice).eval()
    x = torch.randn(1, 4, 5, 5)
    model = penlight.optimize(module, (x,))
    first = model(x)
    kept, given = [t.clone() for t in first], x.clone()
    first[0].zero_()
    model(torch.randn(1, 4, 5, 5))
    assert all(torch.equal(a, b) for a, b in zip(first[2:], kept[2:], strict=True))
    assert torch.equal(x, given)
