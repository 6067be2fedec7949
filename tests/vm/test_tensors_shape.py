"""Views, copies and creation in the VM beside torch's: values, dtypes, strides, and which results are views of which argument."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from penlight.ops.vm_operators import operators
from tests.vm.check import OperatorError, check, compare, run, torch_run
from tests.vm.samples import EVERY, INF, NAN, outcome, same_as_torch

X = torch.arange(120, dtype=torch.float32).reshape(2, 3, 4, 5)
P = X.permute(0, 2, 3, 1)
S = X[:, ::2, 1:, ::2]
E = X[:, :1].expand(2, 6, 4, 5)
CL = X.contiguous(memory_format=torch.channels_last)
ONES = torch.arange(6.0).reshape(1, 2, 1, 3, 1)
EMPTY = torch.zeros(2, 0, 3)
ZERO = torch.tensor(3.5)
V = torch.arange(7)
I = torch.tensor([2, 0, 1])  # noqa: E741
ALL = [X, P, S, E, CL, ONES, EMPTY, ZERO, V]

VIEWS: dict[str, list[tuple[Any, ...]]] = {
    "view": [(X, [6, 20]), (X, [-1]), (X, [2, 3, 20]), (P, [2, 20, 3]), (P, [40, 3]), (E, [2, 6, 20]), (EMPTY, [0, 7]), (ZERO, [1, 1]), (X, [7, -1]),
             (X, [-1, -1]), (X, [-2, 60]), (ZERO, []), (V, [7, 1]), (X, [121]), (EMPTY, [-1, 0]), (P[:, :1], [2, 15]), (X, [2**40, 2**40])],
    "reshape": [(X, [6, 20]), (P, [6, -1]), (S, [-1]), (E, [-1, 5]), (EMPTY, [3, 0]), (ZERO, [1]), (P, [2, 20, 3]), (X, [7])],
    "_unsafe_view": [(X, [6, 20])],
    "view_as": [(X, torch.zeros(6, 20)), (P, torch.zeros(120))],
    "reshape_as": [(P, torch.zeros(6, 20)), (X, torch.zeros(7))],
    "flatten.using_ints": [(t,) for t in ALL] + [(X, 1), (X, 1, 2), (P, 2, 3), (P, 0, 1), (X, -1, 1), (X, 2, 2), (X, 5)],
    "ravel": [(X,), (P,)],
    "unflatten.int": [(X, 2, [2, 2]), (X, -1, [-1, 5]), (X, 1, [2, 2]), (P, 3, [3, 1]), (X, 0, [])],
    "view.dtype": [(X, 3), (X, 2), (X, 7), (V, 3), (P, 3), (P, 2)],
    "permute": [(X, [0, 2, 3, 1]), (P, [-1, 0, 1, 2]), (X, [0, 0, 1, 2]), (X, [0, 1]), (ZERO, []), (EMPTY, [2, 1, 0]), (X, [0, 1, 2, 4])],
    "transpose.int": [(X, 1, -1), (X, 0, 4), (ZERO, 0, -1), (EMPTY, 0, 2)],
    "swapaxes": [(X, 1, 2)],
    "t": [(X[0, 0],), (V,), (ZERO,), (X,)],
    "numpy_T": [(X,), (V,), (ZERO,)],
    "mT": [(X,), (V,)],
    "adjoint": [(X,)],
    "movedim.int": [(X, 0, -1), (X, 3, 1), (X, 4, 0)],
    "movedim.intlist": [(X, [0, 1], [2, 0]), (X, [0, 0], [1, 2]), (X, [1], [0, 1])],
    "unsqueeze": [(X, 0), (X, -1), (X, 2), (P, 4), (ZERO, 0), (ZERO, -1), (X, 5), (EMPTY, 1)],
    "squeeze": [(t,) for t in ALL],
    "squeeze.dim": [(ONES, 0), (ONES, 1), (ONES, -1), (ZERO, 0), (ONES, 5)],
    "squeeze.dims": [(ONES, [0, 1, 2]), (ONES, [-1])],
    "expand": [(X[:, :1], [2, 3, 4, 5]), (X[:, :1], [-1, 7, -1, -1]), (ZERO, [2, 3]), (V, [3, 7]), (V, [3, 8]), (V, []), (V, [-1, 7]), (V, [0, 7]),
               (X[:1, :1], [9, 2, 6, 4, 5])],
    "broadcast_to": [(V, [2, 7])],
    "expand_as": [(X[:, :1], X), (ZERO, X), (X, V)],
    "broadcast_tensors": [([V, ZERO, torch.zeros(3, 1)],), ([V, I],), ([],)],
    "select.int": [(X, 1, 2), (X, -1, -1), (P, 2, 0), (X, 0, 2), (X, 0, -3), (ZERO, 0, 0), (E, 1, 3), (X, 4, 0)],
    "slice.Tensor": [(X,), (X, 1, 1), (X, 1, None, 2), (X, 1, -2, None), (X, -1, 0, 100, 2), (X, 2, 3, 1), (X, 3, -100, -1, 3), (V, 0, 1, 6, 2**40),
                     (ZERO,), (X, 1, 0, 1, 0), (EMPTY, 1, 3, 5), (P, 1, 1, 9223372036854775807, 2), (X, 1, -9223372036854775808, 2)],
    "narrow": [(X, 1, 1, 2), (X, -1, -2, 1), (X, 1, 2, 2), (X, 1, 0, 0), (X, 1, 3, 0), (X, 1, 0, -1), (ZERO, 0, 0, 1)],
    "narrow.Tensor": [(X, 1, torch.tensor(1), 2), (X, 1, torch.tensor(1.0), 2)],
    "narrow_copy": [(X, 1, 1, 2)],
    "chunk": [(V, 3), (X, 2, 1), (X, 7, 3), (EMPTY, 3, 1), (X, 0), (ZERO, 1)],
    "unsafe_chunk": [(V, 3)],
    "split.Tensor": [(V, 3), (X, 2, -1), (V, 0), (V, 100), (EMPTY, 0, 1), (V, -1)],
    "unsafe_split.Tensor": [(V, 3)],
    "split.sizes": [(V, [3, 4]), (V, [3, 3]), (V, [0, 7]), (V, [-1, 8])],
    "split_with_sizes": [(X, [1, 2], 1), (V, [8])],
    "unsafe_split_with_sizes": [(X, [1, 2], 1)],
    "tensor_split.sections": [(V, 3), (V, 9), (X, 2, 1), (V, 0)],
    "tensor_split.indices": [(V, [1, 5]), (V, [-2, 3]), (X, [1], 2), (V, [])],
    "tensor_split.tensor_indices_or_sections": [(V, torch.tensor([2, 4])), (V, torch.tensor(3))],
    "hsplit.int": [(X, 3), (X, 2)],
    "vsplit.array": [(X, [1])],
    "dsplit.int": [(X, 2)],
    "unbind.int": [(X,), (X, -2), (EMPTY, 1), (ZERO,), (P, 1)],
    "as_strided": [(X, [2, 2], [1, 2]), (X, [3], [7], 5), (X, [200], [1]), (X, [2], [-1]), (P, [4, 4], [1, 0], 2), (X, [2, 2], [1])],
    "_reshape_alias": [(X, [6, 20], [20, 1])],
    "diagonal": [(X,), (X, 1, -1, -2), (X, -2, 1, 3), (X, 9), (X, 0, 1, 1), (V,)],
    "unfold": [(X, 3, 2, 1), (X, 1, 3, 2), (V, 0, 8, 1), (V, 0, 2, 0), (ZERO, 0, 1, 1), (P, -2, 2, 2)],
    "detach": [(t,) for t in ALL],
    "alias": [(P,)],
    "resolve_neg": [(P,)],
    "resolve_conj": [(P,)],
    "conj": [(P,)],
    "real": [(P,)],
    "contiguous": [(t,) for t in ALL] + [(X, 2), (CL, 2), (ONES, 2), (torch.zeros(1, 3, 1, 1), 2), (X[None], 3)],
    "clone": [(t,) for t in ALL] + [(P, 0), (X, 2), (S, 1), (X.permute(3, 1, 0, 2)[:, :, :, ::2], None), (V, 2)],
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_views(name: str) -> None:
    taken = [same_as_torch(f"aten::{name}", *args, layout=True) for args in VIEWS[name]]
    assert any(taken)


IN_PLACE: dict[str, list[tuple[Any, ...]]] = {
    "detach_": [(X,)],
    "requires_grad_": [(ZERO, False)],
    "copy_": [(X, P[:, 0, 0, 0][:, None, None, None]), (P, CL.permute(0, 2, 3, 1)), (V, torch.tensor([1.7] * 7)), (V, X), (torch.zeros(3, dtype=torch.bool), I),
              (S, S.double() + 1), (torch.zeros(2, 3), torch.zeros(1, 1, 2, 3))],
    "copy_.Tensor": [(X, X + 1)],
    "copy_.int": [(X, 3)],
    "copy_.float": [(V, 3.7), (P, 1.5)],
    "fill_.Scalar": [(X, 2), (P, 2.5), (V, 3.9), (S, NAN), (torch.zeros(3, dtype=torch.bool), 2), (ZERO, 1), (EMPTY, 1), (torch.zeros(3, dtype=torch.float16), 1e9)],
    "fill_.Tensor": [(X, ZERO), (V, ZERO), (X, V)],
    "zero_": [(S,), (P,), (V,)],
}  # fmt: skip


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name: str) -> None:
    for args in IN_PLACE[name]:
        same_as_torch(
            f"aten::{name}",
            *(a.clone() if isinstance(a, torch.Tensor) and name != "copy_" else a for a in args),
            layout=True,
        )


BECOME: dict[str, list[tuple[Any, ...]]] = {
    "unsqueeze_": [(V, 0), (V, 3)],
    "squeeze_": [(ONES,)],
    "squeeze_.dim": [(ONES, 0), (ONES, 1)],
    "transpose_": [(X, 1, 2)],
    "t_": [(X[0, 0],)],
    "swapaxes_": [(X, 1, 2)],
    "as_strided_": [(X, [2, 2], [1, 3])],
    "set_.source_Tensor": [(torch.zeros(2), X)],
    "resize_": [(torch.arange(6), [2, 2]), (torch.arange(6), [6])],
    "resize_as_": [(torch.arange(6), torch.zeros(3, 2))],
}  # fmt: skip


@pytest.mark.parametrize("name", BECOME)
def test_tensors_that_take_on_another_shape(name: str) -> None:
    for args in BECOME[name]:
        expected = outcome(torch_run, f"aten::{name}", *copy.deepcopy(args))
        if expected is None:
            with pytest.raises(OperatorError):
                run(f"aten::{name}", *copy.deepcopy(args))
        else:
            got = run(f"aten::{name}", *copy.deepcopy(args))
            compare(got, expected, 0.0, name)
            assert got.stride() == expected.stride()


def test_writes_are_seen_through_views() -> None:
    x = torch.zeros(3, 4)
    row = run("aten::select.int", x, 0, 1)
    run("aten::fill_.Scalar", row, 5)
    part = run("aten::slice.Tensor", run("aten::t", x), 0, 1, 3)
    run("aten::add_.Tensor", part, torch.ones(2, 3))
    expected = torch.zeros(3, 4)
    expected[1] = 5
    expected.t()[1:3] += 1
    assert torch.equal(x, expected)


def test_overlapping_copy() -> None:
    x = torch.arange(10.0)
    run("aten::copy_", x[1:], x[:-1])
    assert torch.equal(x, torch.tensor([0.0, 0, 1, 2, 3, 4, 5, 6, 7, 8]))


TO: dict[str, list[tuple[Any, ...]]] = {
    "to.dtype": [(X, 6), (X, 4), (P, 7), (P, 6, False, True), (S, 3), (S, 6, False, True), (E, 7), (X, 6, False, False, 2), (CL, 6, False, False, 2), (X, 3, False, False, 0)],
    "to.dtype_layout": [(P,), (P, 7), (P, None, None, "cpu", None, False, True), (X, None, None, None, None, False, False, 2)],
    "to.device": [(P, "cpu", 6), (P, "cpu", 5)],
    "to.other": [(X, V), (X, P)],
    "to.prim_Device": [(X, "cpu"), (P, "cpu", 4), (P, None, 6, False, True)],
    "to.prim_dtype": [(P, 5), (P, 6), (P,)],
    "to.prim_other": [(P,)],
    "_to_copy": [(P,), (P, 4)],
    "type_as": [(P, V), (P, X)],
    "_cast_Float": [(V,), (X,)],
    "_cast_Long": [(X,)],
    "cpu": [(X,)],
}  # fmt: skip


@pytest.mark.parametrize("name", TO)
def test_to(name: str) -> None:
    for args in TO[name]:
        if name != "to.prim_Device":
            args = tuple(torch.device(a) if a == "cpu" else a for a in args)
        theirs = tuple(a for a in args)
        expected = torch_run(f"aten::{name}", *theirs)
        got = run(f"aten::{name}", *(str(a) if isinstance(a, torch.device) else a for a in args))
        assert got.dtype == expected.dtype
        assert torch.equal(got.double(), expected.double())
        assert (got.data_ptr() == args[0].data_ptr()) == (expected.data_ptr() == args[0].data_ptr())
        assert all(a == b for a, b, n in zip(got.stride(), expected.stride(), got.shape, strict=True) if n > 1)


def test_every_cast() -> None:
    """Between every two dtypes; numbers that fit, as what does not is up to the compiler torch was built with."""
    for a in EVERY:
        x = torch.tensor([0, 1, 2.5, 100, 99.9, 7]).to(a)
        for b in EVERY:
            check("aten::to.dtype", x, _code(b))
    x = torch.tensor([0.0, -0.0, 1e-8, 65519.0, 65520.0, -INF, NAN, 1.0009765625], dtype=torch.float64)
    for b in (torch.float16, torch.bfloat16, torch.float32, torch.bool):
        check("aten::to.dtype", x, _code(b))


def _code(dtype: torch.dtype) -> int:
    codes = [
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.float32,
        torch.float64,
    ]
    return codes.index(dtype) if dtype in codes else {torch.bool: 11, torch.bfloat16: 15}[dtype]


CREATE: dict[str, list[tuple[Any, ...]]] = {
    "zeros": [([2, 3],), ([2, 3], 4), ([],), ([0, 3], 11), ([-1],), ([2], 15)],
    "ones": [([2, 3],), ([3], 5), ([3], 11), ([3], 0)],
    "full": [([2], 3), ([2], 3.5), ([2], True), ([2], 3.5, 4), ([2], 3, 6), ([], NAN)],
    "zeros_like": [(t,) for t in ALL] + [(P, 4), (P, None, None, None, None, 0), (X, None, None, None, None, 2)],
    "ones_like": [(P,), (S, 4), (E,)],
    "full_like": [(P, 3.5), (V, 3.5), (P, 2, 4)],
    "new_zeros": [(V, [2, 2]), (P, [3], 4)],
    "new_ones": [(V, [2, 2])],
    "new_full": [(V, [2, 2], 3.7), (X, [2], 3)],
    "scalar_tensor": [(3,), (3.5,), (3.5, 4), (True, 11)],
    "arange": [(5,), (5.5,), (0,), (-1,), (5, 6), (5, 5), (5.5, 4), (NAN,), (3, 0), (2**62,)],
    "arange.start": [(2, 7), (2.5, 7), (7, 2), (0.1, 0.9, 7), (2**53, 2**53 + 3)],
    "arange.start_step": [(2, 17, 3), (7, 2, -2), (0, 1, 0.1), (0, 1, 0.1, 7), (0, 5, 0), (0.0, 1.0, 0.3, 4), (0, -5, -1, 6), (3, 3, 1), (1, 9, 3, 15)],
    "range": [(1, 5), (1.5, 4, 6)],
    "range.step": [(1, 5, 2), (1, 6, 2, 4)],
    "linspace": [(0, 1, 5), (0.0, 10.0, 7), (3, -3, 4), (0, 1, 1), (0, 1, 0), (0, 10, 6, 4), (0, 1, 9, 7), (0, 1, -1), (0, 1, 33, 5), (-10, 10, 101)],
    "linspace.Tensor_Tensor": [(torch.tensor(1.0), torch.tensor(2.0), 5)],
    "logspace": [(0, 2, 5), (0, 3, 4, 2.0), (0, 1, 3, 10.0, 7)],
    "eye": [(3,), (0,), (3, 4), (-1,), (2, 11)],
    "eye.m": [(3, 5), (5, 3, 4)],
    "tril_indices": [(4, 3), (4, 3, 1), (3, 5, -2), (0, 3), (3, 3, 99), (3, 3, 0, 3)],
    "triu_indices": [(4, 3), (4, 3, 1), (3, 5, -2), (3, 3, -99)],
}  # fmt: skip


@pytest.mark.parametrize("name", CREATE)
def test_creation(name: str) -> None:
    tolerance = {"linspace": 2e-7, "logspace": 1e-6}.get(name.split(".")[0], 0.0)
    for args in CREATE[name]:
        half = isinstance(args[-1], int) and args[-1] in (5, 15) and name.startswith(("linspace", "arange"))
        same_as_torch(f"aten::{name}", *args, tolerance=8e-3 if half else tolerance, layout=True)


def test_creation_of_anything() -> None:
    """What torch leaves uninitialized: shapes, dtypes and strides alone."""
    for got, expected in [
        (run("aten::empty.memory_format", [2, 3, 4, 5], 4, None, None, None, 2), torch.empty(2, 3, 4, 5, dtype=torch.long, memory_format=torch.channels_last)),
        (run("aten::empty_like", P), torch.empty_like(P)),
        (run("aten::empty_like", S), torch.empty_like(S)),
        (run("aten::new_empty", V, [3]), V.new_empty(3)),
        (run("aten::empty_strided", [2, 3], [1, 4]), torch.empty_strided((2, 3), (1, 4))),
        (run("aten::new_empty_strided", V, [2, 3], [1, 4]), V.new_empty_strided((2, 3), (1, 4))),
    ]:  # fmt: skip
        assert (got.shape, got.stride(), got.dtype) == (expected.shape, expected.stride(), expected.dtype)
    out = torch.zeros(0)
    assert run("aten::zeros.out", [2, 3], out).shape == (2, 3)


def test_files_of_old_operator_versions() -> None:
    i, j, f = torch.tensor([7, -7, 8]), torch.tensor([2, 2, -3]), torch.tensor([1.0, 3.0, -5.0])
    assert torch.equal(run("upgrade::div_0_3.Tensor", i, j), torch.div(i, j, rounding_mode="trunc"))
    assert torch.equal(run("upgrade::div_0_3.Tensor", i, f), i / f)
    assert torch.equal(run("upgrade::div_0_3.Scalar", i, 2), torch.div(i, 2, rounding_mode="trunc"))
    assert torch.equal(run("upgrade::div_0_3.Scalar", i, 2.0), i / 2.0)
    assert torch.equal(run("upgrade::div__0_3.Tensor", i.clone(), j), torch.div(i, j, rounding_mode="trunc"))
    assert torch.equal(run("upgrade::div_0_3.out", i, j, torch.zeros(3)), i / j)
    assert torch.equal(run("upgrade::full_0_4", [2], 3), torch.tensor([3.0, 3.0]))
    assert torch.allclose(run("upgrade::linspace_0_7", 0, 1, None), torch.linspace(0, 1, 100))
    assert torch.allclose(run("upgrade::logspace_0_8", 0, 1, None), torch.logspace(0, 1, 100))


def test_names_are_torchs() -> None:
    """Every operator of the VM's tensor families is one that torch has, with as many arguments and results."""
    for name, op in operators().items():
        if not name.startswith("aten::") or op.source.parent.name not in FAMILIES:
            continue
        base, _, overload = name.partition(".")
        schemas = {s.overload_name: s for s in torch._C._jit_get_schemas_for_operator(base)}
        if overload not in schemas:
            assert name in LEGACY, f"{name}: torch has no such operator"
            continue
        assert len(schemas[overload].arguments) == len(op.params), name


