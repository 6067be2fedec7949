"""A script → a Program: one plan where the method is straight tensor code, else VM code with plans in it.

The code is run once, on example inputs, to see which way it goes. If nothing but sizes and constants decides that, the whole method is
captured like a model. If it also depends on the values of tensors, keeps state, or takes more than tensors, the method is
interpreted, and straight-line parts of it are planned (plan_parts.py). Without example inputs everything is interpreted: that needs no
types. Where inputs were only guessed, the code stays behind the plan (plan_whole.py): a wrong guess costs time, never a result.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from penlight.capture.export import nn_module
from penlight.capture.script.capture_run import capture_run
from penlight.capture.script.dataflow import data_decisions
from penlight.capture.script.freeze import changing_slots
from penlight.capture.script.guess import fits, patterns_of
from penlight.capture.script.machine import ScriptMachine, UnavailableError
from penlight.capture.script.observe import Observation, observe
from penlight.capture.script.plan_parts import plan_parts
from penlight.capture.script.plan_whole import put_in_front
from penlight.capture.script.quantized import holds_quantized
from penlight.errors import CaptureError, ExampleError, InputError, PlanWarning
from penlight.ir.containers import MOST_PARTS, parts
from penlight.ir.graph import Method, Program
from penlight.ir.script import Script, ScriptFunction

Say = Callable[[str], None]


@dataclass
class Examples:
    """Arguments of forward, and who says that they are what it is called with: "given" by the caller, "bundled" with the model,
    "traced" with it, or "guessed"."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    origin: str = "given"
    seen: Observation | None = None  # the run on them, if there was one

    def __str__(self) -> str:
        return ", ".join(_described(v) for v in (*self.args, *self.kwargs.values()))


def _described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return type(value).__name__


def plan_script(
    script: Script, examples: Examples, dynamic_shapes: Any, say: Say, original: Callable[..., Any] | None
) -> Program:
    """Plans forward for calls like the examples. `original` is forward as something else runs it, which has the last word on whether they are
    right. Sizes of examples that nobody gave are free."""
    forward = script.method("forward")
    if forward is None:
        return Program({}, {}, script)
    args, kwargs = nn_module.prepare_inputs(examples.args, examples.kwargs)
    inputs = positional(forward, args, kwargs)
    seen = examples.seen or observe(script, forward, inputs)
    given = examples.origin == "given"
    if seen.failure is not None and given:
        _check_examples(seen.failure, original, inputs)
        if not isinstance(seen.failure, CaptureError):
            problem = f"{type(seen.failure).__name__} in Penlight while observing the model: {seen.failure}"
            warnings.warn(PlanWarning(f"{problem}; what follows is interpreted. Please report this."), stacklevel=2)
    shapes = dynamic_shapes if given or dynamic_shapes is not None else "auto"
    reason = _not_tensors(inputs, tuples=given) or _not_straight(script, seen)
    if not given and len(inputs) < len(forward.parameters) - 1:
        reason = reason or "it has arguments with defaults, which a plan would fix"
    if not reason:
        try:
            method = whole(script, forward, inputs, shapes, say)
            return _planned(script, forward, method, alone=given or _is_certain(script, forward, method))
        except CaptureError as e:
            if given and shapes not in (None, "auto"):
                raise
            reason = str(e)
    program = Program({}, {"interpreted": " ".join(reason.split())[:400]}, script)
    say(f"interpreting the model: {reason.splitlines()[0]}")
    program.methods, program.unplanned = plan_parts(script, seen, say)
    return program


def _planned(script: Script, forward: ScriptFunction, method: Method, alone: bool) -> Program:
    """`alone`: the plan replaces the code of forward. Else it is put in front of it."""
    if not alone:
        return Program(put_in_front(script, forward, method), {}, script)
    del script.functions[forward.name]
    others = any(f.method is not None for f in script.functions.values())
    return Program({"forward": method}, {}, script if others else None)


def _is_certain(script: Script, forward: ScriptFunction, method: Method) -> bool:
    """Whether the plan takes all that the code's first operators allow as inputs."""
    patterns = patterns_of(script, forward)
    return patterns is not None and not forward.defaults and all(p.certain for p in patterns) and fits(patterns, method)


def _check_examples(failure: Exception, original: Callable[..., Any] | None, inputs: tuple[Any, ...]) -> None:
    """Raises where the model itself fails on the examples, and not only the machine that observes it."""
    if original is not None:
        try:
            with torch.no_grad():
                original(*copy.deepcopy(inputs))  # it may change its inputs
            return
        except Exception as e:
            failure = e
    elif isinstance(failure, UnavailableError):
        return
    lines = [*str(failure).strip().splitlines(), *getattr(failure, "__notes__", ())]
    said = "\n  ".join(lines[-12:])
    raise ExampleError(
        f"the model fails on the example inputs ({', '.join(map(_described, inputs))}); give it inputs that it takes:\n  {said}"
    ) from failure


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


def _not_tensors(inputs: Sequence[Any], tuples: bool) -> str:
    """`tuples`: of tensors are good too, as states of an LSTM: TorchScript fixes their length by its types."""
    for i, value in enumerate(inputs):
        for tensor in _leaves(value) if tuples else [value]:
            if not isinstance(tensor, torch.Tensor):
                return f"argument {i} is a {type(value).__name__}, which code may look at"
            if tensor.is_quantized:
                return f"argument {i} is a quantized tensor"
    return ""


def _leaves(value: Any) -> list[Any]:
    return [leaf for v in value for leaf in _leaves(v)] if isinstance(value, tuple) and value else [value]


def _not_straight(script: Script, seen: Observation) -> str:
    """Why the code, judged by how it ran, cannot be one graph; "" where it may be."""
    if seen.failure is not None:
        return str(seen.failure)
    ran = [(f, i, a) for f in script.functions.values() for i, a in enumerate(f.code) if (f.name, i) in seen.before]
    decisions = {f.name: data_decisions(f) for f in script.functions.values()}
    for function, i, action in ran:
        if i in decisions[function.name]:
            what = "an `if`" if action.op == "branch" else "a loop"
            return f"{what} depends on the values of a tensor, so there is no one graph to plan\n  {action.source}"
        if action.op == "set_attr" and seen.owner(function, i) is not None:
            name = seen.attribute_name(function, i)
            return f"the model keeps state: it sets its attribute {name} when run\n  {action.source}"
    changing = changing_slots(script)
    for function, i, action in ran:
        owner = seen.owner(function, i) if action.op == "get_attr" else None
        if owner is not None and {(id(owner), action.target), (0, action.target)} & changing:
            name = seen.attribute_name(function, i)
            return f"the model keeps state: it reads its attribute {name}, which its code changes\n  {action.source}"
    return ""


def whole(
    script: Script, forward: ScriptFunction, inputs: tuple[Any, ...], dynamic_shapes: Any, say: Say = lambda text: None
) -> Method:
    """The method as one planned graph."""
    machine = ScriptMachine(script)
    names = [p["name"] if p["name"].isidentifier() else f"argument_{i}" for i, p in enumerate(forward.parameters[1:])]
    return capture_run(
        machine,
        names[: len(inputs)],
        inputs,
        dynamic_shapes,
        lambda *args: _plain(machine.call(forward.name, [script.module, *args])),
        say,
    )


def _plain(result: Any) -> Any:
    if parts(result) > MOST_PARTS:
        raise CaptureError(
            f"its result has more than {MOST_PARTS} parts, as often as they are in it, or contains itself, which plans do not give"
        )
    if holds_quantized(result):
        raise CaptureError("its result is a quantized tensor, which plans do not give: end the model with dequantize()")
    return result
