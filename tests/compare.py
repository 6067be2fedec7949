"""How tests compare results with torch's: same containers, same dtypes, NaN and inf in the same places, and an error of
at most `tolerance` times the largest finite value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch


def error_of(got: torch.Tensor, expected: torch.Tensor) -> float:
    """max |got - expected| as a fraction of max |expected|, over finite values; inf where the others differ."""
    if got.numel() == 0:
        return 0.0
    g, e = got.double(), expected.double()
    finite = torch.isfinite(e)
    if not torch.equal(torch.isnan(g), torch.isnan(e)) or not torch.equal(g[torch.isinf(e)], e[torch.isinf(e)]):
        return float("inf")
    if not finite.any():
        return 0.0
    worst = (g[finite] - e[finite]).abs().max().item()
    scale = e[finite].abs().max().item()
    return worst / max(scale, 1e-30) if worst else 0.0


def assert_same(got: Any, expected: Any, tolerance: float, what: str = "") -> float:
    """Compares nested results; returns the largest error."""
    if isinstance(expected, torch.Tensor):
        got = torch.as_tensor(got)
        assert got.dtype == expected.dtype, f"{what}: dtype {got.dtype}, torch gives {expected.dtype}"
        assert got.shape == expected.shape, f"{what}: shape {tuple(got.shape)}, torch gives {tuple(expected.shape)}"
        if expected.is_complex():
            return assert_same(torch.view_as_real(got), torch.view_as_real(expected.resolve_conj()), tolerance, what)
        if not expected.dtype.is_floating_point:
            assert torch.equal(got, expected), f"{what}: values differ: {got} instead of {expected}"
            return 0.0
        error = error_of(got, expected)
        assert error <= tolerance, f"{what}: error {error:.3g} of max |y|, allowed {tolerance:.3g}"
        return error
    if isinstance(expected, Mapping):
        assert type(got) is type(expected), f"{what}: {type(got)} instead of {type(expected)}"
        assert list(got) == list(expected), f"{what}: keys {list(got)} instead of {list(expected)}"
        return max((assert_same(got[k], expected[k], tolerance, f"{what}[{k!r}]") for k in expected), default=0.0)
    if isinstance(expected, (list, tuple)):
        assert type(got).__name__ == type(expected).__name__, f"{what}: {type(got)} instead of {type(expected)}"
        assert len(got) == len(expected)
        return max(
            (assert_same(g, e, tolerance, f"{what}[{i}]") for i, (g, e) in enumerate(zip(got, expected, strict=True))),
            default=0.0,
        )
    assert got == expected, f"{what}: {got!r} instead of {expected!r}"
    return 0.0
