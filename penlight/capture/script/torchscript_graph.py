"""TorchScript graphs → register code (ir/script.py), straight from torch's graph of a method with everything inlined.

Every value has a register of its own; one that is read once, in the block that makes it, has a slot, which the reader empties.
Others are dropped after their last use, so memory lives as long as in torch. `if` becomes a branch, a loop works on a row of
registers, attributes are numbers of slots in the objects that hold them.
"""

from __future__ import annotations

import re
from typing import Any

import torch

from penlight.capture.lite.packed import unpack
from penlight.capture.script.source_lines import Frames
from penlight.errors import CaptureError
from penlight.ir.script import Action, Const, Script, ScriptFunction
from penlight.ir.values import Device, Quantizer, ScriptObject, ScriptTensor, Storage

_DTYPES = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.int8: "i8",
           torch.uint8: "u8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.bool: "bool",
           torch.quint8: "u8", torch.qint8: "i8", torch.qint32: "i32"}  # fmt: skip
_SAME = {"prim::unchecked_cast", "prim::unchecked_unwrap_optional", "aten::_unwrap_optional", "prim::profile"}
_GRAD_MODE = "grad_mode"


def script_of_graphs(module: torch.jit.ScriptModule, methods: list[str]) -> Script:
    """The register code of these methods."""
    state = _State(module)
    script = Script({}, state.object_of(module._c), [])
    constants: dict[Any, int] = {}
    for name in methods:
        function = _Lowering(script, constants, state, module, name).run()
        script.functions[function.name] = function
    state.finish()
    script.classes.update(state.fields)
    return script


