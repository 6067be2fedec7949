"""LU, Cholesky's and LDL factors, and what is solved with them: linear systems, inverses, determinants.

A matrix that has no inverse gives zeros on U's diagonal. Calls that torch checks (solve, inv, cholesky, not their _ex forms)
end the run with an error then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ir.dims import broadcast
from penlight.ops.linalg.matrices import (
    cut,
    diagonal,
    identity,
    is_vector,
    known,
    masked,
    real,
    smaller,
    spread,
    turned,
    typed,
)  # fmt: skip
from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

lu = Op(
    "lu", "a: tensor, check: bool = False", outputs=3, tolerance=1e-4, doc="LU factors, pivots and where U has a zero."
)
lu_solve = Op(
    "lu_solve", "lu: tensor, pivots: tensor, b: tensor, adjoint: bool = False", mixed=("pivots",), tolerance=1e-4,
    doc="The solution of A x = b (A' x = b) from A's LU factors.",
)  # fmt: skip
permutation = Op(
    "permutation", "pivots: tensor, n: int", tolerance=0.0, doc="The row that exchanges bring to each place."
)
cholesky = Op(
    "cholesky", "a: tensor, upper: bool = False, check: bool = False", outputs=2, tolerance=1e-4,
    doc="The triangular L with L L' = a, or U with U' U = a; and the order of the first minor that is not positive.",
)  # fmt: skip
triangular_solve = Op(
    "triangular_solve", "a: tensor, b: tensor, upper: bool, transposed: bool = False, unit: bool = False", tolerance=1e-4,
    doc="The solution of a x = b for a triangle of a.",
)  # fmt: skip
ldl = Op(
    "ldl", "a: tensor, check: bool = False", outputs=3, tolerance=1e-4,
    doc="L D L' of a symmetric matrix in LAPACK's form, pivots, and where D has a zero.",
)  # fmt: skip
ldl_solve = Op(
    "ldl_solve",
    "ld: tensor, pivots: tensor, b: tensor",
    mixed=("pivots",),
    tolerance=1e-4,
    doc="The solution of A x = b.",
)


def emit_lu(g: Emitter, a: Value, check: bool) -> tuple[Value, Value, Value]:
    *lead, m, n = real(g, a).shape
    types = (typed(a.shape), typed((*lead, smaller(g, m, n)), "i32"), typed(lead, "i32"))
    made: tuple[Value, Value, Value] = g.emit("lu", a, types=types, check=check)
    return made


def emit_lu_solve(g: Emitter, factors: Value, pivots: Value, b: Value, adjoint: bool = False) -> Value:
    lead = broadcast(factors.shape[:-2], b.shape[:-2])
    b = spread(g, b, lead)
    made: Value = g.emit(
        "lu_solve", spread(g, factors, lead), spread(g, pivots, lead, 1), b, type=typed(b.shape), adjoint=adjoint
    )
    return made


def emit_triangular(g: Emitter, a: Value, b: Value, upper: bool, transposed: bool = False, unit: bool = False) -> Value:
    lead = broadcast(a.shape[:-2], b.shape[:-2])
    b = spread(g, b, lead)
    options = {"upper": upper, "transposed": transposed, "unit": unit}
    made: Value = g.emit("triangular_solve", spread(g, a, lead), b, type=typed(b.shape), **options)
    return made


# ---- LU ---------------------------------------------------------------------------------------------------------


@lu.from_aten("linalg_lu_factor")
def _(g: Emitter, a: Value, pivot: bool) -> Any:
    return _factor(g, a, pivot, True)[:2]


@lu.from_aten("linalg_lu_factor_ex")
def _(g: Emitter, a: Value, pivot: bool, check: bool) -> Any:
    return _factor(g, a, pivot, check)


@lu.from_aten("_lu_with_info")
def _(g: Emitter, a: Value, pivot: bool, check: bool) -> Any:
    return _factor(g, a, pivot, check)


def _factor(g: Emitter, a: Value, pivot: bool, check: bool) -> Any:
    if not pivot:
        g.fail("without pivots")
    return emit_lu(g, a, check)


def _unpacked(g: Emitter, factors: Value, data: bool) -> Any:
    import numpy as np

    *_, m, n = factors.shape
    k = smaller(g, m, n)
    if not data:
        return g.constant(np.zeros(0, np.float32)), g.constant(np.zeros(0, np.float32))
    m, n, k = known(g, m, n, k)
    strict = masked(g, cut(g, factors, m, k), np.tril(np.ones((m, k), bool), -1))
    lower = g.emit("add", strict, g.constant(np.eye(m, k, dtype=np.float32)), type=typed(strict.shape))
    return lower, masked(g, cut(g, factors, k, n), np.triu(np.ones((k, n), bool)))


def _permutation_matrix(g: Emitter, pivots: Value, m: Any) -> Value:
    """P with A = P L U."""
    import numpy as np

    (size,) = known(g, m)
    lead = pivots.shape[:-1]
    places = g.emit("permutation", pivots, type=typed((*lead, size), "i64"), n=size)
    row = g.constant(np.arange(size, dtype=np.int64)[:, None])
    places = g.reshape(places, (*lead, 1, size))
    return g.cast(g.emit("eq", places, row, type=typed((*lead, size, size), "bool")), "f32")


@lu.from_aten("linalg_lu")
def _(g: Emitter, a: Value, pivot: bool) -> Any:
    factors, pivots, _ = _factor(g, a, pivot, False)
    return _permutation_matrix(g, pivots, a.shape[-2]), *_unpacked(g, factors, True)


@permutation.from_aten("lu_unpack")
def _(g: Emitter, factors: Value, pivots: Value, data: bool, wants_pivots: bool) -> Any:
    import numpy as np

    p = _permutation_matrix(g, pivots, factors.shape[-2]) if wants_pivots else g.constant(np.zeros(0, np.float32))
    return p, *_unpacked(g, real(g, factors), data)


@lu_solve.from_aten("linalg_lu_solve")
def _(g: Emitter, factors: Value, pivots: Value, b: Value, left: bool, adjoint: bool) -> Value:
    real(g, factors), real(g, b)
    if left:
        return emit_lu_solve(g, factors, pivots, b, adjoint)
    return turned(g, emit_lu_solve(g, factors, pivots, turned(g, b), not adjoint))


@lu_solve.from_aten("lu_solve")
def _(g: Emitter, b: Value, factors: Value, pivots: Value) -> Value:
    return emit_lu_solve(g, real(g, factors), pivots, real(g, b))


# ---- linear systems and inverses --------------------------------------------------------------------------------


def _solve(g: Emitter, a: Value, b: Value, left: bool, check: bool) -> Any:
    real(g, a), real(g, b)
    vector = is_vector(a, b)
    factors, pivots, info = emit_lu(g, a, check)
    columns = g.reshape(b, (*b.shape, 1)) if vector else b
    if left or vector:
        x = emit_lu_solve(g, factors, pivots, columns)
    else:
        x = turned(g, emit_lu_solve(g, factors, pivots, turned(g, columns), True))
    return (g.reshape(x, x.shape[:-1]) if vector else x), factors, pivots, info


@lu_solve.from_aten("linalg_solve")
def _(g: Emitter, a: Value, b: Value, left: bool) -> Value:
    made: Value = _solve(g, a, b, left, True)[0]
    return made


@lu_solve.from_aten("linalg_solve_ex")
def _(g: Emitter, a: Value, b: Value, left: bool, check: bool) -> Any:
    x, _, _, info = _solve(g, a, b, left, check)
    return x, info


@lu_solve.from_aten("_linalg_solve_ex")
def _(g: Emitter, a: Value, b: Value, left: bool, check: bool) -> Any:
    return _solve(g, a, b, left, check)


def _inverse(g: Emitter, a: Value, check: bool) -> Any:
    factors, pivots, info = emit_lu(g, a, check)
    *lead, n, _ = a.shape
    return emit_lu_solve(g, factors, pivots, identity(g, n, n, lead)), info


@lu_solve.from_aten("linalg_inv", "inverse")
def _(g: Emitter, a: Value) -> Value:
    made: Value = _inverse(g, a, True)[0]
    return made


@lu_solve.from_aten("linalg_inv_ex")
def _(g: Emitter, a: Value, check: bool) -> Any:
    return _inverse(g, a, check)


# ---- determinants -----------------------------------------------------------------------------------------------


def _parity(g: Emitter, pivots: Value) -> Value:
    """1 for an even number of exchanges, else -1."""
    import numpy as np

    *lead, n = pivots.shape
    (size,) = known(g, n)
    moved = g.emit("ne", pivots, g.constant(np.arange(1, size + 1, dtype=np.int32)), type=typed(pivots.shape, "bool"))
    count = g.emit("sum", g.cast(moved, "f32"), type=typed(lead), dims=(len(lead),), keepdim=False)
    odd = g.emit("remainder", count, g.constant(2.0), type=typed(lead))
    twice = g.emit("mul", odd, g.constant(-2.0), type=typed(lead))
    made: Value = g.emit("add", twice, g.constant(1.0), type=typed(lead))
    return made


def _determinant(g: Emitter, a: Value) -> Any:
    factors, pivots, _ = emit_lu(g, a, False)
    lead = a.shape[:-2]
    product = g.emit("prod", diagonal(g, factors), type=typed(lead), dims=(len(lead),), keepdim=False)
    return g.emit("mul", product, _parity(g, pivots), type=typed(lead)), factors, pivots


def _log_determinant(g: Emitter, a: Value) -> Any:
    factors, pivots, _ = emit_lu(g, a, False)
    lead, last = a.shape[:-2], (a.rank - 2,)
    values = diagonal(g, factors)
    signs = g.emit("prod", g.emit("sign", values, type=values.tensor), type=typed(lead), dims=last, keepdim=False)
    logs = g.emit("log", g.emit("abs", values, type=values.tensor), type=values.tensor)
    total = g.emit("sum", logs, type=typed(lead), dims=last, keepdim=False)
    return g.emit("mul", signs, _parity(g, pivots), type=typed(lead)), total, factors, pivots


@lu.from_aten("linalg_det", "det")
def _(g: Emitter, a: Value) -> Value:
    made: Value = _determinant(g, a)[0]
    return made


@lu.from_aten("_linalg_det")
def _(g: Emitter, a: Value) -> Any:
    return _determinant(g, a)


@lu.from_aten("linalg_slogdet", "slogdet")
def _(g: Emitter, a: Value) -> Any:
    return _log_determinant(g, a)[:2]


@lu.from_aten("_linalg_slogdet")
def _(g: Emitter, a: Value) -> Any:
    return _log_determinant(g, a)


@lu.from_aten("logdet")
def _(g: Emitter, a: Value) -> Value:
    sign, total, _, _ = _log_determinant(g, a)
    negative = g.emit("lt", sign, g.constant(0.0), type=typed(sign.shape, "bool"))
    made: Value = g.emit("where", negative, g.constant(float("nan")), total, type=total.tensor)
    return made


# ---- Cholesky ---------------------------------------------------------------------------------------------------


def emit_cholesky(g: Emitter, a: Value, upper: bool, check: bool) -> Any:
    types = (typed(a.shape), typed(a.shape[:-2], "i32"))
    return g.emit("cholesky", real(g, a), types=types, upper=upper, check=check)


@cholesky.from_aten("cholesky", "linalg_cholesky")
def _(g: Emitter, a: Value, upper: bool) -> Value:
    made: Value = emit_cholesky(g, a, upper, True)[0]
    return made


@cholesky.from_aten("linalg_cholesky_ex")
def _(g: Emitter, a: Value, upper: bool, check: bool) -> Any:
    return emit_cholesky(g, a, upper, check)


def _cholesky_solve(g: Emitter, b: Value, factor: Value, upper: bool) -> Value:
    """L L' x = b: one triangle, then the other."""
    return emit_triangular(g, factor, emit_triangular(g, factor, b, upper, upper), upper, not upper)


