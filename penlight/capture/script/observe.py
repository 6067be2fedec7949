"""One run of a script on example inputs, in Python: which actions ran, and what was in the registers that they read."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from penlight.capture.script.dataflow import reads, written
from penlight.capture.script.freeze import changing_slots
from penlight.capture.script.machine import ScriptMachine
from penlight.ir.script import Script, ScriptFunction
from penlight.ir.values import ScriptObject


@dataclass
class Observation:
    """What was seen of each action, by (function, index): `before`: the registers that it read when it first ran; `after`: its results
    then."""

    method: ScriptFunction
    inputs: tuple[Any, ...]
    before: dict[tuple[str, int], dict[int, Any]] = field(default_factory=dict)
    after: dict[tuple[str, int], dict[int, Any]] = field(default_factory=dict)
    ways: dict[tuple[str, int], set[int]] = field(default_factory=dict)  # where branches went on
    failure: Exception | None = None  # what ended the run, if it did not come to its end
    _last: tuple[str, int] | None = None  # the action before, if it was of the same call

    def __call__(self, function: ScriptFunction, index: int, registers: dict[int, Any]) -> None:
        key = (function.name, index)
        code = function.code
        if self._last is not None and self._last[0] == function.name:
            last = code[self._last[1]]
            if last.op == "branch":
                self.ways.setdefault(self._last, set()).add(index)
            self.after.setdefault(self._last, _seen(registers, last.results))
        self._last = None if code[index].op in ("call", "call_method", "return") else key
        if key not in self.before:
            self.before[key] = _seen(registers, reads(code[index]))

    def ran(self, function: ScriptFunction) -> bool:
        return (function.name, 0) in self.before

    def owner(self, function: ScriptFunction, index: int) -> ScriptObject | None:
        """The object of the model whose attribute an action reads or sets; None for one that the code made itself."""
        at = function.code[index].args[0]
        value = self.before[(function.name, index)].get(at) if isinstance(at, int) else None
        return value if isinstance(value, ScriptObject) else None

    def attribute_name(self, function: ScriptFunction, index: int) -> str:
        owner = self.owner(function, index)
        return repr(list(owner.attributes)[function.code[index].target]) if owner is not None else ""


def _seen(registers: dict[int, Any], wanted: Iterable[int]) -> dict[int, Any]:
    values = {r: registers.get(r) for r in wanted}
    return {r: v.detach() if isinstance(v, torch.Tensor) else v for r, v in values.items()}


def observe(script: Script, method: ScriptFunction, inputs: tuple[Any, ...]) -> Observation:
    """Runs the method. Inputs and weights stay as they are: what code writes into is copied first."""
    seen = Observation(method, inputs)
    writes = any(True for f in script.functions.values() for a in f.code for _ in written(a))
    machine = ScriptMachine(script, seen, copies=bool(changing_slots(script)))
    try:
        with torch.no_grad():
            machine.call(method.name, [script.module, *(copy.deepcopy(inputs) if writes else inputs)])
    except Exception as e:  # any: what the model's own code raises, and the machine's own limits
        seen.failure = e
    return seen
