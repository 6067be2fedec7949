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

from penlight.errors import CaptureError
from penlight.ir.graph import Method
from penlight.ir.script import Action, Const, Script, ScriptFunction

NAME = "~forward"


def plan_whole(script: Script, args: tuple[Any, ...]) -> dict[str, Method]:
    """Plans forward for inputs like these and puts the plan in front of its code. CaptureError where that is not possible."""
    from penlight.capture.script.plan import whole

    forward = next((f for f in script.functions.values() if f.method == "forward"), None)
    if forward is None:
        raise CaptureError("there is no method forward")
    if len(args) != len(forward.parameters) - 1:
        raise CaptureError("it has arguments with defaults, which a plan would fix")
    method = whole(script, forward, args, "auto")
    _put_in_front(script, forward, method, len(args))
    return {NAME: method}


def _put_in_front(script: Script, function: ScriptFunction, method: Method, inputs: int) -> None:
    count = len(method.graph.outputs)
    results = list(range(function.registers, function.registers + count))
    building: list[Action] = []
    free = iter(range(function.registers + count, function.registers + count + 1000))

    def constant(value: Any) -> Const:
        script.constants.append(value)
        return Const(len(script.constants) - 1)

    def build(spec: Any) -> int | Const:
        """The value of an output spec (ir/containers.py), out of the plan's results."""
        if isinstance(spec, int):
            return results[spec]
        ((kind, inside),) = spec.items()
        if kind == "none":
            return constant(None)
        if kind == "const":
            return constant(inside)
        parts: list[int | Const]
        if kind in ("tuple", "list"):
            parts = [build(s) for s in inside]
        elif kind in ("dict", "ordered_dict"):
            parts = [x for key, s in inside.items() for x in (constant(key), build(s))]
        else:
            raise CaptureError(f"results in a {kind}: interpreted")
        made = next(free, None)
        if made is None:
            raise CaptureError("results nested more than a thousand times: interpreted")
        building.append(Action(kind.replace("ordered_", ""), parts, [made]))
        return made

    value = build(method.output_spec)
    for action in function.code:
        if action.op in ("jump", "branch", "loop"):
            action.target += 1
        elif action.op == "planned":
            action.extra += 1
    after = len(function.code) + 1
    planned = Action("planned", list(range(1, inputs + 1)), results, NAME, after)
    function.code = [planned, *function.code, *building, Action("return", [value])]
    function.registers += count + len(building)
