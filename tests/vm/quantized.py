"""Quantized operators beside torch's, under a named engine: `same(name, *args)` compares stored integers, `steps` apart at most.
Packed parameters are made on both sides by `pack`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from tests.vm import check

warnings.filterwarnings("ignore", message=".*quantize.*")


@contextmanager
def engine(name: str) -> Iterator[None]:
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = name
    try:
        yield
    finally:
        torch.backends.quantized.engine = before


@dataclass
class Packed:
    ours: Any
    theirs: Any


def pack(name: str, *args: Any) -> Packed:
    """Calls an operator that packs weights, here and in torch."""
    ours = [a.ours if isinstance(a, Packed) else a for a in args]
    theirs = [a.theirs if isinstance(a, Packed) else a for a in args]
    problem, held, _ = check.call(name, ours, hold=True)
    assert problem is None, problem["message"]
    return Packed(held[0], check.torch_run(name, *theirs))


def _side(value: Any, side: str) -> Any:
    if isinstance(value, Packed):
        return getattr(value, side)
    if isinstance(value, list):
        return [_side(v, side) for v in value]
    return value


def same(name: str, *args: Any, steps: int = 0, tolerance: float = 0.0, layout: bool = True) -> Any:
    """Compares a call with torch's. Quantized results may differ by `steps`, real ones by `tolerance` of the largest. `layout`:
    dense results lie in the same order. Returns the result."""
    expected = check.torch_run(name, *(_side(a, "theirs") for a in args))
    got = check.run(name, *(_side(a, "ours") for a in args))
    _compare(got, expected, steps, tolerance, layout, name)
    return got


def _compare(got: Any, expected: Any, steps: int, tolerance: float, layout: bool, where: str) -> None:
    if isinstance(expected, (list, tuple)):
        assert len(got) == len(expected), where
        for i, (g, e) in enumerate(zip(got, expected, strict=True)):
            _compare(g, e, steps, tolerance, layout, f"{where}[{i}]")
        return None
    if isinstance(expected, torch.Tensor) and layout and expected.numel():
        seen = [(a, b) for a, b, n in zip(got.stride(), expected.stride(), expected.shape, strict=True) if n > 1]
        assert all(a == b for a, b in seen), f"{where}: strides {got.stride()} instead of {expected.stride()}"
    if not isinstance(expected, torch.Tensor) or not expected.is_quantized:
        return check.compare(got, expected, tolerance, where)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape), f"{where}: {got.shape}, not {expected.shape}"
    assert got.qscheme() == expected.qscheme(), where
    if expected.qscheme() == torch.per_tensor_affine:
        assert (got.q_scale(), got.q_zero_point()) == (expected.q_scale(), expected.q_zero_point()), where
    apart = (got.int_repr().long() - expected.int_repr().long()).abs()
    most = int(apart.max()) if apart.numel() else 0
    assert most <= steps, f"{where}: {most} steps apart, {int((apart > steps).sum())} of {apart.numel()}"
    return None


def quantized(
    *shape: int, scale: float = 0.05, zero: int = 100, dtype: torch.dtype = torch.quint8, spread: float = 1.0
) -> torch.Tensor:
    """Random, over all levels and a little beyond them."""
    levels = {torch.quint8: (0, 255), torch.qint8: (-128, 127), torch.qint32: (-10000, 10000)}[dtype]
    middle, half = (levels[0] + levels[1]) / 2 - zero, (levels[1] - levels[0]) * 0.6 * spread
    real = (torch.rand(*shape) * 2 - 1) * half + middle
    return torch.quantize_per_tensor(real * scale, scale, zero, dtype)


def weight(*shape: int, axis: int | None = None, zero: int = 0, scale: float = 0.02) -> torch.Tensor:
    """qint8, with one scale or one for each place along `axis`."""
    real = torch.randn(*shape) * scale * 50
    if axis is None:
        return torch.quantize_per_tensor(real, scale, zero, torch.qint8)
    scales = torch.rand(shape[axis], dtype=torch.float64) * scale + scale / 10
    zeros = torch.randint(-3, 4, (shape[axis],)) if zero else torch.zeros(shape[axis], dtype=torch.int64)
    return torch.quantize_per_channel(real, scales, zeros, axis, torch.qint8)
