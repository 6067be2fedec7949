"""What is known while source text is compiled: values and where they are, variables of a call in progress, the script at hand."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from penlight.capture.source.declarations import Class, Declarations, Function
from penlight.capture.source.types import Type
from penlight.ir.script import Action, Const, Script
from penlight.ir.values import ScriptObject


@dataclass(eq=False)
class Value:
    """What an expression gives: its type, its register or constant; the object it is, where that is known; or something that only
    the compiler sees (a function, a class, the body of a fork)."""

    type: Type
    at: int | Const | None
    object: ScriptObject | None = None
    static: Function | Class | ast.FunctionDef | None = None

    def typed(self, type_: Type) -> Value:
        return Value(type_, self.at, self.object, self.static)


class Frame:
    """A call in progress."""

    def __init__(self, function: Function, path: list[str]) -> None:
        self.function = function
        self.path = path  # names that lead to the module whose method this is
        self.variables: dict[str, Value] = {}
        self.rooms: dict[str, int] = {}  # registers of variables that are assigned more than once
        self.counts = Counter(function.stores)  # assignments of each variable, without branches that are never taken
        self.lines: list[Any] = []
        self.result = -1
        self.returns: list[Action] = []  # jumps to its end
        self.ended = False  # nothing is reached after a return


@dataclass
class Shared:
    """What the methods of one file have in common."""

    script: Script
    declarations: Declarations
    constants: list[Any]  # CONSTANTS of the source
    version: int  # of the operators
    literals: dict[Any, Any] = field(default_factory=dict)
    _paths: dict[int, list[str]] = field(default_factory=dict)  # by the id of a module
    called: set[str] = field(default_factory=set)  # methods of objects whose class is known at run only

    def path(self, module: ScriptObject) -> list[str]:
        """The names that lead to a module."""
        if not self._paths:
            left: list[tuple[ScriptObject, list[str]]] = [(self.script.module, [])]
            while left:
                at, path = left.pop()
                if id(at) not in self._paths:
                    self._paths[id(at)] = path
                    children = [(k, v) for k, v in at.attributes.items() if isinstance(v, ScriptObject)]
                    left += [(v, [*path, k]) for k, v in reversed(children)]
        return self._paths.get(id(module), [])

    def constant(self, value: Any) -> Const:
        if isinstance(value, float) or (isinstance(value, list) and all(type(v) in (bool, int, float) for v in value)):
            value = self.literals.setdefault((type(value), repr(value)), value)  # one constant for equal ones
        return self.script.constant(value)
