"""Orthogonal factors, eigenvalues and singular values: qr, eigh, eig, svd; e to the power of a matrix.

Vectors are known up to a sign (eigh, svd) or a unit factor (eig), and those of equal values up to a rotation: results are as
good as torch's, but need not be the same. qr is: its reflections are LAPACK's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.linalg.matrices import cut, identity, known, masked, real, smaller, turned, typed
from penlight.ops.registry import Op, Sample, on_complex

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

geqrf = Op(
    "geqrf",
    "a: tensor",
    outputs=2,
    tolerance=1e-5,
    doc="R, the vectors of Householder's reflections below it; their factors.",
)
reflect = Op(
    "reflect", "a: tensor, tau: tensor, c: tensor, transposed: bool = False", tolerance=1e-5,
    doc="Q c or Q' c for the Q that geqrf found.",
)  # fmt: skip
eigh = Op(
    "eigh",
    "a: tensor, upper: bool = False, vectors: bool = True",
    outputs=2,
    tolerance=1e-4,
    doc="Eigenvalues, ascending, and eigenvectors of symmetric matrices.",
)
svd = Op("svd", "a: tensor, full: bool", outputs=3, tolerance=1e-4, doc="U, S, V' with U diag(S) V' = a, S descending.")
eig = Op(
    "eig",
    "a: tensor, vectors: bool = True",
    outputs=4,
    tolerance=1e-4,
    doc="Eigenvalues and eigenvectors, each in two parts.",
)
matrix_exp = Op("matrix_exp", "a: tensor", tolerance=1e-5, doc="e ** a for square matrices.")


# ---- QR ---------------------------------------------------------------------------------------------------------


def emit_geqrf(g: Emitter, a: Value) -> Any:
    *lead, m, n = real(g, a).shape
    return g.emit("geqrf", a, types=(typed(a.shape), typed((*lead, smaller(g, m, n)))))


def emit_reflect(g: Emitter, a: Value, tau: Value, c: Value, transposed: bool = False) -> Value:
    made: Value = g.emit("reflect", a, tau, c, type=typed(c.shape), transposed=transposed)
    return made


@geqrf.from_aten("geqrf")
def _(g: Emitter, a: Value) -> Any:
    return emit_geqrf(g, a)


def _qr(g: Emitter, a: Value, complete: bool) -> Any:
    import numpy as np

    *lead, m, n = a.shape
    m, n = known(g, m, n)
    rows = m if complete else min(m, n)
    factors, tau = emit_geqrf(g, a)
    q = emit_reflect(g, factors, tau, identity(g, m, rows, lead))
    return q, masked(g, cut(g, factors, rows, n), np.triu(np.ones((rows, n), bool)))


@geqrf.from_aten("linalg_qr")
def _(g: Emitter, a: Value, mode: str) -> Any:
    import numpy as np

    q, r = _qr(g, a, mode == "complete")
    return (g.constant(np.zeros(0, np.float32)) if mode == "r" else q), r


@geqrf.from_aten("qr")
def _(g: Emitter, a: Value, some: bool) -> Any:
    return _qr(g, a, not some)


@reflect.from_aten("linalg_householder_product", "orgqr")
def _(g: Emitter, a: Value, tau: Value) -> Value:
    *lead, m, n = real(g, a).shape
    return emit_reflect(g, a, real(g, tau), identity(g, m, n, lead))


@reflect.from_aten("ormqr")
def _(g: Emitter, a: Value, tau: Value, c: Value, left: bool, transposed: bool) -> Value:
    real(g, a), real(g, tau), real(g, c)
    if left:
        return emit_reflect(g, a, tau, c, transposed)
    return turned(g, emit_reflect(g, a, tau, turned(g, c), not transposed))


# ---- eigenvalues ------------------------------------------------------------------------------------------------


def emit_eigh(g: Emitter, a: Value, uplo: str, vectors: bool = True) -> Any:
    types = (typed(a.shape[:-1]), typed(a.shape if vectors else (*a.shape[:-1], 0)))
    return g.emit("eigh", real(g, a), types=types, upper=uplo.upper() == "U", vectors=vectors)


@eigh.from_aten("linalg_eigh")
def _(g: Emitter, a: Value, uplo: str) -> Any:
    return emit_eigh(g, a, uplo)


@eigh.from_aten("_linalg_eigh")
def _(g: Emitter, a: Value, uplo: str, vectors: bool) -> Any:
    import numpy as np

    w, v = emit_eigh(g, a, uplo, vectors)
    return w, v if vectors else g.constant(np.zeros(0, np.float32))


@eigh.from_aten("linalg_eigvalsh")
def _(g: Emitter, a: Value, uplo: str) -> Value:
    made: Value = emit_eigh(g, a, uplo, False)[0]
    return made


def _eig(g: Emitter, a: Value, vectors: bool) -> Any:
    from penlight.ops.complex_values import ComplexValue

    values, whole = typed(a.shape[:-1]), typed(a.shape if vectors else (*a.shape[:-1], 0))
    wr, wi, vr, vi = g.emit("eig", real(g, a), types=(values, values, whole, whole), vectors=vectors)
    return ComplexValue(wr, wi), ComplexValue(vr, vi)


@on_complex("linalg_eig")
def _(g: Emitter, a: Value) -> Any:
    return _eig(g, a, True)


@on_complex("linalg_eigvals", "_linalg_eigvals")
def _(g: Emitter, a: Value) -> Any:
    return _eig(g, a, False)[0]


# ---- singular values --------------------------------------------------------------------------------------------


def emit_svd(g: Emitter, a: Value, full: bool) -> Any:
    *lead, m, n = real(g, a).shape
    k = smaller(g, m, n)
    types = (typed((*lead, m, m if full else k)), typed((*lead, k)), typed((*lead, n if full else k, n)))
    return g.emit("svd", a, types=types, full=full)


@svd.from_aten("linalg_svd")
def _(g: Emitter, a: Value, full: bool, driver: Any) -> Any:
    return emit_svd(g, a, full)


@svd.from_aten("_linalg_svd")
def _(g: Emitter, a: Value, full: bool, vectors: bool, driver: Any) -> Any:
    import numpy as np

    u, s, vh = emit_svd(g, a, full and vectors)
    nothing = g.constant(np.zeros(0, np.float32))
    return (u, s, vh) if vectors else (nothing, s, nothing)


@svd.from_aten("linalg_svdvals")
def _(g: Emitter, a: Value, driver: Any) -> Value:
    made: Value = emit_svd(g, a, False)[1]
    return made


@svd.from_aten("svd")
def _(g: Emitter, a: Value, some: bool, vectors: bool) -> Any:
    """V itself, and zeros where no vectors are wanted."""
    from penlight.ops.complex_values import zeros

    u, s, vh = emit_svd(g, a, not some and vectors)
    if vectors:
        return u, s, turned(g, vh)
    return zeros(g, g.out[0].shape), s, zeros(g, g.out[2].shape)


@matrix_exp.from_aten("matrix_exp", "linalg_matrix_exp")
def _(g: Emitter, a: Value) -> Value:
    made: Value = g.emit("matrix_exp", real(g, a))
    return made


# ---- samples: vectors as what is made of them --------------------------------------------------------------------


def _matrices(*shape: int) -> Any:
    import torch

    rand = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=rand)


@geqrf.samples
def _() -> Iterator[Sample]:
    import torch

    yield Sample(torch.linalg.qr, (_matrices(3, 7, 5),), "tall")
    yield Sample(lambda a: torch.linalg.qr(a, "complete"), (_matrices(2, 5, 17),), "wide")
    yield Sample(torch.geqrf, (_matrices(33, 20),), "geqrf")
    yield Sample(lambda a: torch.linalg.qr(a, "complete"), (_matrices(9, 4),), "complete")


@reflect.samples
def _() -> Iterator[Sample]:
    import torch

    a, tau = torch.geqrf(_matrices(6, 4))
    yield Sample(torch.linalg.householder_product, (a, tau), "product")
    for left, transposed in ((True, False), (True, True), (False, False)):
        c = _matrices(6, 3) if left else _matrices(3, 6)
        yield Sample(
            lambda a, t, c, o=(left, transposed): torch.ormqr(a, t, c, *o), (a, tau, c), f"{left} {transposed}"
        )


@eigh.samples
def _() -> Iterator[Sample]:
    import torch

    def rebuilt(a: Any) -> Any:
        w, v = torch.linalg.eigh(a)
        return w, v @ torch.diag_embed(w) @ v.mT, v.mT @ v, (v @ v.mT)

    x = _matrices(3, 9, 9)
    yield Sample(rebuilt, (x + x.mT,), "vectors")
    yield Sample(lambda a: torch.linalg.eigvalsh(a, "U"), (_matrices(40, 40),), "upper, values")
    yield Sample(torch.linalg.eigvalsh, (torch.diag(torch.tensor([3.0, 1.0, 1.0, 0.0])),), "diagonal, equal")
    yield Sample(torch.linalg.eigvalsh, (_matrices(2, 1, 1),), "one")


@svd.samples
def _() -> Iterator[Sample]:
    import torch

    def rebuilt(full: bool) -> Any:
        def call(a: Any) -> Any:
            u, s, vh = torch.linalg.svd(a, full)
            k = s.shape[-1]
            return s, (u[..., :k] * s[..., None, :]) @ vh[..., :k, :], u.mT @ u, vh @ vh.mT

        return call

    yield Sample(rebuilt(False), (_matrices(3, 7, 5),), "tall")
    yield Sample(rebuilt(True), (_matrices(2, 5, 8),), "wide, full")
    low = _matrices(9, 2) @ _matrices(2, 6)
    yield Sample(rebuilt(True), (low,), "rank 2")
    yield Sample(torch.linalg.svdvals, (_matrices(20, 33),), "values")
    yield Sample(rebuilt(False), (torch.zeros(3, 3),), "zeros")


@eig.samples
def _() -> Iterator[Sample]:
    import torch

    def rebuilt(a: Any) -> Any:
        w, v = torch.linalg.eig(a)
        residual = a.to(torch.complex64) @ v - v * w[..., None, :]
        return residual.abs() < 1e-4, v.abs().square().sum(-2), w.abs().prod(-1), w.sum(-1)

    yield Sample(rebuilt, (_matrices(3, 7, 7),), "any")
    yield Sample(rebuilt, (torch.tensor([[0.0, 1.0], [-1.0, 0.0]]),), "a rotation")
    yield Sample(lambda a: torch.linalg.eigvals(a), (torch.triu(_matrices(1, 1)),), "one")


@matrix_exp.samples
def _() -> Iterator[Sample]:
    import torch

    yield Sample(torch.matrix_exp, (_matrices(3, 5, 5),), "small")
    yield Sample(torch.matrix_exp, (3 * _matrices(17, 17),), "large")
