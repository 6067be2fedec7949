"""The flatbuffer container (PTMF, bytecode version 9) → LiteProgram, read from the wire with every offset checked.

A file is one table `Module`; its `ivalues` are all values, functions among them, and refer to each other by their place in that
list, always backwards: so there are no cycles. The fields of each table are numbered in the order of PyTorch's
mobile_bytecode.fbs. What a hostile file may make us read is bounded by its own size, and weights are views of it.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

import numpy as np

from penlight.budget import MAX_DEPTH, Budget
from penlight.capture.lite.bytecode import argument, operator, spaced
from penlight.capture.lite.instructions import (
    MAX_OPERATOR_VERSION,
    NAMES,
    check_operator_version,
    check_registers,
    check_size,
    check_version,
    instruction,
)
from penlight.capture.lite.program import Argument, Function, LiteProgram, Operator
from penlight.capture.lite.tensors import ELEMENT_TYPES, per_channel, tensor
from penlight.errors import CaptureError
from penlight.ir.values import Device, EnumValue, Quantizer, ScriptObject, ScriptTensor, Storage, TypedDict, TypedList

_WITH_FIELDS, _CUSTOM, _WITH_SETSTATE = 1, 2, 3  # kinds of object types
_PER_TENSOR, _PER_CHANNEL, _PER_CHANNEL_FLOAT = 0, 1, 4  # quantization schemes
_MAX_FIELDS = 32  # of a table; Module has 12
_READ_RATIO = 4  # bytes read from vectors and strings, at most, per byte of the file


def read_flatbuffer(data: np.ndarray, file: str) -> LiteProgram:
    """Everything in the file, as it stands there: states of objects are not unpacked, operators not upgraded."""
    return _Reader(_Wire(data, file)).program()


def flatbuffer_version(data: np.ndarray, file: str) -> int:
    return int(_Wire(data, file).root().number(0, "<I"))


class _Wire:
    """Bytes, and what may still be read of them."""

    def __init__(self, data: np.ndarray, file: str) -> None:
        self.data = data
        self.view = data.data
        self.file = file
        self.left = _READ_RATIO * len(data) + (1 << 16)
        self.budget = Budget(len(data), file)
        self.strings: dict[int, str] = {}
        self.layouts: dict[tuple[int, int], tuple[int, ...]] = {}

    def error(self, what: str) -> CaptureError:
        return CaptureError(f"{self.file} cannot be read: {what}")

    def root(self) -> _Table:
        return _Table(self, self.jump(0), "Module")

    def unpack(self, form: str, at: int) -> tuple[Any, ...]:
        size = struct.calcsize(form)
        if not 0 <= at <= len(self.data) - size:
            raise self.error(f"an offset leads to byte {at}, outside of the {len(self.data)} bytes of the file")
        return struct.unpack_from(form, self.view, at)

    def jump(self, at: int) -> int:
        """Where the offset at `at` leads."""
        return at + int(self.unpack("<I", at)[0])

    def spend(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise self.error("its parts overlap so often that they are many times as large as the file")

    def layout(self, at: int, count: int) -> tuple[int, ...]:
        """The offsets of a table's fields. Tables share such lists: each is there once, and no table that is read has more than a few."""
        key = (at, min(count, _MAX_FIELDS))
        if key not in self.layouts:
            self.layouts[key] = self.unpack(f"<{key[1]}H", at)
            self.budget.step(key[1])
        return self.layouts[key]

    def extent(self, at: int, item: int) -> tuple[int, int]:
        """Start and number of the items of a vector, all inside of the file."""
        (count,) = self.unpack("<I", at)
        if at + 4 + count * item > len(self.data):
            raise self.error(f"a list of {count} items of {item} bytes at byte {at} ends outside of the file")
        return at + 4, count

    def string(self, at: int) -> str:
        if at not in self.strings:
            start, size = self.extent(at, 1)
            self.spend(size)
            # TorchScript's strings are bytes, which need not be UTF-8
            self.strings[at] = self.data[start : start + size].tobytes().decode("utf-8", "surrogateescape")
        return self.strings[at]


