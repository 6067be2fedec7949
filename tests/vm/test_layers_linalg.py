"""Linear algebra of the VM beside torch's."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from tests.vm.check import OperatorError, check, compare, run

warnings.filterwarnings("ignore", message=".*deprecated.*")


def _matrices(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


A = _matrices(3, 4, 4)
S = A @ A.mT + torch.eye(4)
L = torch.linalg.cholesky(S)
LU, PIVOTS = torch.linalg.lu_factor(A)
CALLS: list[tuple[Any, ...]] = [
    *((name, A) for name in ("inverse", "linalg_inv", "det", "linalg_det", "logdet", "slogdet", "linalg_slogdet", "matrix_exp")),
    ("linalg_inv_ex", A), ("linalg_solve", A, _matrices(3, 4, 2)), ("linalg_solve", A, _matrices(2, 4), False), ("linalg_solve", A, _matrices(3, 4)),
    ("linalg_solve", A[0], _matrices(4)), ("linalg_solve", A[0].T, _matrices(5, 4, 2)), ("linalg_solve_ex", A, _matrices(3, 4, 2)),
    ("cholesky", S), ("linalg_cholesky", S, True), ("linalg_cholesky_ex", S), ("cholesky_solve", _matrices(3, 4, 2), L), ("cholesky_inverse", L),
    ("triangular_solve", _matrices(3, 4, 2), L, False, True), ("linalg_solve_triangular", L, _matrices(3, 2, 4), False, False),
    ("linalg_lu_factor", A), ("lu_solve", _matrices(3, 4, 2), LU, PIVOTS), ("linalg_qr", _matrices(2, 5, 3)), ("linalg_qr", _matrices(2, 3, 5), "complete"),
    ("linalg_qr", _matrices(2, 5, 3), "r"), ("qr", _matrices(5, 3)), ("qr", _matrices(5, 3), False), ("linalg_eigvalsh", S), ("linalg_eigvalsh", A, "U"),
    ("linalg_svdvals", _matrices(3, 5, 4)), ("pinverse", _matrices(5, 3)), ("linalg_pinv.atol_rtol_float", _matrices(2, 5, 3)), ("nuclear_norm", _matrices(4, 3)),
    ("matrix_power", A, -2), ("det", torch.zeros(2, 2)),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_like_torch(number: int) -> None:
    name, *args = CALLS[number]
    check(f"aten::{name}", *args, tolerance=1e-4)


def test_vectors() -> None:
    """Eigenvectors and singular vectors are free up to a sign: compared by what is made of them."""
    w, v = run("aten::linalg_eigh", S)
    compare(v @ torch.diag_embed(w) @ v.mT, S, 1e-5, "eigh")
    x = _matrices(2, 5, 4)
    for name, args in (("linalg_svd", (False,)), ("svd", (True, True))):
        u, s, v = run(f"aten::{name}", x, *args)
        compare((u * s[:, None]) @ (v.mT if name == "svd" else v), x, 1e-5, name)
    u, s, v = run("aten::svd", x, True, False)
    assert u.shape == (2, 5, 5)
    assert not u.any()
    assert v.shape == (2, 4, 4)
    assert not v.any()


WRONG: list[tuple[Any, ...]] = [
    ("linalg_inv", torch.zeros(2, 2)),
    ("linalg_inv", _matrices(2, 3)),
    ("linalg_inv", _matrices(2)),
    ("linalg_inv", _matrices(2, 2).double()),
    ("linalg_cholesky", -S),
    ("linalg_solve", A, _matrices(3)),
    ("linalg_solve", A, _matrices(2, 4, 2)),
    ("cholesky_solve", _matrices(3, 5, 2), L),
    ("linalg_qr", _matrices(2, 5, 3), "else"),
    ("lu_solve", _matrices(3, 4, 2), LU, PIVOTS.long()),
    ("lu_solve", _matrices(3, 4, 2), LU, PIVOTS * 0 + 99),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_arguments(number: int) -> None:
    name, *args = WRONG[number]
    with pytest.raises(OperatorError):
        run(f"aten::{name}", *args)
