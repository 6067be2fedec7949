"""What is written with other calls: pseudoinverses, by singular values or eigenvalues."""

from __future__ import annotations

from typing import Any

from penlight.ops.registry import composite


def _pseudoinverse(a: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    """Values up to max(atol, rtol * the largest) count as zero; numbers, or a tensor with one for each matrix."""
    import torch

    if a.numel() == 0:
        return a.new_zeros(a.mT.shape)
    default = torch.finfo(a.dtype).eps * max(a.shape[-2:])
    if rtol is None:
        if isinstance(atol, torch.Tensor):
            rtol = torch.where(atol > 0, 0.0, default)
        else:
            rtol = 0.0 if atol else default
    atol, rtol = (x.to(a.dtype).unsqueeze(-1) if isinstance(x, torch.Tensor) else x or 0.0 for x in (atol, rtol))
    if hermitian:
        values, v = torch.linalg.eigh(a)
        sizes = values.abs()
        u = v
    else:
        u, values, vh = torch.linalg.svd(a, full_matrices=False)
        sizes, v = values, vh.mT
    least = sizes.amax(-1, keepdim=True) * rtol
    least = torch.maximum(least, atol) if isinstance(atol, torch.Tensor) else least.clamp(min=atol)
    inverses = torch.where(sizes > least, values.reciprocal(), 0.0)
    return (v * inverses.unsqueeze(-2)) @ u.mT


@composite("linalg_pinv.atol_rtol_tensor", "linalg_pinv.atol_rtol_float")
def _(a: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    return _pseudoinverse(a, atol, rtol, hermitian)


@composite("linalg_pinv", "linalg_pinv.rcond_tensor", "pinverse")
def _(a: Any, rcond: Any = 1e-15, hermitian: bool = False) -> Any:
    return _pseudoinverse(a, 0.0, rcond, hermitian)