class _State:
    """The objects that code reads attributes of: modules of the model, and what the code itself creates."""

    def __init__(self, module: torch.jit.ScriptModule) -> None:
        self.fields: dict[str, list[str]] = {}  # of classes that code creates
        self._objects: dict[Any, ScriptObject] = {}  # torch's handles of one module are equal, not the same
        self._modules: dict[int, Any] = {}
        self._tensors: dict[int, ScriptTensor] = {}
        self._storages: dict[int, Storage] = {}
        self._kept: list[Any] = []
        self._instances: list[ScriptObject] = []  # of TorchScript classes that are no modules

    def object_of(self, module: Any) -> ScriptObject:
        if module not in self._objects:
            self._objects[module] = ScriptObject(module._type().qualified_name())
            self._modules[id(self._objects[module])] = module
        return self._objects[module]

    def attribute(self, owner: ScriptObject, name: str) -> tuple[int, Any]:
        """The number of a module's attribute, and its value at the start."""
        if name not in owner.attributes:
            module = self._modules[id(owner)]
            owner.attributes[name] = self.value(module.getattr(name), name)
        return list(owner.attributes).index(name), owner.attributes[name]

    def field(self, type_name: str, name: str) -> int:
        names = self.fields.setdefault(type_name, [])
        if name not in names:
            names.append(name)
        return names.index(name)

    def finish(self) -> None:
        """All code is lowered: now the order is known that the attributes of classes have in it."""
        for made in self._instances:
            for name in made.attributes:
                self.field(made.type_name, name)
            made.attributes = {name: made.attributes.get(name) for name in self.fields[made.type_name]}
        self._kept.clear()

    def value(self, v: Any, name: str = "", depth: int = 0) -> Any:
        """A constant or an attribute as plain data."""
        if depth > 100:
            raise CaptureError("an attribute is nested more than 100 deep, or contains itself")
        if v is None or isinstance(v, (bool, int, float, str)):
            return v
        if isinstance(v, torch.Tensor):
            return self.tensor(v, name)
        if isinstance(v, torch.device):
            return Device(str(v))
        if isinstance(v, torch.dtype):
            from penlight.capture.script.plain_values import DTYPES as ORDER

            return ORDER.index(v)
        if isinstance(v, tuple):
            items = [self.value(x, f"{name}.{i}", depth + 1) for i, x in enumerate(v)]
            return type(v)(*items) if hasattr(v, "_fields") else tuple(items)
        if isinstance(v, list):
            return [self.value(x, f"{name}.{i}", depth + 1) for i, x in enumerate(v)]
        if isinstance(v, dict):
            return {k: self.value(x, f"{name}.{k}", depth + 1) for k, x in v.items()}
        if isinstance(v, torch._C.ScriptModule):
            return self.object_of(v)
        if isinstance(v, torch.ScriptObject):
            return self._packed(v, name)
        type_name = _qualified_name(v)
        if type_name:  # an object of a TorchScript class, which torch hands out as one of Python's
            made = ScriptObject(type_name, {k: self.value(x, f"{name}.{k}", depth + 1) for k, x in vars(v).items()})
            self._instances.append(made)
            return made
        raise CaptureError(f"attribute {name!r} is a {type(v).__name__}, which cannot be kept in a file")

    def _packed(self, v: Any, name: str) -> ScriptObject:
        """A TorchBind object by what its __getstate__ gives."""
        made = ScriptObject(v._type().qualified_name())
        try:
            state = v.__getstate__()[0]  # the rest is the class
        except RuntimeError as e:
            raise CaptureError(
                f"attribute {name!r}, an object of class {made.type_name}, cannot be taken apart: {e}"
            ) from None
        made.state, made.has_state = self.value(state, name), True
        unpack(made, name)
        return made

    def tensor(self, t: torch.Tensor, name: str) -> ScriptTensor:
        t = t.detach()
        if t.dtype not in _DTYPES or t.layout != torch.strided:
            raise CaptureError(f"tensor {name!r} has dtype {t.dtype} and layout {t.layout}, which cannot be kept")
        key = id(t)
        if key not in self._tensors:
            self._kept.append(t)
            memory = t.untyped_storage()
            address = memory.data_ptr()
            if address not in self._storages:
                self._kept.append(memory)
                flat = torch.empty(0, dtype=torch.uint8).set_(memory)  # type: ignore[call-overload]
                self._storages[address] = Storage(flat.numpy().copy(), name)
            made = ScriptTensor(
                self._storages[address],
                _DTYPES[t.dtype],
                int(t.storage_offset()),
                tuple(t.shape),
                tuple(t.stride()),
                _quantizer(t),
            )
            made.name = name
            self._tensors[key] = made
        return self._tensors[key]


def _quantizer(t: torch.Tensor) -> Quantizer | None:
    if not t.is_quantized:
        return None
    if t.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return Quantizer(t.q_scale(), t.q_zero_point())
    zeros = t.q_per_channel_zero_points().tolist()
    whole = [int(z) for z in zeros] if t.qscheme() == torch.per_channel_affine else zeros
    return Quantizer(tuple(t.q_per_channel_scales().tolist()), tuple(whole), t.q_per_channel_axis())


