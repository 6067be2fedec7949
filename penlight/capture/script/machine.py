"""Runs register code (ir/script.py) in Python on torch tensors: real ones, to see what passes through; or torch.export's, to
capture a part of it as a graph.

Weights are buffers of the module that runs, so that torch.export sees them as such. Branches are taken as the values decide;
where these are not known while exporting, that is an error in words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch import nn

from penlight.capture.export.source_lines import ANNOTATION
from penlight.capture.script.operators import call_torch, plain_result
from penlight.capture.script.plain_values import DTYPES, dtype_code
from penlight.errors import CaptureError
from penlight.ir.containers import _namedtuple
from penlight.ir.script import Action, Const, Script, ScriptFunction
from penlight.ir.values import Device, EnumValue, ScriptObject, ScriptTensor

_TORCH = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "i8": torch.int8, "u8": torch.uint8, "i16": torch.int16,
          "i32": torch.int32, "i64": torch.int64, "bool": torch.bool, "bf16": torch.bfloat16}  # fmt: skip
_MAX_ACTIONS = 5_000_000  # of one run: an endless loop shall not stop the compiler


class UnavailableError(CaptureError):
    """An operator that this machine cannot run, for example one on quantized tensors."""


class ScriptMachine(nn.Module):
    """The state of a script, and functions run on it. `watch(function, index, registers)` is called before each action."""

    def __init__(
        self, script: Script, watch: Callable[[ScriptFunction, int, dict[int, Any]], None] | None = None
    ) -> None:
        super().__init__()
        self._script = (script,)
        self._watch = watch
        self._names: dict[int, str] = {}  # id of a ScriptTensor -> its buffer
        self._values: dict[int, Any] = {}  # id of a container or object -> its Python twin, so that sharing stays
        self._kept: list[Any] = []
        self._changed: dict[tuple[int, int], Any] = {}  # (object, attribute) -> what the run put there
        self._actions = 0
        self.decided: dict[str, str] = {}  # conditions on sizes -> the line that asks (export/size_decisions.py)
        self._collect(script.module)
        for constant in script.constants:
            self._collect(constant)
        self.eval()

    def _collect(self, value: Any) -> None:
        """Registers every tensor of the state and the constants as a buffer."""
        left, seen = [value], set()
        while left:
            v = left.pop()
            if id(v) in seen:
                continue
            seen.add(id(v))
            if isinstance(v, ScriptTensor) and id(v) not in self._names and v.dtype in _TORCH and v.quantizer is None:
                name = re.sub(r"\W", "_", v.name or f"constant_{len(self._names)}")
                while hasattr(self, name):
                    name += "_"
                self.register_buffer(name, _tensor(v))
                self._names[id(v)] = name
                self._kept.append(v)
            elif isinstance(v, ScriptObject):
                left += v.attributes.values()
            elif isinstance(v, dict):
                left += v.values()
            elif isinstance(v, (list, tuple)):
                left += v

    def value(self, v: Any) -> Any:
        """A constant or a part of the state as the machine computes with it."""
        if isinstance(v, ScriptTensor):
            if id(v) not in self._names:
                raise UnavailableError(
                    f"tensor {v.name or v.storage.name} is quantized or of dtype {v.dtype}: not captured"
                )
            return getattr(self, self._names[id(v)])  # while exporting, torch puts its own tensors there
        if isinstance(v, Device):
            return torch.device("cpu")
        if isinstance(v, EnumValue):
            return v.value
        if not isinstance(v, (list, tuple, dict, ScriptObject)):
            return v
        if id(v) not in self._values or isinstance(v, tuple):
            self._kept.append(v)
            if isinstance(v, ScriptObject):
                self._values[id(v)] = v
            elif isinstance(v, dict):
                self._values[id(v)] = {k: self.value(x) for k, x in v.items()}
            else:
                made = [self.value(x) for x in v]
                self._values[id(v)] = made if isinstance(v, list) else tuple(made)
        return self._values[id(v)]

    # ---- running ----
    def call(self, name: str, args: list[Any]) -> Any:
        function = self._script[0].functions[name]
        registers: dict[int, Any] = dict(enumerate(args))
        missing = len(function.parameters) - len(args)
        if missing > 0:
            defaults = function.defaults[len(function.defaults) - missing :]
            registers.update({len(args) + i: self.value(d) for i, d in enumerate(defaults)})
        return self.run(function, registers, 0, len(function.code))

    def run(self, function: ScriptFunction, registers: dict[int, Any], begin: int, end: int) -> Any:
        """From one action up to another, or to a return, whose value is returned."""
        pc = begin
        while pc != end:
            self._actions += 1
            if self._actions > _MAX_ACTIONS:
                raise CaptureError("the model's code does not come to an end on the example inputs")
            action = function.code[pc]
            if self._watch is not None:
                self._watch(function, pc, registers)
            try:
                with torch.fx.traceback.annotate({ANNOTATION: action.source}):
                    following, returned = self._step(action, registers, pc)
            except CaptureError as e:
                if action.source and action.source not in str(e):
                    raise type(e)(f"{e}\n  {action.source}") from None
                raise
            if following < 0:
                return returned
            pc = following
        return None

    def _step(self, a: Action, registers: dict[int, Any], pc: int) -> tuple[int, Any]:
        constants = self._script[0].constants
        args: list[Any] = [self.value(constants[x.index]) if isinstance(x, Const) else registers.get(x) for x in a.args]
        results: list[Any] = []
        match a.op:
            case "move":
                results = args
            case "op":
                results = self._operator(a.target, args, len(a.results))
            case "jump":
                return a.target, None
            case "branch":
                return (pc + 1 if self._decide(args[0], a) else a.target), None
            case "loop":
                slots = [x for x in a.args if isinstance(x, int)]
                trip, most, condition = args[:3]
                if self._decide(trip < most, a) and self._decide(condition, a):
                    registers[slots[2]], registers[slots[0]] = trip, trip + 1
                    return pc + 1, None
                registers.update(zip(slots, args[3:], strict=False))
                return a.target, None
            case "return":
                return -1, args[0]
            case "list":
                results = [list(args)]
            case "tuple":
                fields = self._script[0].classes.get(a.target, []) if a.target else []
                named = fields and len(fields) == len(args)
                results = [_namedtuple(a.target.rpartition(".")[2], tuple(fields))(*args) if named else tuple(args)]
            case "dict":
                results = [dict(zip(args[::2], args[1::2], strict=True))]
            case "unpack":
                results = list(args[0])
                if len(results) != len(a.results):
                    raise CaptureError(f"{len(results)} values to unpack, expected {len(a.results)}")
            case "get_attr":
                results = [self._attribute(args[0], a.target)]
            case "set_attr":
                self._set_attribute(args[0], a.target, args[1])
            case "isinstance":
                results = [_is_instance(args[0], a.target)]
            case "create":
                results = [_Made(a.target)]
            case "call":
                results = [self.call(a.target, args)]
            case "call_method":
                results = [self.call(f"{args[0].type_name}.{a.target}", args)]
            case "drop" | "planned":
                pass
        registers.update(zip(a.results, results, strict=True))
        return pc + 1, None

    def _attribute(self, owner: Any, slot: int) -> Any:
        if isinstance(owner, _Made) and slot in owner.slots:
            return owner.slots[slot]
        if (id(owner), slot) in self._changed:
            return self._changed[(id(owner), slot)]
        if not isinstance(owner, ScriptObject) or slot >= len(owner.attributes):
            raise CaptureError(f"attribute {slot} of {type(owner).__name__}")
        return self.value(list(owner.attributes.values())[slot])

    def _set_attribute(self, owner: Any, slot: int, value: Any) -> None:
        """State is changed for the eyes of this run alone, and not where a graph is captured: that has no state."""
        if isinstance(owner, _Made):
            owner.slots[slot] = value
        elif self._watch is None:
            raise UnavailableError("the code changes an attribute of the model")
        else:
            self._changed[(id(owner), slot)] = value

    def _decide(self, condition: Any, a: Action) -> bool:
        if isinstance(condition, torch.SymBool):
            self.decided[str(condition.node.expr)] = a.source
            self.decided[str(sympy.Not(condition.node.expr))] = a.source
        try:
            return bool(condition)
        except Exception as e:
            raise CaptureError("control flow that depends on the values of a tensor is not planned") from e

    def _operator(self, full_name: str, args: list[Any], results: int) -> list[Any]:
        name, _, overload = full_name.partition(".")
        base = name.partition("::")[2]
        made: Any
        if name == "prim::RaiseException":
            raise CaptureError(f"the model raises an error for these example inputs: {args[0]}")
        if name in _PRIMITIVES:
            made = _PRIMITIVES[name](*args)
        else:
            is_plain, made = plain_result(base, args)
            if not is_plain:
                packed = [self._accessor(v) if isinstance(v, ScriptObject) else v for v in args]
                if name.startswith(("quantized::", "upgrade::")):
                    raise UnavailableError(f"{full_name} is not planned")
                try:
                    made = call_torch(name, overload, packed)
                except CaptureError as e:
                    raise UnavailableError(str(e)) from None
        if results == 0:
            return []
        return [made] if results == 1 else list(made)

    def _accessor(self, packed: ScriptObject) -> Callable[[str], Any]:
        return lambda name: self.value(packed.attributes.get(name))


class _Made:
    """An object that the code creates."""

    def __init__(self, type_name: str) -> None:
        self.type_name = type_name
        self.slots: dict[int, Any] = {}


def _tensor(t: ScriptTensor) -> torch.Tensor:
    array = t.array()
    if t.dtype == "bf16":
        return torch.from_numpy(array.view("int16").copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def _is_instance(value: Any, types: str) -> bool:
    kinds: dict[str, Any] = {"Tensor": torch.Tensor, "int": (int, torch.SymInt), "float": (float, torch.SymFloat), "bool": bool,
                             "str": str, "NoneType": type(None)}  # fmt: skip
    for name in types.split("|"):
        base = name.partition("[")[0]
        if base in kinds and isinstance(value, kinds[base]) and not (base == "int" and isinstance(value, bool)):
            return True
        if {"List": list, "Tuple": tuple, "Dict": dict}.get(base) is type(value):
            return True
        if base == "Optional" and (value is None or _is_instance(value, name[len("Optional[") : -1])):
            return True
        if isinstance(value, (ScriptObject, _Made)) and value.type_name == name:
            return True
    return False


def _make_tensor(data: Any, dtype: int | None = None, *_: Any) -> torch.Tensor:
    kind = None if dtype is None else DTYPES[dtype]
    return data.to(kind) if isinstance(data, torch.Tensor) and kind is not None else torch.as_tensor(data, dtype=kind)


_PRIMITIVES: dict[str, Callable[..., Any]] = {
    "aten::tensor": _make_tensor,
    "aten::as_tensor": _make_tensor,
    "prim::TupleIndex": lambda t, i: t[i],
    "prim::TupleSlice": lambda t, begin, end: t[begin:end],
    "prim::dtype": dtype_code,
    "prim::device": lambda t: torch.device("cpu"),
    "prim::layout": lambda t: 0,
    "prim::is_cuda": lambda t: False,
    "prim::is_quantized": lambda t: False,
    "prim::is_nested": lambda t: False,
    "prim::requires_grad": lambda t: True,
    "prim::shape": lambda t: list(t.shape),
    "prim::NumToTensor": lambda x: x,
    "prim::unchecked_cast": lambda x: x,
    "prim::Print": lambda *_: None,
    "aten::warn": lambda *_: None,
    "aten::is_grad_enabled": lambda: False,
    "aten::cpu": lambda t: t,
    "prim::tolist": lambda t, *_: t.tolist(),
    "aten::__range_length": lambda low, high, step: max(0, (high - low + step - (1 if step > 0 else -1)) // step),
    "aten::__derive_index": lambda i, start, step: start + i * step,
    "prim::min": lambda *a: min(*a),
    "prim::max": lambda *a: max(*a),
}
