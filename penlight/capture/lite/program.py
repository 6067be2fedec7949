"""What a lite-interpreter file holds, as plain data: functions of stack bytecode, and the module's state (ir/values.py).

Both containers (zip/pickle, versions 4-8, and flatbuffer, version 9) are read into this. Nothing here needs torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penlight.budget import Budget
from penlight.ir.values import ScriptObject


@dataclass(frozen=True)
class Instruction:
    op: str  # "OP", "LOAD", … as in the bytecode
    x: int
    n: int


@dataclass(frozen=True)
class Operator:
    name: str  # "aten::add"
    overload: str  # "Tensor"; "" for the default one
    arg_count: int | None  # how many arguments the code pushes; None: all of its schema (files before version 6)

    @property
    def full_name(self) -> str:
        return f"{self.name}.{self.overload}" if self.overload else self.name


@dataclass(frozen=True)
class Argument:
    name: str
    type: str  # "Tensor", "List[int]", "Optional[Tensor]", "__torch__.M"
    default: Any = None
    has_default: bool = False


@dataclass(eq=False)
class Function:
    """Stack code. Registers are numbered from 1; register 1 holds `self` at the start. Jumps count from their own place."""

    name: str  # qualified: "__torch__.M.forward"
    instructions: list[Instruction]
    operators: list[Operator]
    constants: list[Any]
    types: list[str]
    register_count: int
    arguments: list[Argument] | None = None  # self included; None where the file has no schema (version 4)
    returns: list[Argument] | None = None
    sources: list[str] | None = None  # of each instruction, "model.py:12, in forward: y = f(x)  [layer1.0]"; "" unknown

    @property
    def method(self) -> str:
        return self.name.rpartition(".")[2]


@dataclass(eq=False)
class LiteProgram:
    """A whole file."""

    container: str  # "zip" or "flatbuffer"
    bytecode_version: int
    operator_version: int  # what the operators' behaviour is that of: decides which upgraders apply
    functions: dict[str, Function]  # by qualified name, in the file's order
    module: ScriptObject
    extra_files: dict[str, bytes] = field(default_factory=dict)
    path: str = ""
    budget: Budget = field(default_factory=lambda: Budget(0, "the model"))  # what is left for reading on

    @property
    def methods(self) -> list[str]:
        """Names of the methods of the top module, in the file's order."""
        prefix = self.module.type_name + "."
        return [n[len(prefix) :] for n in self.functions if n.startswith(prefix) and "." not in n[len(prefix) :]]