@triangular_solve.from_aten("cholesky_solve")
def _(g: Emitter, b: Value, factor: Value, upper: bool) -> Value:
    return _cholesky_solve(g, real(g, b), real(g, factor), upper)


@triangular_solve.from_aten("cholesky_inverse")
def _(g: Emitter, factor: Value, upper: bool) -> Value:
    *lead, n, _ = real(g, factor).shape
    return _cholesky_solve(g, identity(g, n, n, lead), factor, upper)


# ---- triangles --------------------------------------------------------------------------------------------------


@triangular_solve.from_aten("linalg_solve_triangular")
def _(g: Emitter, a: Value, b: Value, upper: bool, left: bool, unit: bool) -> Value:
    real(g, a), real(g, b)
    if left:
        return emit_triangular(g, a, b, upper, False, unit)
    return turned(g, emit_triangular(g, a, turned(g, b), upper, True, unit))


@triangular_solve.from_aten("triangular_solve")
def _(g: Emitter, b: Value, a: Value, upper: bool, transposed: bool, unit: bool) -> Any:
    x = emit_triangular(g, real(g, a), real(g, b), upper, transposed, unit)
    return x, spread(g, a, x.shape[:-2])


# ---- LDL --------------------------------------------------------------------------------------------------------


def _ldl(g: Emitter, a: Value, check: bool) -> Any:
    *lead, n, _ = real(g, a).shape
    return g.emit("ldl", a, types=(typed(a.shape), typed((*lead, n), "i32"), typed(lead, "i32")), check=check)


