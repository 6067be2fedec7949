"""Strings: torch's operators work on bytes and differ from Python's here and there. Every case is torch's own answer."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests.vm.check import OperatorError, compare, run, torch_run
from tests.vm.scripted import same

TEXTS = [
    "",
    "a",
    "hello World",
    "HELLO",
    "Hello World",
    "hello1 2x",
    "12",
    "a1",
    " ",
    "\t\n",
    "_a1",
    "1a",
    "It's",
    "x.Y",
    "\x07",
]
LINE = "the cat sat on the mat the"


def _same(name: str, *args: object) -> None:
    """The same value, or an error on both sides."""
    try:
        expected = torch_run(name, *args)
    except (RuntimeError, ValueError, IndexError):
        with pytest.raises(OperatorError):
            run(name, *args)
        return
    compare(run(name, *args), expected, 0.0, f"{name}{args}")


@pytest.mark.parametrize("name", ["upper", "lower", "swapcase", "capitalize", "title", "isalpha", "isdigit", "isnumeric", "isdecimal",
                                  "isalnum", "isspace", "isprintable", "isidentifier", "isupper", "islower", "istitle"])  # fmt: skip
def test_letters(name: str) -> None:
    for text in [*TEXTS, "héllo", "ÀB"]:
        _same(f"aten::{name}", text)


@pytest.mark.parametrize("name", ["find", "rfind", "index.str", "rindex", "startswith", "endswith", "count"])
def test_searching(name: str) -> None:
    for part in ("the", "t", "q", "e", LINE, LINE + "x"):
        _same(f"aten::{name}", LINE, part)
        for start, end in itertools.product(
            (0, 1, 5, 19, 23, 24, 26, -1, -3, -5, -26, -99), (-1, -2, -4, -99, 0, 2, 5, 24, 25, 26, 99)
        ):
            _same(f"aten::{name}", LINE, part, start, end)
    if name != "count":  # torch's never ends
        for text in ("", LINE):
            _same(f"aten::{name}", text, "")
    assert run("aten::count", "abc", "") == 4
    with pytest.raises(OperatorError, match="substring not found"):
        run("aten::index.str", "abc", "x", 0, -1)


def test_replacing() -> None:
    for args in (
        (LINE, "the", "X"),
        (LINE, "the", "X", 2),
        (LINE, "the", "", 0),
        ("aaaa", "aa", "b"),
        ("aaa", "a", "aa"),
        ("abc", "q", "r"),
    ):
        _same("aten::replace", *args)
    for args in (("abc", "", "-"), ("abc", "", "-", 2), ("", "", "-")):
        assert run("aten::replace", *args) == args[0].replace(*args[1:])  # type: ignore[arg-type]


def test_splitting() -> None:
    for text, separator in itertools.product(
        ("a,b,,c", ",", "", " a  b c ", "a--b--c", "\ta b\n\rc\x0b"), (",", " ", "--", "a,b,,c")
    ):
        for most in (-1, 0, 1, 2, 99):
            _same("aten::split.str", text, separator, most)
            _same("aten::rsplit", text, separator, most)
        _same("aten::split.str", text, None)
        _same("aten::split.str", text, None, 1)
        _same("aten::partition", text, separator)
        _same("aten::rpartition", text, separator)
    _same("aten::split.str", "abc", "")
    with pytest.raises(OperatorError, match="empty separator"):
        run("aten::rsplit", "abc", "")
    for text in ("a\nb\r\nc", "a\n", "\n\nx", "", "a\x0bb\x0cc", "a\rb", "a\x1cb\x1dc\x1ed"):
        _same("aten::splitlines", text)
        _same("aten::splitlines", text, True)


def test_edges_and_width() -> None:
    for text in ("  x y\n", "xxabxx", "", "\t\rq\r", "x"):
        for name in ("strip", "lstrip", "rstrip"):
            _same(f"aten::{name}", text)
            _same(f"aten::{name}", text, "x \n")
            _same(f"aten::{name}", text, "")
    for text, width in itertools.product(("", "a", "ab", "abc", "-42", "+1"), (0, 1, 2, 3, 4, 5, 8, 9)):
        _same("aten::zfill", text, width)
        for name in ("ljust", "rjust", "center"):
            _same(f"aten::{name}", text, width)
            _same(f"aten::{name}", text, width, "*")
    _same("aten::center", "ab", 5, "xy")
    assert run("aten::center", "ab", -5) == "ab"
    for args in (("a\tb",), ("\ta\t", 4), ("ab\ncd\te", 4), ("abcdefgh\tx",), ("a\tb", 1)):
        _same("aten::expandtabs", *args)
    assert run("aten::expandtabs", "a\tb", 0) == "ab"
    with pytest.raises(OperatorError, match="at most 256 MiB"):
        run("aten::ljust", "a", 2**62)
    with pytest.raises(OperatorError, match="at most 256 MiB"):
        run("aten::zfill", "a", 2**40)


def test_parts() -> None:
    for index in (0, 2, -1, -5, 5, -6):
        _same("aten::__getitem__.str", "hello", index)
        _same("prim::StringIndex", "hello", index)
    for args in (("hello", 1, 3), ("hello", -3, None), ("hello", 4, 2), ("hello", 7, 9), ("hello", None, None, 2)):
        _same("aten::slice.str", *args)
    for text in TEXTS:
        _same("aten::len.str", text)
        _same("aten::add.str", text, "né")
        _same("aten::join", text, TEXTS)
    _same("aten::len.str", "né")  # bytes
    _same("aten::join", ",", [])


def test_order() -> None:
    for a, b in itertools.product([*TEXTS, "é", "ab"], repeat=2):
        for name in ("eq", "ne", "lt", "gt", "le", "ge"):
            _same(f"aten::{name}.str", a, b)


def test_codes() -> None:
    for text in ("a", "ab", "", "\x00"):
        _same("aten::ord", text)
    for code in (0, 65, 127, -1, 1114112):
        _same("aten::chr", code)


def test_zero_bytes() -> None:
    assert run("aten::add.str", "a\x00b", "c\x00") == "a\x00bc\x00"
    assert run("aten::find", "a\x00b", "b") == 2
    assert run("aten::eq.str", "a\x00b", "a\x00c") is False
    with pytest.raises(OperatorError, match="could not convert"):
        run("aten::Float.str", "1\x002")


def test_devices() -> None:
    same("prim::type", "d: Device", "d.type", torch.device("cpu"), call=("cpu",))
    same("prim::index", "d: Device", "d.index", torch.device("cpu"), call=("cpu",))
    same("prim::index", "d: Device", "d.index", torch.device("cuda:1"), call=("cuda:1",))
    assert run("aten::device", "cuda:1") == "cuda:1"
    assert run("aten::eq.device", "cpu", "cpu") is True
    assert run("aten::ne.device", "cpu", "cuda:0") is True
    for wrong in ("", "gpu", "cpu:", "cuda:x", ":1", "cuda:123456789"):
        with pytest.raises(OperatorError, match="Invalid device string"):
            run("aten::device", wrong)
