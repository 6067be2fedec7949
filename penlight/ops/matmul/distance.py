"""Distances between all pairs of rows (cdist, pdist): composites, as their cost is that of the products they call."""

from __future__ import annotations

from typing import Any

from penlight.ops.registry import composite

_MANY = 25  # rows from which on torch takes the matrix product for p = 2


@composite("_cdist_forward")
def cdist(x: Any, y: Any, p: float, mode: int | None = None) -> Any:
    """[..., P, R]: the p-norm of x[..., i, :] - y[..., j, :]"""
    import torch

    if x.shape[-1] == 0:
        lead = torch.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        return x.new_zeros((*lead, x.shape[-2], y.shape[-2]))
    if p == 2 and (mode == 1 or (mode in (None, 0) and (x.shape[-2] > _MANY or y.shape[-2] > _MANY))):
        squares = x.square().sum(-1, keepdim=True) + y.square().sum(-1).unsqueeze(-2)
        return (squares - 2 * (x @ y.transpose(-1, -2))).clamp_min(0).sqrt()
    return _norm((x.unsqueeze(-2) - y.unsqueeze(-3)).abs(), p)


@composite("_pdist_forward")
def pdist(x: Any, p: float = 2.0) -> Any:
    """The norms of all x[i] - x[j] with i < j, in order."""
    import torch

    n = x.shape[0]
    if n < 2:
        return x.new_zeros((0,))
    if x.shape[1] == 0:
        return x.new_zeros((n * (n - 1) // 2,))
    return torch.cat([_norm((x[i] - x[i + 1 :]).abs(), p) for i in range(n - 1)])


def _norm(distance: Any, p: float) -> Any:
    if p == 0:
        return (distance != 0).to(distance.dtype).sum(-1)
    if p == 1:
        return distance.sum(-1)
    if p == 2:
        return distance.square().sum(-1).sqrt()
    if p == float("inf"):
        return distance.amax(-1)
    return distance.pow(p).sum(-1).pow(1 / p)
