"""Random operators: what they are distributed like, what repeats and what does not. Seeds are fixed, so nothing here fails by
chance; each p-value is that of one draw."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import penlight
from penlight.capture import capture
from penlight.passes.pipeline import optimize as run_passes

N = 100_000


class Call(torch.nn.Module):
    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, x: torch.Tensor) -> Any:
        return self.fn(x)


def made(fn: Callable[..., Any], x: torch.Tensor | None = None) -> penlight.Model:
    return penlight.optimize(Call(fn), (torch.zeros(N) if x is None else x,))


def draw(fn: Callable[..., Any], x: torch.Tensor | None = None, seed: int = 1) -> Any:
    x = torch.zeros(N) if x is None else x
    m = made(fn, x)
    m.seed(seed)
    return m(x)


CONTINUOUS = {
    "rand": (torch.rand_like, stats.uniform()),
    "rand of a shape": (lambda x: torch.rand(100, 1000), stats.uniform()),
    "uniform_": (lambda x: x.clone().uniform_(-3, 5), stats.uniform(-3, 8)),
    "randn": (torch.randn_like, stats.norm()),
    "normal_": (lambda x: x.clone().normal_(3, 2), stats.norm(3, 2)),
    "normal of tensors": (lambda x: torch.normal(x + 3, torch.ones_like(x) * 2), stats.norm(3, 2)),
    "exponential_": (lambda x: x.clone().exponential_(2), stats.expon(scale=0.5)),
    "cauchy_": (lambda x: x.clone().cauchy_(1, 2), stats.cauchy(1, 2)),
    "log_normal_": (lambda x: x.clone().log_normal_(1, 0.5), stats.lognorm(0.5, scale=np.e)),
    "rrelu": (lambda x: -torch.rrelu(x - 1, 0.1, 0.4, True), stats.uniform(0.1, 0.3)),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name: str) -> None:
    fn, distribution = CONTINUOUS[name]
    y = draw(fn).numpy().ravel().astype(np.float64)
    assert stats.kstest(y, distribution.cdf).pvalue > 1e-3
    if name != "cauchy_":
        assert abs(y.mean() - distribution.mean()) < 5 * distribution.std() / np.sqrt(N)
        assert abs(y.var() / distribution.var() - 1) < 0.05
    for lag in (1, 2, 3, 4, 16, 128, 256):
        ranks = stats.rankdata(y)
        assert abs(np.corrcoef(ranks[lag:], ranks[:-lag])[0, 1]) < 5 / np.sqrt(N), lag


def counts_fit(y: np.ndarray, values: np.ndarray, chance: np.ndarray) -> float:
    """The p-value of counts, where values with an expected count below 10 are one."""
    expected = chance * y.size
    observed = np.array([(y == v).sum() for v in values], dtype=float)
    rare = expected < 10
    observed = np.append(observed[~rare], y.size - observed[~rare].sum())
    expected = np.append(expected[~rare], y.size - expected[~rare].sum())
    if expected[-1] < 10:
        observed[-2:], expected[-2:] = [observed[-2:].sum(), 0], [expected[-2:].sum(), 0]
        observed, expected = observed[:-1], expected[:-1]
    return float(stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue)


@pytest.mark.parametrize("rate", [0.3, 4.0, 9.99, 10.0, 37.5, 1000.0])
def test_poisson(rate: float) -> None:
    y = draw(lambda x: torch.poisson(x + rate)).numpy()
    k = np.arange(int(rate + 12 * rate**0.5) + 12)
    assert counts_fit(y, k, stats.poisson(rate).pmf(k)) > 1e-3


def test_geometric() -> None:
    y = draw(lambda x: x.clone().geometric_(0.2)).numpy()
    k = np.arange(1, 99)
    assert counts_fit(y, k, stats.geom(0.2).pmf(k)) > 1e-3


@pytest.mark.parametrize(("low", "high"), [(0, 10), (-3, 4), (0, 2), (2**40, 2**40 + 7)])
def test_randint(low: int, high: int) -> None:
    y = draw(lambda x: torch.randint(low, high, (N,))).numpy()
    assert y.dtype == np.int64
    assert counts_fit(y, np.arange(low, high), np.full(high - low, 1 / (high - low))) > 1e-3


def test_large_ranges_of_integers() -> None:
    y = draw(lambda x: torch.randint(-(2**62), 2**62, (N,))).numpy()
    assert stats.kstest(y / 2.0**63 + 0.5, stats.uniform().cdf).pvalue > 1e-3
    assert counts_fit(y & 15, np.arange(16), np.full(16, 1 / 16)) > 1e-3


def test_bernoulli_and_dropout() -> None:
    x = torch.rand(N)
    y = draw(torch.bernoulli, x)
    assert set(y.unique().tolist()) == {0.0, 1.0}
    assert abs((y - x).mean()) < 5 * 0.5 / N**0.5
    ones = draw(lambda x: x.clone().bernoulli_(0.3)).mean()
    assert abs(ones - 0.3) < 5 * 0.46 / N**0.5
    dropped = draw(lambda x: torch.dropout(x, 0.25, True), torch.ones(N))
    assert set(dropped.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    assert abs(dropped.mean() - 1) < 5 * 0.58 / N**0.5
    channels = draw(lambda x: torch.feature_dropout(x, 0.5, True), torch.ones(64, 64, 9))
    assert torch.equal(channels.amax(2), channels.amin(2))
    alpha = draw(
        lambda x: torch.alpha_dropout(x, 0.2, True), torch.randn(N, generator=torch.Generator().manual_seed(0))
    )
    assert abs(alpha.mean()) < 0.02
    assert abs(alpha.var() - 1) < 0.03


def test_randperm() -> None:
    y = draw(lambda x: torch.stack([torch.randperm(6) for _ in range(200)]), torch.zeros(1)).numpy()
    assert (np.sort(y, 1) == np.arange(6)).all()
    runs = made(lambda x: torch.randperm(6), torch.zeros(1))
    many = np.stack([runs(torch.zeros(1)).numpy() for _ in range(3000)])
    for at in range(6):
        assert counts_fit(many[:, at], np.arange(6), np.full(6, 1 / 6)) > 1e-3
    assert sorted(draw(lambda x: torch.randperm(5000), torch.zeros(1)).tolist()) == list(range(5000))


def test_multinomial() -> None:
    weights = torch.tensor([1.0, 0, 2, 5, 0.5])
    chance = (weights.double() / weights.double().sum()).numpy()
    y = draw(lambda w: torch.multinomial(w, N, True), weights).numpy()
    assert counts_fit(y, np.arange(5), chance) > 1e-3
    rows = weights.expand(20_000, 5).contiguous()
    y = draw(lambda w: torch.multinomial(w, 3), rows).numpy()
    assert counts_fit(y[:, 0], np.arange(5), chance) > 1e-3
    assert all(len(set(row)) == 3 and 1 not in row for row in y.tolist())
    first3 = y[y[:, 0] == 3][:, 1]  # what is left is drawn by its own weights
    rest = np.array([1.0, 0, 2, 0, 0.5]) / 3.5
    assert counts_fit(first3, np.arange(5), rest) > 1e-3


def correlation(a: torch.Tensor, b: torch.Tensor) -> float:
    return abs(float(np.corrcoef(a.numpy(), b.numpy())[0, 1]))


def test_runs_nodes_and_seeds_have_nothing_in_common() -> None:
    m = made(lambda x: (torch.rand_like(x), torch.rand_like(x), torch.randn_like(x)))
    x = torch.zeros(N)
    runs = [m(x) for _ in range(3)]
    m.seed(1)
    runs.append(m(x))
    drawn = [y for run in runs for y in run]
    for i, a in enumerate(drawn):
        for b in drawn[:i]:
            assert correlation(a, b) < 5 / N**0.5


def test_seed_repeats() -> None:
    x = torch.zeros(999)
    m = made(lambda x: (torch.rand_like(x), torch.randperm(50)), x)
    first = [m(x) for _ in range(2)]
    assert not torch.equal(first[0][0], first[1][0])
    m.seed(0)  # what it starts with
    again = [m(x) for _ in range(2)]
    m.seed(7)
    other = m(x)
    for a, b in zip(first, again, strict=True):
        assert torch.equal(a[0], b[0])
        assert torch.equal(a[1], b[1])
    assert not torch.equal(other[0], first[0][0])
    assert not torch.equal(other[1], first[0][1])


def test_first_words_are_philox() -> None:
    """The published answer for counter 0 and key 0: Random123, kat_vectors, philox4x32 10."""
    y = draw(lambda x: torch.rand(4) + 0 * x, torch.zeros(4), seed=0)
    words = torch.tensor([0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8])
    assert torch.equal(y, (words >> 8).float() * 2**-24)


def test_threads_and_files_do_not_matter(tmp_path: Path) -> None:
    x = torch.full((150_001,), 20.0)
    m = made(lambda x: (torch.rand_like(x), torch.randn_like(x), torch.randint(0, 9, x.shape), torch.poisson(x)), x)
    m.save(tmp_path / "m.pen")
    want = m(x)
    for threads in (1, 2, 3):
        got = penlight.load(tmp_path / "m.pen", threads=threads)(x)
        assert all(torch.equal(a, b) for a, b in zip(want, got, strict=True))


def test_nodes_are_neither_merged_nor_folded() -> None:
    program = capture(Call(lambda x: (torch.rand(5) + x, torch.rand(5) + x)), (torch.zeros(5),))
    run_passes(program)
    nodes = [n for n in program.methods["forward"].graph.walk() if n.op == "random_uniform"]
    assert [n.attrs["stream"] for n in nodes] == [0, 1]


def test_in_place_on_clones() -> None:
    def fn(x: torch.Tensor) -> Any:
        y = x.clone()
        y.uniform_(1, 2)
        z = x.clone()
        z[:, 0].normal_()
        return y, z

    x = torch.full((40, 3), 9.0)
    y, z = draw(fn, x)
    assert ((y >= 1) & (y < 2)).all()
    assert (z[:, 1:] == 9).all()
    assert (z[:, 0] != 9).all()
