"""TorchScript graphs → register code (ir/script.py), straight from torch's graph of a method; what it calls is inlined.

torch could inline too, but would lose the lines of the calls, which are the ones that a model's author knows. Every value has a register of its own; one that is read once, in the block that makes it, has a slot, which the reader empties.
Others are dropped after their last use, so memory lives as long as in torch. `if` becomes a branch, a loop works on a row of
registers, attributes are numbers of slots in the objects that hold them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import torch

from penlight.capture.lite.packed import unpack
from penlight.capture.script.plain_values import DTYPES as ORDER
from penlight.capture.script.source_lines import Frames
from penlight.errors import CaptureError
from penlight.ir.script import Action, Const, Script, ScriptFunction
from penlight.ir.values import Device, Quantizer, ScriptObject, ScriptTensor, Storage

_DTYPES = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.int8: "i8",
           torch.uint8: "u8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.bool: "bool",
           torch.quint8: "u8", torch.qint8: "i8", torch.qint32: "i32"}  # fmt: skip
_SAME = {"prim::unchecked_cast", "prim::unchecked_unwrap_optional", "aten::_unwrap_optional", "prim::profile"}
_GRAD_MODE = "grad_mode"
_ON_OBJECTS = {"prim::CreateObject", "prim::CallMethod", "prim::GetAttr", "prim::SetAttr"}


def script_of_graphs(module: torch.jit.ScriptModule, methods: list[str]) -> Script:
    """The register code of these methods."""
    state = _State(module)
    script = Script({}, state.object_of(module._c), [])
    for name in methods:
        function = _Lowering(script, state, module, name).run()
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
        self._paths: dict[int, str] = {}  # of modules, "features.0"
        self._names: dict[int, str] = {}  # of their tensors
        self._graphs: dict[tuple[int, str], Any] = {}
        self._tensors: dict[int, ScriptTensor] = {}
        self._storages: dict[int, Storage] = {}
        self._kept: list[Any] = []
        self._instances: list[ScriptObject] = []  # of TorchScript classes that are no modules
        self._name_all(module._c, "")

    def _name_all(self, module: Any, path: str) -> None:
        """A module or tensor that has several names goes by the first."""
        if id(self.object_of(module)) in self._paths:
            return
        self._paths[id(self.object_of(module))] = path
        tables: tuple[Any, ...] = (torch._C.ParameterDict(module), torch._C.BufferDict(module))
        for table in tables:
            for name, tensor in table.items():
                self._kept.append(tensor)
                self._names.setdefault(id(tensor), _joined(path, name))
        children: Any = torch._C.ModuleDict(module)
        for name, child in children.items():
            self._name_all(child, _joined(path, name))

    def object_of(self, module: Any) -> ScriptObject:
        if module not in self._objects:
            self._objects[module] = ScriptObject(module._type().qualified_name())
            self._modules[id(self._objects[module])] = module
        return self._objects[module]

    def path(self, owner: ScriptObject) -> str:
        return self._paths.get(id(owner), "")

    def graph(self, owner: ScriptObject, method: str) -> Any:
        """The graph of a module's method, or None: `owner` may be no module."""
        module, key = self._modules.get(id(owner)), (id(owner), method)
        if module is None:
            return None
        if key not in self._graphs:
            self._graphs[key] = module._get_method(method).graph.copy()
            torch._C._jit_pass_dce(self._graphs[key])
        return self._graphs[key]

    def attribute(self, owner: ScriptObject, name: str) -> tuple[int, Any]:
        """The number of a module's attribute, and its value at the start."""
        if name not in owner.attributes:
            module = self._modules[id(owner)]
            owner.attributes[name] = self.value(module.getattr(name), _joined(self.path(owner), name))
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

    def tensor(self, original: torch.Tensor, name: str) -> ScriptTensor:
        """In the module's own memory: nothing is copied."""
        key, t = id(original), original.detach()
        if t.dtype not in _DTYPES or t.layout != torch.strided:
            raise CaptureError(f"tensor {name!r} has dtype {t.dtype} and layout {t.layout}, which cannot be kept")
        if key not in self._tensors:
            self._kept += [original, t]
            memory = t.untyped_storage()
            address = memory.data_ptr()
            if address not in self._storages:
                self._kept.append(memory)
                flat = torch.empty(0, dtype=torch.uint8).set_(memory)  # type: ignore[call-overload]
                self._storages[address] = Storage(flat.numpy(), name)
            made = ScriptTensor(
                self._storages[address],
                _DTYPES[t.dtype],
                int(t.storage_offset()),
                tuple(t.shape),
                tuple(t.stride()),
                _quantizer(t),
            )
            made.name = self._names.get(key, name)
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

    def __init__(self, script: Script, state: _State, module: Any, method: str) -> None:
        self.script = script
        self.state = state
        self.module = module
        self.method = method
        self.frames = Frames()
        self.code: list[Action] = []
        # Of the graph at hand, by the numbers of its values:
        self.where: dict[int, int | Const] = {}  # registers or constants
        self.objects: dict[int, ScriptObject] = {}  # the modules that they are
        self.wanted: dict[int, int] = {}  # where a result has to go
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

    def result(self, value: Any) -> int:
        """Where a node's result goes."""
        number = value.unique()
        if number in self.wanted:
            self.where[number] = self.wanted[number]
            return self.wanted[number]
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
        graph = self.state.graph(self.script.module, self.method)
        with self.frames.inside(self.method):
            self.where = {value.unique(): self.register() for value in graph.inputs()}
            self.objects = {next(iter(graph.inputs())).unique(): self.script.module}
            self.block(graph)
            (result,) = list(graph.outputs())
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

    def block(self, block: Any, owned: Iterable[int] = ()) -> None:
        """`owned`: values from outside that end with this block."""
        nodes = list(block.nodes())
        drops = self._last_uses(block, nodes, owned)
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

    def _last_uses(self, block: Any, nodes: list[Any], owned: Iterable[int]) -> dict[int, list[int]]:
        """For each node, the values of this block that nothing reads after it."""
        returned = {v.unique() for v in block.outputs()}
        made = ({v.unique() for n in nodes for v in n.outputs()} | set(owned)) - returned
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
                self.where[output.unique()] = self.script.constant(None)
        elif kind == "prim::GetAttr":
            self._get_attribute(node)
        elif kind == "prim::SetAttr":
            owner, value = list(node.inputs())
            self.emit("set_attr", [self.read(owner), self.read(value)], target=self._slot_number(owner, node.s("name")))
        elif kind in _SAME:
            (source,) = list(node.inputs())[:1]
            self._alias(node.output(), source)
        elif kind in ("prim::CallMethod", "prim::CallFunction"):
            self._call(node, kind)
        elif kind == "prim::Uninitialized":
            self.where[node.output().unique()] = self.script.constant(None)
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
        if node.kind() not in _ON_OBJECTS:
            return False
        about = [*node.outputs(), *list(node.inputs())[:1]]
        return any(_GRAD_MODE in v.type().str() for v in about)

    def _constant(self, node: Any) -> None:
        value = node.output()
        if value.type().kind() == "FunctionType":
            return
        name = value.debugName()
        self.where[value.unique()] = self.script.constant(
            self.state.value(value.toIValue(), name if not name.isdigit() else "")
        )

    def _get_attribute(self, node: Any) -> None:
        (owner,) = list(node.inputs())
        value = node.output()
        known = self.objects.get(owner.unique())
        if known is not None and node.s("name") == "training":
            self.where[value.unique()] = self.script.constant(False)
            return
        if known is not None:
            slot, initial = self.state.attribute(known, node.s("name"))
            if isinstance(initial, ScriptObject):
                self.objects[value.unique()] = initial
        else:
            slot = self.state.field(owner.type().annotation_str, node.s("name"))
        self.emit("get_attr", [self.read(owner)], [self.result(value)], slot)

    def _slot_number(self, owner: Any, name: str) -> int:
        known = self.objects.get(owner.unique())
        if known is not None:
            return self.state.attribute(known, name)[0]
        return self.state.field(owner.type().annotation_str, name)

    def _call(self, node: Any, kind: str) -> None:
        """Lowers the body of what is called here, its parameters where the arguments are, its result where the node's goes."""
        inputs = [v for v in node.inputs() if v.type().kind() != "FunctionType"]
        owner = self.objects.get(inputs[0].unique()) if kind == "prim::CallMethod" else None
        graph = self.state.graph(owner, node.s("name")) if owner is not None else None
        body = graph if graph is not None else _graph_of_call(node)
        name = node.s("name") if kind == "prim::CallMethod" else next(iter(node.inputs())).node().s("name")
        at = self.result(node.output())
        (result,) = list(body.outputs())
        where, owned = self._parameters(body, inputs)
        objects = {
            p.unique(): self.objects[v.unique()]
            for p, v in zip(body.inputs(), inputs, strict=True)
            if v.unique() in self.objects
        }
        around = (self.where, self.objects, self.wanted)
        wanted = {result.unique(): at} if at >= 0 or len(result.uses()) == 1 else {}
        self.where, self.objects, self.wanted = where, objects, wanted
        with self.frames.inside(name, self.state.path(owner) if graph is not None and owner is not None else ""):
            self.block(body, owned)
            given, known = self.read(result), self.objects.get(result.unique())
            if isinstance(given, int) and given != at:
                self.emit("move", [given], [at])
                self._forget(result, body)
        self.where, self.objects, self.wanted = around
        self.where[node.output().unique()] = given if isinstance(given, Const) else at
        if known is not None:
            self.objects[node.output().unique()] = known

    def _parameters(self, body: Any, inputs: list[Any]) -> tuple[dict[int, int | Const], list[int]]:
        """Where the parameters of an inlined body are, and which of them it has to drop. An argument in a slot is gone with its
        first reader, so it stays there only for a parameter that is read once, by the body itself."""
        where: dict[int, int | Const] = {}
        owned = []
        read = {v.unique() for n in body.nodes() for v in n.inputs()} | {v.unique() for v in body.outputs()}
        for parameter, value in zip(body.inputs(), inputs, strict=True):
            at = self.read(value)
            number = parameter.unique()
            uses = len(parameter.uses())
            if isinstance(at, int) and at < 0 and (uses != 1 or number not in read):
                held = self.register()
                self.emit("move", [at], [held])
                if not uses:
                    self.emit("drop", [held])
                owned.append(number)
                at = held
            where[number] = at
        return where, owned

    def _if(self, node: Any) -> None:
        condition = self.read(node.inputsAt(0))
        if isinstance(condition, Const):  # most often `training`: half of a model's code, which no phone runs
            self._one_side(node, list(node.blocks())[0 if self.script.constants[condition.index] else 1])
            return
        results = [self.wanted[v.unique()] if v.unique() in self.wanted else self.register() for v in node.outputs()]
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

    def _one_side(self, node: Any, block: Any) -> None:
        """An `if` that is decided: its block is code like that around it."""
        self.block(block)
        for value, source in zip(node.outputs(), block.outputs(), strict=True):
            at = self.read(source)
            if isinstance(at, int):
                self.emit("move", [at], [self.result(value)])
                self._forget(source, block)
            else:
                self.where[value.unique()] = at
            if source.unique() in self.objects:
                self.objects[value.unique()] = self.objects[source.unique()]

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
            self.script.constant(0),
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
        args: list[Any] = [self.read(v) for v in node.inputs()]
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
                name = outputs[0].type().annotation_str
                self.state.fields.setdefault(name, [])
                self.emit("create", [], results, name)
            case "isinstance":
                self.emit("isinstance", args, results, "|".join(t.annotation_str for t in node.tys("types")))
            case "TupleSlice":
                ends = [self.script.constant(node.i("beg")), self.script.constant(node.i("end"))]
                self.emit("op", [*args, *ends], results, "prim::TupleSlice")
            case "fork" | "awaitable":
                raise CaptureError(f"{kind} of TorchScript cannot be inlined\n  {self.frames.source()}")
            case "RaiseException":
                self.emit("op", args, results, "prim::RaiseException")
            case _:
                name, numbers = _operator_name(node, kind), self._numbers_for_tensors(node, args)
                scalar = _scalar_overload(kind, node.schema(), numbers) if numbers else None
                for i in numbers if scalar is None else ():
                    args[i] = self.script.constant(self.state.tensor(_rank_0(self.script.constants[args[i].index]), ""))
                self.emit("op", args, results, scalar or name)

    def _numbers_for_tensors(self, node: Any, args: list[Any]) -> list[int]:
        """Which arguments are numbers that stand for tensors: what a trace of `x * 0.5` has until it is saved."""
        types = [v.type().kind() for v in node.inputs()]
        constants = self.script.constants
        return [
            i for i, (a, t) in enumerate(zip(args, types, strict=True))
            if t == "TensorType" and isinstance(a, Const) and isinstance(constants[a.index], (bool, int, float))
        ]  # fmt: skip

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


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _graph_of_call(node: Any) -> Any:
    """The body of what a node calls: a function, or a method of an object that is no module. torch tells neither, but inlines a
    graph that holds nothing but this call."""
    body: Any = torch._C.Graph()
    ordered = []
    for v in node.inputs():
        if v.type().kind() == "FunctionType":
            callee = body.createClone(v.node(), lambda v: v)
            body.insertNode(callee)
            ordered.append(callee.output())
        else:
            ordered.append(body.addInput())
            ordered[-1].setType(v.type())
    remaining = iter(ordered)  # the clone asks for its inputs in order; the same value may be passed twice
    call = body.createClone(node, lambda v: next(remaining))
    body.insertNode(call)
    body.registerOutput(call.output())
    torch._C._jit_pass_inline(body)
    torch._C._jit_pass_dce(body)
    return body


def _scalar_overload(kind: str, schema: str, numbers: list[int]) -> str | None:
    """The overload that takes numbers where this schema takes tensors: torch promotes dtypes by it as a trace in memory does."""
    wanted = [str(a.type) for a in torch._C.parse_schema(schema).arguments]
    for i in numbers:
        wanted[i] = "number"
    for other in torch._C._jit_get_schemas_for_operator(kind):
        if [str(a.type) for a in other.arguments] == wanted:
            return f"{other.name}.{other.overload_name}"
    return None


def _rank_0(number: float) -> torch.Tensor:
    """As a tensor that changes the other operand's dtype as little as it can: f32 where that holds the number."""
    if isinstance(number, float):
        return torch.tensor(number, dtype=torch.float32 if float(torch.tensor(number)) == number else torch.float64)
    return torch.tensor(number)


def _operator_name(node: Any, kind: str) -> str:
    text = node.schema()
    if not text.startswith(kind.partition("::")[0]):
        return kind
    schema = torch._C.parse_schema(text)
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else str(schema.name)
