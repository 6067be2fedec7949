"""Stack code → register code: a LiteProgram's functions become a Script's.

How deep the stack is at each instruction follows from the code alone, so every place on it becomes a register of its own, a
slot. What is loaded and used at once never passes through a slot: the instruction that uses it names the register or the
constant. Everything that the file could have wrong is looked for here: jumps, registers, constants, depths.

    LOAD 2 · LOADC 0 · OP 3 (aten::mul.Scalar) · STORE 4      becomes      r4 = op(r2, #0) aten::mul.Scalar
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from penlight.capture.lite.program import Argument, Function, LiteProgram, Operator
from penlight.errors import CaptureError
from penlight.ir.script import Action, Const, Script, ScriptFunction
from penlight.ops.vm_operators import operators

_MAX_DEPTH = 1 << 16
# Instructions that are operators in other versions: name, how many they take, how many they give.
_AS_OPERATORS = {
    "TUPLE_INDEX": ("prim::TupleIndex", 2, 1),
    "RAISE_EXCEPTION": ("prim::RaiseException", 2, 0),
    "DICT_INDEX": ("aten::__getitem__.Dict", 2, 1),
    "__IS__": ("aten::__is__", 2, 1),
    "__ISNOT__": ("aten::__isnot__", 2, 1),
    "DEVICE": ("prim::device", 1, 1),
    "DTYPE": ("prim::dtype", 1, 1),
    "DIM": ("aten::dim", 1, 1),
    "__NOT__": ("aten::__not__", 1, 1),
    "TO_LIST": ("prim::tolist", 3, 1),
    "NUM_TO_TENSOR": ("prim::NumToTensor", 1, 1),
    "IS_CUDA": ("prim::is_cuda", 1, 1),
    "WARN": ("aten::warn", 2, 0),
}
_PASS_ON = {"prim::unchecked_cast", "prim::unchecked_unwrap_optional", "aten::_unwrap_optional"}
Counts = Callable[[str], tuple[int | None, int | None]]  # an operator's name -> its numbers of arguments and results


def to_script(program: LiteProgram, methods: list[str] | None = None, counts: Counts | None = None) -> Script:
    """The register code of a program. `methods`: which can be called by name (all of the module's; others stay where code calls
    them). `counts` helps with operators that Penlight lacks."""
    known = methods if methods is not None else program.methods
    builder = _Builder(program, counts)
    prefix = program.module.type_name + "."
    for function in program.functions.values():
        name = function.name.removeprefix(prefix)
        if name.startswith("__") and name.endswith("__"):  # __setstate__ was run when the file was read
            continue
        public = function.name.startswith(prefix) and name in known
        builder.script.functions[function.name] = builder.function(function, name if public else None)
    return builder.script


class _Builder:
    def __init__(self, program: LiteProgram, counts: Counts | None) -> None:
        self.program = program
        self.counts = counts
        self.script = Script({}, program.module, [])

    def class_name(self, text: str) -> str:
        """The class of a named tuple "__torch__.N[NamedTuple, [[x, Tensor], [y, int]]]", with its fields."""
        match = re.fullmatch(r"([\w.]+)\[\s*NamedTuple,\s*\[(.*)\]\s*\]", text, re.DOTALL)
        if match:
            self.script.classes[match[1]] = re.findall(r"\[\s*(\w+)\s*,", match[2])
            return match[1]
        self.script.classes.setdefault(text, [])
        return text

    def function(self, function: Function, method: str | None) -> ScriptFunction:
        return _Translation(self, function).run(method)


class _Translation:
    """One function. `stack` holds, for each place, where its value is: its own slot, another register, or a constant."""

    def __init__(self, builder: _Builder, function: Function) -> None:
        self.b = builder
        self.f = function
        self.params = self._parameters()
        first = function.instructions[0] if function.instructions else None
        # Code begins by storing the arguments in registers 1 … n: then they are there from the start.
        self.stored = first is not None and first.op == "STOREN" and (first.x, first.n) == (1, len(self.params))
        self.shift = -1 if self.stored else len(self.params) - 1  # register r of the file is r + shift here
        self.first_slot = function.register_count + (0 if self.stored else len(self.params))
        if self.stored and len(self.params) > function.register_count:
            raise self.error(0, f"has {function.register_count} registers for {len(self.params)} parameters")
        self.code: list[Action] = []
        self.stack: list[int | Const] | None = None
        self.taken: set[int] = set()  # registers that MOVE gave away: emptied by whoever reads them
        self.depths: dict[int, int] = {}
        self.starts: dict[int, int] = {}  # instruction of the file -> of the code
        self.deepest = 0
        self.at = 0

    def error(self, at: int, problem: str) -> CaptureError:
        where = self.f.sources[at] if self.f.sources and at < len(self.f.sources) and self.f.sources[at] else ""
        file = f"{self.b.program.path}: " if self.b.program.path else ""
        return CaptureError(f"{file}{self.f.name}, instruction {at}: {problem}{f' (at {where})' if where else ''}")

    def _parameters(self) -> list[Argument]:
        if self.f.arguments is not None:
            return self.f.arguments
        first = self.f.instructions[0] if self.f.instructions else None  # no schema before version 5
        count = first.n if first is not None and first.op == "STOREN" else 1
        return [Argument("self", "Any"), *(Argument(f"argument_{i}", "Any") for i in range(1, count))]

    # ---- the stack ----
    def slot(self, depth: int) -> int:
        if depth >= _MAX_DEPTH:
            raise self.error(self.at, "needs a stack of more than 65536 places")
        self.deepest = max(self.deepest, depth + 1)
        return self.first_slot + depth

    def push(self, where: int | Const | None = None) -> int:
        """One more value: in `where`, or in the slot of its own, which is returned."""
        assert self.stack is not None
        slot = self.slot(len(self.stack))
        self.stack.append(slot if where is None else where)
        return slot

    def pop(self, count: int) -> list[int | Const]:
        assert self.stack is not None
        if count < 0 or count > len(self.stack):
            raise self.error(self.at, f"takes {count} values off a stack of {len(self.stack)}")
        values = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return values

    def register(self, number: int) -> int:
        if not 1 <= number <= self.f.register_count:
            raise self.error(self.at, f"names register {number} of {self.f.register_count}")
        return number + self.shift

    def emit(
        self, op: str, args: list[int | Const] | None = None, results: list[int] | None = None, target: Any = None
    ) -> Action:
        source = self.f.sources[self.at] if self.f.sources and self.at < len(self.f.sources) else ""
        for given in {a for a in args or () if isinstance(a, int) and a in self.taken and a in (self.stack or ())}:
            self.taken.discard(given)  # loaded twice, and given away once
            self.settle(given)
            self.taken.add(given)
        action = Action(op, list(args or ()), list(results or ()), target, None, source)
        self.code.append(action)
        emptied: list[int | Const] = []
        for a in action.args:
            if isinstance(a, int) and a in self.taken and a not in emptied and op != "drop":
                emptied.append(a)
        if emptied:
            self.taken -= {a for a in emptied if isinstance(a, int)}
            kept = [a for a in emptied if a not in action.results]
            if kept and op != "return":  # which empties all registers
                self.code.append(Action("drop", kept, source=source))
        return action

    def settle(self, only: int | None = None) -> None:
        """Puts values that wait elsewhere into their slots: all, or those in one register, which is about to change."""
        assert self.stack is not None
        for depth, where in enumerate(self.stack):
            slot = self.slot(depth)
            if where != slot and (only is None or where == only):
                self.emit("move", [where], [slot])
                self.stack[depth] = slot

    def store(self, value: int | Const, register: int) -> None:
        self.settle(register)
        self.taken.discard(register)
        last = self.code[-1] if self.code else None
        if last is not None and self._is_last_result(value) and register not in last.results and last.op != "planned":
            last.results[last.results.index(value)] = register  # type: ignore[arg-type]
        else:
            self.emit("move", [value], [register])

    def _is_last_result(self, value: int | Const) -> bool:
        """Whether the last action of this block wrote the value: it can write somewhere else as well."""
        last = self.code[-1]
        begun = max(self.starts.values(), default=0)
        return isinstance(value, int) and value >= self.first_slot and value in last.results and len(self.code) > begun

    def reach(self, target: int, depth: int) -> None:
        if not 0 <= target < len(self.f.instructions):
            raise self.error(self.at, f"jumps to instruction {target} of {len(self.f.instructions)}")
        known = self.depths.setdefault(target, depth)
        if known != depth:
            raise self.error(
                self.at, f"jumps to instruction {target} with {depth} values on the stack, others with {known}"
            )

    # ---- all instructions ----
    def run(self, method: str | None) -> ScriptFunction:
        targets = {i + step.x for i, step in enumerate(self.f.instructions) if step.op in ("JF", "JMP", "LOOP")}
        leaders = targets | {i for i, step in enumerate(self.f.instructions) if step.op == "LOOP"}
        self.stack = [] if self.stored else list(range(len(self.params)))
        for i in range(1 if self.stored else 0, len(self.f.instructions)):
            self.at = i
            if i in leaders:
                if self.stack is not None:
                    self.settle()
                    self.reach(i, len(self.stack))
                self.stack = None if i not in self.depths else [self.slot(d) for d in range(self.depths[i])]
                self.taken = set()
                self.starts[i] = len(self.code)
            if self.stack is None:  # nothing leads here
                continue
            self.step(i)
        if self.stack is not None:
            raise self.error(len(self.f.instructions) - 1, "is the last one, and does not return")
        for action in self.code:
            if action.op in ("jump", "branch", "loop"):
                if action.target not in self.starts:
                    raise self.error(action.target, "is jumped to, but nothing stands there")
                action.target = self.starts[action.target]
        defaults = [a.default for a in self.params if a.has_default]
        tail = self.params[len(self.params) - len(defaults) :]
        if not all(a.has_default for a in tail):
            defaults = []
        returned = ", ".join(r.type for r in self.f.returns) if self.f.returns else "Any"
        return ScriptFunction(
            self.f.name,
            [{"name": a.name, "type": a.type} for a in self.params],
            returned,
            self.code,
            self.first_slot + self.deepest,
            self.first_slot,
            method,
            defaults,
        )

    def step(self, i: int) -> None:
        step = self.f.instructions[i]
        op, x, n = step.op, step.x, step.n
        assert self.stack is not None
        if op == "LOAD" or op == "MOVE":
            register = self.register(x)
            if register in self.taken:  # emptied before: its value has gone to the stack
                self.settle(register)
            self.push(register)
            if op == "MOVE":
                self.taken.add(register)
        elif op == "LOADC":
            self.push(self.b.script.constant(self._item(self.f.constants, x, "constant")))
        elif op == "STORE":
            self.store(self.pop(1)[0], self.register(x))
        elif op == "STOREN":
            self._store_all(x, n)
        elif op == "DROP":
            (value,) = self.pop(1)
            if isinstance(value, int) and value >= self.first_slot:
                self.emit("drop", [value])
        elif op == "DROPR":
            register = self.register(x)
            self.settle(register)
            self.taken.discard(register)
            self.emit("drop", [register])
        elif op in ("OP", "OPN"):
            self._operator(i, self._item(self.f.operators, x, "operator"), n if op == "OPN" else None)
        elif op in ("JF", "JMP"):
            condition = self.pop(1) if op == "JF" else []
            if condition and condition[0] in self.taken and condition[0] in self.stack:
                self.settle(condition[0])  # type: ignore[arg-type]
            self.settle()
            self.reach(i + x, len(self.stack))
            self.emit("branch" if condition else "jump", condition, target=i + x)
            if condition:
                self.starts.setdefault(i + 1, len(self.code))
            else:
                self.stack = None
        elif op == "LOOP":
            if n < 2 or n + 1 > len(self.stack):
                raise self.error(i, f"is a loop over {n + 1} values with {len(self.stack)} on the stack")
            self.settle()
            self.reach(i + x, len(self.stack) - 3)
            base = len(self.stack) - (n + 1)
            self.emit("loop", [self.slot(d) for d in range(base, len(self.stack))], target=i + x)
            self.starts.setdefault(i + 1, len(self.code))
        elif op == "RET":
            self.emit("return", self.pop(1))
            self.stack = None
        elif op == "GET_ATTR":
            self._emit_pushing("get_attr", self.pop(1), self._slot_number(x))
        elif op == "SET_ATTR":
            self.emit("set_attr", self.pop(2), target=self._slot_number(x))
        elif op == "LIST_CONSTRUCT":
            self._emit_pushing("list", self.pop(n))
        elif op == "TUPLE_CONSTRUCT":
            self._emit_pushing("tuple", self.pop(x))
        elif op == "NAMED_TUPLE_CONSTRUCT":
            self._emit_pushing("tuple", self.pop(n), self.b.class_name(self._item(self.f.types, x, "type")))
        elif op == "DICT_CONSTRUCT":
            if n % 2:
                raise self.error(i, f"makes a dict of {n} keys and values")
            self._emit_pushing("dict", self.pop(n))
        elif op == "CREATE_OBJECT":
            self._emit_pushing("create", [], self.b.class_name(self._item(self.f.types, x, "type")))
        elif op == "ISINSTANCE":
            types = [self._item(self.f.types, x + k, "type") for k in range(n)]
            self._emit_pushing("isinstance", self.pop(1), "|".join(types))
        elif op == "LIST_UNPACK":
            self._emit_pushing("unpack", self.pop(1), results=x)
        elif op == "TUPLE_SLICE":
            ends = [self.b.script.constant(x), self.b.script.constant(x + n)]
            self._emit_pushing("op", [*self.pop(1), *ends], "prim::TupleSlice")
        elif op == "INTERFACE_CALL":
            name = self._item(self.f.constants, x, "constant")
            if not isinstance(name, str) or n < 1:
                raise self.error(i, f"calls a method by {name!r:.40} with {n} arguments")
            self._emit_pushing("call_method", self.pop(n), name)
        elif op == "UNCHECKED_CAST":
            if not self.stack:
                raise self.error(i, "takes a value off an empty stack")
        elif op == "UN_INITIALIZED":
            self.push(self.b.script.constant(None))
        elif op == "FORMAT":
            self._emit_pushing("op", self.pop(x), "aten::format")
        elif op in _AS_OPERATORS:
            name, takes, gives = _AS_OPERATORS[op]
            self._emit_pushing("op", self.pop(takes), name, results=gives)
            if op == "RAISE_EXCEPTION":
                self._end()
        else:
            raise self.error(i, f"{op} is not supported")

    def _emit_pushing(self, op: str, args: list[int | Const], target: Any = None, results: int = 1) -> None:
        assert self.stack is not None
        if not 0 <= results < _MAX_DEPTH:
            raise self.error(self.at, f"gives {results} values")
        depth = len(self.stack)
        self.emit(op, args, [self.slot(depth + k) for k in range(results)], target)
        for _ in range(results):
            self.push()

    def _store_all(self, x: int, n: int) -> None:
        values = self.pop(n)
        registers = [self.register(x + k) for k in range(n)]
        for register in registers:
            self.settle(register)
        last = self.code[-1] if self.code else None
        if last is not None and values and last.results == values and all(self._is_last_result(v) for v in values):
            last.results = list(registers)
            self.taken -= set(registers)
            return
        waiting = [v for v in values if isinstance(v, int) and v in registers]
        if waiting:  # a register is read here and written too: through the slots, which are all free
            assert self.stack is not None
            for k, v in enumerate(values):
                slot = self.slot(len(self.stack) + k)
                if v != slot:
                    self.emit("move", [v], [slot])
                values[k] = slot
        for value, register in zip(values, registers, strict=True):
            self.taken.discard(register)
            self.emit("move", [value], [register])

    def _operator(self, i: int, operator: Operator, pushed: int | None) -> None:
        name = operator.full_name
        assert self.stack is not None
        if name in _PASS_ON:
            if not self.stack:
                raise self.error(i, f"{name} takes a value off an empty stack")
            return
        if name in ("prim::TupleUnpack", "prim::ListUnpack"):
            self._emit_pushing("unpack", self.pop(1), results=self._stored_next(i))
            return
        if name == "prim::Uninitialized":
            self.push(self.b.script.constant(None))
            return
        takes, gives = self._counts(name)
        count = pushed if pushed is not None else operator.arg_count
        if count is None:
            count = takes
        if count is None:
            raise self.error(i, f"operator {name} is not known, and the file does not say how many arguments it takes")
        if (
            name == "prim::RaiseException"
            and count == 1
            and len(self.stack) > 1
            and self.stack[-1] == self.b.script.constant(None)
        ):
            count = 2  # version 6 pushes the class too, and does not count it
        if gives is None:
            gives = self._stored_next(i) or 1
        self._emit_pushing("op", self.pop(count), name, results=gives)
        if name == "prim::RaiseException":
            self._end()

    def _end(self) -> None:
        """Nothing comes after this: what follows is reached by jumps only."""
        self.emit("return", [self.b.script.constant(None)])
        self.stack = None

    def _counts(self, name: str) -> tuple[int | None, int | None]:
        known = operators().get(name)
        if known is not None:
            return (None if known.variadic else len(known.params)), known.results
        return self.b.counts(name) if self.b.counts else (None, None)

    def _stored_next(self, i: int) -> int:
        """How many results the next instruction stores: those of an instruction with several are stored at once."""
        following = self.f.instructions[i + 1] if i + 1 < len(self.f.instructions) else None
        if following is not None and following.op == "STOREN":
            return following.n
        return 1 if following is not None and following.op == "STORE" else 0

    def _item(self, table: list[Any], index: int, what: str) -> Any:
        if not 0 <= index < len(table):
            raise self.error(self.at, f"names {what} {index} of {len(table)}")
        return table[index]

    def _slot_number(self, x: int) -> int:
        if not 0 <= x < 1 << 20:
            raise self.error(self.at, f"names attribute {x}")
        return x