@ldl.from_aten("linalg_ldl_factor")
def _(g: Emitter, a: Value, hermitian: bool) -> Any:
    return _ldl(g, a, True)[:2]


@ldl.from_aten("linalg_ldl_factor_ex")
def _(g: Emitter, a: Value, hermitian: bool, check: bool) -> Any:
    return _ldl(g, a, check)


@ldl_solve.from_aten("linalg_ldl_solve")
def _(g: Emitter, factors: Value, pivots: Value, b: Value, hermitian: bool) -> Value:
    lead = broadcast(real(g, factors).shape[:-2], real(g, b).shape[:-2])
    b = spread(g, b, lead)
    made: Value = g.emit("ldl_solve", spread(g, factors, lead), spread(g, pivots, lead, 1), b, type=typed(b.shape))
    return made


@lu.from_aten("_linalg_check_errors")
def _(g: Emitter, info: Value, api_name: str, is_matrix: bool) -> None:
    """torch splits a checked call into one that is not and this one. Here the factorization itself checks."""
    if info.producer is None or "check" not in info.producer.attrs:
        g.fail("of an info that no factorization gave")
    info.producer.attrs["check"] = True


# ---- samples ----------------------------------------------------------------------------------------------------


def _matrices(*shape: int) -> Any:
    import torch

    rand = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=rand)


