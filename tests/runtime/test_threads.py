"""Threads: the same bits for any number of them, and one model used from many at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import penlight
from tests.runtime import networks
from tests.runtime.networks import NETWORKS, flat

Cases = dict[str, tuple[Path, list[Path]]]
COUNTS = (1, 2, 3, 5)


def bits(outputs: object) -> list[bytes]:
    return [t.detach().numpy().tobytes() for t in flat(outputs)]


@pytest.mark.parametrize("isa", [None, "base"])
@pytest.mark.parametrize("name", list(NETWORKS))
def test_bit_equal(name: str, isa: str | None, cases: Cases) -> None:
    file, _ = cases[name]
    for scale in (1, 3):
        given = networks.inputs(name, scale)
        first = bits(penlight.load(file, threads=1, isa=isa)(*given))
        for threads in COUNTS[1:]:
            model = penlight.load(file, threads=threads, isa=isa)
            for _ in range(3):
                assert bits(model(*given)) == first, f"{threads} threads"


class Wide(nn.Module):
    """Shapes large enough that every kernel cuts its work into many pieces."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(3, 48, 3, 1, 1)
        self.b = nn.Conv2d(48, 48, 3, 1, 1, groups=48)
        self.c = nn.Conv2d(48, 40, 3, 1, 1, groups=8)
        self.d = nn.Conv2d(40, 64, 1)
        self.e = nn.Linear(64, 300)
        self.norm = nn.LayerNorm(300)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.nn.functional.gelu(self.d(torch.relu(self.c(torch.tanh(self.b(self.a(x)))))))
        tokens = self.norm(self.e(y.flatten(2).transpose(1, 2)))
        heads = tokens.reshape(tokens.shape[0], tokens.shape[1], 5, 60).transpose(1, 2)
        mixed = nn.functional.scaled_dot_product_attention(heads, heads, heads)
        scores = torch.matmul(mixed, heads.transpose(-1, -2)).softmax(-1)
        up = nn.functional.interpolate(nn.functional.max_pool2d(y, 3, 2, 1), scale_factor=1.7, mode="bilinear")
        return (
            scores.sum(),
            scores.mean((0, 1, 2)),
            up.sum((2, 3)),
            y.amax(1),
            mixed.argmax(-1),
            torch.cat([up, up * 2], 1),
        )


def test_bit_equal_where_work_is_cut() -> None:
    torch.manual_seed(3)
    module, x = Wide().eval(), torch.randn(2, 3, 26, 31)
    with torch.no_grad():
        expected = flat(module(x))
        model = penlight.optimize(module, (x,))
        first = flat(penlight.load(model._bytes, threads=1)(x))
        for a, b in zip(first, expected, strict=True):
            assert (a - b).abs().max() <= 1e-4 * b.abs().max()
        for threads in COUNTS[1:]:
            assert bits(penlight.load(model._bytes, threads=threads)(x)) == bits(first), f"{threads} threads"


def test_one_model_from_many_python_threads(cases: Cases) -> None:
    """Each thread has a session of its own; the GIL is released in a run."""
    file, _ = cases["classifier"]
    model = penlight.load(file, threads=2)
    given = {k: networks.inputs("classifier", k) for k in (1, 2, 3)}
    expected = {k: bits(penlight.load(file, threads=1)(*x)) for k, x in given.items()}
    barrier = threading.Barrier(6)

    def work(index: int) -> bool:
        barrier.wait()
        return all(bits(model(*given[1 + (index + i) % 3])) == expected[1 + (index + i) % 3] for i in range(30))

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(6)))


def test_threads_option(cases: Cases) -> None:
    file, _ = cases["classifier"]
    with pytest.raises(ValueError, match="threads"):
        penlight.load(file, threads=0)
    given = networks.inputs("classifier", 2)
    expected = bits(penlight.load(file, threads=1)(*given))
    for threads in (64, 1000):  # more than cores, more than the pool holds
        assert bits(penlight.load(file, threads=threads)(*given)) == expected


def test_inputs_are_not_written(cases: Cases) -> None:
    file, _ = cases["mixed"]
    given = [t.numpy().copy() for t in networks.inputs("mixed", 2)]
    before = [a.copy() for a in given]
    for a in given:
        a.flags.writeable = False
    penlight.load(file)(*given)
    assert all(np.array_equal(a, b) for a, b in zip(given, before, strict=True))