class _Lowering:
    """One method."""

    def __init__(self, script: Script, constants: dict[Any, int], state: _State, module: Any, method: str) -> None:
        self.script = script
        self._constants = constants
        self.state = state
        self.module = module
        self.method = method
        self.frames = Frames()
        self.code: list[Action] = []
        self.where: dict[int, int | Const] = {}  # a value's number -> its register or constant
        self.objects: dict[int, ScriptObject] = {}  # a value's number -> the module that it is
        self.graph = module._c._get_method(method).graph.copy()
        torch._C._jit_pass_inline(self.graph)
        torch._C._jit_pass_dce(self.graph)
        self.plain = 0  # registers, and slots, which are numbered after them in the end
        self.slots: list[int] = []
        self.read_here: set[int] = set()  # values that the block at hand reads itself, not blocks inside it

    # ---- registers ----
    def register(self) -> int:
        self.plain += 1
        return self.plain - 1

    def slot(self) -> int:
        """Negative until all registers are counted."""
        self.slots.append(0)
        return -len(self.slots)

    def constant(self, value: Any) -> Const:
        simple = value is None or isinstance(value, (bool, int, str))
        key = (type(value), value) if simple else id(value)
        if key not in self._constants:
            self._constants[key] = len(self.script.constants)
            self.script.constants.append(value)
        return Const(self._constants[key])

    def result(self, value: Any) -> int:
        """Where a node's result goes."""
        number = value.unique()
        at = self.slot() if len(value.uses()) == 1 and number in self.read_here else self.register()
        self.where[number] = at
        return at

    def emit(self, op: str, args: Any = (), results: Any = (), target: Any = None) -> Action:
        action = Action(op, list(args), list(results), target, None, self.frames.source())
        self.code.append(action)
        return action

    def read(self, value: Any) -> int | Const:
        number = value.unique()
        if number not in self.where:
            raise CaptureError(f"the TorchScript graph uses %{value.debugName()} before it is made")
        return self.where[number]

    # ---- blocks ----
    def run(self) -> ScriptFunction:
        schema = self.module._c._get_method(self.method).schema
        with self.frames.inside(self.method):
            for i, value in enumerate(self.graph.inputs()):
                self.where[value.unique()] = self.register()
                if i == 0:
                    self.objects[value.unique()] = self.state.object_of(self.module._c)
            self.block(self.graph)
            (result,) = list(self.graph.outputs())
            self.emit("return", [self.read(result)])
        first_slot = self.plain

        def renumber(x: Any) -> Any:
            return first_slot - x - 1 if isinstance(x, int) and x < 0 else x

        for action in self.code:
            action.args = [renumber(x) for x in action.args]
            action.results = [renumber(x) for x in action.results]
        arguments = list(schema.arguments)
        defaults = [self.state.value(a.default_value, a.name) for a in arguments if a.has_default_value()]
        tail = arguments[len(arguments) - len(defaults) :]
        type_name = self.script.module.type_name
        return ScriptFunction(
            f"{type_name}.{self.method}",
            [{"name": a.name, "type": a.type.annotation_str} for a in arguments],
            ", ".join(r.type.annotation_str for r in schema.returns),
            self.code,
            first_slot + len(self.slots),
            first_slot,
            self.method,
            defaults if all(a.has_default_value() for a in tail) else [],
        )

    def block(self, block: Any) -> None:
        nodes = list(block.nodes())
        drops = self._last_uses(block, nodes)
        around = self.read_here
        self.read_here = {v.unique() for n in nodes for v in n.inputs()} | {v.unique() for v in block.outputs()}
        for i, node in enumerate(nodes):
            self.frames.at(node)
            self.node(node)
            gone = [self.where[v] for v in drops.get(i, ()) if isinstance(self.where.get(v), int)]
            kept = [r for r in gone if isinstance(r, int) and r >= 0]
            if kept:
                self.emit("drop", kept)
        self.read_here = around

    def _last_uses(self, block: Any, nodes: list[Any]) -> dict[int, list[int]]:
        """For each node, the values of this block that nothing reads after it."""
        returned = {v.unique() for v in block.outputs()}
        made = {v.unique() for n in nodes for v in n.outputs()} - returned
        last: dict[int, int] = {}
        for i, node in enumerate(nodes):
            for number in _read_in(node):
                if number in made:
                    last[number] = i
        drops: dict[int, list[int]] = {}
        for number, i in last.items():
            drops.setdefault(i, []).append(number)
        return drops

    # ---- nodes ----
    def node(self, node: Any) -> None:
        kind: str = node.kind()
        if kind == "prim::Constant":
            self._constant(node)
        elif kind == "prim::If":
            self._if(node)
        elif kind == "prim::Loop":
            self._loop(node)
        elif kind in ("prim::Enter", "prim::Exit") or self._is_grad_mode(node):
            for output in node.outputs():
                self.where[output.unique()] = self.constant(None)
        elif kind == "prim::GetAttr":
            self._get_attribute(node)
        elif kind == "prim::SetAttr":
            owner, value = list(node.inputs())
            self.emit("set_attr", [self.read(owner), self.read(value)], target=self._slot_number(owner, node.s("name")))
        elif kind in _SAME:
            (source,) = list(node.inputs())[:1]
            self._alias(node.output(), source)
        elif kind == "prim::Uninitialized":
            self.where[node.output().unique()] = self.constant(None)
        else:
            self._operation(node, kind)

    def _alias(self, value: Any, source: Any) -> None:
        """Another name of the same value."""
        at = self.read(source)
        if source.unique() in self.objects:
            self.objects[value.unique()] = self.objects[source.unique()]
        if isinstance(at, Const):
            self.where[value.unique()] = at
            return
        self.emit("move", [at], [self.result(value)])

    def _is_grad_mode(self, node: Any) -> bool:
        """Whether a node makes or changes the object of `with torch.no_grad()`: nothing here has gradients."""
        about = [*node.outputs(), *list(node.inputs())[:1]]
        return any(_GRAD_MODE in v.type().str() for v in about)

    def _constant(self, node: Any) -> None:
        value = node.output()
        if value.type().kind() == "FunctionType":
            return
        name = value.debugName()
        self.where[value.unique()] = self.constant(
            self.state.value(value.toIValue(), name if not name.isdigit() else "")
        )

    def _get_attribute(self, node: Any) -> None:
        (owner,) = list(node.inputs())
        value = node.output()
        known = self.objects.get(owner.unique())
        if known is not None:
            slot, initial = self.state.attribute(known, node.s("name"))
            if isinstance(initial, ScriptObject):
                self.objects[value.unique()] = initial
        else:
            slot = self.state.field(_class_name(owner.type()), node.s("name"))
        self.emit("get_attr", [self.read(owner)], [self.result(value)], slot)

    def _slot_number(self, owner: Any, name: str) -> int:
        known = self.objects.get(owner.unique())
        if known is not None:
            return self.state.attribute(known, name)[0]
        return self.state.field(_class_name(owner.type()), name)

    def _if(self, node: Any) -> None:
        condition = self.read(node.inputsAt(0))
        results = [self.register() for _ in node.outputs()]
        branch = self.emit("branch", [condition])
        then, otherwise = list(node.blocks())
        self.block(then)
        self._give(then, results)
        jump = self.emit("jump")
        branch.target = len(self.code)
        self.block(otherwise)
        self._give(otherwise, results)
        jump.target = len(self.code)
        for value, at in zip(node.outputs(), results, strict=True):
            self.where[value.unique()] = at

    def _give(self, block: Any, results: list[int]) -> None:
        for value, at in zip(block.outputs(), results, strict=True):
            self.emit("move", [self.read(value)], [at])
        for value in {v.unique(): v for v in block.outputs()}.values():
            self._forget(value, block)

    def _forget(self, value: Any, block: Any) -> None:
        """A block's own result is in another register now."""
        at = self.where[value.unique()]
        if (
            isinstance(at, int)
            and at >= 0
            and value.node().kind() != "prim::Param"
            and any(value.unique() == o.unique() for n in block.nodes() for o in n.outputs())
        ):
            self.emit("drop", [at])

    def _loop(self, node: Any) -> None:
        inputs = list(node.inputs())
        carried = inputs[2:]
        row = [self.register() for _ in range(3 + len(carried))]
        starts: list[int | Const] = [
            self.constant(0),
            self.read(inputs[0]),
            self.read(inputs[1]),
            *(self.read(v) for v in carried),
        ]
        for source, at in zip(starts, row, strict=True):
            self.emit("move", [source], [at])
        top = len(self.code)
        loop = self.emit("loop", row)
        (body,) = list(node.blocks())
        for value, at in zip(body.inputs(), row[2:], strict=True):
            self.where[value.unique()] = at
        self.block(body)
        outputs = list(body.outputs())
        sources = [self.read(v) for v in outputs]
        # What comes from another place of the row must be read before that is written.
        waiting = {i for i, s in enumerate(sources) if isinstance(s, int) and s in row[2:] and s != row[2 + i]}
        for i in waiting:
            held = self.register()
            self.emit("move", [sources[i]], [held])
            sources[i] = held
        for i, (value, source) in enumerate(zip(outputs, sources, strict=True)):
            if source != row[2 + i]:
                self.emit("move", [source], [row[2 + i]])
                if i in waiting:
                    self.emit("drop", [source])
                else:
                    self._forget(value, body)
        self.emit("jump", target=top)
        loop.target = len(self.code)
        for value, at in zip(node.outputs(), row, strict=False):
            self.where[value.unique()] = at

    def _operation(self, node: Any, kind: str) -> None:
        args = [self.read(v) for v in node.inputs()]
        outputs = list(node.outputs())
        if len({a for a in args if isinstance(a, int) and a < 0}) != len(
            [a for a in args if isinstance(a, int) and a < 0]
        ):
            raise CaptureError(f"{kind} reads a value twice that is kept for one reader")  # uses() would count two
        results = [self.result(v) for v in outputs]
        match kind.removeprefix("prim::"):
            case "ListConstruct":
                self.emit("list", args, results)
            case "TupleConstruct":
                self.emit("tuple", args, results, self._named(outputs[0].type()))
            case "DictConstruct":
                self.emit("dict", args, results)
            case "ListUnpack" | "TupleUnpack":
                self.emit("unpack", args, results)
            case "CreateObject":
                name = _class_name(outputs[0].type())
                self.state.fields.setdefault(name, [])
                self.emit("create", [], results, name)
            case "isinstance":
                self.emit("isinstance", args, results, "|".join(t.annotation_str for t in node.tys("types")))
            case "TupleSlice":
                ends = [self.constant(node.i("beg")), self.constant(node.i("end"))]
                self.emit("op", [*args, *ends], results, "prim::TupleSlice")
            case "CallMethod" | "CallFunction" | "fork" | "awaitable":
                raise CaptureError(
                    f"{kind} {_named_call(node)} of TorchScript cannot be inlined\n  {self.frames.source()}"
                )
            case "RaiseException":
                self.emit("op", args, results, "prim::RaiseException")
            case _:
                self.emit("op", args, results, _operator_name(node, kind))

    def _named(self, type_: Any) -> str | None:
        text = type_.str()
        if not text.startswith("NamedTuple("):
            return None
        inner = text[len("NamedTuple(") : -1]
        while (shorter := re.sub(r"\([^()]*\)|\[[^\[\]]*\]", "", inner)) != inner:
            inner = shorter
        name: str = type_.annotation_str
        self.state.fields[name] = re.findall(r"(\w+) : ", inner)
        return name


def _read_in(node: Any) -> set[int]:
    """Values that a node reads, in its blocks too."""
    found = {v.unique() for v in node.inputs()}
    for block in node.blocks():
        found |= {v.unique() for v in block.outputs()}
        for inner in block.nodes():
            found |= _read_in(inner)
    return found


def _qualified_name(value: Any) -> str:
    """ "__torch__.package.Class" of an object whose class TorchScript has compiled; "" for others."""
    try:
        name: str = torch._jit_internal._qualified_name(type(value))
    except (RuntimeError, AttributeError):
        return ""
    return name if hasattr(value, "__dict__") else ""


def _class_name(type_: Any) -> str:
    name: str = type_.annotation_str
    return name


def _named_call(node: Any) -> str:
    return node.s("name") if node.hasAttribute("name") else ""


def _operator_name(node: Any, kind: str) -> str:
    text = node.schema()
    if not text.startswith(kind.partition("::")[0]):
        return kind
    schema = torch._C.parse_schema(text)
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else str(schema.name)
