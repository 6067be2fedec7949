"""Indexing in the VM beside torch's: reading, writing, masks, orders, sets."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.vm.check import OperatorError, check, run
from tests.vm.samples import EVERY, INF, NAN, same_as_torch

torch.manual_seed(4)
X = torch.randn(3, 4, 5)
P = X.permute(2, 0, 1)
S = X[:, ::2, 1:]
V = torch.tensor([5.0, -1, 3, 3, 0, 7])
L = torch.arange(24).reshape(2, 3, 4)
I = torch.tensor([2, 0, 1])  # noqa: E741
J = torch.tensor([[0, 1], [1, 0]])
ZERO, EMPTY, NONE = torch.tensor(3.5), torch.zeros(0), torch.zeros(0, dtype=torch.long)
MASK = X > 0
ROWS = torch.tensor([True, False, True])


def wide(shape: tuple[int, ...], high: int) -> torch.Tensor:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(3))


READ: dict[str, list[tuple[Any, ...]]] = {
    "index.Tensor": [(X, [I]), (X, [None, I]), (X, [None, None, I]), (X, [I, I]), (X, [I, None, I]), (X, [J]), (X, [J, None, J]), (X, [None, J, J]), (X, [MASK]), (X, [ROWS]),
                     (X, [None, torch.tensor([True, False, True, True])]), (X, [ROWS, torch.tensor([0, 3])]), (X, [I, torch.tensor([[1], [2]])]), (X, [-I]), (X, [I + 5]), (P, [None, I]),
                     (P, [I, None, I]), (S, [I, torch.tensor(0)]), (X, [torch.tensor(1)]), (X, [torch.tensor(1), torch.tensor(-1), torch.tensor(2)]), (X, [NONE]), (X, [None, NONE]),
                     (X, [I.int()]), (X, [I.float()]), (X, [I, I, I, I]), (X, [ROWS.to(torch.uint8)]), (X, [MASK[:, :, :4]]), (L, [torch.tensor([0, 1]), None, torch.tensor([3, 0])]),
                     (X > 0, [I]), (X.half(), [I]), (X.double(), [I, None, I]), (X, [I, torch.tensor([0, 1])]), (torch.zeros(0, 3), [NONE]), (torch.zeros(0, 3), [I]), (P, [MASK.permute(2, 0, 1)]),
                     (X, [MASK[:, :, 0]]), (X, [None, MASK[0]]), (X[:, :1].expand(3, 4, 5), [None, torch.tensor([3, 0])])],
    "index.Tensor_hacked_twin": [(X, [I, I])],
    "_unsafe_index.Tensor": [(X, [None, I])],
    "index_select": [(X, 0, I), (X, 1, I), (P, -1, I), (S, 1, torch.tensor([1, 0, 1])), (X, 0, torch.tensor(2)), (X, 0, NONE), (X, 0, I + 1), (X, 0, -I), (X, 3, I), (X, 0, J), (ZERO, 0, torch.tensor([0])),
                     (X, 2, I.int()), (X, 0, I.float()), (L, 2, I), (X > 0, 1, I), (X.half(), 1, I)],
    "gather": [(X, 0, wide((2, 3, 4), 3)), (X, 1, wide((3, 9, 5), 4)), (P, -1, wide((5, 3, 2), 4)), (X, 2, wide((3, 4, 1), 6)), (X, 0, I), (ZERO, 0, torch.tensor([0, 0])), (ZERO, 0, torch.tensor(0)),
               (V, 0, torch.tensor(3)), (X, 1, wide((4, 2, 5), 3)), (X, 0, wide((2, 3, 4), 3) - 1), (S, 1, wide((3, 2, 4), 2)), (L, 1, wide((2, 3, 4), 3)), (X, 0, NONE), (X, 0, wide((2, 3, 4), 3).int())],
    "take": [(X, I), (P, J), (X, -I), (X, torch.tensor(60)), (X, NONE), (ZERO, torch.tensor([0, 0])), (X, I.int())],
    "take_along_dim": [(X, wide((3, 4, 2), 5), 2), (X, wide((1, 9, 5), 4), 1), (X, I), (X, I, 0), (X, wide((3, 1, 2), 5), -1)],
    "embedding": [(X[0], I), (X[0].t(), J), (X[0], torch.tensor(1)), (X[0], I + 9), (X[0], -I), (X[0], I.int()), (X, I), (X[0], NONE), (X[0].half(), J, 1), (X[0].double(), J)],
    "masked_select": [(X, MASK), (P, MASK.permute(2, 0, 1)), (X, MASK[0]), (X[0], MASK), (ZERO, torch.tensor(True)), (X, X), (X, MASK[:, :, :1]), (X, torch.zeros_like(MASK))],
    "nonzero": [(X > 0.5,), (X,), (torch.tensor([0.0, -0.0, NAN, 1.0]),), (ZERO,), (EMPTY,), (L,), (P > 0,), (torch.tensor(0),), (torch.zeros(3, 0),), (X.half(),)],
    "argwhere": [(X > 0.5,)],
    "nonzero_numpy": [(X > 0.5,), (ZERO,)],
    "where": [(X > 0.5,)],
    "isin.Tensor_Tensor": [(L, I), (V, torch.tensor([3.0, 7.0])), (L, I, False, True), (L, NONE), (V, L)],
    "isin.Tensor_Scalar": [(L, 3), (V, 3.0)],
    "bincount": [(I,), (L.flatten(), torch.rand(24)), (I, None, 9), (NONE,), (NONE, None, 3), (-I,), (V,), (J,), (I.int(),), (I.to(torch.uint8), torch.tensor([1, 2, 3])), (I, torch.rand(3).double()), (I, None, -1)],
    "histc": [(V, 4), (V, 4, 0, 6), (X, 10, -1, 1), (V, 0), (EMPTY, 3), (torch.ones(3), 3), (V.double(), 5), (V, 3, 2, 1), (V, 4, 3, 3), (torch.tensor([NAN, 0.5, INF, 1.5, -INF, -0.0, 2.0]), 5, -1, 2), (torch.tensor([1.0, NAN]), 3), (torch.tensor([1.0, INF]), 3), (V, 3, -INF, 1)],
    "searchsorted.Tensor": [(torch.tensor([1.0, 3, 5, 7]), V), (torch.tensor([1.0, 3, 5, 7]), V, False, True), (torch.tensor([1.0, 3, 5, 7]), V, True), (torch.sort(X, -1)[0], X), (torch.sort(X, -1)[0], V),
                            (torch.tensor([1, 3, 5]), torch.tensor([0, 3, 9])), (torch.tensor([1.0, 3, 5, 7]), V, False, False, "right"), (torch.tensor([5.0, 1, 3]), V, False, False, None, torch.tensor([1, 2, 0])),
                            (torch.tensor([1.0, 3, 5]), torch.tensor([NAN, INF, -INF])), (torch.tensor([1, 3]), V), (ZERO, V)],
    "searchsorted.Scalar": [(torch.tensor([1.0, 3, 5, 7]), 3), (torch.tensor([1, 3, 5, 7]), 3, False, True)],
    "bucketize.Tensor": [(V, torch.tensor([1.0, 3, 5])), (X, torch.tensor([-1.0, 0, 1]), True, True), (L, torch.tensor([3, 9])), (V, X)],
    "bucketize.Scalar": [(3, torch.tensor([1, 3, 5]))],
    "msort": [(X,)],
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_reading(name: str) -> None:
    taken = [
        same_as_torch(f"aten::{name}", *args, layout=not name.startswith(("bincount", "histc"))) for args in READ[name]
    ]
    assert any(taken)


WRITE: dict[str, list[tuple[Any, ...]]] = {
    "index_put_": [(X, [I], X[:1].clone()), (X, [None, I], ZERO), (X, [MASK], ZERO), (X, [MASK], torch.arange(float(MASK.sum()))), (X, [torch.tensor([0, 0, 1])], X[:, :] * 2, True), (P, [I, None, I], ZERO),
                   (X, [I, I], X[0, :3].clone()), (X, [I], L), (X, [I], torch.zeros(7)), (L, [torch.tensor([0, 0]), torch.tensor([1, 1])], L[0, :2].clone(), True), (X, [I + 3], ZERO), (X, [NONE], ZERO),
                   (X.half(), [torch.tensor([0, 0])], X[:2].half(), True), (X.bool(), [I], torch.tensor(False)), (S, [I, torch.tensor([1, 0, 1])], ZERO), (X, [I], X[None, :1].clone()),
                   (X, [None, None, torch.tensor([4])], X[:, :, :1].clone())],
    "index_put_.hacked_twin": [(X, [I], ZERO)],
    "_index_put_impl_": [(X, [I], ZERO, True)],
    "index_put": [(X, [I], ZERO), (P, [MASK.permute(2, 0, 1)], ZERO)],
    "index_fill.int_Scalar": [(X, 0, I[:2], 3.5), (X, -1, torch.tensor([-1]), 2), (L, 1, I[:1], 2.7), (P, 1, I, 1), (X, 0, I + 1, 1), (X, 1, torch.tensor(2), 1), (ZERO, 0, torch.tensor([0]), 1), (X, 0, J, 1), (X > 0, 0, I, True),
                              (X, 0, NONE, 1)],
    "index_fill_.int_Scalar": [(X, 0, I[:2], 3.5), (S, 1, torch.tensor([0]), 1)],
    "index_fill.int_Tensor": [(X, 0, I[:2], ZERO), (X, 0, I, V)],
    "index_fill_.int_Tensor": [(X, 0, I[:2], ZERO)],
    "index_add": [(P, 1, I, P.clone()), (X, 1, I, X[:, :3]), (X, 0, torch.tensor([0, 0, 1]), X, 2), (X, 0, I, X[:2]), (L, 2, I, L[:, :, :3], 3), (X, 0, I.int(), X), (V, 0, torch.tensor(1), ZERO), (X.half(), 0, I, X.half()), (X, 0, I, L)],
    "index_add_": [(X, 1, I, X[:, :3].clone()), (P, 0, torch.tensor([1, 1]), P[:2].clone(), -1)],
    "index_copy": [(P, 1, I, P.clone()), (X, 1, I, X[:, :3] * 2), (X, 0, I, L), (V, 0, torch.tensor([1]), V[2:3]), (X, 0, I + 1, X)],
    "index_copy_": [(P, 1, I, P.clone())],
    "scatter.src": [(X, 0, wide((2, 3, 4), 3), X), (X, 1, torch.tensor([[[0], [2]]]), X), (P, 2, wide((5, 3, 1), 4), P.clone()), (X, 0, I, X), (V, 0, torch.tensor([1, 3]), V), (X, 0, wide((2, 3, 4), 3) + 1, X),
                    (X, 0, wide((9, 3, 4), 3), X), (X, 0, I, L), (ZERO, 0, torch.tensor(0), torch.tensor(1.0)), (X, 2, torch.tensor([[[4, 0, 1, 2]]]), X)],
    "scatter_.src": [(X, 2, torch.tensor([[[4, 0, 1, 2]]]), X + 1), (S, 1, torch.tensor([[[1], [0]]]), S * 2)],
    "scatter.value": [(X, 0, wide((2, 3, 4), 3), 2.5), (L, 1, wide((2, 1, 4), 3), 7), (X, 0, wide((9, 3, 4), 3), 1), (X, 1, NONE, 1)],
    "scatter_.value": [(X, 0, wide((2, 3, 4), 3), 2), (P, 0, wide((2, 3, 4), 5), 2)],
    "scatter.reduce": [(X, 0, wide((2, 3, 4), 3), X, "add"), (X, 0, wide((2, 3, 4), 3), X, "multiply"), (L, 1, wide((2, 3, 4), 3), L, "add"), (X, 0, I, X, "max")],
    "scatter_.reduce": [(X, 0, wide((2, 3, 4), 3), X + 1, "add")],
    "scatter.value_reduce": [(X, 0, wide((2, 3, 4), 3), 2.0, "multiply")],
    "scatter_.value_reduce": [(L, 0, wide((1, 3, 4), 2), 2, "add")],
    "scatter_add": [(P, 0, wide((5, 3, 4), 5), P.clone()), (X, 1, wide((3, 4, 5), 4), X), (L, 2, wide((2, 3, 9), 4), torch.ones(2, 3, 9, dtype=torch.long)), (X.half(), 0, wide((2, 2, 2), 3), X.half()), (X > 0, 0, wide((2, 2, 2), 3), X > 1)],
    "scatter_add_": [(X, 1, wide((3, 4, 5), 4), X + 1), (P, 0, wide((5, 3, 4), 5), P * 2)],
    "scatter_reduce.two": [(X, 1, wide((3, 4, 5), 4), X, r, i) for r in ("sum", "prod", "mean", "amax", "amin") for i in (True, False)] + [(L, 2, wide((2, 3, 4), 4), -L, "mean"), (L, 0, wide((2, 3, 4), 2), L, "amin", False)],
    "scatter_reduce_.two": [(X, 1, wide((3, 4, 5), 4), X + 1, "amax")],
    "masked_scatter": [(X, MASK, X * 2), (X, MASK[0], torch.arange(99.0)), (X, MASK, V), (X, MASK, L), (P, MASK.permute(2, 0, 1), torch.arange(99.0))],
    "masked_scatter_": [(X, MASK, X * 2)],
    "masked_fill.Scalar": [(X, MASK, -INF), (X, MASK[0], 2), (L, L > 3, 7), (X[0], MASK, 1.0), (X.half(), MASK, -1e4), (P, MASK.permute(2, 0, 1), 0.5), (X, X, 1), (MASK, MASK, False), (X, torch.tensor(True), 3.0)],
    "masked_fill_.Scalar": [(X, MASK, 3), (S, S > 0, 1.5), (X[0], MASK, 1.0)],
    "masked_fill.Tensor": [(X, MASK, ZERO), (L, L > 3, torch.tensor(9)), (X, MASK, V)],
    "masked_fill_.Tensor": [(X, MASK, ZERO)],
    "put": [(X, I, V[:3]), (X, torch.tensor([0, 0]), V[:2], True), (X, I, V)],
    "put_": [(X, I, V[:3])],
}  # fmt: skip


@pytest.mark.parametrize("name", WRITE)
def test_writing(name: str) -> None:
    taken = [same_as_torch(f"aten::{name}", *args, layout=True) for args in WRITE[name]]
    assert any(taken)


ORDER: dict[str, list[tuple[Any, ...]]] = {
    "sort": [(X,), (X, 0), (X, 1, True), (P,), (P, 0, True), (V,), (S, 1), (ZERO,), (EMPTY,), (L, 1, True), (torch.tensor([NAN, 1.0, INF, -INF, 0.0, -0.0, NAN]),), (X.half(),), (X.double(), 1),
             (torch.tensor([NAN, 1.0, 0.0, -0.0, NAN], dtype=torch.float64), 0, True), (X > 0, -1), (L.to(torch.uint8), 0), (X, 3), (X.bfloat16(), 0)],
    "sort.stable": [(V, True), (V, None, 0, True), (torch.tensor([1, 0, 1, 0, 1]), True, 0, True)],
    "argsort": [(torch.randperm(9).float(),), (torch.randperm(9), 0, True)],
    "argsort.stable": [(V, True), (X, True, 1, True)],
    "_unique2": [(V, True, True, True), (L % 5, True, True, True), (P, True, False, True), (torch.tensor([NAN, 1.0, NAN, 1.0]), True, True, True), (EMPTY, True, True, True), (X > 0, True, True, True),
                 (V.double(),), (ZERO, True, True, True), (V.half(), True, True, True)],
    "_unique": [(V, True, True), (L % 3,)],
    "unique_dim": [(torch.tensor([[1, 2], [0, 5], [1, 2]]), 0, True, True, True), (torch.tensor([[1, 1, 0], [2, 2, 0]]), 1, True, True, True), (L % 2, 2, True, True, True), (V, 0, True, True, True)],
    "unique_consecutive": [(torch.tensor([1, 1, 2, 2, 1, 3]), True, True), (V, True, True), (torch.tensor([[1, 1], [1, 1], [2, 1]]), True, True, 0), (torch.tensor([[1, 1], [1, 1], [2, 1]]), True, True, 1),
                           (torch.tensor([[1, 1], [1, 1], [2, 1]]), True, True), (EMPTY,), (ZERO, True, True), (V, False, False, 0)],
    "unique_dim_consecutive": [(torch.tensor([[1, 2], [1, 2], [0, 5], [1, 2]]), 0, True, True)],
}  # fmt: skip


@pytest.mark.parametrize("name", ORDER)
def test_order(name: str) -> None:
    taken = [same_as_torch(f"aten::{name}", *args, layout=name == "sort") for args in ORDER[name]]
    assert any(taken)


@pytest.mark.parametrize("dtype", EVERY)
def test_topk(dtype: torch.dtype) -> None:
    """Which of equal values comes first is up to torch: values are compared, and that the places hold them."""
    x = (X * 9).to(dtype)
    for t, k, dim, largest in (
        (x, 2, -1, True),
        (x, 3, 0, False),
        (x.permute(2, 0, 1), 1, 1, True),
        (x, 0, 1, True),
        (x[0, 0, 0], 1, 0, True),
    ):
        if dtype == torch.bool:
            with pytest.raises(OperatorError):
                run("aten::topk", t, k, dim, largest)
            continue
        values, places = run("aten::topk", t, k, dim, largest)
        assert torch.equal(values, torch.topk(t, k, dim, largest)[0])
        assert torch.equal(t.gather(dim, places), values)
    for wrong in ((x, 9), (x, -1), (x, 1, 7)):
        with pytest.raises(OperatorError):
            run("aten::topk", *wrong)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("index_fill.int_Scalar_out", (X, 1, I, 2.0)),
        ("index_copy.out", (P, 1, I, P.clone())),
        ("index_add.out", (P, 1, I, P.clone(), 2)),
        ("index_put.out", (X, [I], X[:1], False)),
        ("scatter.value_out", (X, 0, wide((2, 3, 4), 3), 1.5)),
        ("scatter_add.out", (X, 0, wide((2, 3, 4), 3), X)),
        ("put.out", (X, I, torch.rand(I.shape), True)),
        ("masked_scatter.out", (X, X > 0, X.flatten())),
        ("zero", (X,)),
        ("zero.out", (X,)),
        ("copy", (X, X[:1])),
        ("copy.out", (X, X[:1], False)),
        ("fill.Scalar_out", (X, 3)),
        ("split", (X, [1, X.size(1) - 1], 1)),
        ("sym_size", (X,)),
    ],
)
def test_forms_that_torch_derives(name: str, args: tuple[Any, ...]) -> None:
    """Out arguments and the functional forms of in-place operators."""
    check(f"aten::{name}", *args, *([torch.ones_like(args[0])] if name.endswith("out") else []))
