"""Reductions of the VM beside torch's: sums, extremes, variances, norms, places, running values, quantiles."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from tests.vm.check import run
from tests.vm.samples import EVERY, FLOATS, INF, NAN, same_as_torch

warnings.filterwarnings("ignore", message=".*degrees of freedom.*")
TOLERANCE = {torch.float32: 3e-6, torch.float64: 1e-13, torch.float16: 2e-3, torch.bfloat16: 2e-2}
SPECIAL = torch.tensor(
    [[1.0, NAN, 3.0], [INF, -INF, 0.0], [-0.0, 0.0, -1.0], [NAN, NAN, INF], [-INF, -INF, -INF], [2.0, 2.0, 2.0]]
)


def _tensors(dtype: torch.dtype) -> list[torch.Tensor]:
    """Contiguous, transposed, permuted, strided, rank 0, expanded, empty."""
    torch.manual_seed(3)

    def n(*shape: int) -> torch.Tensor:
        if dtype == torch.bool:
            return torch.rand(shape) > 0.4
        if not dtype.is_floating_point:
            return torch.randint(0 if dtype == torch.uint8 else -5, 9, shape).to(dtype)
        return torch.randn(shape).to(dtype)

    return [
        n(3, 4, 5),
        n(4, 5).T,
        n(2, 3, 4, 5).permute(0, 2, 3, 1),
        n(7)[::2],
        n(),
        n(1, 5).expand(4, 5),
        n(0, 3),
        n(2, 0),
    ]


def _dims(x: torch.Tensor) -> list[list[int]]:
    return [[0], [-1], list(range(x.dim())), [], [x.dim()]] if x.dim() else [[], [0], [-1]]


@pytest.mark.parametrize("dtype", EVERY, ids=str)
def test_over_dims(dtype: torch.dtype) -> None:
    for number, x in enumerate(_tensors(dtype)):
        for dims in _dims(x):
            for keepdim in (False, True) if number == 2 else (number % 2 == 1,):
                for name in ("sum.dim_IntList", "mean.dim", "nansum"):
                    same_as_torch(f"aten::{name}", x, dims, keepdim, None)
                for name in ("amax", "amin"):
                    same_as_torch(f"aten::{name}", x, dims, keepdim)
        same_as_torch("aten::sum.dim_IntList", x, [0, 0], False)
        same_as_torch("aten::sum.dim_IntList", x, None, False, 7, tolerance=1e-12)
        same_as_torch("aten::mean.dim", x, [0], False, 6)


@pytest.mark.parametrize("shape", [(5,), (100,), (1000,), (40, 70), (70, 3)], ids=str)
def test_any_byte_but_0_is_true(shape: tuple[int, ...]) -> None:
    """As in a mask of 0 and 255 that numpy shows as bools. Results are 0 or 1."""
    bytes_ = torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(7)).to(torch.uint8)
    for odd in (bytes_, bytes_ * (bytes_ > 128), bytes_ | 2):
        x = odd.view(torch.bool)
        for name in ("sum", "any", "all", "max", "min"):
            same_as_torch(f"aten::{name}", x, *([None] if name == "sum" else []))
        same_as_torch("aten::count_nonzero", x, None)
        for dim in range(x.dim()):
            same_as_torch("aten::sum.dim_IntList", x, [dim], False, None)
            for name in ("any.dim", "all.dim"):
                made = run(f"aten::{name}", x, dim, False)
                assert torch.equal(made.view(torch.uint8), run(f"aten::{name}", odd != 0, dim, False).view(torch.uint8))


@pytest.mark.parametrize("dtype", EVERY, ids=str)
def test_over_one_dim(dtype: torch.dtype) -> None:
    exact = {"tolerance": 0.0}
    for number, x in enumerate(_tensors(dtype)):
        for dim in (0, -1, 1, 5):
            for keepdim in (False, True) if number == 2 else (number % 2 == 1,):
                for name in ("any.dim", "all.dim", "max.dim", "min.dim"):
                    same_as_torch(f"aten::{name}", x, dim, keepdim, **exact)
                same_as_torch("aten::prod.dim_int", x, dim, keepdim)
                for name in ("argmax", "argmin"):
                    same_as_torch(f"aten::{name}", x, dim, keepdim)
            for name in ("cumsum", "cumprod"):
                same_as_torch(f"aten::{name}", x, dim)
            if dtype != torch.bool and (x.numel() or dim < 2):
                for name in ("cummax", "cummin"):
                    same_as_torch(f"aten::{name}", x, dim, **exact)
            same_as_torch("aten::count_nonzero", x, dim)
        for name in ("sum", "prod", "mean", "max", "min", "any", "all", "count_nonzero"):
            same_as_torch(f"aten::{name}", x)
        for name in ("_aminmax", "aminmax"):
            same_as_torch(f"aten::{name}", x, **exact)
        for keepdim in (False, True):
            same_as_torch("aten::argmax", x, None, keepdim)
        same_as_torch("aten::any.dims", x, None, True)
        same_as_torch("aten::sum", x, 4)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_of_floats(dtype: torch.dtype) -> None:
    tolerance = TOLERANCE[dtype]
    for number, x in enumerate(_tensors(dtype)):
        for dims in _dims(x)[:3]:
            for keepdim in (False, True) if number == 2 else (number % 2 == 1,):
                for name in ("var", "std", "var_mean", "std_mean"):
                    for unbiased in (True, False):
                        same_as_torch(f"aten::{name}.dim", x, dims, unbiased, keepdim, tolerance=tolerance)
                    same_as_torch(f"aten::{name}.correction", x, dims, 2, keepdim, tolerance=tolerance)
                for p in (0, 1, 2, 3.5, INF, -INF, None):
                    same_as_torch("aten::norm.ScalarOpt_dim", x, p, dims, keepdim, tolerance=tolerance)
                same_as_torch("aten::linalg_vector_norm", x, 2.5, dims, keepdim, tolerance=tolerance)
                same_as_torch("aten::logsumexp", x, dims, keepdim, tolerance=tolerance)
                same_as_torch("aten::nanmean", x, dims, keepdim, tolerance=tolerance)
                same_as_torch("aten::frobenius_norm.dim", x, dims[:2], keepdim, tolerance=tolerance)
        for name in ("var", "std"):
            same_as_torch(f"aten::{name}", x, True, tolerance=tolerance)
        same_as_torch("aten::norm.Scalar", x, 2, tolerance=tolerance)
        same_as_torch("aten::norm.ScalarOpt_dtype", x, 2, 7, tolerance=1e-12)
        same_as_torch("aten::logcumsumexp", x, 0, tolerance=3 * tolerance)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32, torch.uint8], ids=str)
def test_order(dtype: torch.dtype) -> None:
    for number, x in enumerate(_tensors(dtype)):
        if number == 5:
            continue  # torch selects in place, which an expanded tensor spoils
        for dim in (0, -1):
            if number != 0 and not dtype.is_floating_point:
                continue  # of equal values, which one is found is not defined
            for keepdim in (False, True):
                same_as_torch("aten::median.dim", x, dim, keepdim, tolerance=0.0) if dtype.is_floating_point else None
                same_as_torch("aten::kthvalue", x, 1, dim, keepdim, tolerance=0.0) if dtype.is_floating_point else None
                if dtype != torch.float64:
                    same_as_torch("aten::mode", x, dim, keepdim, tolerance=0.0) if dtype.is_floating_point else None
        for name in ("median", "nanmedian"):
            same_as_torch(f"aten::{name}", x)
        if dtype in (torch.float32, torch.float64):
            q = torch.tensor([0.1, 0.5, 1.0], dtype=dtype)
            for way in ("linear", "lower", "higher", "midpoint", "nearest", "else"):
                same_as_torch("aten::quantile.scalar", x, 0.37, None, False, way)
                same_as_torch("aten::quantile", x, q, 0, True, way)
                same_as_torch("aten::nanquantile.scalar", x, 0.37, 0, False, way)
    same_as_torch("aten::kthvalue", torch.randn(4), 5, 0, False)
    same_as_torch("aten::quantile.scalar", torch.randn(4), 1.5, None, False)


def test_special_values() -> None:
    names: dict[str, tuple[Any, ...]] = {
        **dict.fromkeys(
            ("sum.dim_IntList", "mean.dim", "nansum", "amax", "amin", "logsumexp", "nanmean"), ([1], False)
        ),
        **dict.fromkeys(
            ("max.dim", "min.dim", "argmax", "argmin", "median.dim", "nanmedian.dim", "any.dim", "all.dim"), (1, False)
        ),
        **dict.fromkeys(("cummax", "cummin", "cumsum", "cumprod", "logcumsumexp", "count_nonzero"), (1,)),
        "norm.ScalarOpt_dim": (2, [1], False),
        "quantile.scalar": (0.3, 1, False),
        "nanquantile.scalar": (0.3, 1, False),
    }
    for x in (SPECIAL, SPECIAL.double(), SPECIAL.T):
        for name, args in names.items():
            if name == "nanmedian.dim" and x.shape[1] == 6:
                continue  # which of several NaN is found is not defined
            same_as_torch(f"aten::{name}", x, *args, tolerance=1e-6)
    many = torch.cat([SPECIAL.repeat(1, 100), torch.randn(3, 300) * 40])
    for x in (many, many.T, many.half()):
        for dim in ([0], [1], [0, 1]):
            same_as_torch("aten::logsumexp", x, dim, False)
    x = SPECIAL.clone()
    same_as_torch("aten::cumsum_", x[5:], 1)
    same_as_torch("aten::cumsum.out", x[5:], 1, None, torch.empty(1, 3))
    same_as_torch("aten::amax.out", x, [1], True, torch.empty(6, 1))
