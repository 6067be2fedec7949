"""Random tensors of the VM: shapes, dtypes and layouts as torch's; bounds, moments, and that numbers differ from call to call."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from tests.vm.check import OperatorError, run

X = torch.zeros(2, 3, 4, 5)
P = X.permute(0, 2, 3, 1)
HALF = 5


def like(name: str, *args: Any) -> torch.Tensor:
    first, second = (run(f"aten::{name}", *copy.deepcopy(args)) for _ in range(2))
    if first.numel() > 30:
        assert not torch.equal(first, second), f"{name}: the same numbers twice"
    return first


def test_shapes_and_layouts() -> None:
    for name in ("rand", "randn"):
        for size in ([], [0], [3, 4], [2, 3, 4, 5]):
            assert like(name, size).shape == tuple(size)
        for code, dtype in ((6, torch.float32), (7, torch.float64), (5, torch.float16), (15, torch.bfloat16)):
            assert like(name, [64], code).dtype == dtype
            assert like(f"{name}.generator", [64], None, code).dtype == dtype
        assert like(f"{name}_like", P).stride() == torch.rand_like(P).stride()
        assert (
            like(f"{name}_like", X, 7, None, None, None, 2).stride()
            == torch.rand_like(X, memory_format=torch.channels_last).stride()
        )
        for wrong in (([-1],), ([3], 4), ([2**40, 2**40],)):
            with pytest.raises(OperatorError):
                run(f"aten::{name}", *wrong)
    assert like("randint_like", torch.zeros(3, 50, dtype=torch.int32), 9).dtype == torch.int32
    assert like("randint_like.low_dtype", P, -3, 9).stride() == torch.empty_like(P).stride()


def test_uniform() -> None:
    for dtype in (6, 7, HALF, 15):
        x = like("rand", [20000], dtype).double()
        assert x.min() >= 0
        assert x.max() < 1
        assert abs(x.mean() - 0.5) < 0.02
        assert abs(x.var() - 1 / 12) < 0.01
    y = like("uniform_", torch.zeros(100, 200), -2.0, 3.0)
    assert y.min() >= -2
    assert y.max() < 3
    assert abs(y.mean() - 0.5) < 0.05
    with pytest.raises(OperatorError):
        run("aten::uniform_", torch.zeros(3), 2.0, 1.0)


def test_normal() -> None:
    x = like("randn", [20000])
    assert abs(x.mean()) < 0.03
    assert abs(x.std() - 1) < 0.03
    assert x.abs().max() < 7
    y = like("normal_", torch.zeros(20000), 2.0, 3.0)
    assert abs(y.mean() - 2) < 0.1
    assert abs(y.std() - 3) < 0.1
    mean = torch.arange(3.0)[:, None]
    z = like("normal.Tensor_Tensor", mean, torch.full((5000,), 0.5))
    assert z.shape == (3, 5000)
    assert (z.mean(1) - mean[:, 0]).abs().max() < 0.05
    assert torch.equal(run("aten::normal.Tensor_float", mean, 0.0), mean)
    assert like("normal.float_Tensor", 1.0, torch.ones(40)).shape == (40,)
    assert like("normal.float_float", 1.0, 2.0, [40]).shape == (40,)
    with pytest.raises(OperatorError):
        run("aten::normal_", torch.zeros(3), 0.0, -1.0)


def test_integers() -> None:
    x = like("randint", 7, [3000])
    assert x.dtype == torch.int64
    assert set(x.tolist()) == set(range(7))
    assert set(like("randint.low", -2, 3, [500], 3).tolist()) == {-2, -1, 0, 1, 2}
    assert set(like("random_.to", torch.zeros(500), 3).tolist()) == {0.0, 1.0, 2.0}
    assert set(like("random_.from", torch.zeros(500, dtype=torch.int8), 120, None).tolist()) == set(range(120, 128))
    assert like("random_", torch.zeros(50, dtype=torch.int64)).min() >= 0
    x, out = torch.zeros(500), torch.empty(0)
    assert set(like("random.from", x, 2, 4).tolist()) == {2.0, 3.0}
    assert set(like("random.from_out", x, 2, 4, None, out).tolist()) == {2.0, 3.0}
    assert set(like("random.to", x, 2).tolist()) == {0.0, 1.0}
    assert not x.any()
    assert sorted(run("aten::randperm", 100).tolist()) == list(range(100))
    assert run("aten::randperm", 0).shape == (0,)
    assert run("aten::randperm", 5, 3).dtype == torch.int32
    for name, args in (
        ("randint", (0, [3])),
        ("randint.low", (5, 5, [3])),
        ("randint", (300, [3], 0)),
        ("randperm", (-1,)),
        ("randperm", (2**40,)),
    ):
        with pytest.raises(OperatorError):
            run(f"aten::{name}", *args)


def test_chances() -> None:
    p = torch.tensor([0.0, 1.0, 0.25]).repeat(4000, 1)
    drawn = like("bernoulli", p)
    assert drawn[:, 0].max() == 0
    assert drawn[:, 1].min() == 1
    assert abs(drawn[:, 2].mean() - 0.25) < 0.03
    assert abs(like("bernoulli.p", torch.zeros(8000), 0.75).mean() - 0.75) < 0.03
    assert abs(like("bernoulli_.float", torch.zeros(8000, dtype=torch.int32)).double().mean() - 0.5) < 0.03
    assert like("bernoulli_.Tensor", torch.zeros(100, 3), p[0]).shape == (100, 3)
    assert like("bernoulli.Tensor", torch.zeros(100, 3), p[0]).shape == (100, 3)
    assert abs(like("exponential_", torch.zeros(20000), 2.0).mean() - 0.5) < 0.03
    for name, args in (
        ("bernoulli", (torch.tensor([1.5]),)),
        ("bernoulli.p", (X, -0.1)),
        ("bernoulli", (torch.tensor([float("nan")]),)),
        ("exponential_", (X, 0.0)),
    ):
        with pytest.raises(OperatorError):
            run(f"aten::{name}", *args)


def test_multinomial() -> None:
    weights = torch.tensor([[0.0, 1.0, 3.0], [2.0, 0.0, 0.0]])
    drawn = like("multinomial", weights, 4000, True)
    assert drawn.shape == (2, 4000)
    assert set(drawn[1].tolist()) == {0}
    assert abs((drawn[0] == 2).double().mean() - 0.75) < 0.03
    assert sorted(run("aten::multinomial", torch.ones(40), 40).tolist()) == list(range(40))
    for wrong in (
        (weights, 2),
        (weights, 0, True),
        (torch.zeros(3), 1),
        (torch.tensor([-1.0, 2]), 1),
        (torch.ones(3, dtype=torch.long), 1),
    ):
        with pytest.raises(OperatorError):
            run("aten::multinomial", *wrong)
