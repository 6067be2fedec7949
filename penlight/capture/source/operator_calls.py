"""Operators called in source text → `op` actions, each with the overload that fits its arguments.

Where all arguments are constants, comparisons and the like are computed here, and the result is a constant too.
"""

from __future__ import annotations

import ast
from typing import Any

from penlight.capture.lite.program import Operator
from penlight.capture.lite.restore import PLAIN_OPERATORS
from penlight.capture.lite.upgrade import upgraded
from penlight.capture.source.declarations import Class
from penlight.capture.source.overloads import Chosen, choose, known, unknown
from penlight.capture.source.registers import Code
from penlight.capture.source.scope import Frame, Shared, Value
from penlight.capture.source.types import ANY, BOOL, FLOAT, INT, NONE, STR, TENSOR, Type, annotated
from penlight.errors import CaptureError
from penlight.ir.script import Const
from penlight.ir.values import Device, EnumValue, ScriptObject, ScriptTensor, TypedDict, TypedList

PLAIN = (bool, int, float, str, type(None))
_LITERAL_LISTS = ("integers", "reals", "booleans")  # kinds of parameters that only read a list


class OperatorCalls:
    shared: Shared
    code: Code
    frames: list[Frame]

    def error(self, problem: str) -> CaptureError:
        raise NotImplementedError

    def class_of(self, type_: Type) -> Class | None:
        raise NotImplementedError

    def locate(self, node: ast.AST) -> None:
        raise NotImplementedError

    def expression(self, node: ast.expr, into: int | None = None) -> Value:
        raise NotImplementedError

    def literal(self, node: ast.expr) -> Any:
        raise NotImplementedError

    # ---- values ----
    def constant(self, value: Any) -> Value:
        return Value(type_of(value), self.shared.constant(value), value if isinstance(value, ScriptObject) else None)

    def place(self, value: Value) -> int | Const:
        if value.at is None:
            raise self.error("a function or a class is used as a value")
        return value.at

    def known(self, value: Value) -> tuple[bool, Any]:
        """Whether a value is a plain constant, and what it is."""
        if not isinstance(value.at, Const):
            return False, None
        held = self.shared.script.constants[value.at.index]
        return type(held) in PLAIN, held

    def emitted(self, op: str, args: list[Value], type_: Type, target: Any = None, into: int | None = None) -> Value:
        at = self.code.register() if into is None else into
        self.code.emit(op, [self.place(a) for a in args], [at], target)
        return Value(type_, at)

    # ---- operators ----
    def operators(self, base: str, node: ast.Call, results: int, into: int | None = None) -> list[Value]:
        """An operator called in the source, and what it gives."""
        if base == "aten::device" and len(node.args) == 1 and isinstance(node.args[0], ast.Constant):
            return [self.constant(Device(str(node.args[0].value)))]
        arguments = [self._argument(a) for a in node.args]
        keywords = {k.arg: self._argument(k.value) for k in node.keywords if k.arg}
        self.locate(node)  # compiling the arguments has changed it
        return self._operators(base, arguments, keywords, results, into)

    def operator(self, base: str, arguments: list[Value], keywords: dict[str, Value], into: int | None = None) -> Value:
        results = self._operators(base, arguments, keywords, 1, into)
        return results[0] if results else self.constant(None)

    def _argument(self, node: ast.expr) -> Value:
        """Lists of numbers wait as constants until the operator is known: most only read them."""
        if isinstance(node, ast.List) and node.elts:
            numbers = [_number(e) for e in node.elts]
            kinds = {type(n) for n in numbers}
            if len(kinds) == 1 and type(None) not in kinds:
                return self.constant(TypedList(numbers, f"List[{kinds.pop().__name__}]"))
        return self.expression(node)

    def _operators(
        self, base: str, arguments: list[Value], keywords: dict[str, Value], results: int, into: int | None
    ) -> list[Value]:
        if base in ("aten::_unwrap_optional", "prim::unchecked_unwrap_optional", "aten::wait", "aten::awaitable_wait"):
            value = arguments[0]
            return [value.typed(value.type.element if value.type.name in ("Optional", "Future") else value.type)]
        folded = self._folded(base, arguments)
        if folded is not None:
            return [folded]
        named = tuple((k, self._plain_type(v)) for k, v in keywords.items())
        numbers = self._traced_numbers(arguments)
        chosen = choose(base, tuple(self._plain_type(a) for a in numbers), named) if numbers else None
        if chosen is not None:
            arguments = numbers
        else:
            chosen = choose(base, tuple(self._plain_type(a) for a in arguments), named)
        if chosen is None:
            if known(base):
                given = ", ".join([*(str(a.type) for a in arguments), *(f"{k}={v.type}" for k, v in keywords.items())])
                raise self.error(f"no form of {base} takes ({given})")
            chosen = unknown(base, len(arguments) + len(keywords), results)
        return self._called(chosen, [*arguments, *keywords.values()], into)

    def _traced_numbers(self, arguments: list[Value]) -> list[Value]:
        """The arguments with numbers for rank-0 constants: a trace writes the 0.5 of x * 0.5 as one, and x keeps its dtype all the
        same. Empty where there is none, or nothing else is a tensor."""
        made = []
        for value in arguments:
            held = self.shared.script.constants[value.at.index] if isinstance(value.at, Const) else None
            is_number = isinstance(held, ScriptTensor) and held.shape == () and held.dtype in ("f64", "i64")
            made.append(self.constant(held.array().item()) if is_number and isinstance(held, ScriptTensor) else value)
        changed = any(a is not b for a, b in zip(made, arguments, strict=True))
        return made if changed and any(a.type == TENSOR for a in made) else []

    def _called(self, chosen: Chosen, given: list[Value], into: int | None) -> list[Value]:
        takes = list(chosen.takes)
        while takes and takes[-1][0] == "default":
            takes.pop()
        args: list[int | Const] = []
        for i, (how, what) in enumerate(takes):
            if how == "default":
                args.append(self.shared.constant(what))
                continue
            kind = chosen.params[i].kind if i < len(chosen.params) else ""
            args.append(self.place(given[what]) if kind in _LITERAL_LISTS else self._fresh(given[what]))
        returns = [r for r in chosen.returns if r != NONE]
        at = self.code.register(len(returns)) if into is None or len(returns) != 1 else into
        name = upgraded(Operator(*_parts(chosen.name), None), self.shared.version).full_name
        self.code.emit("op", args, range(at, at + len(returns)), name)
        return [Value(r, at + i) for i, r in enumerate(returns)]

    def _fresh(self, value: Value) -> int | Const:
        """A list of numbers for an operator that may keep or change it: a new one each time."""
        if isinstance(value.at, Const):
            held = self.shared.script.constants[value.at.index]
            if isinstance(held, TypedList) and value.object is None and held.type == str(value.type):
                return self.place(self.emitted("list", [self.constant(v) for v in held], value.type))
        return self.place(value)

    def _plain_type(self, value: Value) -> Type:
        """The type by which an overload is chosen: an enum counts as its value, a named tuple as a tuple."""
        declared = self.class_of(value.type)
        if declared is not None and declared.kind == "Enum":
            return type_of(self.literal(next(iter(declared.constants.values()))))
        if declared is not None and declared.kind == "NamedTuple":
            return Type("Tuple", tuple(declared.attributes.values()))
        return value.type

    def _folded(self, base: str, arguments: list[Value]) -> Value | None:
        """The result, where constants and types alone tell it."""
        if (
            base in ("aten::__is__", "aten::__isnot__")
            and len(arguments) == 2
            and self.known(arguments[1]) == (True, None)
        ):
            asked = arguments[0]
            if asked.object is not None or (
                asked.type.name not in ("Optional", "Any", "NoneType", "Union") and not isinstance(asked.at, Const)
            ):
                return self.constant(base == "aten::__isnot__")
        if base not in PLAIN_OPERATORS:
            return None
        found = [self.known(a) for a in arguments]
        if not all(is_known for is_known, _ in found):
            return None
        return self.constant(PLAIN_OPERATORS[base](*(held for _, held in found)))


def type_of(value: Any) -> Type:
    """The type of a constant."""
    if value is None:
        return NONE
    simple = {
        bool: BOOL,
        int: INT,
        float: FLOAT,
        str: STR,
        complex: Type("complex"),
        ScriptTensor: TENSOR,
        Device: Type("Device"),
    }
    if type(value) in simple:
        return simple[type(value)]
    if isinstance(value, (TypedList, TypedDict)) and value.type:
        return annotated(ast.parse(value.type, mode="eval").body)
    if isinstance(value, (ScriptObject, EnumValue)):
        return Type(value.type_name)
    if isinstance(value, tuple):
        return Type("Tuple", tuple(type_of(v) for v in value))
    if isinstance(value, list):
        return Type("List", (type_of(value[0]) if value else ANY,))
    return ANY


def _number(node: ast.expr) -> Any:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else -inner
    return node.value if isinstance(node, ast.Constant) and type(node.value) in (bool, int, float) else None


def _parts(name: str) -> tuple[str, str]:
    base, _, overload = name.partition(".")
    return base, overload
