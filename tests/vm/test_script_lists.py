"""Lists and tuples, beside small TorchScript functions and torch's own operators."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from tests.vm.check import OperatorError, check, compare, run, run_keeping, torch_run
from tests.vm.scripted import same

INTS, FLOATS, TEXTS, BOOLS = [3, 1, -2, 1, 7], [0.5, -1.0, 2.5, -0.0], ["b", "a", "", "é", "ab"], [True, False, True]
KINDS: dict[str, tuple[list, Any]] = {
    "int": (INTS, 1),
    "float": (FLOATS, 2.5),
    "str": (TEXTS, "a"),
    "bool": (BOOLS, False),
}


@pytest.mark.parametrize("index", [0, 2, -1, -5, 5, -6, 2**63 - 1, -(2**63)])
def test_items(index: int) -> None:
    same("aten::__getitem__.t", "l: List[int], i: int", "l[i]", INTS, index)
    same("aten::_set_item.t", "l: List[int], i: int, v: int", "l[i] = v", INTS, index, 9, changes=0)
    same("aten::Delete.t", "l: List[int], i: int", "del l[i]", INTS, index, changes=0)
    same("aten::pop.t", "l: List[int], i: int", "l.pop(i)", INTS, index)
    same("aten::pop.t", "l: List[int], i: int", "l.pop(i)", INTS, index, changes=0)
    same("aten::insert.t", "l: List[int], i: int, v: int", "l.insert(i, v)", INTS, index, 9, changes=0)


PLACES = [None, 0, 1, 3, 5, 9, -1, -2, -5, -6, -9, 2**63 - 1]


@pytest.mark.parametrize("step", [1, 2, 3, 9, -1, -2, -7, 0, 2**63 - 1, -(2**63)])
def test_slices(step: int) -> None:
    for start, end in itertools.product(PLACES, repeat=2):
        for name, value in (("aten::slice.t", INTS), ("aten::slice.str", "hello")):
            if step == 0:
                with pytest.raises(OperatorError, match="non-zero step"):
                    run(name, value, start, end, step)
            else:
                assert run(name, value, start, end, step) == value[start:end:step], (start, end)


def test_slices_as_torch() -> None:
    for args in ([1, None, 2], [None, None, -1], [-2, 9, 1], [3, 1, 1], [4, 0, -2]):
        same("aten::slice.t", "l: List[int], a: Optional[int], b: Optional[int], s: int", "l[a:b:s]", INTS, *args)
        same("aten::slice.str", "l: str, a: Optional[int], b: Optional[int], s: int", "l[a:b:s]", "hello", *args)


def test_growing() -> None:
    for kind, (values, value) in KINDS.items():
        same("aten::append.t", f"l: List[{kind}], x: {kind}", "l.append(x)", values, value, changes=0)
        same("aten::extend.t", f"l: List[{kind}], x: List[{kind}]", "l.extend(x)", values, values[:2], changes=0)
        same("aten::add.t", f"l: List[{kind}], x: List[{kind}]", "l + x", values, values[:2])
        same("aten::add_.t", f"l: List[{kind}], x: List[{kind}]", "l += x", values, values[:2], changes=0)
        same("aten::copy.t", f"l: List[{kind}]", "l.copy()", values)
        same("aten::list.t", f"l: List[{kind}]", "list(l)", values)
        same("aten::len.t", f"l: List[{kind}]", "len(l)", values)
        same("aten::reverse.t", f"l: List[{kind}]", "l.reverse()", values, changes=0)
        same("aten::clear.t", f"l: List[{kind}]", "l.clear()", values, changes=0)
    for n in (0, 1, 3):
        same("aten::mul.left_t", "l: List[int], n: int", "l * n", INTS, n)
        same("aten::mul.right_", "n: int, l: List[int]", "n * l", n, INTS)
        same("aten::mul_.t", "l: List[int], n: int", "l *= n", INTS, n, changes=0)
    nested = [[1], [2, 3]]
    same("aten::append.t", "l: List[List[int]], x: List[int]", "l.append(x)", nested, [4], changes=0)
    tensors = [torch.arange(3), torch.ones(2)]
    same("aten::append.t", "l: List[Tensor], x: Tensor", "l.append(x)", tensors, torch.zeros(1), changes=0)
    same("aten::__getitem__.t", "l: List[Tensor], i: int", "l[i]", tensors, -1)
    assert run("aten::append.t", [1], 2) == [1, 2]  # returns the list too
    assert run("prim::rangelist", 4) == torch_run("prim::rangelist", 4)
    assert run("aten::mul.left_t", INTS, -2) == []  # Python's; torch fails
    check("aten::list", "hey you")


def test_empty() -> None:
    assert "pop from empty list" in same("aten::pop.t", "l: List[int], i: int", "l.pop(i)", [], 0)
    same("aten::reverse.t", "l: List[int]", "l.reverse()", [], changes=0)
    same("aten::len.t", "l: List[int]", "len(l)", [])
    same("aten::sort.int", "l: List[int]", "l.sort()", [], changes=0)


@pytest.mark.parametrize("kind", KINDS)
def test_searching(kind: str) -> None:
    values, value = KINDS[kind]
    for item in [*values, value, {"int": 99, "float": 9.5, "str": "zz", "bool": True}[kind]]:
        same(f"aten::count.{kind}", f"l: List[{kind}], x: {kind}", "l.count(x)", values, item)
        message = same(f"aten::index.list_{kind}", f"l: List[{kind}], x: {kind}", "l.index(x)", values, item)
        assert item in values or "is not in list" in message.split("|")[1]
        same(f"aten::remove.{kind}", f"l: List[{kind}], x: {kind}", "l.remove(x)", values, item, changes=0)
        if kind != "bool":
            same(f"aten::__contains__.{kind}_list", f"l: List[{kind}], x: {kind}", "x in l", values, item)


@pytest.mark.parametrize("kind", KINDS)
def test_order(kind: str) -> None:
    generator = torch.Generator().manual_seed(3)
    values = KINDS[kind][0] * 12
    mixed = [values[i] for i in torch.randperm(len(values), generator=generator)]
    for case in (values, mixed, mixed[:1], mixed[:7], []):
        for reverse in (False, True):
            same(f"aten::sort.{kind}", f"l: List[{kind}], r: bool", "l.sort(reverse=r)", case, reverse, changes=0)
        same(f"aten::sorted.{kind}", f"l: List[{kind}]", "sorted(l)", case)
        if kind == "str":
            check("aten::any.str", case)
            continue
        for name in (f"aten::sum.{kind}", f"aten::any.{kind}", f"aten::all.{kind}"):
            check(name, case)
        for other in (case, case[:-1], case[1:], []):
            for name in (
                f"prim::min.{kind}_list",
                f"prim::max.{kind}_list",
                f"aten::eq.{kind}_list",
                f"aten::ne.{kind}_list",
            ):
                check(name, case, other)
        for name in (f"prim::min.self_{kind}", f"prim::max.self_{kind}"):
            if case:
                check(name, case)
            else:
                with pytest.raises(OperatorError, match="arg is an empty sequence"):
                    run(name, case)
    check(f"aten::eq.{kind}_list", values, mixed)
    check(f"aten::ne.{kind}_list", values, values[:2])


def test_order_of_others() -> None:
    pairs = [(2, "a"), (1, "b"), (1, "a"), (2, ""), (1, "ab")]
    same("aten::sort.any", "l: List[Tuple[int, str]]", "l.sort()", pairs, changes=0)
    same("aten::sort.any", "l: List[Tuple[int, str]]", "l.sort(reverse=True)", pairs, changes=0, call=(pairs, True))
    same("aten::sorted.any", "l: List[Tuple[int, str]]", "sorted(l)", pairs)
    tensors = [torch.tensor(v) for v in (2.0, -1.0, 0.5)]
    same("aten::sort.Tensor", "l: List[Tensor]", "l.sort()", tensors, changes=0)
    same("aten::sorted.Tensor", "l: List[Tensor]", "sorted(l)", tensors)
    with pytest.raises(OperatorError, match="items that have an order"):
        run("aten::sort.any", [[1], [0]])
    with pytest.raises(OperatorError, match="items that have an order"):
        run("aten::sort.any", [(1, "a"), (1, None)])
    deep: Any = 1
    other: Any = 1
    for _ in range(80):
        deep, other = (deep,), (other,)
    with pytest.raises(OperatorError, match="items that have an order"):
        run("aten::sort.any", [deep, other])


def test_sorting_is_stable_and_keeps_every_item() -> None:
    values = [float(v) for v in torch.randint(-5, 5, (1000,), generator=torch.Generator().manual_seed(0))]
    values[17] = float("nan")
    _, (after, *_) = run_keeping("aten::sort.float", values)
    assert sorted(map(repr, after)) == sorted(map(repr, values))
    del values[17]
    _, (after, *_) = run_keeping("aten::sort.float", values)
    assert after == sorted(values)


def test_tuples() -> None:
    value = (1, "a", [2.5])
    for i in (0, 2, -1, -3):
        assert run("prim::TupleIndex", value, i) == value[i]
    for i in (3, -4):
        with pytest.raises(OperatorError, match="Tuple index out of range"):
            run("prim::TupleIndex", value, i)
    for begin, end in ((0, 3), (1, 2), (1, 9), (2, 1)):
        assert run("prim::TupleSlice", value, begin, end) == value[begin:end]
    with pytest.raises(OperatorError, match="a tuple"):
        run("prim::TupleIndex", [1], 0)


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("aten::mul.left_t", ([1] * 8, 2**40), "at most 2^26 items"),
        ("aten::mul.left_t", ([1], 2**63 - 1), "at most 2^26 items"),
        ("prim::rangelist", (2**62,), "at most 2^26 items"),
        ("aten::append.t", (1, 2), "a list for self"),
        ("aten::sort.int", ([1, "a"],), "a list of ints"),
        ("aten::sort.str", (["a", 1],), "a list of strings"),
        ("aten::__getitem__.t", ([1], "a"), "an int"),
    ],
)
def test_list_errors(name: str, args: tuple, words: str) -> None:
    with pytest.raises(OperatorError) as raised:
        run(name, *args)
    assert words in str(raised.value)


def test_shapes() -> None:
    for a, b in (([2, 1, 3], [4, 3]), ([], [2]), ([1], [0]), ([5, 1], [1, 6])):
        compare(run("aten::_infer_size", a, b), torch_run("aten::_infer_size", a, b), 0.0, "_infer_size")
    with pytest.raises(OperatorError, match="must match the size of tensor b"):
        run("aten::_infer_size", [2, 3], [4, 3])
    assert run("aten::_size_if_not_equal", [2, 3], [2, 3]) is None
    assert run("aten::_size_if_not_equal", [2, 3], [2, 1]) == [2, 3]
