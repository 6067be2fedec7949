import pytest

from penlight.capture.lite import read
from tests.capture.lite import build, legacy


def operators(name):
    (function,) = read(legacy.FIXTURES / name).functions.values()
    return [o.full_name for o in function.operators]


def made(version: int, *table: tuple) -> list:
    """The operators of a file whose operators have this version."""
    records = {"version": b"%d\n" % version, "data.pkl": build.START + build.module({}) + build.STOP}
    functions = (build.function(build.code(operators=table)),)
    program = read(build.archive({**records, "bytecode.pkl": build.pickled((8, *functions))}))
    return program.functions["__torch__.M.forward"].operators


def test_division_of_old_files_has_another_name():
    new = ["aten::div.Tensor", "aten::div.Scalar", "aten::clone", "aten::div_.Scalar"]
    old = ["upgrade::div_0_3.Tensor", "upgrade::div_0_3.Scalar", "aten::clone", "upgrade::div__0_3.Scalar"]
    assert operators("divide.v8.ptl") == operators("divide.v9.ptl") == new
    assert operators("divide_old.v8.ptl") == operators("divide_old.v4.ptl") == old


@pytest.mark.parametrize(
    ("name", "overload", "first", "old"),
    [
        ("aten::div", "Tensor", 4, "upgrade::div_0_3.Tensor"),
        ("aten::div", "out", 4, "upgrade::div_0_3.out"),
        ("aten::div_", "Tensor", 4, "upgrade::div__0_3.Tensor"),
        ("aten::full", "", 5, "upgrade::full_0_4"),
        ("aten::linspace", "", 8, "upgrade::linspace_0_7"),
        ("aten::linspace", "out", 8, "upgrade::linspace_0_7.out"),
        ("aten::logspace", "", 9, "upgrade::logspace_0_8"),
        ("aten::logspace", "out", 9, "upgrade::logspace_0_8.out"),
    ],
)
def test_versions(name, overload, first, old):
    for version in range(1, 11):
        (operator,) = made(version, (name, overload, 3))
        assert operator.full_name == (old if version < first else f"{name}.{overload}".rstrip("."))
        assert operator.arg_count == 3


def test_gelu_pushes_one_argument_less():
    old, out = made(9, ("aten::gelu", ""), ("aten::gelu", "out"))
    assert (old.full_name, old.arg_count, out.arg_count) == ("aten::gelu", 1, 2)
    (new,) = made(10, ("aten::gelu", ""))
    assert new.arg_count is None
    assert operators("gelu_old.v8.ptl") == ["aten::gelu"]


def test_division_with_a_mode_is_left_alone():
    (operator,) = made(3, ("aten::div", "Tensor_mode", 3))
    assert operator.full_name == "aten::div.Tensor_mode"
