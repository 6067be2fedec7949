"""Stack code → register code: a LiteProgram's functions become a Script's.

stack.py keeps track of where the values on the stack lie; here is what each instruction does. All that a file may have wrong is
checked: jumps, registers, constants, the depth of the stack.

    LOAD 2 · LOADC 0 · OP 3 (aten::mul.Scalar) · STORE 4      becomes      r4 = op(r2, #0) aten::mul.Scalar
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from penlight.capture.lite.program import Argument, Function, LiteProgram, Operator
from penlight.capture.lite.stack import MAX_DEPTH, StackCode
from penlight.ir.script import Const, Script, ScriptFunction
from penlight.ops.vm_operators import operators

# Operators that code does not call any more once it is read: taken apart, or dropped.
TRANSLATED = {
    "prim::TupleUnpack", "prim::ListUnpack", "prim::Uninitialized", "prim::unchecked_cast", "prim::unchecked_unwrap_optional",
    "aten::_unwrap_optional",
}  # fmt: skip
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


def translated(program: LiteProgram, function: Function) -> tuple[ScriptFunction, list[Any]]:
    """One function, and the constants that it names."""
    builder = _Builder(program, None)
    return builder.function(function, None), builder.script.constants


class _Builder:
    def __init__(self, program: LiteProgram, counts: Counts | None) -> None:
        self.program = program
        self.counts = counts
        self.script = Script({}, program.module, [])

    def class_name(self, text: str) -> str:
        """The class of a named tuple "__torch__.N[NamedTuple, [[x, Tensor], [y, int]]]", with its fields."""
        self.program.budget.step(1 + len(text) // 8)
        match = re.fullmatch(r"([\w.]+)\[\s*NamedTuple,\s*\[(.*)\]\s*\]", text, re.DOTALL)
        if match:
            self.script.classes[match[1]] = re.findall(r"\[\s*(\w+)\s*,", match[2])
            return match[1]
        self.script.classes.setdefault(text, [])
        return text

    def function(self, function: Function, method: str | None) -> ScriptFunction:
        return _Translation(self, function).run(method)


class _Translation(StackCode):
    """One function."""

    def __init__(self, builder: _Builder, function: Function) -> None:
        self.b = builder
        self.params = _parameters(function)
        first = function.instructions[0] if function.instructions else None
        # Code begins by storing the arguments in registers 1 … n: then they are there from the start.
        self.stored = first is not None and first.op == "STOREN" and (first.x, first.n) == (1, len(self.params))
        self.shift = -1 if self.stored else len(self.params) - 1  # register r of the file is r + shift here
        first_slot = function.register_count + (0 if self.stored else len(self.params))
        super().__init__(function, builder.program.path, first_slot, builder.program.budget)
        if self.stored and len(self.params) > function.register_count:
            raise self.error(0, f"has {function.register_count} registers for {len(self.params)} parameters")
        self.depths: dict[int, int] = {}
        self.starts: dict[int, int] = {}  # instruction of the file -> of the code

    def register(self, number: int) -> int:
        if not 1 <= number <= self.f.register_count:
            raise self.error(self.at, f"names register {number} of {self.f.register_count}")
        return number + self.shift

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
                self.begin_block(self.depths.get(i))
                self.starts[i] = len(self.code)
            if self.stack is not None:  # else nothing leads here
                self.step(i)
        if self.stack is not None:
            raise self.error(len(self.f.instructions) - 1, "is the last one, and does not return")
        for action in self.code:
            if action.op in ("jump", "branch", "loop"):
                if action.target not in self.starts:
                    raise self.error(action.target, "is jumped to, but nothing stands there")
                action.target = self.starts[action.target]
        return self._function(method)

    def _function(self, method: str | None) -> ScriptFunction:
        defaults = [a.default for a in self.params if a.has_default]
        tail = self.params[len(self.params) - len(defaults) :]
        return ScriptFunction(
            self.f.name,
            [{"name": a.name, "type": a.type} for a in self.params],
            ", ".join(r.type for r in self.f.returns) if self.f.returns else "Any",
            self.code,
            self.first_slot + self.deepest,
            self.first_slot,
            method,
            defaults if all(a.has_default for a in tail) else [],
        )

    def step(self, i: int) -> None:
        step = self.f.instructions[i]
        for kind in (self._transfer, self._control, self._construct, self._look):
            if kind(step.op, step.x, step.n):
                return
        if step.op not in _AS_OPERATORS:
            raise self.error(i, f"{step.op} is not supported")
        name, takes, gives = _AS_OPERATORS[step.op]
        self._push_results("op", self.pop(takes), name, gives)
        if step.op == "RAISE_EXCEPTION":
            self._end()

    def _transfer(self, op: str, x: int, n: int) -> bool:
        """Between registers, constants and the stack."""
        match op:
            case "LOAD":
                self.push(self.register(x))
            case "MOVE":
                self.move(self.register(x))
            case "LOADC":
                self.push(self.b.script.constant(self._item(self.f.constants, x, "constant")))
            case "STORE":
                self.store(self.pop(1), [self.register(x)])
            case "STOREN":
                self.store(self.pop(n), [self.register(x + k) for k in range(n)])
            case "DROP":
                self.discard(self.pop(1)[0])
            case "DROPR":
                register = self.register(x)
                self.overwrite(register)
                self.emit("drop", [register])
            case "UNCHECKED_CAST":
                self.push(self.pop(1)[0])
            case "UN_INITIALIZED":
                self.push(self.b.script.constant(None))
            case _:
                return False
        return True

    def _control(self, op: str, x: int, n: int) -> bool:
        """Jumps, loops, calls, the end."""
        assert self.stack is not None
        i = self.at
        match op:
            case "JF" | "JMP":
                condition = self.pop(1 if op == "JF" else 0)
                self.settle()
                self.reach(i + x, len(self.stack))
                self.emit("branch" if condition else "jump", condition, target=i + x)
                if condition:
                    self.starts.setdefault(i + 1, len(self.code))
                else:
                    self.stack = None
            case "LOOP":
                if n < 2 or n + 1 > len(self.stack):
                    raise self.error(i, f"is a loop over {n + 1} values with {len(self.stack)} on the stack")
                self.settle()
                self.reach(i + x, len(self.stack) - 3)
                base = len(self.stack) - (n + 1)
                self.emit("loop", [self.slot(d) for d in range(base, len(self.stack))], target=i + x)
                self.starts.setdefault(i + 1, len(self.code))
            case "RET":
                self.emit("return", self.pop(1))
                self.stack = None
            case "OP" | "OPN":
                self._operator(i, self._item(self.f.operators, x, "operator"), n if op == "OPN" else None)
            case "INTERFACE_CALL":
                name = self._item(self.f.constants, x, "constant")
                if not isinstance(name, str) or n < 1:
                    raise self.error(i, f"calls a method by {name!r:.40} with {n} arguments")
                self._push_results("call_method", self.pop(n), name)
            case _:
                return False
        return True

    def _construct(self, op: str, x: int, n: int) -> bool:
        """New values of several."""
        match op:
            case "LIST_CONSTRUCT":
                self._push_results("list", self.pop(n))
            case "TUPLE_CONSTRUCT":
                self._push_results("tuple", self.pop(x))
            case "NAMED_TUPLE_CONSTRUCT":
                self._push_results("tuple", self.pop(n), self.b.class_name(self._item(self.f.types, x, "type")))
            case "DICT_CONSTRUCT":
                if n % 2:
                    raise self.error(self.at, f"makes a dict of {n} keys and values")
                self._push_results("dict", self.pop(n))
            case "CREATE_OBJECT":
                self._push_results("create", [], self.b.class_name(self._item(self.f.types, x, "type")))
            case "FORMAT":
                self._push_results("op", self.pop(x), "aten::format")
            case _:
                return False
        return True

    def _look(self, op: str, x: int, n: int) -> bool:
        """Into objects and containers."""
        match op:
            case "GET_ATTR":
                self._push_results("get_attr", self.pop(1), self._slot_number(x))
            case "SET_ATTR":
                self.emit("set_attr", self.pop(2), target=self._slot_number(x))
            case "ISINSTANCE":
                types = [self._item(self.f.types, x + k, "type") for k in range(n)]
                self.budget.step(n)
                self.budget.take(sum(map(len, types)))
                self._push_results("isinstance", self.pop(1), "|".join(types))
            case "LIST_UNPACK":
                self._push_results("unpack", self.pop(1), results=x)
            case "TUPLE_SLICE":
                ends = [self.b.script.constant(x), self.b.script.constant(x + n)]
                self._push_results("op", [*self.pop(1), *ends], "prim::TupleSlice")
            case _:
                return False
        return True

    def _push_results(self, op: str, args: list[int | Const], target: Any = None, results: int = 1) -> None:
        assert self.stack is not None
        if not 0 <= results < MAX_DEPTH:
            raise self.error(self.at, f"gives {results} values")
        depth = len(self.stack)
        self.budget.step(results + len(args))
        self.emit(op, args, [self.slot(depth + k) for k in range(results)], target)
        for _ in range(results):
            self.push()

    # ---- operators ----
    def _operator(self, i: int, operator: Operator, pushed: int | None) -> None:
        name = operator.full_name
        assert self.stack is not None
        if name in _PASS_ON:
            self.push(self.pop(1)[0])
            return
        if name in ("prim::TupleUnpack", "prim::ListUnpack"):
            self._push_results("unpack", self.pop(1), results=self._stored_next(i) or 1)
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
        if name == "prim::RaiseException" and count == 1 and self.stack[-2:][1:] == [self.b.script.constant(None)]:
            count = 2  # version 6 pushes the class too, and does not count it
        if gives is None:
            gives = self._stored_next(i) or 1
        self._push_results("op", self._with_defaults(name, self.pop(count)), name, gives)
        if name == "prim::RaiseException":
            self._end()

    def _with_defaults(self, name: str, args: list[int | Const]) -> list[int | Const]:
        """Files since version 6 leave out trailing defaults, also those in front of `out` arguments, which come last in any case."""
        known = operators().get(name)
        if known is None or known.variadic or len(args) >= len(known.params) or not known.outs:
            return args
        given = len(args) - known.outs
        left_out = known.params[max(given, 0) : len(known.params) - known.outs]
        if given < 0 or any(p.default is None for p in left_out):
            raise self.error(self.at, f"operator {name} is given {len(args)} arguments, too few")
        return [*args[:given], *(self.b.script.constant(p.value) for p in left_out), *args[given:]]

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


def _parameters(function: Function) -> list[Argument]:
    if function.arguments is not None:
        return function.arguments
    first = function.instructions[0] if function.instructions else None  # no schema before version 5
    count = first.n if first is not None and first.op == "STOREN" else 1
    return [Argument("self", "Any"), *(Argument(f"argument_{i}", "Any") for i in range(1, count))]
