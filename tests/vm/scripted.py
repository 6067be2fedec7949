"""References in TorchScript: operators that torch offers no call of their own for, inside a function of a line or two.

    scripted("aten::append.t", "l: List[int], x: int", "l.append(x)", result="l")

The function must consist of the operator it is meant to show: its graph is looked through for it.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from tests.vm.check import OperatorError, compare, run_keeping


def scripted(name: str, parameters: str, body: str, result: str = "") -> torch.jit.ScriptFunction:
    """`body` is what is returned, or, where `result` is given, a statement before it."""
    lines = [body, f"return {result}"] if result else [f"return {body}"]
    source = f"def f({parameters}):\n" + "".join(f"    {line}\n" for line in lines)
    function = torch.jit.CompilationUnit(source).f
    found = [n.schema().partition("(")[0] if "::" in n.schema() else n.kind() for n in _nodes(function.graph)]
    assert name in found, f"{source}calls {found}"
    return function


def _nodes(graph: Any) -> list[Any]:
    return [n for node in graph.nodes() for n in [node, *(m for b in node.blocks() for m in _nodes(b))]]


def same(
    name: str, parameters: str, body: str, *args: Any, changes: int | None = None, call: tuple | None = None
) -> Any:
    """The operator on `args` (or on `call`) beside the function's result. `changes`: the argument that is changed in place, which
    is compared instead. An error on one side must be one on the other: its message is returned."""
    result = parameters.split(",")[changes].partition(":")[0].strip() if changes is not None else ""
    function = scripted(name, parameters, body, result)
    theirs, ours = copy.deepcopy(args), copy.deepcopy(args if call is None else call)
    try:
        expected = function(*theirs)
    except RuntimeError as e:
        with pytest.raises(OperatorError) as raised:
            run_keeping(name, *ours)
        return f"{str(e).strip().splitlines()[-1]} | {raised.value}"
    got, after = run_keeping(name, *ours)
    compare(got if changes is None else after[changes], expected, 0.0, f"{name}{args}")
    return got
