"""A whole method as one plan that is tried first, in front of the code that does the same step by step.

    forward(r0 self, r1 x) {                     forward(r0 self, r1 x) {
       0  r5 = aten::conv2d(r1, …)                  0  r9 = planned ~forward(r1), where it fits: go to 7
       …                            becomes         1  r5 = aten::conv2d(r1, …)
       5  return r5                                 …
    }                                               6  return r5
                                                    7  return r9
                                                 }

The plan is for the dtypes and ranks of the example inputs; whatever else comes is interpreted. So a guess about inputs that was
wrong costs time, never a result.
"""

from __future__ import annotations

from typing import Any

from penlight.capture.script.dataflow import JUMPS
from penlight.errors import CaptureError
from penlight.ir.graph import Method
from penlight.ir.script import Action, Const, Script, ScriptFunction

NAME = "~forward"


def put_in_front(script: Script, function: ScriptFunction, method: Method) -> dict[str, Method]:
    """Puts the plan in front of the code; gives it with the name by which the code calls it."""
    inputs = len(method.graph.inputs)
    count = len(method.graph.outputs)
    results = _room(function, count)
    building: list[Action] = []
    free = iter(range(function.registers, function.registers + 1000))

    def build(spec: Any) -> int | Const:
        """The value of an output spec (ir/containers.py), out of the plan's results."""
        if isinstance(spec, int):
            return results[spec]
        ((kind, inside),) = spec.items()
        if kind == "none":
            return script.constant(None)
        if kind == "const":
            return script.constant(inside)
        parts: list[int | Const]
        if kind in ("tuple", "list"):
            parts = [build(s) for s in inside]
        elif kind in ("dict", "ordered_dict"):
            parts = [x for key, s in inside.items() for x in (script.constant(key), build(s))]
        elif kind == "namedtuple":
            parts = [build(s) for s in inside[1].values()]
        else:
            raise CaptureError(f"results in a {kind}: interpreted")
        made = next(free, None)
        if made is None:
            raise CaptureError("results nested more than a thousand times: interpreted")
        named = _class_of(script, *inside) if kind == "namedtuple" else None
        building.append(Action(kind.replace("ordered_", "").replace("named", ""), parts, [made], named))
        return made

    value = build(method.output_spec)
    for action in function.code:
        if action.op in JUMPS:
            action.target += 1
        elif action.op == "planned":
            action.extra += 1
    after = len(function.code) + 1
    planned = Action("planned", list(range(1, inputs + 1)), results, NAME, after)
    function.code = [planned, *function.code, *building, Action("return", [value])]
    function.registers += len(building)
    return {NAME: method}


def _room(function: ScriptFunction, count: int) -> list[int]:
    """New registers, in front of the slots: those are emptied when read, and a result may be read more than once."""
    first = function.first_slot
    for a in function.code:
        a.args = [x + count if isinstance(x, int) and x >= first else x for x in a.args]
        a.results = [r + count if r >= first else r for r in a.results]
    function.first_slot += count
    function.registers += count
    return list(range(first, first + count))


def _class_of(script: Script, name: str, fields: dict[str, Any]) -> str:
    """The full name of a named tuple's class."""
    for full, known in script.classes.items():
        if full.rpartition(".")[2] == name and known == list(fields):
            return full
    raise CaptureError(f"results in a {name}, which is no class of the code: interpreted")
