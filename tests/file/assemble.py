"""VM code as text to ir.script, for tests that need neither torch nor a capture:

    forward(self, x, n=3):
      r3 = get_attr 0 (r0)                # the number of the attribute
      r4 = aten::mul.Scalar(r1, 2.5)      # what is no register is a constant
      branch(r5) -> else
      r6 = planned scale(r1) -> done      # a method of the program; where it goes on
    else:
      return(r4)

The first function of a text is the module's method of that name, and so are all that begin with `self`.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from penlight.ir.graph import Program
from penlight.ir.script import Action, Const, Script, ScriptFunction
from penlight.ir.values import ScriptObject

_HEAD = re.compile(r"([\w.]+)\((.*)\):")
_LINE = re.compile(r"(?:(r[\d, r]+) = )?([\w.:]+)(?: (\S+?) ?)?\((.*)\)(?: -> (\w+))?")
MODULE = "__torch__.M"


def assemble(
    text: str, attributes: dict[str, Any] | None = None, classes: dict[str, list[str]] | None = None, first_slot: int | None = None,
    constants: list[Any] | None = None,
) -> Script:  # fmt: skip
    """A module with these attributes. Text in a line that is no Python literal names one of `constants`: k0, k1 …"""
    made: list[Any] = list(constants or ())
    functions: dict[str, ScriptFunction] = {}
    for name, head, lines in _functions(text):
        parameters = [p.strip().partition("=") for p in head.split(",")] if head.strip() else []
        own = bool(parameters) and parameters[0][0] == "self"
        qualified = f"{MODULE}.{name}" if own else name
        labels = {line[:-1]: at for at, line in enumerate(_instructions(lines, True)) if line.endswith(":")}
        labels = {label: at - sum(1 for other in labels.values() if other < at) for label, at in labels.items()}
        code = [_action(line, labels, made) for line in _instructions(lines, False)]
        used = [r for a in code for r in (*a.args, *a.results) if isinstance(r, int)]
        registers = max([*used, len(parameters) - 1]) + 1
        functions[qualified] = ScriptFunction(
            qualified, [{"name": p[0], "type": "Any"} for p in parameters], "Any", code, registers,
            registers if first_slot is None else first_slot, name if own else None,
            [ast.literal_eval(p[2]) for p in parameters if p[1]],
        )  # fmt: skip
    return Script(functions, ScriptObject(MODULE, attributes or {}), made, classes or {})


def program(text: str, attributes: dict[str, Any] | None = None, **options: Any) -> Program:
    return Program({}, {}, assemble(text, attributes, **options))


def _functions(text: str) -> list[tuple[str, str, list[str]]]:
    found: list[tuple[str, str, list[str]]] = []
    for raw in text.splitlines():
        line = raw.partition("  #")[0].rstrip() if "  #" in raw else raw.rstrip()
        if match := _HEAD.fullmatch(line.strip()):
            found.append((match[1], match[2], []))
        elif line.strip():
            found[-1][2].append(line.strip())
    return found


def _instructions(lines: list[str], with_labels: bool) -> list[str]:
    return [line for line in lines if with_labels or not line.endswith(":")]


def _action(line: str, labels: dict[str, int], constants: list[Any]) -> Action:
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError(f"no instruction: {line!r}")
    results = [int(r[1:]) for r in (match[1] or "").replace(" ", "").split(",") if r]
    name, target, to = match[2], match[3], match[5]
    args: list[int | Const] = []
    call = ast.parse(f"f({match[4]})", mode="eval").body
    assert isinstance(call, ast.Call)
    for node in call.args:
        if isinstance(node, ast.Name) and node.id[0] in "rk":
            number = int(node.id[1:])
            args.append(number if node.id[0] == "r" else Const(number))
        else:
            constants.append(ast.literal_eval(node))
            args.append(Const(len(constants) - 1))
    if "::" in name:
        return Action("op", args, results, name)
    if name in ("jump", "branch", "loop"):
        return Action(name, args, results, labels[to])
    if name == "planned":
        return Action(name, args, results, target, labels[to])
    if name in ("get_attr", "set_attr"):
        return Action(name, args, results, int(target))
    return Action(name, args, results, target)
