"""VM code: functions of register code for what cannot be planned - control flow on data, lists and dicts, state, strings.

It comes from TorchScript (capture/lite) and goes into the file as it is; the runtime interprets it (runtime/vm). Straight-line
tensor code inside may be planned all the same: a `planned` action runs a Method of the Program in its place, where the
tensors at hand fit it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

OPERATORS = "torch_operators"  # key in the metadata: what the code called by torch's names, before anything was planned


@dataclass(frozen=True)
class Const:
    """An argument that is a constant: Script.constants[index]."""

    index: int


@dataclass
class Action:
    """One instruction (file/format.py, VM_INSTRUCTIONS). `target` by op: op: the operator's name; jump, branch, loop, planned
    (extra): an index in the function's code; call: a function's name; call_method, isinstance: text; get_attr, set_attr: a
    number; create, tuple: a class name or None; planned: a method's name."""

    op: str
    args: list[int | Const] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    target: Any = None
    extra: Any = None
    source: str = ""


@dataclass
class ScriptFunction:
    """Registers 0 … parameters - 1 hold the arguments at the start; those from `first_slot` on are emptied when read."""

    name: str
    parameters: list[dict[str, str]]  # name and type
    returns: str
    code: list[Action]
    registers: int
    first_slot: int
    method: str | None = None  # its name as a method of the module
    defaults: list[Any] = field(default_factory=list)  # of the last parameters


@dataclass
class Script:
    """All functions of a module, and the module itself: values as in ir/values.py."""

    functions: dict[str, ScriptFunction]
    module: Any
    constants: list[Any]
    classes: dict[str, list[str]] = field(default_factory=dict)  # of objects that code creates, and of named tuples
    _numbers: dict[Any, int] = field(default_factory=dict, repr=False, compare=False)  # of constants

    def constant(self, value: Any) -> Const:
        """The constant of this value; a new one where there is none yet. Lists and objects are kept by identity."""
        simple = value is None or isinstance(value, (bool, int, str))
        key = (type(value), value) if simple else id(value)
        if key not in self._numbers:
            self._numbers[key] = len(self.constants)
            self.constants.append(value)
        return Const(self._numbers[key])

    def forget_unused_constants(self) -> None:
        """Constants that no code names any more are None. The others keep their numbers."""
        used = {x.index for f in self.functions.values() for a in f.code for x in a.args if isinstance(x, Const)}
        self.constants = [c if i in used else None for i, c in enumerate(self.constants)]
        self._numbers = {key: i for key, i in self._numbers.items() if i in used}

    def method(self, name: str) -> ScriptFunction | None:
        """The function that is called as this method."""
        return next((f for f in self.functions.values() if f.method == name), None)

    @property
    def operators(self) -> dict[str, int]:
        """Operators by name, and how many instructions call each."""
        counts: dict[str, int] = {}
        for function in self.functions.values():
            for action in function.code:
                if action.op == "op":
                    counts[action.target] = counts.get(action.target, 0) + 1
        return dict(sorted(counts.items()))

    @property
    def used_constants(self) -> set[int]:
        """Those that code takes: passes leave others behind."""
        code = [a for function in self.functions.values() for a in function.code]
        return {x.index for a in code for x in a.args if isinstance(x, Const)}

    @property
    def roots(self) -> list[Any]:
        """All values that it needs: the module, constants, defaults."""
        defaults = [value for function in self.functions.values() for value in function.defaults]
        return [self.module, *(self.constants[i] for i in sorted(self.used_constants)), *defaults]


@dataclass
class Bundle:
    """Arguments of a method that a model carries, and what they should give: a number y may be off by absolute + relative * |y|."""

    method: str
    args: tuple[Any, ...]
    outputs: Any = None
    has_outputs: bool = False
    info: str = ""
    absolute: float = 0.0
    relative: float = 0.0
