"""Dicts, beside small TorchScript functions: all key types, order of insertion, changes in place."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.vm.check import OperatorError, run, run_keeping
from tests.vm.scripted import same

DICTS: dict[str, tuple[dict, Any]] = {
    "str": ({"b": 1, "a": 2, "": 3, "é": 4}, "missing"),
    "int": ({3: 10, -1: 20, 2**62: 30}, 4),
    "float": ({0.5: 1, -2.5: 2, 1e300: 3}, 9.5),
    "bool": ({True: 1}, False),
}


@pytest.mark.parametrize("kind", DICTS)
def test_reading(kind: str) -> None:
    d, missing = DICTS[kind]
    parameters = f"d: Dict[{kind}, int], k: {kind}"
    same(f"aten::len.Dict_{kind}", f"d: Dict[{kind}, int]", "len(d)", d)
    same(f"aten::keys.{kind}", f"d: Dict[{kind}, int]", "d.keys()", d)
    same(f"aten::values.{kind}", f"d: Dict[{kind}, int]", "d.values()", d)
    same(f"aten::items.{kind}", f"d: Dict[{kind}, int]", "d.items()", d)
    same(f"aten::copy.Dict_{kind}", f"d: Dict[{kind}, int]", "d.copy()", d)
    for key in [*d, missing]:
        message = same(f"aten::__getitem__.Dict_{kind}", parameters, "d[k]", d, key)
        assert key in d or "KeyError: " in message.split("|")[1]
        same(f"aten::__contains__.{kind}", parameters, "k in d", d, key)
        same(f"aten::get.{kind}", parameters, "d.get(k)", d, key)
        same(f"aten::get.default_{kind}", parameters + ", v: int", "d.get(k, v)", d, key, 99)
        assert run("aten::__getitem__.Dict", {**d, missing: 5}, key) == {**d, missing: 5}[key]


@pytest.mark.parametrize("kind", DICTS)
def test_writing(kind: str) -> None:
    d, missing = DICTS[kind]
    parameters = f"d: Dict[{kind}, int], k: {kind}"
    for key in [*d, missing]:
        same(f"aten::_set_item.{kind}", parameters + ", v: int", "d[k] = v", d, key, 7, changes=0)
        same(f"aten::setdefault.{kind}", parameters + ", v: int", "d.setdefault(k, v)", d, key, 7)
        same(f"aten::setdefault.{kind}", parameters + ", v: int", "d.setdefault(k, v)", d, key, 7, changes=0)
        message = same(f"aten::pop.Dict_{kind}", parameters, "d.pop(k)", d, key)
        assert key in d or "KeyError: " in message.split("|")[1]
        same(f"aten::pop.Dict_{kind}", parameters, "d.pop(k)", d, key, changes=0)
        same(f"aten::pop.Dict_default_{kind}", parameters + ", v: int", "d.pop(k, v)", d, key, 7)
        same(f"aten::Delete.Dict_{kind}", parameters, "del d[k]", d, key, changes=0)
    same(f"aten::popitem.{kind}", f"d: Dict[{kind}, int]", "d.popitem()", d)
    same(f"aten::popitem.{kind}", f"d: Dict[{kind}, int]", "d.popitem()", d, changes=0)
    assert "dictionary is empty" in same(f"aten::popitem.{kind}", f"d: Dict[{kind}, int]", "d.popitem()", {})
    same(f"aten::clear.{kind}", f"d: Dict[{kind}, int]", "d.clear()", d, changes=0)
    other = {missing: 5, next(iter(d)): 6}
    same(f"aten::update.{kind}", f"d: Dict[{kind}, int], e: Dict[{kind}, int]", "d.update(e)", d, other, changes=0)
    pairs = [*d.items(), (missing, 8), (next(iter(d)), 9)]
    assert list(run(f"aten::dict.{kind}", pairs).items()) == list(dict(pairs).items())  # torch writes dict(l) as a loop
    assert list(run(f"aten::dict.Dict_{kind}", d).items()) == list(d.items())


def test_values_of_any_kind() -> None:
    tensor = torch.arange(4.0)
    same(
        "aten::_set_item.str",
        "d: Dict[str, Tensor], k: str, v: Tensor",
        "d[k] = v",
        {"x": tensor},
        "y",
        tensor + 1,
        changes=0,
    )
    same("aten::__getitem__.Dict_str", "d: Dict[str, List[int]], k: str", "d[k]", {"x": [1, 2]}, "x")
    assert run("aten::dict") == {}
    assert run("aten::get.str", {"x": None}, "x") is None


def test_many_entries() -> None:
    d = {f"key {i}": i for i in range(3000)}
    _, (after, _) = run_keeping("aten::update.str", dict(list(d.items())[:7]), d)
    assert list(after.items()) == list(d.items())
    _, (after, _) = run_keeping("aten::Delete.Dict_str", d, "key 1500")
    del d["key 1500"]
    assert list(after.items()) == list(d.items())


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("aten::__getitem__.Dict_int", ({1: 2}, 7), "KeyError: 7"),
        ("aten::__getitem__.Dict_str", ({}, "zz"), "KeyError: zz"),
        ("aten::__getitem__.Dict", ({}, None), "a key that is a number"),
        ("aten::__getitem__.Dict_str", ({}, 1), "a str for key"),
        ("aten::_set_item.str", ([], "a", 1), "a dict for l"),
        ("aten::dict.str", ([("a", 1), 3],), "a list of pairs"),
        ("aten::dict.str", ([("a", 1, 2)],), "a list of pairs"),
        ("aten::dict.str", ([([], 1)],), "a key that is a number"),
    ],
)
def test_dict_errors(name: str, args: tuple, words: str) -> None:
    with pytest.raises(OperatorError) as raised:
        run(name, *args)
    assert words in str(raised.value)
