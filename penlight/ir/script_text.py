"""VM code as text, for people.

forward(r0 self: M, r1 x: Tensor) -> Tensor {
   0  r4 = r0.layer                          # model.py:7, in forward: return torch.relu(self.layer(x))
   1  r5 = aten::linear(r1, r4, None)
   …
"""

from __future__ import annotations

from typing import Any

from penlight.ir.script import Action, Const, Script, ScriptFunction
from penlight.ir.values import ScriptObject, ScriptTensor


def script_text(script: Script) -> str:
    return "\n\n".join(_function(script, f) for f in script.functions.values())


def value_text(value: Any, limit: int = 60) -> str:
    """A constant, on part of a line."""
    if isinstance(value, ScriptTensor):
        return f"{value.name or 'tensor'}: {value.dtype}{list(value.shape)}"
    if isinstance(value, ScriptObject):
        return f"<{value.type_name.rpartition('.')[2]}>"
    if isinstance(value, (list, tuple)):  # parts may be shared: all of it could be endless
        inside = ", ".join(value_text(v, 20) if limit > 20 else "…" for v in value[:8]) + (
            ", …" if len(value) > 8 else ""
        )
        text = f"[{inside}]" if isinstance(value, list) else f"({inside})"
    elif isinstance(value, dict):
        text = f"dict of {len(value)}"
    else:
        text = repr(value[:limit] if isinstance(value, str) else value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _function(script: Script, function: ScriptFunction) -> str:
    parameters = ", ".join(f"r{i} {p.get('name')}: {p.get('type')}" for i, p in enumerate(function.parameters))
    lines = [f"{function.method or function.name}({parameters}) -> {function.returns} {{"]
    before = ""
    objects: dict[int, ScriptObject] = {}  # what registers hold, as far as it is known
    if function.method and isinstance(script.module, ScriptObject):
        objects[0] = script.module
    for at, action in enumerate(function.code):
        if action.op == "drop":  # says only when memory is given back
            continue
        where = f"   # {' '.join(action.source.split())}" if action.source and action.source != before else ""
        before = action.source or before
        lines.append(f"  {at:4}  {_action(script, action, objects)}{where}")
        _follow(action, objects)
    return "\n".join([*lines, "}"])


def _follow(action: Action, objects: dict[int, ScriptObject]) -> None:
    """Keeps track of the modules in registers."""
    source = action.args[0] if action.args else None
    held: Any = objects.get(source) if isinstance(source, int) and action.op in ("get_attr", "move") else None
    if held is not None and action.op == "get_attr":
        values = list(held.attributes.values())
        held = values[action.target] if action.target < len(values) else None
    for result in action.results:
        objects.pop(result, None)
        if isinstance(held, ScriptObject):
            objects[result] = held


def _attribute(action: Action, objects: dict[int, ScriptObject]) -> str:
    owner = action.args[0]
    names = list(objects[owner].attributes) if isinstance(owner, int) and owner in objects else []
    return names[action.target] if action.target < len(names) else f"attribute {action.target}"


def _action(script: Script, action: Action, objects: dict[int, ScriptObject]) -> str:
    args = [value_text(script.constants[a.index]) if isinstance(a, Const) else f"r{a}" for a in action.args]
    results = ", ".join(f"r{r}" for r in action.results)
    head = f"{results} = " if results else ""
    if action.op == "op":
        return f"{head}{action.target}({', '.join(args)})"
    if action.op == "move" and args:
        return f"{head}{args[0]}"
    if action.op == "get_attr" and args:
        return f"{head}{args[0]}.{_attribute(action, objects)}"
    if action.op == "set_attr" and len(args) == 2:
        return f"{args[0]}.{_attribute(action, objects)} = {args[1]}"
    if action.op == "branch" and args:
        return f"unless {args[0]} go to {action.target}"
    if action.op == "jump":
        return f"go to {action.target}"
    if action.op == "loop":
        return f"loop over {', '.join(args)}, then go to {action.target}"
    if action.op == "planned":
        return f"{head}planned {action.target}({', '.join(args)}), where it fits: go to {action.extra}"
    target = f" {action.target}" if action.target is not None else ""
    return f"{head}{action.op}{target}({', '.join(args)})"
