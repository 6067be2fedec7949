"""Profiles: what each step did, against torch's own count of operations; and which inputs had to be copied."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import penlight
from penlight.ops import registry

SMALL = nn.Sequential(
    nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.Conv2d(32, 24, 1),
    nn.Conv2d(24, 24, 3, padding=1, groups=6), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10),
).eval()  # fmt: skip


class Call(nn.Module):
    def __init__(self, fn: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.fn(*args)


def image(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("module", "inputs"),
    [
        (SMALL, (image(2, 3, 33, 31),)),
        (Call(lambda a, b: a @ b), (image(2, 1, 9, 20), image(3, 20, 7))),
        (Call(F.scaled_dot_product_attention), (image(2, 3, 17, 8), image(2, 3, 23, 8), image(2, 3, 23, 12))),
    ],
    ids=["convolutions and linear", "matmul", "attention"],
)
def test_multiply_adds_as_torch_counts_them(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(*inputs)
    steps = penlight.optimize(module, inputs).profile(*inputs, runs=2)
    assert 2 * sum(step.multiply_adds for step in steps) == counter.get_total_flops()


def test_work_is_declared_for_products_only() -> None:
    ops = registry.load_all().values()
    assert {op.name for op in ops if op.work} >= {"conv2d", "linear", "matmul", "attention"}
    assert not [op.name for op in ops if op.work and (op.rule or op.layout == "view")]


def test_steps_say_what_they_read_and_write() -> None:
    x = image(1, 3, 32, 32)
    model = penlight.optimize(SMALL, (x,))
    stem = next(step for step in model.profile(x, runs=3) if step.key.startswith("conv2d."))
    assert stem.shape == (1, 32, 16, 16)
    assert stem.inputs[:3] == ((1, 3, 32, 32), (32, 3, 3, 3), (32,))
    assert stem.inputs[3] is None  # no residual
    assert stem.bytes == 4 * (3 * 32 * 32 + 32 * 27 + 32 + 32 * 16 * 16)
    assert stem.multiply_adds == 32 * 16 * 16 * 27
    assert stem.seconds > 0
    assert not stem.copied
    assert "in forward" in stem.source
    assert all(step.seconds == 0 for step in model.profile(x, runs=0))


@pytest.mark.parametrize("channels", [3, 20])
def test_one_conversion_of_an_image_or_none(channels: int) -> None:
    """Row-major images are converted at most once (the first kernel may read both), channels-last ones never."""
    x = image(2, channels, 32, 32)
    module = nn.Sequential(nn.Conv2d(channels, 3, 1), SMALL).eval()
    model = penlight.optimize(module, (x,))
    for given, most in ((x, 1), (x.contiguous(memory_format=torch.channels_last), 0)):
        steps = model.profile(given, runs=1)
        assert (
            sum(step.copied for step in steps) + sum(s.key.startswith("copy.") and s.bytes > 0 for s in steps) <= most
        )
        expected = module(given)
        assert (model(given) - expected).abs().max() <= 1e-5 * expected.abs().max()


def test_copies_before_a_kernel_are_right_on_any_thread() -> None:
    """linear reads rows: a transposed input is copied first, in as many pieces as it is worth."""
    x, w = image(512, 300).T, image(40, 512)
    module = Call(lambda x: F.linear(x, w))
    data = penlight.optimize(module, (x.contiguous(),))._bytes
    expected = module(x)
    results = []
    for threads in (1, 2, 3):
        model = penlight.load(data, threads=threads)
        assert [step.copied for step in model.profile(x, runs=1) if step.multiply_adds] == [1]
        results.append(model(x))
        assert (results[-1] - expected).abs().max() <= 1e-5 * expected.abs().max()
    assert all(torch.equal(r, results[0]) for r in results)


def test_other_methods_are_profiled_too() -> None:
    with pytest.raises(AttributeError, match="no method 'backward'"):
        penlight.optimize(SMALL, (image(1, 3, 32, 32),)).profile(image(1, 3, 32, 32), method="backward")
