"""Products of the VM beside torch's: matmul and its relatives, einsum, distances, attention."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.vm.check import OperatorError, check, run
from tests.vm.samples import same_as_torch

R = torch.randn
TOLERANCE = {
    torch.float32: 3e-6,
    torch.float64: 1e-13,
    torch.float16: 2e-3,
    torch.bfloat16: 2e-2,
    torch.int64: 0.0,
    torch.int16: 0.0,
}

SIZES = [
    ((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 6)),
    ((3, 4), (7, 4, 5)), ((4,), (7, 4, 5)), ((7, 3, 4), (4,)), ((0, 4), (4, 5)), ((3, 0), (0, 5)), ((5, 4), (4, 1)), ((2, 5, 4), (4, 1)),
    ((2, 3, 5, 4), (2, 1, 4, 1)), ((3, 4), (5, 4)), ((2, 3, 4), (3, 4, 5)), ((), (4,)), ((17, 65), (65, 33)),
]  # fmt: skip


def _numbers(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return R(shape).to(dtype) if dtype.is_floating_point else torch.randint(-99, 99, shape).to(dtype)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_matmul(dtype: torch.dtype) -> None:
    for a, b in SIZES:
        same_as_torch("aten::matmul", _numbers(dtype, *a), _numbers(dtype, *b), tolerance=TOLERANCE[dtype])
    x, y = _numbers(dtype, 9, 7), _numbers(dtype, 2, 5, 9)
    same_as_torch("aten::matmul", x.T, y.transpose(1, 2), tolerance=TOLERANCE[dtype])
    same_as_torch("aten::matmul", x[::2], y[:, :, :7].expand(2, 5, 7).transpose(1, 2), tolerance=TOLERANCE[dtype])
    same_as_torch("aten::matmul", R(3, 4), R(4, 5).double())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64], ids=str)
def test_relatives(dtype: torch.dtype) -> None:
    def n(*shape: int) -> torch.Tensor:
        return _numbers(dtype, *shape)

    def each(name: str, *cases: tuple[Any, ...]) -> None:
        for args in cases:
            same_as_torch(f"aten::{name}", *args, tolerance=TOLERANCE[dtype])

    half = 2 if dtype == torch.int64 else 0.5
    each("mm", (n(3, 4), n(4, 5)), (n(3, 4), n(3, 4)), (n(2, 3, 4), n(4, 5)))
    each("bmm", (n(2, 3, 4), n(2, 4, 5)), (n(2, 3, 4), n(1, 4, 5)), (n(0, 3, 4), n(0, 4, 5)))
    each("mv", (n(3, 4), n(4)), (n(3, 4), n(3)))
    each("dot", (n(4), n(4)), (n(4), n(5)), (n(0), n(0)))
    for name in ("addmm", "addmm_"):
        each(name, (n(3, 5), n(3, 4), n(4, 5)), (n(3, 5), n(3, 4), n(4, 5), half, 3), (n(3, 5), n(3, 4), n(4, 5), 0, 1))
    each(
        "addmm",
        (n(5), n(3, 4), n(4, 5)),
        (n(1, 5), n(3, 4), n(4, 5)),
        (n(4), n(3, 4), n(4, 5)),
        (n(), n(3, 4), n(4, 5)),
    )
    each("baddbmm", (n(2, 3, 5), n(2, 3, 4), n(2, 4, 5), half, 3), (n(5), n(2, 3, 4), n(2, 4, 5)))
    each("addbmm", (n(3, 5), n(2, 3, 4), n(2, 4, 5), half, 3))
    each("addmv", (n(3), n(3, 4), n(4), half, 3))
    each("addr", (n(3, 4), n(3), n(4), half, 3))
    each("outer", (n(3), n(5)), (n(3, 1), n(5)))
    each("inner", (n(2, 3, 4), n(5, 4)), (n(4), n()))
    each(
        "tensordot", (n(2, 3, 4), n(4, 5, 3), [1, 2], [2, 0]), (n(2, 3), n(2, 3), [], []), (n(2, 3), n(2, 3), [0], [1]),
        (n(), n(), [0], [0]), (n(), n(1), [-1], [0])
    )  # fmt: skip
    each("kron", (n(2, 3), n(4, 2)), (n(3), n(2, 2)))
    each("chain_matmul", ([n(2, 3), n(3, 4), n(4, 5)],))
    each("linalg_multi_dot", ([n(2, 3), n(3, 4), n(4, 5)],))
    each("matrix_power", (n(3, 3), 0), (n(3, 3), 1), (n(2, 3, 3), 3))
    each("trace", (n(4, 6),), (n(4),))
    each("cross", (n(4, 3), n(4, 3)), (n(3, 4), n(3, 4), 0), (n(4, 4), n(4, 4)), (n(4, 3), n(4, 3), 0))
    each("linalg_cross", (n(4, 3), n(1, 3)))
    check("aten::outer", torch.arange(3), R(5))
    if dtype != torch.int64:
        each("linear", (n(2, 3, 7), n(5, 7), n(5)), (n(2, 3, 7), n(1, 7), n(1)), (n(2, 3, 7), n(7)), (n(7), n(5, 7)), (n(2, 6), n(5, 7)),
             (n(4, 7), n(5, 7), n(4)), (n(0, 7), n(5, 7), n(5)))  # fmt: skip
        each("bilinear", (n(2, 6, 3), n(2, 6, 4), n(5, 3, 4), n(5)))
        each("_addmm_activation", (n(3, 5), n(3, 4), n(4, 5), 1, 1, True), (n(3, 5), n(3, 4), n(4, 5)))


EQUATIONS = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), ("bhid,bhjd->bhij", (2, 3, 4, 5), (2, 3, 6, 5)), ("ii->i", (4, 4)),
    ("ii", (4, 4)), ("ij->ji", (2, 3)), ("ij,kl->ijkl", (2, 3), (4, 5)), ("...ij,...jk->...ik", (2, 3, 4), (4, 5)), ("i,i", (5,), (5,)),
    ("ij,ij->", (2, 3), (2, 3)), ("bn,anm,bm->ba", (2, 5), (3, 5, 4), (2, 4)), ("ij", (2, 3)), ("ij->i", (2, 3)), ("...->...", (2, 3)),
    ("nchw,nc->nhw", (2, 3, 4, 5), (2, 3)), ("b...d,b...d->b...", (2, 3, 4, 5), (2, 3, 4, 5)), ("ab,bc,cd", (2, 3), (3, 4), (4, 2)),
    ("bi,bj->bij", (1, 3), (4, 2)), ("Ab,bA", (2, 3), (3, 2)), (" i j , j k -> i k ", (2, 3), (3, 4)), ("ij,jk->il", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (4, 4)), ("ij", (2,)), ("i1", (2, 3)), ("ij,jk,kl", (2, 3), (3, 4)), ("ij->ii", (2, 2)), ("i..j->ij", (2, 3)),
    ("ij,jk-ik", (2, 3), (3, 4)), (",ij->ij", (), (2, 3)), ("ijk,ijk,ijk->", (2, 3, 4), (2, 3, 4), (2, 3, 4)),
]  # fmt: skip


@pytest.mark.parametrize("equation", EQUATIONS, ids=[e[0] for e in EQUATIONS])
def test_einsum(equation: Any) -> None:
    same_as_torch("aten::einsum", equation[0], [R(s) for s in equation[1:]], tolerance=3e-6)
    same_as_torch("aten::einsum", equation[0], [R(s).double() for s in equation[1:]], tolerance=1e-13)


def test_distances() -> None:
    for dtype, tolerance in ((torch.float32, 3e-6), (torch.float64, 1e-13)):
        x, y = R(3, 4, 5).to(dtype), R(3, 4, 5).to(dtype)
        same_as_torch("aten::cosine_similarity", x, y, 1, 1e-8, tolerance=tolerance)
        same_as_torch("aten::cosine_similarity", x, y[:1] * 0, -1, 1e-3, tolerance=tolerance)
        same_as_torch("aten::pairwise_distance", x, y, 2.0, 1e-6, True, tolerance=tolerance)
        same_as_torch("aten::dist", x, y, 3, tolerance=tolerance)
        for p in (0.0, 1.0, 2.0, 3.0, float("inf"), -1.0):
            same_as_torch("aten::cdist", R(2, 6, 5).to(dtype), R(2, 7, 5).to(dtype), p, None, tolerance=tolerance)
            same_as_torch("aten::pdist", R(6, 5).to(dtype), p, tolerance=tolerance)
        same_as_torch(
            "aten::cdist",
            R(30, 5).to(dtype),
            R(27, 5).to(dtype),
            2.0,
            None,
            tolerance=1e-4 if tolerance > 1e-9 else 1e-12,
        )
        same_as_torch("aten::cdist", R(3, 0).to(dtype), R(2, 0).to(dtype), 2.0, None)


def test_attention() -> None:
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-13), (torch.bfloat16, 2e-2)):

        def n(*shape: int, dtype: torch.dtype = dtype) -> torch.Tensor:
            return R(shape).to(dtype)

        q, k, v = n(2, 4, 5, 8), n(2, 4, 6, 8), n(2, 4, 6, 7)
        blind = torch.ones(5, 6, dtype=torch.bool)
        blind[2] = False
        name = "aten::scaled_dot_product_attention"
        for mask in (None, n(5, 6), R(5, 6) > 0, n(2, 1, 5, 6), blind):
            check(name, q, k, v, mask, 0.0, False, None, False, tolerance=tolerance)
        check(name, q, k, v, None, 0.0, True, 0.3, False, tolerance=tolerance)
        check(name, n(2, 4, 5, 8), n(2, 2, 6, 8), n(2, 2, 6, 7), None, 0.0, False, None, True, tolerance=tolerance)
    with pytest.raises(OperatorError):
        run("aten::scaled_dot_product_attention", R(2, 5, 8), R(2, 6, 9), R(2, 6, 7))
    with pytest.raises(OperatorError):
        run("aten::scaled_dot_product_attention", R(2, 5, 8), R(2, 6, 8), R(2, 6, 7), R(5, 6), 0.0, True)


def test_transformer_layers() -> None:
    for first in (False, True):
        for activation in ("relu", "gelu"):
            m = torch.nn.TransformerEncoderLayer(8, 2, 16, 0.0, activation, batch_first=True, norm_first=first).eval()
            a = m.self_attn
            weights: list[Any] = [a.in_proj_weight, a.in_proj_bias, a.out_proj.weight, a.out_proj.bias]
            rest: list[Any] = [m.norm1.weight, m.norm1.bias, m.norm2.weight, m.norm2.bias]
            rest += [m.linear1.weight, m.linear1.bias, m.linear2.weight, m.linear2.bias]
            weights, rest = [w.detach() for w in weights], [w.detach() for w in rest]
            keys = torch.zeros(3, 5, dtype=torch.bool)
            keys[1, 3:] = True
            x = R(3, 5, 8)
            for mask in ((None, None), (keys, 1), (torch.ones(5, 5).triu(1).bool(), 0)):
                args = (x, 8, 2, *weights, activation == "gelu", first, 1e-5, *rest, *mask)
                check("aten::_transformer_encoder_layer_fwd", *args, tolerance=1e-5)
            for average in (True, False):
                args = (x, x, x, 8, 2, *weights, None, True, average, None)
                check("aten::_native_multi_head_attention", *args, tolerance=1e-5)
    check("aten::_masked_softmax", R(2, 2, 4, 4), torch.rand(2, 2, 4, 4) > 0.7, 3, None, tolerance=3e-6)
    with pytest.raises(OperatorError):
        run("aten::_native_multi_head_attention", x, x, x, 8, 3, *weights)
