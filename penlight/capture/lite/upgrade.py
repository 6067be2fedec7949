"""Operators whose behaviour changed after the file was saved, by the version of the operators that the file records.

PyTorch calls a small function in their place ("upgraders"). Here, those that behave differently get a name of their own, which the
VM implements; arguments and results are those of the old operator:

| operator, file version below          | becomes                     | which does                                                   |
| ------------------------------------- | --------------------------- | ------------------------------------------------------------ |
| aten::div.{Tensor, Scalar, out}, 4    | upgrade::div_0_3.*          | divides; truncates towards zero if all are integers (self,   |
|                                       |                             | other, and `out` if given; a float Scalar is no integer)     |
| aten::div_.{Tensor, Scalar}, 4        | upgrade::div__0_3.*         | the same, in place                                           |
| aten::full, 5                         | upgrade::full_0_4           | fills with a float where dtype is None (int and bool fill    |
|                                       |                             | values made integers and bools later)                        |
| aten::linspace, aten::linspace.out, 8 | upgrade::linspace_0_7(.out) | 100 steps where `steps` is None                              |
| aten::logspace, aten::logspace.out, 9 | upgrade::logspace_0_8(.out) | 100 steps where `steps` is None                              |

gelu (10) got an argument, `approximate`, whose default is the old behaviour: it is enough to say that the code does not push it.
div with a rounding mode is as old as version 4.
"""

from __future__ import annotations

from dataclasses import replace

from penlight.capture.lite.program import LiteProgram, Operator

_RENAMED = {  # operator: first version with the present behaviour, its old name
    "aten::div.Tensor": (4, "upgrade::div_0_3"),
    "aten::div.Scalar": (4, "upgrade::div_0_3"),
    "aten::div.out": (4, "upgrade::div_0_3"),
    "aten::div_.Tensor": (4, "upgrade::div__0_3"),
    "aten::div_.Scalar": (4, "upgrade::div__0_3"),
    "aten::full": (5, "upgrade::full_0_4"),
    "aten::linspace": (8, "upgrade::linspace_0_7"),
    "aten::linspace.out": (8, "upgrade::linspace_0_7"),
    "aten::logspace": (9, "upgrade::logspace_0_8"),
    "aten::logspace.out": (9, "upgrade::logspace_0_8"),
}
# Operator: first version with more arguments, how many before.
_SHORTER = {"aten::gelu": (10, 1), "aten::gelu.out": (10, 2)}


_ORIGINAL = {new: old.partition(".")[0] for old, (_, new) in _RENAMED.items()}


def name_in_file(operator: Operator) -> str:
    """The full name that the file has for an operator."""
    return replace(operator, name=_ORIGINAL.get(operator.name, operator.name)).full_name


def upgrade(program: LiteProgram) -> int:
    """Rewrites the operators of all functions in place; the number of those changed."""
    changed = 0
    for function in program.functions.values():
        for i, operator in enumerate(function.operators):
            function.operators[i] = upgraded(operator, program.operator_version)
            changed += function.operators[i] is not operator
    return changed


def upgraded(operator: Operator, version: int) -> Operator:
    first, name = _RENAMED.get(operator.full_name, (0, ""))
    if version < first:
        return replace(operator, name=name)
    first, count = _SHORTER.get(operator.full_name, (0, 0))
    if version < first and operator.arg_count is None:
        return replace(operator, arg_count=count)
    return operator
