"""Ints, floats and bools in TorchScript: every overload over a grid of awkward numbers, against torch's own operators."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from penlight.ops.vm_operators import operators
from tests.vm.check import OperatorError, compare, run, torch_run

INTS = [0, 1, -1, 2, -2, 3, 7, -7, 63, 100, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.7, -3.7, 1e-8, 1e10, 1e300, math.inf, -math.inf, math.nan]
VALUES = {"int": INTS, "float": FLOATS, "bool": [True, False], "number": INTS[:10] + FLOATS}
FILES = ("number.cc", "number_math.cc", "comparison.cc")


def _kinds(name: str) -> list[str]:
    base, _, overload = name.partition(".")
    return [str(a.type) for a in torch._C._get_schema(base, overload).arguments]


NAMES = [name for name, op in operators().items() if op.source.name in FILES and not set(_kinds(name)) - set(VALUES)]


def _undefined(name: str, args: tuple) -> bool:
    """What C++ leaves open, so that torch stops the program or gives what its processor gives."""
    base = name.partition(".")[0].removeprefix("aten::").removeprefix("prim::")
    whole = not any(isinstance(a, float) for a in args)
    if base in ("remainder", "divmod", "__round_to_zero_floordiv", "floordiv", "gcd") and whole:
        return args[1] == 0 or max(abs(a) for a in args) >= 2**63 - 1
    if base in ("__lshift__", "__rshift__"):
        return not 0 <= args[1] < 64
    if name == "aten::pow.int_to_int":
        return abs(args[1]) > 62 or abs(args[0]) ** abs(args[1]) > 2**53
    if base == "factorial":
        return not -(2**31) <= args[0] <= 20  # torch cuts to 32 bits
    if base == "ldexp":
        return abs(args[1]) >= 2**31
    if base in ("ceil", "floor", "neg", "abs") and name.endswith(".Scalar"):
        return abs(args[0]) >= 2**31  # torch cuts to 32 bits
    return base == "__range_length" and max(abs(a) for a in args) >= 2**53


@pytest.mark.parametrize("name", NAMES)
def test_numbers(name: str) -> None:
    grids = [VALUES[kind] for kind in _kinds(name)]
    if len(grids) > 2:
        grids = [[v for v in grid if abs(v) < 2**53][:8] for grid in grids]
    compared = 0
    for args in itertools.product(*grids):
        if _undefined(name, args):
            continue
        compared += 1
        try:
            expected = torch_run(name, *args)
        except RuntimeError as e:
            with pytest.raises(OperatorError) as raised:
                run(name, *args)
            assert str(e).split("e+")[0][:30] in str(raised.value) or "Cannot convert" in str(e), args
            continue
        if name == "aten::pow.int_to_int":
            expected = int(expected)  # its schema says int
        got = run(name, *args)
        compare(got, expected, 0.0, f"{name}{args}")
        if isinstance(expected, float) and expected == 0:
            assert math.copysign(1, got) == math.copysign(1, expected), f"{name}{args}: sign of zero"
    assert compared >= 2


def test_overloads_are_there() -> None:
    """The table above is made from the sources: these must be in it."""
    assert {f"aten::{op}.{kind}" for op in ("add", "sub", "mul", "floordiv", "remainder", "eq", "ne", "lt", "gt", "le", "ge")
            for kind in ("int", "float", "int_float", "float_int")} <= set(NAMES)  # fmt: skip
    assert {"aten::add", "aten::sub", "aten::mul", "aten::div", "aten::eq", "prim::min", "prim::max.int"} <= set(NAMES)
    assert {"aten::__and__.bool", "aten::__not__", "aten::__range_length", "aten::__derive_index"} <= set(NAMES)
    assert {"aten::sqrt.int", "aten::log.Scalar", "aten::ceil.float", "aten::round.Scalar", "prim::abs.int"} <= set(
        NAMES
    )


@pytest.mark.parametrize(
    ("name", "args", "result"),
    [
        (
            "aten::floordiv.int",
            (-(2**63), -1),
            -(2**63),
        ),  # wraps, where the processor's division would stop the program
        ("aten::remainder.int", (-(2**63), -1), 0),
        ("aten::remainder.int", (5, 2**63 - 1), 5),
        ("aten::__round_to_zero_floordiv.int", (-7, 2), -3),
        ("aten::__lshift__.int", (1, 64), 0),
        ("aten::__rshift__.int", (-5, 64), -1),
        ("aten::__range_length", (-(2**63), 2**63 - 1, 2**62), 4),
        ("aten::factorial.int", (10**18,), 0),
        ("aten::Int.Scalar", (1e10,), 10**10),
    ],
)
def test_numbers_beyond_torch(name: str, args: tuple, result: int) -> None:
    assert run(name, *args) == result


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("aten::floordiv.int", (1, 0), "division by 0"),
        ("aten::remainder.int", (1, 0), "modulo by 0"),
        ("aten::divmod.int", (1, 0), "ZeroDivisionError"),
        ("aten::__lshift__.int", (1, -1), "negative shift"),
        ("aten::__range_length", (0, 5, 0), "range() arg 3 must not be zero"),
        ("aten::factorial.int", (-1,), "negative values"),
        ("aten::Int.Scalar", (math.inf,), "without overflow"),
        ("aten::add.int", (1, 2.5), "expected an int"),
        ("aten::add.int", (1,), "expected all arguments"),
        ("aten::__not__", (1,), "expected a bool"),
    ],
)
def test_number_errors(name: str, args: tuple, words: str) -> None:
    with pytest.raises(OperatorError) as raised:
        run(name, *args)
    assert words in str(raised.value)


CONVERSIONS = ["aten::Int.float", "aten::Int.bool", "aten::Float.int", "aten::Float.bool", "aten::Bool.int", "aten::Bool.float",
               "aten::Float.Scalar"]  # fmt: skip


@pytest.mark.parametrize("name", CONVERSIONS)
def test_conversions(name: str) -> None:
    for value in VALUES[_kinds(name)[0]]:
        compare(run(name, value), torch_run(name, value), 0.0, f"{name}({value})")
    for value in (0, 5, -7, 2.5, -2.5):
        compare(run("aten::Int.Scalar", value), torch_run("aten::Int.Scalar", value), 0.0, f"Int.Scalar({value})")


@pytest.mark.parametrize("text", ["12", "-3", " 4", "+5", "9223372036854775807", "-9223372036854775808", "4 ", "x", "", "-", "0x1",
                                  "9223372036854775808", "99999999999999999999", "1.5"])  # fmt: skip
def test_int_of_text(text: str) -> None:
    _same("aten::Int.str", text)


@pytest.mark.parametrize(
    "text", ["1", "-2.5e3", "inf", "-Infinity", "nan", "1e999", "x", "", " 1", "1 ", "0x10", "1_0", "1.5x", "1e-300"]
)
def test_float_of_text(text: str) -> None:
    _same("aten::Float.str", text)


@pytest.mark.parametrize("value", [0, 1, 255, -255, 8, -5, 2**63 - 1, -(2**63)])
def test_bases(value: int) -> None:
    for name in ("aten::hex", "aten::oct", "aten::bin"):
        _same(name, value)


def _same(name: str, *args: object) -> None:
    """The same value, or an error on both sides."""
    try:
        expected = torch_run(name, *args)
    except (RuntimeError, ValueError, IndexError):
        with pytest.raises(OperatorError):
            run(name, *args)
        return
    compare(run(name, *args), expected, 0.0, f"{name}{args}")


def test_identity() -> None:
    for a, b in itertools.product([None, 1, 2, 1.0, True], repeat=2):
        same = type(a) is type(b) and a == b
        assert run("aten::__is__", a, b) is same
        assert run("aten::__isnot__", a, b) is not same
    assert run("aten::__is__", [1], None) is False


def test_hash() -> None:
    assert run("aten::hash.generic", "abc") == run("aten::hash.generic", "abc") != run("aten::hash.generic", "abd")
    assert (
        run("aten::hash.generic", (1, "a"))
        == run("aten::hash.generic", (1, "a"))
        != run("aten::hash.generic", (1, "b"))
    )
    assert run("aten::hash.generic", 7) == 7
