"""Expressions of TorchScript's source text → the actions that compute them.

A call is one of: a function or method of the file (inlined), an operator (`torch.add`, `ops.prepacked.conv2d_clamp_run`), a
constructor, or one of the words that torch's printer uses: annotate, unchecked_cast, uninitialized, isinstance, getattr, int, …
"""

from __future__ import annotations

import ast
from typing import Any

from penlight.capture.source.declarations import Class, Function
from penlight.capture.source.operator_calls import PLAIN, OperatorCalls, type_of
from penlight.capture.source.scope import Value
from penlight.capture.source.types import ANY, BOOL, STR, TENSOR, Type, annotated, dotted
from penlight.ir.script import Const
from penlight.ir.values import ScriptObject, TypedDict, TypedList

_CONVERSIONS = {"int": "aten::Int", "float": "aten::Float", "bool": "aten::Bool", "str": "aten::str", "print": "prim::Print",
                "sorted": "aten::sorted", "ord": "aten::ord", "chr": "aten::chr", "hex": "aten::hex", "oct": "aten::oct", "bin": "aten::bin"}  # fmt: skip
_IMPLICIT = {"int": "aten::IntImplicit", "float": "aten::FloatImplicit", "number": "aten::ScalarImplicit"}
_TO_LIST = {"int": 0, "float": 1, "bool": 2, "complex": 3}  # what prim::tolist calls them


