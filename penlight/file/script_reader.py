"""VM code, its constants and bundled inputs, from the tables of a .pen file (reader.py holds them) to dataclasses.

As careful as the runtime's loader (runtime/file/load_script.cc): every register, constant, target and part is proven to exist
before it is used, parts come before what they are part of, and the whole is bounded in depth and in work.
"""

from __future__ import annotations

import struct
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from penlight.errors import LoadError
from penlight.file import format as f
from penlight.file import told
from penlight.file.contents import Const, Fields, Function, TensorDatum, VmInstruction
from penlight.ir.script import Bundle
from penlight.ir.types import DTYPES

if TYPE_CHECKING:
    from penlight.file.reader import _Reader

CONSTANT_BIT = 1 << 31
_OPS = {code: name for name, code in f.VM_INSTRUCTIONS.items()}
_KINDS = {code: name for name, code in f.DATUM_KINDS.items()}
# How many arguments and results an instruction has; None: any number.
_FORMS: dict[str, tuple[int | None, int | None]] = {
    "move": (1, 1), "op": (None, None), "jump": (0, 0), "branch": (1, 0), "loop": (None, 0), "return": (1, 0),
    "list": (None, 1), "tuple": (None, 1), "dict": (None, 1), "unpack": (1, None), "get_attr": (1, 1), "set_attr": (2, 0),
    "create": (0, 1), "isinstance": (1, 1), "call": (None, 1), "call_method": (None, 1), "drop": (None, 0),
    "planned": (None, None),
}  # fmt: skip


