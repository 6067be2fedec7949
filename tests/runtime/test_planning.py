"""Where values lie: in-place results, concatenations whose parts are computed in place, views, lifetimes. Everything that
may share memory is compared with torch, in shapes where a mistake shows in the numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import penlight
from tests import models
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


# --- the arena ---
def arena_and_live(module: nn.Module, x: torch.Tensor, threads: int = 1) -> tuple[int, int]:
    with torch.no_grad():
        model = penlight.load(penlight.optimize(module, (x,))._bytes, threads=threads)
    model.prepare(x)
    return model.arena_bytes(), model.live_bytes()


def unet(m: Call, x: torch.Tensor) -> torch.Tensor:
    """Values that live long beside values that do not: where greedy layouts lose most."""
    a = m.a(x)
    b = F.avg_pool2d(m.c(a), 2)
    c = F.max_pool2d(m.b(b), 2)
    up = F.interpolate(c, size=b.shape[2:])
    joined = torch.cat([b, up], 1)
    whole = F.interpolate(joined.mean(1, keepdim=True).expand(-1, 4, -1, -1) + 1.0, size=x.shape[2:])
    return m.a(whole) * a + m.a(x + whole)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("fn", [*CASES, unet], ids=lambda fn: fn.__name__)
def test_arena_is_close_to_what_is_alive(fn: Callable[..., object], threads: int) -> None:
    """For several threads values lie around a few middles, where that takes at most half as much again."""
    arena, live = arena_and_live(Call(fn).eval(), torch.randn(SIZES.get(fn, (2, 4, 30, 44))), threads)
    assert live <= arena <= (1.15 if threads == 1 else 1.5 * 1.15) * live


def test_values_for_several_threads_keep_within_the_limit() -> None:
    """They are laid as for one thread where there is no more memory than for that."""
    module, x = (
        nn.Sequential(nn.Tanh(), nn.AvgPool2d(2), nn.Sigmoid(), nn.AvgPool2d(2)).eval(),
        torch.randn(1, 8, 256, 256),
    )
    data = penlight.optimize(module, (x,))._bytes
    assert data is not None
    arena = {threads: arena_and_live(module, x, threads)[0] for threads in (1, 2)}
    assert arena[1] < arena[2] <= 1.5 * arena[1]
    limit = arena[1] + module(x).nbytes  # results count too
    model = penlight.Model(data, threads=2, memory_limit=limit)
    assert (torch.as_tensor(model(x)) - module(x)).abs().max() < 1e-5
    assert model.arena_bytes() == arena[1]


APART = 64 << 10  # between the scratch of two threads


def test_scratch_lies_in_the_arena() -> None:
    """Of one thread while its step runs, not beside the step where most is alive. Of several it lies beside all values, so that no thread
    writes where another has written or reads ahead there: one piece for each, as large as the largest."""
    before = nn.Sequential(nn.Tanh(), nn.AvgPool2d(8))
    layers = nn.Sequential(*before, nn.Conv2d(3, 16, 3, padding=1, stride=2), nn.ReLU())
    x = torch.randn(1, 3, 128, 128)
    values = arena_and_live(before.eval(), x)[0]
    arena, live = arena_and_live(layers.eval(), x)
    assert arena == live == values  # the peak is at tanh
    several = [arena_and_live(layers, x, threads)[0] for threads in (2, 4, 6)]
    assert several[2] - several[1] == several[1] - several[0] > 2 * APART


def test_memory_limit_counts_scratch() -> None:
    module = nn.Sequential(nn.Conv2d(64, 16, 3, padding=1, stride=2)).eval()
    x = torch.randn(1, 64, 6, 6)
    arena, _ = arena_and_live(module, x)
    data = penlight.optimize(module, (x,))._bytes
    assert data is not None
    limit = arena + module(x).nbytes  # results count too
    penlight.Model(data, threads=1, memory_limit=limit)(x)
    with pytest.raises(penlight.RunError, match="memory_limit"):
        penlight.Model(data, threads=1, memory_limit=limit - 1)(x)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mobilenet_v2", "efficientnet_b0", "squeezenet1_1", "resnet50", "deeplabv3_resnet50"])
def test_arena_of_real_networks(name: str) -> None:
    model = penlight.optimize(models.build(name), models.example(name, 2), dynamic_shapes="auto")
    assert model._bytes is not None
    for threads, most in ((1, 1.15), (2, 1.5 * 1.15)):
        loaded = penlight.load(model._bytes, threads=threads)
        for batch, size in ((1, 224), (3, 97), (2, 225)):
            loaded.prepare(torch.zeros(batch, 3, size, size))
            assert loaded.arena_bytes() <= most * loaded.live_bytes()


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