class Expressions(OperatorCalls):
    def inlined(self, function: Function, arguments: list[Value]) -> Value:
        raise NotImplementedError

    def block(self, body: list[ast.stmt]) -> None:
        raise NotImplementedError

    def literal(self, node: ast.expr) -> Any:
        """The value of a default or a constant of a class."""
        try:
            value = self.expression(node)
        except IndexError:
            if self.frames:
                raise
            # defaults belong to no call: there are no variables that a name could mean, and nothing can be called
            raise self.error("a default that is more than a literal") from None
        if not isinstance(value.at, Const):
            if isinstance(node, ast.Call) and len(node.args) == 2:  # annotate(T, …)
                node = node.args[1]
            if isinstance(node, ast.List):
                return TypedList([self.literal(e) for e in node.elts], str(value.type))
            if isinstance(node, ast.Tuple):
                return tuple(self.literal(e) for e in node.elts)
            if isinstance(node, ast.Dict):
                return TypedDict(
                    {self.literal(k): self.literal(v) for k, v in zip(node.keys, node.values, strict=True) if k},
                    str(value.type),
                )
            raise self.error("a default that is not the same each time")
        return self.shared.script.constants[value.at.index]

    # ---- expressions ----
    def expression(self, node: ast.expr, into: int | None = None) -> Value:
        """The value of an expression; `into`: the register it may be put in at once."""
        match node:
            case ast.Constant():
                return self.constant(node.value)
            case ast.Name(id=name):
                return self._name(name)
            case ast.UnaryOp(op=ast.USub()):
                value = self.expression(node.operand)
                is_known, held = self.known(value)
                return self.constant(-held) if is_known else self.operator("aten::neg", [value], {}, into)
            case ast.Attribute():
                return self._attribute(node, into)
            case ast.Call():
                return self._call(node, into)
            case ast.List():
                values = [self.expression(e) for e in node.elts]
                return self.emitted("list", values, Type("List", (values[0].type if values else ANY,)), into=into)
            case ast.Tuple():
                values = [self.expression(e) for e in node.elts]
                return self.emitted("tuple", values, Type("Tuple", tuple(v.type for v in values)), into=into)
            case ast.Dict():
                pairs = [
                    (self.expression(k), self.expression(v)) for k, v in zip(node.keys, node.values, strict=True) if k
                ]
                types = (pairs[0][0].type, pairs[0][1].type) if pairs else (ANY, ANY)
                return self.emitted("dict", [x for pair in pairs for x in pair], Type("Dict", types), into=into)
            case ast.Subscript():
                return self._item(node, into)
            case _:
                raise self.error(f"{type(node).__name__} is no expression of serialized TorchScript")

    def several(self, node: ast.expr, count: int) -> list[Value]:
        """The results of an operator with several, or the parts of a tuple or list."""
        if isinstance(node, ast.Call):
            base = self._operator_name(node.func)
            if base:
                results = self.operators(base, node, count)
                if len(results) > 1 or count == 0:
                    return results
                return self._unpacked(results[0], count)
        return self._unpacked(self.expression(node), count)

    def _unpacked(self, value: Value, count: int) -> list[Value]:
        types = value.type.args if value.type.name == "Tuple" else (value.type.element,) * count
        if (declared := self.class_of(value.type)) is not None and declared.kind == "NamedTuple":
            types = tuple(declared.attributes.values())
        at = self.code.register(count)
        self.code.emit("unpack", [self.place(value)], range(at, at + count))
        return [Value(types[i] if i < len(types) else ANY, at + i) for i in range(count)]

    def _name(self, name: str) -> Value:
        found = self.frames[-1].variables.get(name)
        if found is not None:
            return found
        if name in ("inf", "nan"):
            return self.constant(float(name))
        raise self.error(f"variable {name!r} is used before it has a value")

    def _attribute(self, node: ast.Attribute, into: int | None) -> Value:
        path = dotted(node)
        if path and path.partition(".")[0] not in self.frames[-1].variables:
            if path.startswith("CONSTANTS.c") and path[11:].isdigit() and int(path[11:]) < len(self.shared.constants):
                return self.constant(self.shared.constants[int(path[11:])])
            return self._global(path)
        return self.attribute(self.expression(node.value), node.attr, into)

    def _global(self, path: str) -> Value:
        found = self.shared.declarations.find(path)
        if found is not None:
            return Value(ANY, None, static=found)
        owner, _, name = path.rpartition(".")
        enum = self.shared.declarations.find(owner)
        if isinstance(enum, Class) and enum.kind == "Enum" and name in enum.constants:
            value = self.literal(enum.constants[name])
            return Value(Type(owner), self.shared.constant(value))
        raise self.error(f"the file has nothing of the name {path}")

    def attribute(self, owner: Value, name: str, into: int | None = None) -> Value:
        declared = self.class_of(owner.type)
        if declared is None:
            raise self.error(f"attribute {name!r} of a {owner.type}")
        if declared.kind == "Enum":
            return self._enum(owner, declared, name, into)
        if declared.kind == "NamedTuple":
            at = self.constant(list(declared.attributes).index(name))
            return self.emitted("op", [owner, at], declared.attributes[name], "prim::TupleIndex", into)
        if name not in declared.attributes and name in declared.constants:
            return self.expression(declared.constants[name])
        slot = self.slot_of(owner, name)
        type_ = declared.attributes[name]
        if owner.object is not None and name not in self.shared.declarations.written:
            held = owner.object.attributes.get(name)
            if type(held) in PLAIN:
                return self.constant(held)
            if isinstance(held, ScriptObject):
                made = self.emitted("get_attr", [owner], type_, slot, into)
                return Value(Type(held.type_name), made.at, held)  # declared as an interface, or as Optional, perhaps
        return self.emitted("get_attr", [owner], type_, slot, into)

    def slot_of(self, owner: Value, name: str) -> int:
        declared = self.class_of(owner.type)
        if declared is None or name not in declared.attributes:
            raise self.error(f"a {owner.type} has no attribute {name!r}")
        self.shared.script.classes[declared.name] = list(declared.attributes)
        return list(declared.attributes).index(name)

    def _enum(self, owner: Value, declared: Class, name: str, into: int | None) -> Value:
        """An enum is its value; its name is looked up."""
        values = {self.literal(node): key for key, node in declared.constants.items()}
        if name == "value":
            return owner.typed(type_of(next(iter(values))))
        kind = type_of(next(iter(values)))
        table = self.constant(TypedDict(values, f"Dict[{kind}, str]"))
        return self.operator("aten::__getitem__", [table, owner.typed(kind)], {}, into)

    def _item(self, node: ast.Subscript, into: int | None) -> Value:
        owner = self.expression(node.value)
        if isinstance(node.slice, ast.Slice):
            ends = [self.expression(e) if e else self.constant(None) for e in (node.slice.lower, node.slice.upper)]
            numbers = [self.known(e)[1] for e in ends]
            return self.emitted(
                "op", [owner, *ends], Type("Tuple", owner.type.args[numbers[0] : numbers[1]]), "prim::TupleSlice", into
            )
        key = self.expression(node.slice)
        declared = self.class_of(owner.type)
        if declared is not None and declared.kind == "Module":
            return self._child(owner, declared, key)
        if owner.type.name == "Tuple" or (declared is not None and declared.kind == "NamedTuple"):
            types = tuple(declared.attributes.values()) if declared is not None else owner.type.args
            is_known, number = self.known(key)
            type_ = (
                types[number] if is_known and isinstance(number, int) and -len(types) <= number < len(types) else ANY
            )
            return self.emitted("op", [owner, key], type_, "prim::TupleIndex", into)
        return self.operator("aten::__getitem__", [owner, key], {}, into)

    def _child(self, owner: Value, declared: Class, key: Value) -> Value:
        """The submodule of a container by a key that is known at run only: they are tried one after the other."""
        names = [
            n
            for n, t in declared.attributes.items()
            if (found := self.class_of(t)) is not None and found.kind == "Module"
        ]
        result = self.code.register()
        self.code.emit("move", [self.place(self.constant(None))], [result])
        for i, name in enumerate(names):
            wanted = self.constant(name if key.type == STR else i)
            branch = self.code.emit("branch", [self.place(self.operator("aten::eq", [key, wanted], {}))])
            self.code.emit("move", [self.place(self.attribute(owner, name))], [result])
            branch.target = len(self.code.actions)
        return Value(ANY, result)

    # ---- calls ----
    def _call(self, node: ast.Call, into: int | None) -> Value:
        self.locate(node)
        func = node.func
        if isinstance(func, ast.Name) and func.id not in self.frames[-1].variables:
            return self._word(func.id, node, into)
        base = self._operator_name(func)
        if base:
            results = self.operators(base, node, 1, into)
            return results[0] if results else self.constant(None)
        if isinstance(func, ast.Attribute) and func.attr == "__new__" and node.args:
            made = annotated(node.args[0])
            declared = self.class_of(made)
            if declared is None:
                raise self.error(f"an object of class {made}, which the file does not have")
            self.shared.script.classes[declared.name] = list(declared.attributes)
            return self.emitted("create", [], made, declared.name, into)
        callee = self._callee(func)
        arguments = [self.expression(a) for a in node.args]
        keywords = {k.arg: self.expression(k.value) for k in node.keywords if k.arg}
        if callee is None:
            if not isinstance(func, ast.Attribute):
                raise self.error(f"it calls {ast.unparse(func)[:60]}, which is no name")
            return self.method_call(self.expression(func.value), func.attr, arguments, keywords)
        if isinstance(callee, Class):
            self.shared.script.classes[callee.name] = list(callee.attributes)
            return self.emitted("tuple", arguments, Type(callee.name), callee.name, into)
        return self.inlined(callee, self._ordered(callee, arguments, keywords))

    def _operator_name(self, func: ast.expr) -> str:
        """ "aten::add" of `torch.add`; "" where it is no operator."""
        path = dotted(func)
        root, _, rest = path.partition(".")
        if root in self.frames[-1].variables:
            return ""
        if root == "torch":
            return f"aten::{rest.rpartition('.')[2]}"
        return "::".join(rest.split(".", 1)) if root == "ops" else ""

    def _callee(self, func: ast.expr) -> Function | Class | None:
        """The function or the named tuple that is called; None for a method."""
        path = dotted(func)
        if isinstance(func, ast.Name) or path.startswith("__torch__."):
            found = self._name(func.id).static if isinstance(func, ast.Name) else self._global(path).static
            if isinstance(found, (Function, Class)):
                return found
            raise self.error(f"{path} is called, which is no function")
        return None

    def _ordered(self, function: Function, arguments: list[Value], keywords: dict[str, Value]) -> list[Value]:
        names = [name for name, _ in function.parameters]
        for name in names[len(arguments) :]:
            if name not in keywords:
                break
            arguments.append(keywords.pop(name))
        if keywords:
            raise self.error(f"{function.name} is called with {', '.join(keywords)}")
        return arguments

    def method_call(self, owner: Value, name: str, arguments: list[Value], keywords: dict[str, Value]) -> Value:
        declared = self.class_of(Type(owner.object.type_name) if owner.object is not None else owner.type)
        if (declared is None and owner.type == ANY) or (declared is not None and declared.kind.endswith("Interface")):
            returned = (
                annotated(declared.methods[name].node.returns)
                if declared is not None and name in declared.methods
                else ANY
            )
            self.shared.called.add(name)
            return self.emitted("call_method", [owner, *arguments, *keywords.values()], returned, name)
        if declared is None:  # a class of C++, which only operators know
            return self.emitted("op", [owner, *arguments], ANY, f"{owner.type}.{name}")
        if name not in declared.methods:
            raise self.error(f"class {declared.name} has no method {name!r}")
        function = declared.methods[name]
        return self.inlined(function, self._ordered(function, [owner, *arguments], keywords))

    def _word(self, word: str, node: ast.Call, into: int | None) -> Value:
        args = node.args
        if word in _CONVERSIONS:
            results = self.operators(_CONVERSIONS[word], node, 1, into)
            return results[0] if results else self.constant(None)
        match word:
            case "annotate":
                return self._annotated(annotated(args[0]), args[1], into)
            case "unchecked_cast":
                return self.expression(args[1]).typed(annotated(args[0]))
            case "uninitialized":
                return self.constant(None).typed(annotated(args[0]))
            case "isinstance":
                types = args[1].elts if isinstance(args[1], ast.Tuple) else [args[1]]
                return self.emitted(
                    "isinstance", [self.expression(args[0])], BOOL, "|".join(str(annotated(t)) for t in types), into
                )
            case "getattr" if isinstance(args[1], ast.Constant):
                return self.attribute(self.expression(args[0]), str(args[1].value), into)
            case "fork" if isinstance(args[0], ast.Name):
                return self._forked(self._name(args[0].id))
        raise self.error(f"{word!r} is called, which is no word of serialized TorchScript")

    def _annotated(self, type_: Type, node: ast.expr, into: int | None) -> Value:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "tolist":
            depth, inner = 0, type_
            while inner.name == "List":
                depth, inner = depth + 1, inner.element
            numbers = [self.constant(depth), self.constant(_TO_LIST.get(inner.name, 1))]
            return self.emitted("op", [self.expression(node.func.value), *numbers], type_, "prim::tolist", into)
        value = self.expression(node, into)
        if value.type == TENSOR and type_.name in _IMPLICIT:
            return self.operator(_IMPLICIT[type_.name], [value], {}, into)
        return value.typed(type_)

    def _forked(self, body: Value) -> Value:
        """A fork runs at once; it sees the variables around it, which do not change."""
        if not isinstance(body.static, ast.FunctionDef):
            raise self.error("a fork of something else than a function")
        frame = self.frames[-1]
        *before, last = body.static.body
        kept = dict(frame.variables)
        self.block(before)
        result = (
            self.expression(last.value)
            if isinstance(last, ast.Return) and last.value is not None
            else self.constant(None)
        )
        frame.variables = kept
        return result
