"""Exceptions, casts, optionals, module containers, and the switches of training."""

from __future__ import annotations

import pytest
import torch

from tests.vm.check import OperatorError, run, run_keeping
from tests.vm.scripted import same


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("AssertionError: k was 1", None), "AssertionError: k was 1"),
        (("bad 1", "builtins.ValueError"), "ValueError: bad 1"),
        (("bad 1", "__torch__.mine.Problem"), "__torch__.mine.Problem: bad 1"),
        (("100% %s %n",), "100% %s %n"),
        (("",), "Exception"),
        (("\x00a", None), "Exception"),
    ],
)
def test_raise(args: tuple, message: str) -> None:
    with pytest.raises(OperatorError) as raised:
        run("prim::RaiseException", *args)
    assert message in str(raised.value)


def test_raise_long_message() -> None:
    with pytest.raises(OperatorError) as raised:
        run("prim::RaiseException", "x" * 100000)
    assert "x" * 100 in str(raised.value)


def test_casts() -> None:
    for value in (1, 2.5, "a", [1], None, (1, "a")):
        assert run("prim::unchecked_cast", value) == value
    assert run("prim::unchecked_unwrap_optional", 5) == 5
    message = same("aten::_unwrap_optional", "x: Optional[int]", "torch.jit._unwrap_optional(x)", None)
    assert "Unwrapping null optional" in message.split("|")[1]
    same("aten::_unwrap_optional", "x: Optional[int]", "torch.jit._unwrap_optional(x)", 3)
    with pytest.raises(OperatorError, match="Unwrapping null optional"):
        run("prim::unchecked_unwrap_optional", None)
    assert run("prim::Uninitialized") is None
    assert run("prim::IfThenElse", True, 1, "a") == 1
    assert run("prim::IfThenElse", False, 1, "a") == "a"


def test_nothing_happens() -> None:
    assert run("prim::Print", "a", 1, [2]) == ()
    assert run("aten::warn", "careful", 2) == ()
    assert run("aten::warn", "careful") == ()
    assert run("aten::set_grad_enabled", False) == ()
    assert run("aten::is_grad_enabled") is True  # so that attention takes the way of plain operators
    assert run("aten::is_scripting") is True
    assert run("aten::_assert_scalar", 1, "text") == ()
    with pytest.raises(OperatorError, match="text"):
        run("aten::_assert_scalar", 0, "text")


def test_time_and_seed() -> None:
    first = run("prim::TimePoint")
    assert run("prim::TimePoint") >= first > 0
    assert run("aten::manual_seed", -1) == ()


def test_containers_and_enums_need_objects() -> None:
    for name, key in (("prim::ModuleContainerIndex.list", 0), ("prim::ModuleContainerIndex.dict", "a")):
        with pytest.raises(OperatorError, match="no module"):
            run(name, [1], key)
    for name in ("prim::EnumName", "prim::EnumValue.int"):
        with pytest.raises(OperatorError, match="a member of an enum"):
            run(name, [1])
    with pytest.raises(OperatorError, match="without its name"):
        run("prim::EnumName", 1)
    assert run("prim::EnumValue.str", "red") == "red"
    assert run("aten::eq.enum", 1, 2) is False
    assert run("aten::ne.enum", "a", "b") is True


def test_lists_in_arguments_are_shared() -> None:
    """The list that append returns is the one it changed."""
    result, (after, _) = run_keeping("aten::append.t", [torch.ones(1)], torch.zeros(2))
    assert len(result) == len(after) == 2


def test_none_for_a_list_of_optional_tensors() -> None:
    """Its elements may be None, the list itself may not."""
    with pytest.raises(OperatorError, match="a list of Tensors for indices"):
        run("aten::index.Tensor", torch.ones(2), None)
