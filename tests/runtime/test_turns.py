"""A batch goes through steps a few images at a time (runtime/exec/turns.h): with the bits of each image alone, in less memory, and never
where one image's result depends on another."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import penlight
from penlight.build.model_selection import selection_of_models

SIDE = 96  # 16 channels of an image are 590 kB: eight are more than the 4 MB at most that take a turn, on any processor
Fn = Callable[["Net", torch.Tensor], object]


class Net(nn.Module):
    def __init__(self, fn: Fn) -> None:
        super().__init__()
        self.fn = fn
        torch.manual_seed(0)
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.wide = nn.Conv2d(16, 16, 1)
        self.same = nn.Conv2d(16, 16, 3, padding=1)
        self.deep = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.norm = nn.BatchNorm2d(16)
        self.each = nn.Parameter(torch.randn(8, 16, 1, 1))

    def forward(self, x: torch.Tensor) -> object:
        return self.fn(self, x)


def block(m: Net, x: torch.Tensor) -> torch.Tensor:
    y = F.relu(m.stem(x))
    y = y + m.wide(F.relu6(m.deep(F.relu6(m.wide(y)))))
    return F.hardswish(m.same(F.max_pool2d(y, 2)))


def joined(m: Net, x: torch.Tensor) -> torch.Tensor:
    y = m.stem(x)
    a, b = F.relu(m.wide(y)), torch.sigmoid(m.deep(y))
    up = F.interpolate(F.avg_pool2d(m.same(torch.cat([a, b], 1)[:, 4:20]), 2), scale_factor=2.0, mode="bilinear")
    return torch.cat([up, m.norm(y)], 1) * 2.0


def seen_later(m: Net, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Values of the turns that are returned, and read after them and by other images."""
    y = m.stem(x)
    z = m.same(F.relu(m.wide(y)))
    return y, z - y.mean(0), z * y


def squeezed(m: Net, x: torch.Tensor) -> torch.Tensor:
    y = m.wide(m.stem(x))
    return m.wide(y * torch.sigmoid(m.wide(y.mean((2, 3), keepdim=True))))


def joined_and_summed(m: Net, x: torch.Tensor) -> torch.Tensor:
    """One image computes y inside the concatenation; turns keep it out, as all of it is read later, in the order in which it lies."""
    y = F.relu(m.stem(x))
    return m.same(torch.cat([F.hardswish(y), y], 1)[:, 8:24]) * y.mean((1, 2, 3), keepdim=True)


def image_by_image(fn: Fn, x: torch.Tensor, threads: int) -> tuple[penlight.Model, int]:
    """Compares, bit by bit, with runs of one image each, and with torch; the model, and the memory that one image takes."""
    net = Net(fn).eval()
    one = penlight.optimize(net, (x[:1],), threads=threads)
    all_of_them = penlight.optimize(net, (x,), threads=threads)
    with torch.no_grad():
        expected = net(x)
    for _ in range(2):  # a run leaves the plan as it was
        got = all_of_them(x)
        assert torch.equal(got, torch.cat([one(image[None]) for image in x]))
        assert torch.allclose(got, expected, rtol=1e-4, atol=1e-4)
    return all_of_them, one.arena_bytes()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("fn", [block, joined, squeezed, joined_and_summed])
def test_bits_are_those_of_one_image_alone(fn: Fn, threads: int) -> None:
    made, memory = image_by_image(fn, torch.randn(8, 3, SIDE, SIDE), threads)
    if (
        fn is block
    ):  # nothing in it sees all images at once: two or four of them have to lie there, and the result of all
        assert made.arena_bytes() < 6 * memory


@pytest.mark.parametrize("lie", ["nhwc", "the same image", "every second"])
def test_inputs_may_lie_anyhow(lie: str) -> None:
    x = torch.randn(8, 3, SIDE, SIDE)
    if lie == "nhwc":
        x = x.contiguous(memory_format=torch.channels_last)
    elif lie == "the same image":
        x = x[:1].expand(8, -1, -1, -1)
    else:
        x = torch.randn(16, 3, SIDE, SIDE)[::2]
    image_by_image(block, x, 1)


