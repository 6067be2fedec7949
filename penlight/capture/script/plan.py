"""TorchScript and .ptl files that are not one straight line → a Program with VM code, planned where it can be.

First the whole method is tried as one planned graph: most models are that. Where control flow depends on data, where state is
kept, or where arguments are more than tensors, the method is interpreted, and the straight lines in it are planned
(planned.py). Without example inputs, everything is interpreted: that needs no types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penlight.capture.lite.program import LiteProgram
from penlight.capture.lite.read import read
from penlight.capture.lite.registers import to_script
from penlight.errors import CaptureError, InputError
from penlight.ir.graph import Program
from penlight.ir.script import Script, ScriptFunction

Say = Callable[[str], None]


def capture_lite(
    source: Any,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    methods: Sequence[str] | None,
    say: Say,
) -> Program:
    """A .ptl file, of either container. Without torch installed it is interpreted as a whole."""
    lite = source if isinstance(source, LiteProgram) else read(source)
    counts = None
    if _has_torch():
        from penlight.capture.script.torchscript import schema_counts as counts  # type: ignore[assignment]
    script = to_script(lite, None if methods is None else list(methods), counts)
    unknown = set(methods or ()) - {f.method for f in script.functions.values()}
    if unknown:
        raise CaptureError(f"the file has no method {', '.join(sorted(unknown))}; it has {', '.join(lite.methods)}")
    return program_of(script, args, kwargs, dynamic_shapes, say)


def program_of(
    script: Script, args: Any, kwargs: Mapping[str, Any] | None, dynamic_shapes: Any, say: Say, because: str = ""
) -> Program:
    """The Program of a script: planned as a whole if that is possible, else with VM code. `because`: why another way to plan it
    has failed, which is told if this one fails too."""
    program = Program({}, {}, script)
    if args is None and not kwargs:
        if because:
            _tell(program, because, say)
        return program
    if not _has_torch():
        say("torch is not installed: the model is interpreted as a whole")
        return program
    forward = next((f for f in script.functions.values() if f.method == "forward"), None)
    if forward is None:
        return program
    from penlight.capture.export import nn_module as modules
    from penlight.capture.script.plan_parts import plan_runs

    given, keywords = modules.prepare_inputs(() if args is None else args, kwargs or {})
    inputs = positional(forward, given, keywords)
    reason = not_tensors(inputs) or _other_methods(script)
    if not reason:
        try:
            return Program({"forward": whole(script, forward, inputs, dynamic_shapes)})
        except CaptureError as e:
            reason = str(e)
    _tell(program, because or reason, say)
    program.methods.update(plan_runs(script, "forward", inputs, say))
    return program


def _tell(program: Program, reason: str, say: Say) -> None:
    """Why a model is interpreted: to whoever waits, and in the file."""
    say(f"interpreting the model: {reason.splitlines()[0]}")
    program.metadata["interpreted"] = " ".join(reason.split())[:400]


def positional(function: ScriptFunction, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """A call's arguments in the order of the parameters."""
    names = [p["name"] for p in function.parameters[1:]]
    made = list(args)
    least = len(names) - len(function.defaults)
    last = max((names.index(name) for name in kwargs if name in names), default=-1)
    for i in range(len(args), last + 1):
        if names[i] not in kwargs and i < least:
            break
        made.append(kwargs[names[i]] if names[i] in kwargs else function.defaults[i - least])
    known = all(name in names[len(args) :] for name in kwargs)
    if not known or not max(least, last + 1) <= len(made) <= len(names):
        wanted = f"{least} to {len(names)}" if function.defaults else str(len(names))
        raise InputError(
            f"{function.method}({', '.join(names)}) takes {wanted} arguments, {len(args) + len(kwargs)} were given"
        )
    return tuple(made)


def not_tensors(inputs: Sequence[Any]) -> str:
    import torch

    for i, value in enumerate(inputs):
        if not isinstance(value, torch.Tensor):
            return f"argument {i} is a {type(value).__name__}, which code may look at"
        if value.is_quantized:
            return f"argument {i} is a quantized tensor"
    return ""


def _other_methods(script: Script) -> str:
    others = [f.method for f in script.functions.values() if f.method not in (None, "forward")]
    return f"it has other methods too ({', '.join(map(str, others))})" if others else ""


def whole(script: Script, forward: ScriptFunction, inputs: tuple[Any, ...], dynamic_shapes: Any) -> Any:
    """The method as one planned graph."""
    import torch

    from penlight.capture.export import nn_module as modules
    from penlight.capture.script.machine import ScriptMachine

    machine = ScriptMachine(script)
    names = [p["name"] if p["name"].isidentifier() else f"argument_{i}" for i, p in enumerate(forward.parameters[1:])]
    scope: dict[str, Any] = {"run": lambda *args: machine.call(forward.name, [script.module, *args])}
    exec(f"def forward({', '.join(names[: len(inputs)])}):\n    return run({', '.join(names[: len(inputs)])})\n", scope)

    object.__setattr__(machine, "forward", scope["forward"])  # torch.export asks for names of arguments
    with torch.fx.traceback.preserve_node_meta():
        return modules.capture_shapes(machine, inputs, {}, dynamic_shapes, machine.decided).methods["forward"]


def _has_torch() -> bool:
    from importlib.util import find_spec

    return find_spec("torch") is not None