FAMILIES = ("elementwise", "shape", "index", "random", "sort", "dynamic")
LEGACY = {"aten::_cat"}  # of torch 1.x
MADE: dict[str, list[tuple[Any, ...]]] = {
    "cat": [([X, X + 1],), ([X, X[:, :1]], 1), ([P, P], -1), ([CL, CL], 1), ([CL, X], 1), ([V, V.float()],), ([V, torch.zeros(0)],), ([torch.zeros(0), X],), ([X, V],),
            ([],), ([ZERO, ZERO],), ([X], 4), ([S, E[:, :2, 1:, ::2]], 0), ([torch.zeros(0), torch.zeros(0)],), ([EMPTY, EMPTY], 1), ([V.int(), V.bool()],)],
    "concat": [([X, X],)],
    "stack": [([X, P.reshape(X.shape)],), ([X, X], -1), ([V, V], 1), ([V, I],), ([ZERO, ZERO],), ([],), ([V, V], 3), ([V, V.float()],), ([P, P], 2)],
    "hstack": [([V, I],), ([X, X],), ([ZERO, ZERO],)],
    "vstack": [([V, V],), ([X, X],), ([ZERO, ZERO],)],
    "row_stack": [([V, V],)],
    "dstack": [([V, V],), ([X, X],), ([X[0, 0], X[0, 1]],)],
    "column_stack": [([V, V],), ([X[0, 0], X[0, 1]],), ([ZERO, ZERO],)],
    "atleast_1d": [(ZERO,), (V,)],
    "atleast_2d": [(ZERO,), (V,), (X,)],
    "atleast_3d": [(ZERO,), (V,), (X[0, 0],)],
    "atleast_2d.Sequence": [([ZERO, V],)],
    "repeat": [(V, [3]), (V, [2, 3]), (P, [1, 2, 1, 3]), (S, [2, 1, 1, 1, 1]), (X, [2]), (V, [0]), (V, [-1]), (ZERO, []), (ZERO, [2, 2]), (EMPTY, [2, 2, 2])],
    "tile": [(V, [3]), (X, [2]), (V, [2, 3]), (ZERO, [])],
    "repeat_interleave.self_int": [(V, 3), (X, 2, 1), (P, 2), (P, 3, -1), (V, -1), (V, 0), (ZERO, 3), (V, 3, None, 21), (V, 3, 1)],
    "repeat_interleave.Tensor": [(I,), (torch.tensor([0, 2], dtype=torch.int32),), (-I,)],
    "repeat_interleave.self_Tensor": [(X, I, 1), (P, torch.tensor([2]), 0), (V, I), (torch.arange(3), I), (X, I, 1, 3), (X, I, 1, 4), (torch.arange(3), I.float())],
    "flip": [(X, [0, 2]), (P, [-1]), (S, [3, 1]), (V, [0]), (X, []), (X, [0, 0]), (ZERO, []), (EMPTY, [0]), (X, [5]), (V.to(torch.uint8), [0]), (CL, [1])],
    "fliplr": [(X,), (V,)],
    "flipud": [(V,), (ZERO,)],
    "roll": [(V, [2]), (X, [1], [1]), (X, [5, -1], [3, 0]), (P, [7]), (X, [1, 2], []), (X, [], []), (EMPTY, [1], [0]), (V, [-100], [0])],
    "rot90": [(X, 1, [0, 1]), (X, 2, [1, 3]), (X, 3, [2, 3]), (X, 4, [0, 1]), (X, -1, [0, 1]), (X, 1, [0, 0]), (V, 1, [0, 1]), (P, 1, [1, 2])],
    "constant_pad_nd": [(X, [1, 2], 3.5), (X, [1, 2, 0, 3]), (X, [-1, 2, 1, -2], -1), (CL, [1, 1]), (V, [1, 1], 7), (X, [1]), (X, [-9, 1]), (ZERO, []), (X, [0] * 10), (S, [2, 2])],
    "pad": [(X, [1, 2]), (X, [1, 2], "constant", 2.5), (X, [2, 1, 1, 2], "reflect"), (X, [2, 1, 1, 2], "replicate"), (X, [2, 1, 1, 2], "circular"), (X[0], [4, 4], "reflect"),
            (X[0], [5, 4], "reflect"), (X, [1, 1], "nothing"), (X[None], [1, 2, 1, 1, 0, 2], "replicate"), (X[None], [1, 2, 1, 1, 1, 2], "circular"), (X, [1, 1], "reflect"),
            (X[0, :, 0], [1, 0], "reflect"), (X[0], [6, 0], "circular"), (X, [1, 1, 1, 1], "reflect", 1.0)],
    "reflection_pad1d": [(X[0], [2, 1]), (X[0, 0], [1, 1]), (X, [1, 1]), (X[0], [5, 0])],
    "reflection_pad2d": [(X, [2, 1, 1, 3]), (X[0], [1, 1, 1, 1]), (CL, [1, 1, 1, 1]), (P, [0, 1, 1, 0]), (X[0, 0], [1, 1, 1, 1])],
    "reflection_pad3d": [(X[None], [1, 1, 1, 1, 1, 1])],
    "replication_pad1d": [(X[0], [2, 1]), (X[0, 0], [3, 0])],
    "replication_pad2d": [(X, [2, 7, 1, 0]), (CL, [1, 1, 1, 1])],
    "replication_pad3d": [(X[None], [1, 2, 0, 1, 3, 1]), (X, [1, 1, 1, 1, 1, 1])],
    "tril": [(X,), (X, 1), (P, -1), (X[0, 0], 100), (X, -100), (V,), (X > 7,)],
    "triu": [(X,), (X, 1), (P, -1), (X[0, 0], 100), (X, -100), (EMPTY,)],
    "tril_": [(X.clone(),)],
    "triu_": [(P.clone(), 1)],
    "diag": [(V,), (V, 2), (V, -1), (X[0, 0],), (X[0, 0], 1), (X[0, 0], -2), (X[0, 0], 9), (X,)],
    "diag_embed": [(X,), (X, 1, 0, 2), (V, -2), (ZERO,), (X, 0, 1, 1)],
    "diagflat": [(V,), (X[0, 0], 1)],
    "block_diag": [([X[0, 0], V, ZERO],)],
    "meshgrid": [([V, I],), ([V],), ([V, I, ZERO],), ([X[0, 0], V],), ([V, I.float()],)],
    "meshgrid.indexing": [([V, I], "ij"), ([V, I], "xy"), ([V, I, ZERO.long()], "xy"), ([V], "xy"), ([V, I], "yx")],
    "cartesian_prod": [([V, I],), ([V],), ([V, I, I],)],
    "_shape_as_tensor": [(X,), (ZERO,)],
    "_reshape_from_tensor": [(X, torch.tensor([6, 20])), (P, torch.tensor([-1, 4])), (X, torch.tensor([7]))],
    "one_hot": [(I,), (I, 5), (I, 2), (-I,), (V.reshape(7, 1).expand(7, 2),), (I.int(),), (torch.zeros(0, dtype=torch.long), 3), (torch.zeros(0, dtype=torch.long),)],
    "pixel_shuffle": [(torch.randn(2, 8, 3, 5), 2), (torch.randn(9, 2, 2), 3), (X, 2), (torch.randn(2, 8, 3, 5).contiguous(memory_format=torch.channels_last), 2), (X, 0)],
    "pixel_unshuffle": [(torch.randn(2, 2, 6, 4), 2), (X, 2)],
    "channel_shuffle": [(torch.randn(2, 6, 3, 5), 3), (torch.randn(2, 6, 3, 5).contiguous(memory_format=torch.channels_last), 2), (X, 2), (X, 3)],
    "native_channel_shuffle": [(torch.randn(2, 6, 3, 5), 3)],
    "slice_scatter": [(X, X[:, :2] + 1, 1, 0, 2), (P, P[:, ::2] * 0, 1, None, None, 2), (X, V)],
    "select_scatter": [(X, X[:, 0] + 1, 1, 2), (X, X, 1, 2)],
    "diagonal_scatter": [(X[0, 0], torch.zeros(4))],
    "fill.Scalar": [(P, 3)],
    "fill.Tensor": [(P, ZERO)],
    "equal": [(X, X), (X, X + 1), (X, V.float()), (P, P.clone()), (EMPTY, EMPTY), (torch.tensor([NAN]), torch.tensor([NAN]))],
    "allclose": [(X, X + 1e-7), (X, X + 1), (torch.tensor([NAN]), torch.tensor([NAN]), 1e-5, 1e-8, True), (torch.tensor([INF]), torch.tensor([INF]))],
    "isclose": [(X, X * (1 + 1e-6)), (torch.tensor([INF, NAN, 1.0]), torch.tensor([-INF, NAN, 2.0])), (torch.tensor([INF, 1.0]), torch.tensor([1.0, INF]))],
    "is_contiguous": [(t,) for t in ALL],
    "is_contiguous.memory_format": [(CL, 2), (X, 2), (X, 0)],
    "is_nonzero": [(ZERO,), (torch.tensor([0]),), (X,), (torch.tensor(NAN),)],
    "is_same_size": [(X, P), (X, X)],
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_made(name: str) -> None:
    taken = [same_as_torch(f"aten::{name}", *args, tolerance=0.0, layout=True) for args in MADE[name]]
    assert any(taken)


def test_quantized_tensors_keep_their_quantizer_in_views() -> None:
    q = torch.quantize_per_tensor(torch.randn(2, 3, 4), 0.1, 10, torch.quint8)
    for name, args in (("view", ([6, 4],)), ("permute", ([2, 0, 1],)), ("select.int", (1, 2)), ("slice.Tensor", (0, 1)), ("flatten.using_ints", (1,)),
                       ("unsqueeze", (0,)), ("transpose.int", (0, 2)), ("contiguous", ()), ("clone", ()), ("detach", ())):  # fmt: skip
        check(f"aten::{name}", q, *args)
    with pytest.raises(OperatorError):
        run("aten::add.Tensor", q, q)
    with pytest.raises(OperatorError):
        run("aten::to.dtype", q, 6)