@lu.samples
def _() -> Iterator[Sample]:
    import torch

    yield Sample(torch.linalg.lu, (_matrices(2, 3, 7, 5),), "tall")
    yield Sample(torch.linalg.lu, (_matrices(5, 17),), "wide")
    yield Sample(lambda a: (torch.linalg.det(a), torch.linalg.slogdet(a)), (_matrices(3, 6, 6),), "determinants")
    singular = _matrices(4, 4)
    singular[2] = singular[0]
    singular[:, 1] = 0
    yield Sample(torch.linalg.lu_factor_ex, (singular,), "singular")
    free = ({0: torch.export.Dim("n", min=1, max=9)},)
    yield Sample(lambda a: torch.linalg.lu(a)[1], (_matrices(2, 4, 4),), "dynamic", dynamic=free)


@permutation.samples
def _() -> Iterator[Sample]:
    import torch

    def unpacked(a: Any) -> Any:
        return torch.lu_unpack(*torch.linalg.lu_factor(a))

    yield Sample(unpacked, (_matrices(3, 2, 5, 4),), "lu_unpack", tolerance=1e-4)


@lu_solve.samples
def _() -> Iterator[Sample]:
    import torch

    yield Sample(torch.linalg.solve, (_matrices(3, 5, 5), _matrices(2, 1, 5, 4)), "broadcast")
    yield Sample(torch.linalg.solve, (_matrices(33, 33), _matrices(33)), "vector")
    yield Sample(
        lambda a, b: torch.linalg.solve(a, b, left=False), (_matrices(4, 4), _matrices(3, 4)), "from the right"
    )
    yield Sample(torch.linalg.inv, (_matrices(2, 17, 17),), "inverse")
    yield Sample(torch.linalg.inv, (_matrices(3, 0, 0),), "nothing")


@cholesky.samples
def _() -> Iterator[Sample]:
    import torch

    a = _matrices(3, 9, 12)
    yield Sample(lambda a: torch.linalg.cholesky(a @ a.mT), (a,), "lower")
    yield Sample(lambda a: torch.linalg.cholesky_ex(a @ a.mT, upper=True), (a,), "upper")


@triangular_solve.samples
def _() -> Iterator[Sample]:
    import torch

    a, b = _matrices(2, 6, 6) + 4 * torch.eye(6), _matrices(6, 3)
    for upper in (False, True):
        yield Sample(
            lambda a, b, upper=upper: torch.linalg.solve_triangular(a, b, upper=upper), (a, b), f"upper {upper}"
        )
    yield Sample(
        lambda a, b: torch.linalg.solve_triangular(a, b.mT, upper=True, left=False, unitriangular=True), (a, b), "right"
    )
    yield Sample(lambda a, b: torch.cholesky_solve(b, torch.tril(a)), (a, b), "cholesky_solve")


@ldl.samples
def _() -> Iterator[Sample]:
    import torch

    a = _matrices(4, 7, 7)
    yield Sample(lambda a: torch.linalg.ldl_factor_ex(a + a.mT), (a,), "indefinite")


@ldl_solve.samples
def _() -> Iterator[Sample]:
    import torch

    def solve(a: Any, b: Any) -> Any:
        return torch.linalg.ldl_solve(*torch.linalg.ldl_factor(a + a.mT), b)

    yield Sample(solve, (_matrices(4, 7, 7), _matrices(4, 7, 2)), "indefinite")