def test_any_number_of_images() -> None:
    """One that has no divisors too, and none at all."""
    net = Net(block).eval()
    n = torch.export.Dim("n", min=0, max=64)
    made = penlight.optimize(net, (torch.randn(8, 3, SIDE, SIDE),), dynamic_shapes=({0: n},))
    for count in (12, 1, 11, 9, 0, 12):
        x = torch.randn(count, 3, SIDE, SIDE)
        with torch.no_grad():
            assert torch.allclose(made(x), net(x), rtol=1e-4, atol=1e-4)


def batch_norm_of_its_own(m: Net, x: torch.Tensor) -> torch.Tensor:
    y = m.stem(x)
    return m.wide((y - y.mean(0, keepdim=True)) * (y.var((0, 2, 3), keepdim=True) + 1.0).rsqrt())


def images_joined(m: Net, x: torch.Tensor) -> torch.Tensor:
    y = m.wide(m.stem(x))
    return m.same(torch.cat([y[4:], y[:4]], 0))


def images_turned(m: Net, x: torch.Tensor) -> torch.Tensor:
    return m.wide(m.stem(x).flip(0)).softmax(0)


def images_for_channels(m: Net, x: torch.Tensor) -> torch.Tensor:
    y = m.stem(x)[:, :8].transpose(0, 1)
    return F.relu(y * 2.0 + x[:, :1]) * y


def a_constant_for_each(m: Net, x: torch.Tensor) -> torch.Tensor:
    return m.same(F.relu(m.stem(x) + m.each) * m.each)


def weights_of_the_data(m: Net, x: torch.Tensor) -> torch.Tensor:
    """As many outputs as images, and computed: what a careless rule takes for images."""
    y = m.stem(x)
    weight = y[:, :, :1, :1] * 0.1
    return F.relu(F.conv2d(m.wide(y), weight)) + F.conv2d(y, weight)


def weights_as_they_lie(m: Net, x: torch.Tensor) -> torch.Tensor:
    """The same where kernels read weights that are not packed."""
    y = m.stem(x).double()
    weight = y[:, :, :1, :1] * 0.1
    return F.conv2d(F.relu(F.conv2d(y, weight)), weight[:, :8]).float()


def one_for_all(m: Net, x: torch.Tensor) -> torch.Tensor:
    y = m.stem(x)
    return m.wide(y + y[:1]) * y.amax((0, 1), keepdim=True)


@pytest.mark.parametrize(
    "fn",
    [
        seen_later,
        batch_norm_of_its_own,
        images_joined,
        images_turned,
        images_for_channels,
        a_constant_for_each,
        weights_of_the_data,
        weights_as_they_lie,
        one_for_all,
    ],
)
def test_images_that_depend_on_each_other(fn: Fn) -> None:
    net, x = Net(fn).eval(), torch.randn(8, 3, SIDE, SIDE)
    made = penlight.optimize(net, (x,))
    with torch.no_grad():
        wanted = net(x)
    for _ in range(2):
        for got, expected in zip(*((y if isinstance(y, tuple) else (y,)) for y in (made(x), wanted)), strict=True):
            assert torch.allclose(got, expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


def test_a_profile_counts_all_images() -> None:
    x = torch.randn(8, 3, SIDE, SIDE)
    one, made = (penlight.optimize(Net(block).eval(), (some,)) for some in (x[:1], x))
    pairs = list(zip(one.profile(x[:1], runs=1), made.profile(x, runs=1), strict=True))
    assert [b.multiply_adds for _, b in pairs] == [8 * a.multiply_adds for a, _ in pairs]
    assert [b.shape for _, b in pairs] == [(8, *a.shape[1:]) for a, _ in pairs]


def test_libraries_for_one_image_do_without(tmp_path: object) -> None:
    net, x = Net(block).eval(), torch.randn(8, 3, SIDE, SIDE)
    n = torch.export.Dim("n", min=1, max=64)
    for name, some, dynamic, turns in (
        ("one", x[:1], None, False),
        ("all", x, None, True),
        ("any", x, ({0: n},), True),
    ):
        path = f"{tmp_path}/{name}.pen"
        penlight.optimize(net, (some,), dynamic_shapes=dynamic).save(path)
        assert selection_of_models([path]).turns == turns
