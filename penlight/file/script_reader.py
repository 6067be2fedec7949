"""VM code, the module's state and bundled inputs of a .pen file, read back as what the writer was given (ir/script.py).

Every index and size is checked: a damaged file gives an error in words. Tensors are views of the mapped file.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from penlight.capture.lite.program import LiteObject, LiteTensor, Quantizer, Storage
from penlight.file import format as f
from penlight.ir.script import Action, Bundle, Const, Script, ScriptFunction

if TYPE_CHECKING:
    from penlight.file.reader import _Reader

CONSTANT_BIT = 1 << 31
_OPS = {code: name for name, code in f.VM_INSTRUCTIONS.items()}
_KINDS = {code: name for name, code in f.DATUM_KINDS.items()}


class ScriptReader:
    """Reads the sections of VM code from a file whose other tables `reader` has read."""

    def __init__(self, reader: _Reader, methods: list[str]) -> None:
        self.r = reader
        self.methods = methods  # planned ones, by index
        self.storages: dict[int, Storage] = {}
        self.classes = [self._class(row) for row in self._rows(f.CLASS)]
        self.data: list[Any] = []
        for i, row in enumerate(self._rows(f.DATUM)):
            self.data.append(self._datum(i, row))

    def script(self) -> Script | None:
        """None where the file has no VM code."""
        rows = list(self._rows(f.FUNCTION))
        if not rows:
            return None
        names = [self.r.string(row["name"], "FUNC") for row in rows]
        operators = [self.r.string(row["name"], "OPER") for row in self._rows(f.OPERATOR)]
        programs = list(self._rows(f.PROGRAM))
        if len(programs) != 1:
            raise self.r.damaged("PROG", "one program", len(programs))
        module = self._value(programs[0]["module"], "PROG")
        functions = {name: self._function(name, row, names, operators) for name, row in zip(names, rows, strict=True)}
        return Script(functions, module, self.data, {name: list(fields) for name, fields in self.classes})

    def bundles(self) -> list[Bundle]:
        made = []
        for row in self._rows(f.BUNDLE):
            args = self._value(row["args"], "BNDL")
            if not isinstance(args, tuple):
                raise self.r.damaged("BNDL", "a tuple of arguments", type(args).__name__)
            has_outputs = row["outputs"] != f.NONE
            outputs = self._value(row["outputs"], "BNDL") if has_outputs else None
            method, info = self.r.string(row["method"], "BNDL"), self.r.string(row["info"], "BNDL", optional=True)
            made.append(Bundle(method, args, outputs, has_outputs, info, row["absolute"], row["relative"]))
        return made

    def _rows(self, record: f.Record) -> Any:
        return self.r.rows(record) if record.section in self.r.sections else ()

    def _value(self, index: int, where: str) -> Any:
        if index >= len(self.data):
            raise self.r.damaged(where, "a datum that exists", f"{index} of {len(self.data)}")
        return self.data[index]

    def _indices(self, start: int, count: int, where: str) -> list[int]:
        return self.r.span(self.r.indices, start, count, where) if count else []

    # --- functions ---
    def _function(self, name: str, row: dict[str, Any], names: list[str], operators: list[str]) -> ScriptFunction:
        schema = self.r.json(self.r.string(row["schema"], name), name)
        if not isinstance(schema, dict) or not isinstance(schema.get("arguments"), list):
            raise self.r.damaged(name, "a schema", type(schema).__name__)
        total = self.r.sections["VMCD"][2] if "VMCD" in self.r.sections else 0
        if row["code"] + row["code_count"] > total:
            raise self.r.damaged(name, "code inside its table", f"{row['code_count']} from {row['code']} of {total}")
        code = [
            self._action(self.r.row(f.VM_INSTRUCTION, row["code"] + i, name), name, names, operators)
            for i in range(row["code_count"])
        ]
        defaults = [self._value(i, name) for i in self._indices(row["defaults"], row["default_count"], name)]
        method = self.r.string(row["method"], name, optional=True) or None
        returns = str(schema.get("returns", ""))
        return ScriptFunction(
            name, schema["arguments"], returns, code, row["registers"], row["first_slot"], method, defaults
        )

    def _action(self, row: dict[str, Any], where: str, names: list[str], operators: list[str]) -> Action:
        if row["op"] not in _OPS:
            raise self.r.damaged(where, f"an instruction below {len(_OPS)}", row["op"])
        op = _OPS[row["op"]]
        target: Any = row["target"]
        if op in ("op", "call", "planned"):
            table = {"op": operators, "call": names, "planned": self.methods}[op]
            if target >= len(table):
                raise self.r.damaged(where, f"what {op} refers to", f"{target} of {len(table)}")
            target = table[target]
        elif op in ("call_method", "isinstance"):
            target = self.r.string(target, where)
        elif op in ("create", "tuple"):
            target = None if target == f.NONE else self._class_at(target, where)[0]
        elif op not in ("jump", "branch", "loop", "get_attr", "set_attr"):
            target = None
        args: list[int | Const] = []
        for a in self._indices(row["args"], row["arg_count"], where):
            if a & CONSTANT_BIT:
                self._value(a - CONSTANT_BIT, where)
            args.append(Const(a - CONSTANT_BIT) if a & CONSTANT_BIT else a)
        results = self._indices(row["results"], row["result_count"], where)
        extra = row["extra"] if op == "planned" else None
        return Action(op, args, results, target, extra, self.r.string(row["source"], where, optional=True))

    # --- values ---
    def _class(self, row: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
        name = self.r.string(row["name"], "CLAS")
        fields = self._indices(row["fields"], row["field_count"], "CLAS")
        return name, tuple(self.r.string(i, "CLAS") for i in fields)

    def _class_at(self, index: int, where: str) -> tuple[str, tuple[str, ...]]:
        if index >= len(self.classes):
            raise self.r.damaged(where, "a class that exists", f"{index} of {len(self.classes)}")
        return self.classes[index]

    def _datum(self, index: int, row: dict[str, Any]) -> Any:
        where = f"datum {index}"
        kind = _KINDS.get(row["kind"])
        number = row["number"]
        if kind is None:
            raise self.r.damaged(where, f"a kind below {len(_KINDS)}", row["kind"])
        if kind == "none":
            return None
        if kind == "bool":
            return bool(number)
        if kind == "int":
            return number
        if kind == "float":
            return struct.unpack("<d", struct.pack("<q", number))[0]
        if kind == "str":
            return self.r.string(number if number >= 0 else f.NONE, where)
        if kind == "tensor":
            return self._tensor(row, where)
        parts = []
        for i in self._indices(row["start"], row["count"], where):
            if i >= index:
                raise self.r.damaged(where, "parts before it", i)
            parts.append(self.data[i])
        if kind == "list":
            return parts
        if kind == "tuple":
            return tuple(parts)
        if kind == "dict":
            if len(parts) % 2:
                raise self.r.damaged(where, "keys and values", f"{len(parts)} parts")
            try:
                return dict(zip(parts[::2], parts[1::2], strict=True))
            except TypeError:
                raise self.r.damaged(where, "keys that are numbers or strings", "others") from None
        name, fields = self._class_at(row["type"], where)
        if len(fields) != len(parts):
            raise self.r.damaged(where, f"{len(fields)} attributes of {name}", len(parts))
        return LiteObject(name, dict(zip(fields, parts, strict=True)))

    def _tensor(self, row: dict[str, Any], where: str) -> LiteTensor:
        """INTS as the writer lays them down: see script_writer.py."""
        numbers = iter(self.r.span(self.r.ints, row["start"], row["count"], where))
        try:
            constant, code, offset, rank = (next(numbers) for _ in range(4))
            if not 0 <= rank <= f.LIMITS["max_rank"]:
                raise self.r.damaged(where, f"a rank up to {f.LIMITS['max_rank']}", rank)
            shape, strides = (tuple(next(numbers) for _ in range(rank)) for _ in range(2))
            axis, channels = next(numbers), next(numbers)
            zeros = tuple(next(numbers) for _ in range(channels if 0 <= channels <= row["count"] else 0))
            scales = tuple(struct.unpack("<d", struct.pack("<q", next(numbers)))[0] for _ in zeros)
        except (StopIteration, RuntimeError):
            raise self.r.damaged(where, "a whole tensor", f"{row['count']} numbers") from None
        if not 0 <= constant < len(self.r.constants):
            raise self.r.damaged(where, "a weight that exists", f"{constant} of {len(self.r.constants)}")
        weight = self.r.constants[constant]
        if constant not in self.storages:
            self.storages[constant] = Storage(weight._data, weight.name)
        dtype = self.r.dtype(code, where)
        quantizer = None
        if axis == -1 and zeros:
            quantizer = Quantizer(scales[0], zeros[0])
        elif axis >= 0:
            quantizer = Quantizer(scales, zeros, axis)
        return LiteTensor(self.storages[constant], dtype, offset, shape, strides, quantizer, name=weight.name)