class _Table:
    """A table: its fields are found through a list of offsets, 0 for those that are left out."""

    def __init__(self, wire: _Wire, at: int, name: str) -> None:
        self.wire = wire
        self.at = at
        self.name = name
        (back,) = wire.unpack("<i", at)
        layout = at - back
        size, _ = wire.unpack("<2H", layout)
        if size < 4 or size % 2:
            raise wire.error(f"the layout of a table {name} has {size} bytes")
        self.offsets = wire.layout(layout + 4, (size - 4) // 2)
        wire.spend(4)
        wire.budget.step(2)

    def place(self, field: int) -> int:
        """Where a field lies; 0: it is left out."""
        offset = self.offsets[field] if field < len(self.offsets) else 0
        return self.at + offset if offset else 0

    def number(self, field: int, form: str, default: Any = 0) -> Any:
        at = self.place(field)
        return self.wire.unpack(form, at)[0] if at else default

    def jump(self, field: int) -> int | None:
        at = self.place(field)
        return self.wire.jump(at) if at else None

    def needed(self, field: int) -> int:
        at = self.jump(field)
        if at is None:
            raise self.wire.error(f"a table {self.name} lacks its field {field}")
        return at

    def table(self, field: int, name: str) -> _Table | None:
        at = self.jump(field)
        return None if at is None else _Table(self.wire, at, name)

    def string(self, field: int, default: str | None = None) -> str:
        at = self.jump(field) if default is not None else self.needed(field)
        return default or "" if at is None else self.wire.string(at)

    def vector(self, field: int, dtype: str) -> list[Any]:
        """Numbers; [] where the field is left out."""
        at = self.jump(field)
        if at is None:
            return []
        kind = np.dtype(dtype)
        start, count = self.wire.extent(at, kind.itemsize)
        self.wire.spend(count * kind.itemsize)
        return np.frombuffer(self.wire.data, kind, count, start).tolist() if count else []

    def places(self, field: int) -> list[int]:
        """Where the items of a vector of offsets lie."""
        at = self.jump(field)
        if at is None:
            return []
        start, _ = self.wire.extent(at, 4)
        return [start + 4 * i + offset for i, offset in enumerate(self.vector(field, "<u4"))]

    def tables(self, field: int, name: str) -> list[_Table]:
        return [_Table(self.wire, at, name) for at in self.places(field)]

    def strings(self, field: int) -> list[str]:
        return [self.wire.string(at) for at in self.places(field)]


class _Reader:
    def __init__(self, wire: _Wire) -> None:
        self.wire = wire
        self.module = wire.root()
        self.version = check_version(wire.file, self.module.number(0, "<I"))
        self.storages = self._storages()
        # Of each type: its name, kind, and the names of its attributes.
        self.types = [(t.string(0), t.number(1, "<B"), t.strings(2)) for t in self.module.tables(7, "ObjectType")]
        self.values: list[Any] = []
        self.depths: list[int] = []
        self.sizes: list[int] = []  # with shared parts counted each time
        self.functions: dict[str, Function] = {}

    def program(self) -> LiteProgram:
        wire = self.wire
        operator_version = self.module.number(10, "<I")
        if operator_version > MAX_OPERATOR_VERSION or operator_version < 0:
            check_operator_version(wire.file, operator_version)
        kinds = {
            0: lambda wire, at: None,
            1: lambda wire, at: wire.unpack("<q", at)[0],
            2: lambda wire, at: bool(wire.unpack("<B", at)[0]),
            3: lambda wire, at: wire.unpack("<d", at)[0],
            4: lambda wire, at: complex(*wire.unpack("<2d", at)),
            5: lambda wire, at: self._tensor(_Table(wire, at, "TensorMetadata")),
            6: lambda wire, at: _Table(wire, at, "String").string(0),
            7: lambda wire, at: self._list(_Table(wire, at, "List")),
            8: lambda wire, at: self._tuple(_Table(wire, at, "Tuple")),
            9: lambda wire, at: self._dict(_Table(wire, at, "Dict")),
            10: lambda wire, at: self._object(_Table(wire, at, "Object")),
            11: lambda wire, at: TypedList(_Table(wire, at, "IntList").vector(0, "<i8"), "List[int]"),
            12: lambda wire, at: TypedList(_Table(wire, at, "DoubleList").vector(0, "<f8"), "List[float]"),
            13: lambda wire, at: TypedList(map(bool, _Table(wire, at, "BoolList").vector(0, "u1")), "List[bool]"),
            14: lambda wire, at: Device(_Table(wire, at, "Device").string(0)),
            15: lambda wire, at: self._enum(_Table(wire, at, "EnumValue")),
            16: lambda wire, at: self._function(_Table(wire, at, "Function")),
        }
        entries = self.module.tables(4, "IValue")
        # what follows these is for the full interpreter; 0: the writer did not tell
        used = self.module.number(11, "<I") or len(entries)
        for entry in entries[:used]:
            self.depth, self.size = 0, 1  # of this value; `child` raises them
            kind = entry.number(0, "<B")
            if kind not in kinds:
                raise wire.error(f"a value has the kind {kind}; 0 to {len(kinds) - 1} are known")
            self.values.append(kinds[kind](wire, entry.needed(1) if kind else 0))
            self.depths.append(self.depth)
            self.sizes.append(self.size)
        for index in self.module.vector(2, "<u4"):
            if index >= len(self.values) or not isinstance(self.values[index], Function):
                raise wire.error(f"method {index} is no function")
        state = self.module.number(3, "<I")
        module = self.values[state] if state < len(self.values) else None
        if not isinstance(module, ScriptObject):
            raise wire.error(f"its state, value {state}, is {type(module).__name__}, expected a module")
        extra = {
            t.string(0): t.string(1, "").encode("utf-8", "surrogateescape") for t in self.module.tables(1, "ExtraFile")
        }
        return LiteProgram(
            "flatbuffer", self.version, operator_version, self.functions, module, extra, wire.file, wire.budget
        )

    def child(self, index: int) -> Any:
        """A value that the present one refers to: one before it."""
        if index >= len(self.values) or isinstance(self.values[index], Function):
            raise self.wire.error(f"value {len(self.values)} refers to value {index}, which is no value before it")
        self.depth = max(self.depth, self.depths[index] + 1)
        self.size += self.sizes[index]
        if self.depth > MAX_DEPTH:
            raise self.wire.error(f"values are nested deeper than {MAX_DEPTH}")
        if self.size > self.wire.budget.most_steps:
            raise self.wire.budget.exceeded(f"{self.size} steps to walk a value")
        self.wire.budget.step()
        return self.values[index]

    def children(self, table: _Table, field: int) -> list[Any]:
        return [self.child(i) for i in table.vector(field, "<u4")]

    def _list(self, table: _Table) -> TypedList:
        return TypedList(self.children(table, 0), table.string(1, ""))

    def _tuple(self, table: _Table) -> tuple[Any, ...]:
        return tuple(self.children(table, 0))

    def _dict(self, table: _Table) -> TypedDict:
        keys, before, depth = self.children(table, 0), self.size, self.depth
        self.wire.budget.step(before)
        for key in keys:
            self.wire.budget.key(key)
        values = self.children(table, 1)
        if len(keys) != len(values):
            raise self.wire.error(f"a dict has {len(keys)} keys and {len(values)} values")
        if depth > 1:  # thousands of tuples of -1 and -2 have one hash, and are compared with each other
            raise self.wire.error("a dict has a tuple, a list or a dict as a key")
        try:
            return TypedDict(zip(keys, values, strict=True), table.string(2, ""))
        except TypeError:
            raise self.wire.error("a dict has a list or a dict as a key") from None

    def _enum(self, table: _Table) -> EnumValue:
        return EnumValue(table.string(0), self.child(table.number(1, "<I")))

    def _object(self, table: _Table) -> ScriptObject:
        index = table.number(0, "<I")
        if index >= len(self.types):
            raise self.wire.error(f"an object has type {index} of {len(self.types)}")
        type_name, kind, names = self.types[index]
        made = ScriptObject(type_name)
        if kind == _WITH_FIELDS and not made.is_custom:
            values = self.children(table, 2)
            if len(values) > len(names) or len(set(names)) != len(names):
                raise self.wire.error(
                    f"an object of class {type_name} has {len(values)} values for {len(names)} attributes"
                )
            made.attributes = dict(zip(names, values, strict=False))
        elif kind in (_CUSTOM, _WITH_SETSTATE) and made.is_custom == (kind == _CUSTOM):
            made.state, made.has_state = self.child(table.number(1, "<I")), True
        else:
            raise self.wire.error(f"an object of class {type_name} is of kind {kind}")
        return made

    def _function(self, table: _Table) -> Function:
        name = table.string(0)
        where = f"{self.wire.file}: {name}"
        if name in self.functions:
            raise CaptureError(f"{self.wire.file}: two functions have the name {name}")
        at = table.jump(1)
        instructions = []
        if at is not None:
            start, count = self.wire.extent(at, 8)
            self.wire.spend(8 * count)
            check_size(where, count + sum(len(f.instructions) for f in self.functions.values()))
            code = np.frombuffer(
                self.wire.data,
                np.dtype(
                    {"names": ["op", "n", "x"], "formats": ["u1", "<u2", "<i4"], "offsets": [0, 2, 4], "itemsize": 8}
                ),
                count,
                start,
            )
            for op, n, x in code.tolist():
                instructions.append(instruction(where, NAMES[op] if op < len(NAMES) else op, x, n))
        schema = table.table(6, "Schema")
        function = Function(
            name,
            instructions,
            [self._operator(t, where) for t in table.tables(2, "Operator")],
            self.children(table, 3),
            [spaced(t) for t in table.strings(4)],
            check_registers(where, table.number(5, "<i")),
            None if schema is None else self._arguments(schema, 0),
            None if schema is None else self._arguments(schema, 1),
        )
        self.functions[name] = function
        return function

    def _operator(self, table: _Table, where: str) -> Operator:
        return operator(where, table.string(0), table.string(1, ""), table.number(2, "<i", -1))

    def _arguments(self, schema: _Table, field: int) -> list[Argument]:
        return [
            argument(t.string(0, ""), t.string(1, ""), self.child(t.number(2, "<I")))
            for t in schema.tables(field, "Arg")
        ]

    def _storages(self) -> list[Storage]:
        found = []
        ranges = []
        for i, table in enumerate(self.module.tables(6, "StorageData")):
            at = table.jump(0)
            start, size = (0, 0) if at is None else self.wire.extent(at, 1)
            found.append(Storage(self.wire.data[start : start + size], f"storage {i}"))
            if size:
                ranges.append((start, start + size))
        for (_, end), (start, _) in pairwise(sorted(ranges)):
            if end > start:
                raise self.wire.error(f"two storages overlap at byte {start}")
        return found

    def _tensor(self, table: _Table, plain: bool = False) -> ScriptTensor:
        storage, kind = table.number(0, "<I"), table.number(1, "<b")
        if storage >= len(self.storages) or not 0 <= kind < len(ELEMENT_TYPES):
            raise self.wire.error(f"a tensor of element type {kind} lies in storage {storage} of {len(self.storages)}")
        where = f"{self.wire.file}: a tensor in storage {storage}"
        schema = table.table(6, "QuantizedSchema")
        if plain and schema is not None:
            raise CaptureError(f"{where} holds the scales of another, but is quantized itself")
        return tensor(
            where,
            self.storages[storage],
            ELEMENT_TYPES[kind],
            table.number(2, "<i"),
            table.vector(3, "<i4"),
            table.vector(4, "<i4"),
            quantizer=None if schema is None else self._quantizer(schema, where),
            requires_grad=bool(table.number(5, "<B")),
            budget=self.wire.budget,
        )

    def _quantizer(self, schema: _Table, where: str) -> Quantizer:
        scheme = schema.number(0, "<b")
        if scheme == _PER_TENSOR:
            return Quantizer(schema.number(1, "<d", 0.0), schema.number(2, "<i"))
        scales, zero_points = schema.table(3, "TensorMetadata"), schema.table(4, "TensorMetadata")
        if scheme not in (_PER_CHANNEL, _PER_CHANNEL_FLOAT) or scales is None or zero_points is None:
            raise CaptureError(f"{where} has the quantization scheme {scheme}, or lacks its scales")
        tensors = self._tensor(scales, plain=True), self._tensor(zero_points, plain=True)
        self.wire.spend(tensors[0].byte_count + tensors[1].byte_count)
        return per_channel(where, *tensors, schema.number(5, "<i"))