class ScriptReader:
    def __init__(self, reader: _Reader, methods: list[str]) -> None:
        self.r = reader
        self.methods = methods
        self.steps_left = f.LIMITS["max_verify_steps"]
        self.links_left = f.LIMITS["max_links"]

    def damaged(self, where: str, expected: str, got: object) -> LoadError:
        return self.r.damaged(where, expected, got)

    def count(self, record: f.Record) -> int:
        return self.r.sections[record.section][2]

    def spend(self, steps: int) -> None:
        self.steps_left -= steps
        if self.steps_left < 0:
            raise self.damaged("complexity", "a model that can be verified in 16 million steps", "more")

    def link(self, count: int) -> None:
        self.links_left -= count
        if self.links_left < 0:
            most = f.LIMITS["max_links"]
            raise self.damaged("complexity", f"at most {most} values, registers, inputs and outputs", "more")

    def indices(self, start: int, count: int, below: int, where: str) -> list[int]:
        self.spend(count)
        found = self.r.span(self.r.indices, start, count, where)
        if wrong := [i for i in found if i >= below]:
            raise self.damaged(where, "an index inside its table", f"{wrong[0]} of {below}")
        return found

    # --- values ---
    @cached_property
    def classes(self) -> list[tuple[str, list[str]]]:
        found = []
        for row in self.r.rows(f.CLASS):
            self.link(row["field_count"])
            fields = self.indices(row["fields"], row["field_count"], len(self.r.strings), "CLAS")
            found.append((self.r.string(row["name"], "CLAS"), [self.r.strings[i] for i in fields]))
        return found

    @cached_property
    def data(self) -> list[Any]:
        made: list[Any] = []
        depths: list[int] = []
        for row in self.r.rows(f.DATUM):
            kind = _KINDS.get(row["kind"])
            if kind is None:
                raise self.damaged("DATM", "a known kind", row["kind"])
            self.spend(1)
            depth = 0
            if kind in ("list", "tuple", "dict", "object"):
                parts = self.indices(row["start"], row["count"], len(made), "DATM")  # parts come first
                self.link(len(parts))
                depth = 1 + max((depths[i] for i in parts), default=-1)
                if depth > f.LIMITS["max_datum_depth"]:
                    raise self.damaged(
                        "DATM", f"values nested at most {f.LIMITS['max_datum_depth']} deep", "deeper ones"
                    )
                made.append(self._container(kind, row, [made[i] for i in parts]))
            else:
                made.append(self._simple(kind, row))
            depths.append(depth)
        return made

    def _container(self, kind: str, row: dict[str, Any], parts: list[Any]) -> Any:
        if kind != "object" and any(isinstance(p, TensorDatum) and p.constant.groups for p in parts):
            raise self.damaged("DATM", "packed weights as attributes of objects only", "one in a list, tuple or dict")
        if kind == "list":
            return parts
        if kind == "dict":
            if len(parts) % 2:
                raise self.damaged("DATM", "a value for each key", f"{len(parts)} parts")
            if wrong := [k for k in parts[::2] if not isinstance(k, (bool, int, float, str))]:
                raise self.damaged("DATM", "keys that are numbers or strings", type(wrong[0]).__name__)
            return dict(zip(parts[::2], parts[1::2], strict=True))
        if kind == "tuple" and row["type"] == f.NONE:
            return tuple(parts)
        if row["type"] >= len(self.classes) or len(self.classes[row["type"]][1]) < len(parts):
            raise self.damaged("DATM", "a class with a field for each part", row["type"])
        name, fields = self.classes[row["type"]]
        return Fields(name, dict(zip(fields, parts, strict=False)), kind == "tuple")

    def _simple(self, kind: str, row: dict[str, Any]) -> Any:
        number = row["number"]
        match kind:
            case "none":
                return None
            case "bool":
                return bool(number)
            case "int":
                return number
            case "float":
                return struct.unpack("<d", struct.pack("<q", number))[0]
            case "str":
                if not 0 <= number < len(self.r.strings):
                    raise self.damaged("DATM", "a string that exists", number)
                return self.r.strings[number]
        return self._tensor(row)

    def _tensor(self, row: dict[str, Any]) -> TensorDatum:
        """A view of a storage: see ScriptTables._tensor in script_writer.py."""
        self.spend(row["count"])
        n = self.r.span(self.r.ints, row["start"], row["count"], "DATM")
        if len(n) < 6:
            raise self.damaged(
                "DATM", "a tensor's constant, dtype, offset, rank, axis and channels", f"{len(n)} numbers"
            )
        rank = n[3]
        if not 0 <= n[0] < len(self.r.constants):
            raise self.damaged("DATM", "a constant that exists", n[0])
        if not 0 <= rank <= f.LIMITS["max_rank"] or len(n) < 6 + 2 * rank:
            raise self.damaged("DATM", f"a rank of at most {f.LIMITS['max_rank']}", rank)
        constant, dtype = self.r.constants[n[0]], self.r.dtype(n[1], "DATM")
        shape, strides = tuple(n[4 : 4 + rank]), tuple(n[4 + rank : 4 + 2 * rank])
        if any(not 0 <= d <= f.LIMITS["max_dim"] for d in shape) or any(s < 0 for s in strides):
            raise self.damaged("DATM", "dims and strides of 0 or more", (shape, strides))
        size = np.dtype(DTYPES[dtype][1]).itemsize
        elements = size
        for d in shape:
            elements *= max(d, 1)
        end = n[2] + 1 + sum((d - 1) * s for d, s in zip(shape, strides, strict=True))
        outside = (
            n[2] < 0 or max(n[2] * size, elements) >= 2**63 or (0 not in shape and end * size > constant.storage_bytes)
        )
        if outside:
            raise self.damaged(
                "DATM", "a tensor inside its storage", f"one that reaches outside of {constant.storage_bytes} bytes"
            )
        axis, channels = n[4 + 2 * rank : 6 + 2 * rank]
        if (
            not -2 <= axis < rank or channels < 0 or len(n) != 6 + 2 * rank + 2 * channels or (axis == -2) != (channels == 0)
            or (axis == -1 and channels != 1) or (axis >= 0 and channels != shape[axis])
        ):  # fmt: skip
            raise self.damaged("DATM", "scales for the axis that they are along", f"{channels} for axis {axis}")
        if axis >= -1 and dtype not in ("u8", "i8", "i32"):
            raise self.damaged("DATM", "a quantized tensor of u8, i8 or i32", dtype)
        zeros = n[6 + 2 * rank : 6 + 2 * rank + channels]
        levels = np.iinfo(DTYPES[dtype][1]) if channels else None
        for zero in zeros:
            if levels and not levels.min <= zero <= levels.max:
                raise self.damaged("DATM", "zero points that the dtype holds", zero)
        bits = n[6 + 2 * rank + channels :]
        scales = struct.unpack(f"<{channels}d", struct.pack(f"<{channels}q", *bits))
        return TensorDatum(constant, dtype, n[2], shape, strides, axis, tuple(zeros), scales)

    # --- functions ---
    @cached_property
    def operators(self) -> dict[str, int]:
        return {self.r.string(row["name"], "OPER"): row["calls"] for row in self.r.rows(f.OPERATOR)}

    @cached_property
    def operator_names(self) -> list[str]:
        return [self.r.string(row["name"], "OPER") for row in self.r.rows(f.OPERATOR)]

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        return list(self.r.rows(f.FUNCTION))

    def functions(self) -> tuple[Function, ...]:
        found = tuple(self._function(row) for row in self.rows)
        for what, names in (
            ("functions", [x.name for x in found]),
            ("methods", [x.method for x in found if x.method is not None]),
        ):
            if len(set(names)) != len(names):
                raise self.damaged("FUNC", f"{what} with names of their own", "two of one name")
        return found

    def _function(self, row: dict[str, Any]) -> Function:
        name = self.r.string(row["name"], "FUNC")
        method = None if row["method"] == f.NONE else self.r.string(row["method"], "FUNC")
        params, registers = row["param_count"], row["registers"]
        if registers > f.LIMITS["max_registers"] or params > registers or row["first_slot"] > registers:
            most = f.LIMITS["max_registers"]
            raise self.damaged("FUNC", f"a register for each parameter, and at most {most}", registers)
        if method is not None and params == 0:
            raise self.damaged("FUNC", "a method that takes the module itself", "no parameters")
        self.link(registers)
        defaults = self.indices(row["defaults"], row["default_count"], len(self.data), "FUNC")
        if len(defaults) > params - (method is not None):
            raise self.damaged("FUNC", "at most one default for each parameter", len(defaults))
        self.r.counted(f.VM_INSTRUCTION, row["code"], row["code_count"])
        if row["code_count"] == 0:
            raise self.damaged("FUNC", "a function that returns", "no instructions")
        code = tuple(self._instruction(row, pc) for pc in range(row["code_count"]))
        if code[-1].op not in ("return", "jump"):
            raise self.damaged("VMCD", "return or jump as the last instruction", code[-1].op)
        text = self.r.string(row["schema"], "FUNC")
        schema = self.r.json(text, f"{name}: schema")
        if method is not None:
            try:
                told.arguments(name, text, len(defaults))
            except LoadError as e:
                raise LoadError(f"{self.r.name}: {e}") from None
        given = schema.get("arguments") if isinstance(schema, dict) else None
        names = [a.get("name") if isinstance(a, dict) else None for a in given] if isinstance(given, list) else []
        named = tuple(str(names[i]) if i < len(names) and names[i] else f"arg{i}" for i in range(params))
        return Function(
            name, method, named, schema, code, registers, row["first_slot"], tuple(self.data[d] for d in defaults)
        )

    def _instruction(self, function: dict[str, Any], pc: int) -> VmInstruction:
        row = self.r.row(f.VM_INSTRUCTION, function["code"] + pc, "VMCD")
        op = _OPS.get(row["op"])
        if op is None:
            raise self.damaged("VMCD", "a known instruction", row["op"])
        self.spend(1 + 8 * row["arg_count"])  # each is an object here
        registers = function["registers"]
        results = self.indices(row["results"], row["result_count"], registers, "VMCD")
        args: list[int | Const] = []
        for a in self.r.span(self.r.indices, row["args"], row["arg_count"], "VMCD"):
            constant = a & ~CONSTANT_BIT
            if constant >= len(self.data) if a & CONSTANT_BIT else a >= registers:
                raise self.damaged("VMCD", "a register or a constant that exists", a)
            args.append(Const(self.data[constant]) if a & CONSTANT_BIT else a)
        form = _FORMS[op]
        if (form[0] is not None and len(args) != form[0]) or (form[1] is not None and len(results) != form[1]):
            got = f"{len(args)} and {len(results)} in instruction {pc}"
            raise self.damaged("VMCD", "as many arguments and results as the instruction has", got)
        self._check_form(op, args, results, function, row)
        source = self.r.string(row["source"], "VMCD", optional=True)
        return VmInstruction(op, tuple(args), tuple(results), self._target(op, row, function), row["extra"], source)

    def _target(self, op: str, row: dict[str, Any], function: dict[str, Any]) -> Any:
        target = row["target"]

        def among(total: int) -> int:
            if target >= total:
                raise self.damaged("VMCD", "a target that exists", f"{target} of {total}")
            return int(target)

        match op:
            case "op":
                return self.operator_names[among(len(self.operator_names))]
            case "jump" | "branch" | "loop":
                return among(function["code_count"])
            case "tuple" if target == f.NONE:
                return None
            case "tuple" | "create":
                return self.classes[among(len(self.classes))][0]
            case "isinstance" | "call_method":
                return self.r.strings[among(len(self.r.strings))]
            case "call":
                return self.r.string(self.rows[among(len(self.rows))]["name"], "FUNC")
            case "planned":
                return self.methods[among(len(self.methods))]
            case "get_attr" | "set_attr":
                return among(f.LIMITS["max_registers"])
        return None

    def _check_form(self, op: str, args: list[int | Const], results: list[int], function: dict[str, Any], row: dict[str, Any]) -> None:  # fmt: skip
        most_args, most_results = f.LIMITS["max_operator_args"], f.LIMITS["max_operator_results"]
        if op == "op" and (len(args) > most_args or len(results) > most_results):
            raise self.damaged("VMCD", f"at most {most_args} arguments and {most_results} results", "more")
        if op == "dict" and len(args) % 2:
            raise self.damaged("VMCD", "a value for each key", len(args))
        if op == "call_method" and not args:
            raise self.damaged("VMCD", "an object to call a method of", "none")
        if op in ("call", "call_method") and len(args) > most_args:
            raise self.damaged("VMCD", f"at most {most_args} arguments", len(args))
        if op == "call" and row["target"] < len(self.rows) and len(args) != self.rows[row["target"]]["param_count"]:
            raise self.damaged("VMCD", "as many arguments as the function has", len(args))
        if op == "drop" and any(isinstance(a, Const) for a in args):
            raise self.damaged("VMCD", "registers to empty", "a constant")
        if op == "loop":
            if len(args) < 3:
                raise self.damaged("VMCD", "a loop's count, limit and condition", len(args))
            first = args[0]
            if isinstance(first, Const) or args != list(range(first, first + len(args))):
                raise self.damaged("VMCD", "consecutive registers of a loop", "others")
        if op == "planned" and row["target"] < len(self.methods):
            method = self.r.row(f.METHOD, row["target"], "VMCD")
            counts = len(args), len(results)
            if row["extra"] >= function["code_count"] or counts != (method["input_count"], method["output_count"]):
                raise self.damaged("VMCD", "a planned method's inputs and outputs", f"{counts[0]} and {counts[1]}")

    # --- the module, and bundled inputs ---
    def module(self) -> Fields | None:
        rows = list(self.r.rows(f.PROGRAM))
        if len(rows) > 1 or (self.rows and not rows):
            raise self.damaged("PROG", "one module", len(rows))
        if not rows:
            return None
        index = rows[0]["module"]
        module = self.data[index] if index < len(self.data) else None
        if not isinstance(module, Fields) or module.is_tuple:
            raise self.damaged("PROG", "an object", index)
        return module

    def bundles(self) -> tuple[Bundle, ...]:
        found = []
        for row in self.r.rows(f.BUNDLE):
            args = self.data[row["args"]] if row["args"] < len(self.data) else None
            has_outputs = row["outputs"] != f.NONE
            if not isinstance(args, tuple) or (has_outputs and row["outputs"] >= len(self.data)):
                raise self.damaged("BNDL", "a tuple of arguments", row["args"])
            method, info = self.r.string(row["method"], "BNDL"), self.r.string(row["info"], "BNDL", optional=True)
            outputs = self.data[row["outputs"]] if has_outputs else None
            found.append(Bundle(method, args, outputs, has_outputs, info, row["absolute"], row["relative"]))
        return tuple(found)
