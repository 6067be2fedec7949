"""VM code, the module's state and bundled inputs, as rows of the .pen tables (writer.py holds the tables)."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from penlight.errors import CaptureError
from penlight.file import format as f
from penlight.ir.graph import Program, Value
from penlight.ir.script import Action, Bundle, Const, Script, ScriptFunction
from penlight.ir.types import DTYPES, TensorType, dtype_of
from penlight.ir.values import Device, EnumValue, Quantizer, ScriptObject, ScriptTensor, Storage, tensors_in

if TYPE_CHECKING:
    from penlight.file.writer import _Tables

CONSTANT_BIT = 1 << 31


class ScriptTables:
    """Adds one Program's script and bundles to the tables of its file."""

    def __init__(self, tables: _Tables, program: Program) -> None:
        self.t = tables
        self.data: dict[Any, int] = {}  # of numbers and strings by value, of all else by identity
        self.kept: list[Any] = []  # keeps identities unique
        self.storages: dict[int, int] = {}  # id(Storage) -> constant
        # Tensors in lists, tuples and dicts are read without asking: these are not stored packed.
        roots = [*(program.script.roots if program.script else ()), *([b.args, b.outputs] for b in program.bundles)]
        self.listed = {id(t.storage) for t, inside in tensors_in(roots) if inside}
        self.classes: dict[str, int] = {}
        self.fields: dict[str, list[str]] = {}
        self.operators: dict[str, int] = {}

    def add_script(self, script: Script, methods: list[str]) -> None:
        self.fields.update(script.classes)
        module = self.datum(script.module)
        used = script.used_constants
        constants = [self.datum(c) if i in used else f.NONE for i, c in enumerate(script.constants)]
        self.operators = {name: i for i, name in enumerate(script.operators)}
        for name, calls in script.operators.items():
            self.t.row(f.OPERATOR, name=self.t.string(name), calls=calls)
        functions = {name: i for i, name in enumerate(script.functions)}
        for function in script.functions.values():
            self._function(function, constants, functions, methods)
        self.t.row(f.PROGRAM, module=module)

    def add_bundle(self, bundle: Bundle) -> None:
        self.t.row(
            f.BUNDLE, method=self.t.string(bundle.method), args=self.datum(tuple(bundle.args)),
            outputs=self.datum(bundle.outputs) if bundle.has_outputs else f.NONE,
            info=self.t.string(bundle.info) if bundle.info else f.NONE, absolute=bundle.absolute, relative=bundle.relative,
        )  # fmt: skip

    # ---- functions ----
    def _function(
        self, function: ScriptFunction, constants: list[int], functions: dict[str, int], methods: list[str]
    ) -> None:
        rows = [self._action(a, constants, functions, methods) for a in function.code]
        first = len(self.t.rows["VMCD"])
        for row in rows:
            self.t.row(f.VM_INSTRUCTION, **row)
        schema = json.dumps({"arguments": function.parameters, "returns": function.returns}, ensure_ascii=False)
        self.t.row(
            f.FUNCTION, name=self.t.string(function.name), code=first, code_count=len(rows), registers=function.registers,
            first_slot=function.first_slot, param_count=len(function.parameters),
            method=f.NONE if function.method is None else self.t.string(function.method), schema=self.t.string(schema),
            defaults=self.t.index_list([self.datum(d) for d in function.defaults]), default_count=len(function.defaults),
        )  # fmt: skip

    def _action(self, a: Action, constants: list[int], functions: dict[str, int], methods: list[str]) -> dict[str, int]:
        target, extra = a.target, a.extra
        if a.op == "op":
            target = self.operators[target]
        elif a.op == "call":
            target = functions[target]
        elif a.op in ("call_method", "isinstance"):
            target = self.t.string(target)
        elif a.op in ("create", "tuple"):
            target = f.NONE if target is None else self.class_of(target)
        elif a.op == "planned":
            target = methods.index(target)
        args = [CONSTANT_BIT | constants[x.index] if isinstance(x, Const) else x for x in a.args]
        return {
            "op": f.VM_INSTRUCTIONS[a.op], "target": 0 if target is None else target, "extra": 0 if extra is None else extra,
            "args": self.t.index_list(args), "arg_count": len(args), "results": self.t.index_list(a.results),
            "result_count": len(a.results), "source": self.t.string(a.source) if a.source else f.NONE,
        }  # fmt: skip

    # ---- values ----
    def class_of(self, name: str, fields: list[str] | None = None) -> int:
        key = name if fields is None else f"{name} {' '.join(fields)}"  # attributes may differ between instances
        if key not in self.classes:
            names = fields if fields is not None else self.fields.get(name, [])
            start = self.t.index_list([self.t.string(n) for n in names])
            self.classes[key] = self.t.row(f.CLASS, name=self.t.string(name), fields=start, field_count=len(names))
        return self.classes[key]

    def datum(self, value: Any, depth: int = 0) -> int:
        if depth > f.LIMITS["max_datum_depth"]:
            deepest = f.LIMITS["max_datum_depth"]
            raise CaptureError(f"values are nested more than {deepest} deep, or contain themselves")
        if isinstance(value, (Device, EnumValue)):
            value = value.name if isinstance(value, Device) else value.value
        if isinstance(value, (np.ndarray, np.generic)):
            value = _tensor_of(np.asarray(value), self.kept)
            self.listed.add(id(value.storage))
        by_value = value is None or isinstance(value, (bool, int, float, str))
        key = (type(value), struct.pack("<d", value) if isinstance(value, float) else value) if by_value else id(value)
        if key not in self.data:
            if not by_value:
                self.kept.append(value)
            self.data[key] = self._add(value, depth)
        return self.data[key]

    def _add(self, value: Any, depth: int) -> int:
        def row(kind: str, number: int = 0, parts: list[int] | None = None, type: int = 0) -> int:
            start = self.t.index_list(parts) if parts else 0
            return self.t.row(
                f.DATUM, kind=f.DATUM_KINDS[kind], type=type, number=number, start=start, count=len(parts or ())
            )

        if value is None:
            return row("none")
        if isinstance(value, bool):
            return row("bool", int(value))
        if isinstance(value, int):
            if not -(2**63) <= value < 2**63:
                raise CaptureError(f"an int that does not fit in 64 bits: {value}")
            return row("int", value)
        if isinstance(value, float):
            return row("float", struct.unpack("<q", struct.pack("<d", value))[0])
        if isinstance(value, str):
            return row("str", self.t.raw_string(_raw(value)))
        if isinstance(value, ScriptTensor):
            return self._tensor(value)
        if isinstance(value, (list, tuple)):
            parts = [self.datum(v, depth + 1) for v in value]
            named = getattr(value, "_fields", None)
            kind = "list" if isinstance(value, list) else "tuple"
            return row(kind, 0, parts, self.class_of(type(value).__name__, list(named)) if named else f.NONE)
        if isinstance(value, dict):
            return row("dict", 0, [self.datum(x, depth + 1) for item in value.items() for x in item])
        if isinstance(value, ScriptObject):
            if value.is_custom and not value.attributes:
                raise CaptureError(
                    f"an object of class {value.type_name}, which Penlight does not know, is part of the model"
                )
            parts = [self.datum(v, depth + 1) for v in value.attributes.values()]
            return row("object", 0, parts, self.class_of(value.type_name, list(value.attributes)))
        raise CaptureError(
            f"a {type(value).__name__} is part of the model, which cannot be kept in a .pen file: expected tensors, numbers, text and containers of them"
        )

    def _tensor(self, t: ScriptTensor) -> int:
        """INTS: constant, dtype, offset, rank, dims, strides, axis (-2: not quantized, -1: one scale), channels, zero points, bits of scales."""
        if t.dtype not in DTYPES:
            raise CaptureError(f"tensor {t.name or t.storage.name}: dtype {t.dtype} is not supported yet")
        numbers = [self._storage(t), DTYPES[t.dtype][0], t.offset, len(t.shape), *t.shape, *t.strides]
        numbers += _quantization(t.quantizer)
        start = len(self.t.ints)
        self.t.ints += numbers
        return self.t.row(f.DATUM, kind=f.DATUM_KINDS["tensor"], type=0, number=0, start=start, count=len(numbers))

    def _storage(self, t: ScriptTensor) -> int:
        """A constant of its own for each, since a write into one may not change another; the bytes may be shared."""
        storage = t.storage
        if id(storage) not in self.storages:
            self.kept.append(storage)
            array = np.ascontiguousarray(storage.data).view(np.uint8).reshape(-1)
            packed = None if id(storage) in self.listed else self.t.data.packed(t)
            type, layout, groups = TensorType("u8", array.shape), "plain", 0
            if packed is not None:
                type, layout, groups, array = packed
            value = Value(t.name or storage.name or "storage", type, layout=layout)
            self.storages[id(storage)] = self.t.constant_row(value, self.t.data.place(array), array.nbytes, groups)
        return self.storages[id(storage)]


def _quantization(q: Quantizer | None) -> list[int]:
    if q is None:
        return [-2, 0]
    scales = q.scale if isinstance(q.scale, tuple) else (q.scale,)
    zeros = q.zero_point if isinstance(q.zero_point, tuple) else (q.zero_point,)
    bits = [struct.unpack("<q", struct.pack("<d", s))[0] for s in scales]
    return [-1 if q.axis is None else q.axis, len(scales), *zeros, *bits]


def _tensor_of(array: np.ndarray, kept: list[Any]) -> ScriptTensor:
    dtype = dtype_of(array)
    flat = np.ascontiguousarray(array).reshape(array.shape)  # numpy makes rank 1 of rank 0
    strides = tuple(s // flat.itemsize for s in flat.strides)
    made = ScriptTensor(Storage(flat.reshape(-1).view(np.uint8)), dtype, 0, array.shape, strides)
    kept.append(made)
    return made


def _raw(text: str) -> bytes:
    """TorchScript's strings are bytes, which need not be UTF-8: readers keep others as surrogates."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # surrogates of another kind, which no bytes stand for
        return text.encode("utf-8", "replace")
