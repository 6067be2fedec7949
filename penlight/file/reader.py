"""Reads a .pen file for people and tests: a path or bytes in, dataclasses out. Standard library and numpy only: neither
torch nor the compiled runtime, so `penlight inspect` works on any machine and on files this build has no kernels for.

As careful as the runtime's loader about structure: every index, size and code is checked before it is used, and a
file that is wrong gives a LoadError in words. What only kernels know (their attributes, packed sizes) is not checked.
"""

from __future__ import annotations

import json
import math
import mmap
import os
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from penlight.errors import LoadError
from penlight.file import format as f
from penlight.file import told
from penlight.file.contents import (
    AttrValue,
    Constant,
    Expression,
    Instruction,
    Method,
    Node,
    PenFile,
    Port,
    Region,
    State,
    Value,
)
from penlight.file.script_reader import ScriptReader
from penlight.ir.containers import check_input_spec, check_output_spec
from penlight.ir.graph import HALVES
from penlight.ir.types import DTYPES, LEVELS, Quant
from penlight.paths import check_path

_DTYPE_NAMES = {code: name for name, (code, _) in DTYPES.items()}
_STEP_NAMES = {code: name for name, code in f.STEP_OPS.items()}
_ATTR_NAMES = {code: name for name, code in f.ATTR_KINDS.items()}
_INSTRUCTION_NAMES = {code: name for name, code in f.INSTRUCTIONS.items()}
_STAGE_DEVICES = {code: name for name, code in f.STAGE_DEVICES.items()}
_LAYOUT_NAMES = {code: name for name, code in f.VALUE_LAYOUTS.items()}
_NUMPY = {"u8": "<u1", "u32": "<u4", "i64": "<i8", "f64": "<f8"}
# Arrays, and records below 16 bytes, never grow.
_FIXED_SIZES = {name: np.dtype(_NUMPY[kind]).itemsize for name, (kind, _) in f.ARRAYS.items()} | {
    r.section: r.size for r in f.RECORDS if r.section and r.size < 16
}
MAX_SECTIONS = 256
MAX_RECORD_BYTES = 4096


def read(source: str | os.PathLike[str] | bytes | np.ndarray) -> PenFile:
    """Reads a .pen file from a path (mapped, not copied) or from its bytes.

    >>> pen = read("mobilenet_v2.pen")
    >>> pen.method("forward").inputs[0].shape
    ('x_0', 3, 224, 224)
    """
    if isinstance(source, (bytes, bytearray, memoryview, np.ndarray)):
        data, name = np.frombuffer(source, np.uint8), "(memory)"
    else:
        data, name = _map(source), os.fspath(source)
    data.flags.writeable = False
    return _Reader(data, name).read()


def _map(path: str | os.PathLike[str]) -> np.ndarray:
    check_path(path)
    try:
        with open(path, "rb") as opened:
            if os.fstat(opened.fileno()).st_size == 0:  # an empty file cannot be mapped
                return np.zeros(0, np.uint8)
            return np.frombuffer(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) else None
        raise LoadError(f"{os.fspath(path)}: cannot be read: {reason or e}", "io") from None


def _packed_bytes(layout: str, shape: tuple[int, ...], groups: int) -> int:
    """Of a layout that can be undone; -1: none, or not of this shape."""
    if (
        layout not in ("panel16", "taps", "grouped", "panel16t", "groupedt")
        or len(shape) < 2
        or 0 in shape
        or shape[0] % groups
    ):
        return -1
    if layout.endswith("t"):  # dims 0 and 1 the other way round
        return _packed_bytes(layout[:-1], (shape[1] * groups, shape[0] // groups, *shape[2:]), groups)
    if layout == "taps":
        return 4 * math.prod(shape) if shape[1] == 1 and shape[0] >= groups else -1
    panels = groups * -(-shape[0] // groups // 16) if layout == "panel16" else -(-shape[0] // 16)
    return 4 * 16 * panels * math.prod(shape[1:])


class _Reader:
    """Sections first, then the tables from the leaves up: strings, constants, expressions, regions, methods."""

    def __init__(self, data: np.ndarray, name: str) -> None:
        self.data = data
        self.name = name
        self.sections: dict[str, tuple[int, int, int]] = {}  # id -> offset, record size, count
        self.dim_texts: dict[int, Expression] = {}  # of the method being read
        self.input_names: list[tuple[str, int]] = []  # of the method being read: name, rank
        self.register_count = 0  # of the method being read
        self.used_regions: set[int] = set()

    def damaged(self, where: str, expected: str, got: object) -> LoadError:
        return LoadError(f"{self.name}: damaged .pen file: {where}: expected {expected}, got {got}")

    # --- header and sections ---
    def read(self) -> PenFile:
        header = self.header()
        self.find_sections(header)
        constants = self.constants
        self.check_states(header["version"])
        methods = tuple(self.method(i) for i in range(self.sections["METH"][2]))
        script = ScriptReader(self, [m.name for m in methods])
        functions = script.functions()
        if not methods and not functions:
            raise self.damaged("METH", "at least one method", "none")
        keys = tuple(self.string(row["key"], "KEYS") for row in self.rows(f.KEY))
        return PenFile(
            name=self.name, version=header["version"], size=self.data.size, tables_size=header["tables_size"],
            data_offset=self.sections["DATA"][0], hash=header["hash"].hex(), methods=methods, constants=constants,
            keys=keys, metadata=self.metadata(), _bytes=self.data, functions=functions, bundles=script.bundles(),
            script_operators=script.operators, module=script.module(),
        )  # fmt: skip

    def header(self) -> dict[str, Any]:
        start = self.data[: f.HEADER.size].tobytes()
        if len(start) < f.HEADER.size or not start.startswith(f.MAGIC):
            got = f"{len(start)} bytes" if len(start) < 8 else f"a file that begins with {start[:4].hex(' ')}"
            if start.startswith(b"PK"):
                got = "a zip archive (a TorchScript .pt or .ptl? convert it with penlight optimize)"
            elif start.startswith(f.MAGIC):
                got = f"the first {len(start)} bytes of one"
            raise LoadError(f"{self.name}: expected a .pen file, got {got}")
        header = dict(zip((x.name for x in f.HEADER.fields), f.HEADER.struct.unpack(start), strict=True))
        if header["version"] > f.VERSION:
            raise LoadError(
                f"{self.name}: expected format version {f.VERSION} or older, got version {header['version']}."
                " Update Penlight, or save the model with an older one",
                "version",
            )
        if header["version"] == 0:
            raise self.damaged("header", "a format version of 1 or more", 0)
        if not f.HEADER.size <= header["header_size"] <= MAX_RECORD_BYTES:
            raise self.damaged(
                "header", f"a header of {f.HEADER.size} to {MAX_RECORD_BYTES} bytes", header["header_size"]
            )
        if header["file_size"] != self.data.size:
            where = "truncated" if header["file_size"] > self.data.size else "file size"
            raise self.damaged(where, f"{header['file_size']} bytes, as its header says", self.data.size)
        if header["section_count"] > MAX_SECTIONS:
            raise self.damaged("header", f"at most {MAX_SECTIONS} sections", header["section_count"])
        table_end = header["header_size"] + header["section_count"] * f.SECTION.size
        if not table_end <= header["tables_size"] <= min(self.data.size, f.LIMITS["max_table_bytes"]):
            raise self.damaged("header", "tables inside the file", f"tables of {header['tables_size']} bytes")
        return header

    def find_sections(self, header: dict[str, Any]) -> None:
        known = set(f.section_ids())
        for i in range(header["section_count"]):
            raw = self.data[header["header_size"] + i * f.SECTION.size :][: f.SECTION.size].tobytes()
            id_bytes, record_size, offset, count = f.SECTION.struct.unpack(raw)
            name = id_bytes.decode("latin-1")
            if name not in known:
                continue  # one that a later version of the format added
            if name in self.sections:
                raise self.damaged(name, "one section of this name", "two")
            end, alignment = (self.data.size, f.ALIGNMENT) if name == "DATA" else (header["tables_size"], 8)
            inside = (
                offset % alignment == 0 and 1 <= record_size <= MAX_RECORD_BYTES and offset + record_size * count <= end
            )
            if name == "DATA":
                inside = inside and offset >= header["tables_size"] and record_size == 1
            if not inside:
                raise self.damaged(
                    name, "a section inside the file", f"{count} records of {record_size} bytes at offset {offset}"
                )
            if record_size != _FIXED_SIZES.get(name, record_size):
                raise self.damaged(
                    name, "records of the size this section has in every version", f"{record_size} bytes"
                )
            self.sections[name] = (offset, record_size, count)
        for name in f.section_ids():
            if name not in self.sections and name not in f.OPTIONAL:
                raise self.damaged(name, "a section of this name", "none")
            self.sections.setdefault(name, (0, 1, 0))
        if self.sections["NODE"][2] > f.LIMITS["max_nodes"]:
            raise self.damaged("NODE", f"at most {f.LIMITS['max_nodes']} nodes", self.sections["NODE"][2])

    def array(self, section: str) -> np.ndarray:
        offset, _, count = self.sections[section]
        dtype = np.dtype(_NUMPY[f.ARRAYS[section][0]])
        return self.data[offset : offset + count * dtype.itemsize].view(dtype)

    def row(self, record: f.Record, index: int, where: str) -> dict[str, Any]:
        offset, size, count = self.sections[record.section]
        if not 0 <= index < count:
            raise self.damaged(where, f"a {record.name.lower()} that exists", f"{index} of {count}")
        raw = self.data[offset + index * size :][: min(size, record.size)].tobytes().ljust(record.size, b"\0")
        return dict(zip((x.name for x in record.fields), record.struct.unpack(raw), strict=True))

    def rows(self, record: f.Record) -> Iterator[dict[str, Any]]:
        return (self.row(record, i, record.section) for i in range(self.sections[record.section][2]))

    # --- pools ---
    @cached_property
    def strings(self) -> list[str]:
        text = self.array("TEXT")
        found = []
        for i, row in enumerate(self.rows(f.STRING)):
            start, end = row["offset"], row["offset"] + row["size"]
            if end >= text.size or text[end] != 0:
                raise self.damaged(
                    "STRS", "text inside TEXT, followed by a zero byte", f"string {i} at {start} of {row['size']} bytes"
                )
            raw = text[start:end].tobytes()
            if b"\0" in raw:
                raise self.damaged("STRS", "text without zero bytes", f"one in string {i}")
            found.append(raw.decode("utf-8", "replace"))
        return found

    @cached_property
    def ints(self) -> np.ndarray:
        return self.array("INTS")

    @cached_property
    def floats(self) -> np.ndarray:
        return self.array("FLTS")

    @cached_property
    def indices(self) -> np.ndarray:
        return self.array("INDX")

    @cached_property
    def constants(self) -> tuple[Constant, ...]:
        return tuple(self.constant(i, row) for i, row in enumerate(self.rows(f.CONSTANT)))

    def string(self, index: int, where: str, optional: bool = False) -> str:
        if optional and index == f.NONE:
            return ""
        if index >= len(self.strings):
            raise self.damaged(where, "a string index", f"{index} of {len(self.strings)}")
        return self.strings[index]

    def span(self, pool: np.ndarray, start: int, count: int, where: str) -> list[Any]:
        if start + count > pool.size:
            raise self.damaged(where, "a range inside its table", f"{count} from {start} of {pool.size}")
        return list(pool[start : start + count].tolist())

    def dtype(self, code: int, where: str) -> str:
        if code not in _DTYPE_NAMES:
            raise self.damaged(where, f"a dtype code below {len(_DTYPE_NAMES)}", code)
        return _DTYPE_NAMES[code]

    def constant(self, index: int, row: dict[str, Any]) -> Constant:
        name = self.string(row["name"], f"constant {index}")
        dtype = self.dtype(row["dtype"], name)
        self.check_rank(row["rank"], name)
        shape = tuple(self.span(self.ints, row["dims"], row["rank"], name))
        if any(not 0 <= d <= f.LIMITS["max_dim"] for d in shape):
            raise self.damaged(name, f"dims of 0 to {f.LIMITS['max_dim']}", list(shape))
        offset, _, room = self.sections["DATA"]
        if row["offset"] % f.ALIGNMENT or row["offset"] + row["size"] > room:
            raise self.damaged(
                name, "weights inside DATA, 64-byte aligned", f"{row['size']} bytes at {row['offset']} of {room}"
            )
        layout = self.string(row["layout"], name)
        half = layout.startswith(HALVES)
        if half and (dtype != "f32" or row["groups"]):
            raise self.damaged(name, f"numbers of f32, that planned code takes, in layout {HALVES}", dtype)
        itemsize = 2 if half else np.dtype(DTYPES[dtype][1]).itemsize
        expected = itemsize
        for d in shape:
            expected *= d
        if (layout.removeprefix(HALVES) == "plain" and expected != row["size"]) or row["size"] % itemsize:
            raise self.damaged(name, f"as many bytes as its dims {list(shape)} say", row["size"])
        groups = row["groups"]
        if groups and not (dtype == "f32" and row["size"] == _packed_bytes(layout, shape, groups)):
            raise self.damaged(
                name, "a weight of f32 in a packed layout that can be undone, in as many bytes as it takes",
                f"{row['size']} bytes in {groups} groups as {layout}",
            )  # fmt: skip
        start = offset + row["offset"]
        data = self.data[start : start + row["size"]]
        return Constant(name, dtype, shape, layout, start, row["size"], data, groups)

    def metadata(self) -> dict[str, Any]:
        raw = self.array("META").tobytes()
        if not raw.endswith(b"\0"):
            raise self.damaged("META", "text that ends in a zero byte", "no zero")
        text = raw[:-1].decode("utf-8", "replace")
        found = self.json(text, "META")
        try:
            told.check_metadata(text, found)
        except LoadError as e:
            raise LoadError(f"{self.name}: {e}") from None
        return found  # type: ignore[no-any-return]

    def json(self, text: str, where: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as e:
            raise self.damaged(where, "JSON", f"text that is none ({e})") from None

    # --- dims ---
    def shape(self, row: dict[str, Any], where: str) -> tuple[int | Expression, ...]:
        """Of a value or a port; an expression may be of any size, and the runtime looks at each."""
        self.check_rank(row["rank"], where)
        found = self.dims(row["dims"], row["rank"], where)
        if any(isinstance(d, int) and not 0 <= d <= f.LIMITS["max_dim"] for d in found):
            raise self.damaged(where, f"dims of 0 to {f.LIMITS['max_dim']}", list(map(str, found)))
        return found

    def check_rank(self, rank: int, where: str) -> None:
        if rank > f.LIMITS["max_rank"]:
            raise self.damaged(where, f"a rank of at most {f.LIMITS['max_rank']}", rank)

    def dims(self, start: int, count: int, where: str) -> tuple[int | Expression, ...]:
        return tuple(self.dim(v) for v in self.span(self.ints, start, count, where))

    def dim(self, stored: int) -> int | Expression:
        if stored >= f.EXPR_BASE + f.EXPR_LIMIT:
            return stored
        index = stored - f.EXPR_BASE
        if index not in self.dim_texts:
            self.dim_texts[index] = Expression(self.expression(index))
        return self.dim_texts[index]

    def expression(self, index: int) -> str:
        """Postfix steps as text, without recursion: a hostile file may nest thousands deep."""
        row = self.row(f.EXPR, index, "EXPR")
        total = self.sections["STEP"][2]
        if row["count"] > f.LIMITS["max_expr_steps"] or row["start"] + row["count"] > total:
            raise self.damaged(
                "EXPR",
                f"at most {f.LIMITS['max_expr_steps']} steps inside STEP",
                f"{row['count']} from {row['start']} of {total}",
            )
        stack: list[tuple[str, bool]] = []  # text, and whether it needs no parentheses as an operand
        for i in range(row["start"], row["start"] + row["count"]):
            step = self.row(f.STEP, i, "STEP")
            op = _STEP_NAMES.get(step["op"])
            if op is None:
                raise self.damaged("STEP", "a known operation", step["op"])
            if op == "const":
                stack.append((str(step["arg"]), True))
                continue
            if op in ("register_dim", "register_value"):
                stack.append((self.register(op, step["arg"]), True))
                continue
            if len(stack) < 2:
                raise self.damaged("EXPR", "two operands for each operation", f"fewer in expression {index}")
            (a, a_simple), (b, b_simple) = stack[-2:]
            if op in ("max", "min"):
                stack[-2:] = [(f"{op}({a}, {b})", True)]
            else:
                stack[-2:] = [(f"{a if a_simple else f'({a})'} {op} {b if b_simple else f'({b})'}", False)]
        if len(stack) != 1:
            raise self.damaged("EXPR", "one result", f"{len(stack)} in expression {index}")
        return stack[0][0]

    def register(self, op: str, arg: int) -> str:
        """A dim of an input ("x_0") or of another register ("r3_0"), or the number that a register holds ("r3")."""
        number, dim = divmod(arg, 256) if op == "register_dim" else (arg, 0)
        rank = self.input_names[number][1] if 0 <= number < len(self.input_names) else f.LIMITS["max_rank"]
        if not 0 <= number < self.register_count or dim >= rank:
            raise self.damaged("STEP", "a dim of an input, or a dim or value of an earlier stage's result", arg)
        if op == "register_value":
            return f"r{number}"
        return f"{self.input_names[number][0]}_{dim}" if number < len(self.input_names) else f"r{number}_{dim}"

    # --- regions ---
    def region(self, index: int) -> Region:
        row = self.row(f.REGION, index, "CODE")
        if index in self.used_regions:
            raise self.damaged("CODE", "each region to be run by one instruction", f"region {index} by two")
        self.used_regions.add(index)
        values = [
            self.value(row["values"] + i) for i in range(self.counted(f.VALUE, row["values"], row["value_count"]))
        ]
        defined = {i for i, v in enumerate(values) if v.constant is not None}
        inputs = self.define(values, row["inputs"], row["input_count"], defined, "REGN")
        nodes = [
            self.node(row["nodes"] + i, values, defined)
            for i in range(self.counted(f.NODE, row["nodes"], row["node_count"]))
        ]
        outputs = [
            self.use(values, v, defined, "REGN")
            for v in self.span(self.indices, row["outputs"], row["output_count"], "REGN")
        ]
        return Region(tuple(inputs), tuple(nodes), tuple(outputs))

    def counted(self, record: f.Record, start: int, count: int) -> int:
        total = self.sections[record.section][2]
        if start + count > total:
            raise self.damaged(record.section, "a range inside its table", f"{count} from {start} of {total}")
        return count

    def define(self, values: list[Value], start: int, count: int, defined: set[int], where: str) -> list[Value]:
        found = []
        for i in self.span(self.indices, start, count, where):
            if i >= len(values) or i in defined:
                raise self.damaged(where, "results that nothing else computes", f"value {i}")
            defined.add(i)
            found.append(values[i])
        return found

    def use(self, values: list[Value], index: int, defined: set[int], where: str) -> Value:
        if index not in defined:
            raise self.damaged(where, "values that are computed before", f"value {index}")
        return values[index]

    def value(self, index: int) -> Value:
        row = self.row(f.VALUE, index, "VALS")
        name = self.string(row["name"], "VALS")
        dtype = self.dtype(row["dtype"], name)
        if row["layout"] not in _LAYOUT_NAMES:
            raise self.damaged(name, "a known layout", row["layout"])
        shape = self.shape(row, name)
        constant = None
        layout = _LAYOUT_NAMES[row["layout"]]
        if row["constant"] != f.NONE:
            if row["constant"] >= len(self.constants):
                raise self.damaged(name, "a constant that exists", f"{row['constant']} of {len(self.constants)}")
            constant = self.constants[row["constant"]]
            layout = constant.layout
            if constant.dtype != dtype or len(constant.shape) != len(shape):
                raise self.damaged(name, "the dtype and rank of its constant", f"{dtype} and {len(shape)}")
        return Value(name, dtype, shape, layout, constant, self.quant(row["quant"], name, dtype, constant))

    def quant(self, number: int, name: str, dtype: str, constant: Constant | None) -> Quant | None:
        if number == 0:
            return None
        row = self.row(f.QUANT, number - 1, name)
        if dtype not in LEVELS:
            raise self.damaged(name, f"one of {', '.join(LEVELS)} as dtype of a quantized tensor", dtype)
        low, high = LEVELS[dtype]
        zeros = self.span(self.ints, row["zeros"], row["zero_count"], name)
        if row["axis"] == f.NONE:
            scales, axis, count = self.span(self.floats, row["scales"], 1, name), None, 1
        else:
            if constant is None or row["axis"] >= len(constant.shape) or row["scales"] >= len(self.constants):
                raise self.damaged(
                    name, "scales along a dim of a constant", f"dim {row['axis']}, scales {row['scales']}"
                )
            axis, count, stored = row["axis"], constant.shape[row["axis"]], self.constants[row["scales"]]
            if (stored.dtype, stored.layout, stored.shape) != ("f32", "plain", (count,)):
                raise self.damaged(name, f"{count} scales of f32", f"{stored.dtype}{list(stored.shape)}")
            scales = stored.array.tolist()
        if row["count"] != count or row["zero_count"] not in (1, count):
            raise self.damaged(name, f"{count} scales and zero points", f"{row['count']} and {row['zero_count']}")
        if any(not 0 < s < math.inf for s in scales) or any(not low <= z <= high for z in zeros):
            raise self.damaged(
                name, f"finite scales above 0 and zero points from {low} to {high}", f"{scales[:4]}, {zeros[:4]}"
            )
        zeros = zeros * count if len(zeros) == 1 else zeros
        return Quant(tuple(scales), tuple(zeros), axis)

    def node(self, index: int, values: list[Value], defined: set[int]) -> Node:
        row = self.row(f.NODE, index, "NODE")
        key = self.string(row["key"], "NODE")
        if max(row["input_count"], row["output_count"]) > f.LIMITS["max_inputs"] or row["output_count"] == 0:
            raise self.damaged(
                key,
                f"1 to {f.LIMITS['max_inputs']} results and at most as many inputs",
                (row["output_count"], row["input_count"]),
            )
        inputs = [
            None if i == f.NONE else self.use(values, i, defined, key)
            for i in self.span(self.indices, row["inputs"], row["input_count"], key)
        ]
        outputs = self.define(values, row["outputs"], row["output_count"], defined, key)
        first = row["attrs"]
        attrs = dict(self.attr(first + i, key) for i in range(self.counted(f.ATTR, first, row["attr_count"])))
        return Node(key, tuple(inputs), tuple(outputs), attrs, self.string(row["source"], key, optional=True))

    def attr(self, index: int, key: str) -> tuple[str, AttrValue]:
        row = self.row(f.ATTR, index, key)
        name = self.string(row["name"], key)
        where, start, count = f"{key}: attribute {name}", row["start"], row["count"]
        match _ATTR_NAMES.get(row["kind"]):
            case "none":
                return name, None
            case "int":
                return name, self.dims(start, 1, where)[0]
            case "ints":
                return name, self.dims(start, count, where)
            case "float":
                return name, self.span(self.floats, start, 1, where)[0]
            case "floats":
                return name, tuple(self.span(self.floats, start, count, where))
            case "str":
                return name, self.string(start, where)
            case "bool" if start <= 1:
                return name, bool(start)
        raise self.damaged(where, "a known kind of attribute", f"kind {row['kind']} from {start}")

    # --- methods ---
    def method(self, index: int) -> Method:
        row = self.row(f.METHOD, index, "METH")
        name = self.string(row["name"], "METH")
        if row["input_count"] > f.LIMITS["max_inputs"]:
            raise self.damaged(name, f"at most {f.LIMITS['max_inputs']} inputs", row["input_count"])
        self.counted(f.PORT, row["inputs"], row["input_count"])
        self.counted(f.PORT, row["outputs"], row["output_count"])
        ports = [self.row(f.PORT, row["inputs"] + i, name) for i in range(row["input_count"])]
        self.input_names = [(self.string(p["name"], "PORT"), p["rank"]) for p in ports]
        self.dim_texts, self.register_count = {}, row["registers"]
        inputs = tuple(self.port(p, limited=True) for p in ports)
        outputs = tuple(
            self.port(self.row(f.PORT, row["outputs"] + i, name), limited=False) for i in range(row["output_count"])
        )
        states = [s for s in self.states if s["method"] == index]
        code, written = self.code(row, name, len(states))
        specs = [self.json(self.string(row[part], name), f"{name}: {part}") for part in ("input_spec", "output_spec")]
        try:
            check_input_spec(specs[0], len(inputs), len(outputs))
            sizes = {f"in{i}_{d}" for i, port in enumerate(inputs) for d in range(len(port.shape))}
            check_output_spec(specs[1], len(outputs), sizes)
        except (ValueError, RecursionError) as e:
            raise self.damaged(f"{name}: containers", "those that methods have", str(e)[:300]) from None
        kept = tuple(self.state(name, s, row["input_count"] + i, code, written) for i, s in enumerate(states))
        if len({s.result for s in kept}) != len(kept):
            raise self.damaged(name, "a register of its own for each state's next value", "one for two")
        return Method(name, inputs, outputs, code, row["registers"], specs[0], specs[1], kept)

    @cached_property
    def states(self) -> list[dict[str, Any]]:
        return list(self.rows(f.STATE))

    def check_states(self, version: int) -> None:
        owners = [s["method"] for s in self.states]
        if owners and version < f.VERSION_WITH_STATE:
            raise self.damaged("STAT", f"format version {f.VERSION_WITH_STATE} or later", version)
        if owners != sorted(owners) or any(owner >= self.sections["METH"][2] for owner in owners):
            raise self.damaged("STAT", "methods that exist, in their order", owners[:8])

    def state(
        self,
        method: str,
        row: dict[str, Any],
        register: int,
        code: tuple[Instruction, ...],
        written: dict[int, Value | None],
    ) -> State:
        name = self.string(row["name"], method)
        if row["constant"] >= len(self.constants):
            raise self.damaged(name, "a constant that exists", f"{row['constant']} of {len(self.constants)}")
        initial = self.constants[row["constant"]]
        if initial.layout != "plain":
            raise self.damaged(name, "a state that starts from a plain constant", initial.layout)
        after = written.get(row["result"])
        if after is None or row["result"] in code[-1].args:
            raise self.damaged(
                name, "a region's result of its own as a state's next value", f"register {row['result']}"
            )
        for what in (after, *self.read_as(register, code)):
            if (what.dtype, len(what.shape)) != (initial.dtype, len(initial.shape)):
                raise self.damaged(
                    name, f"{initial.dtype} of rank {len(initial.shape)}", f"{what.dtype} of rank {len(what.shape)}"
                )
        return State(name, initial, register, row["result"])

    def read_as(self, register: int, code: tuple[Instruction, ...]) -> Iterator[Value]:
        """What regions take a register for."""
        for step in code:
            for arg, value in zip(step.args, step.region.inputs if step.region else (), strict=False):
                if arg == register:
                    yield value

    def port(self, row: dict[str, Any], limited: bool) -> Port:
        name = self.string(row["name"], "PORT")
        dtype = self.dtype(row["dtype"], name)
        shape = self.shape(row, name)
        if not limited:
            return Port(name, dtype, shape)
        ends = self.span(self.ints, row["ranges"], 2 * row["rank"], name)
        limits = []
        for least, most in zip(ends[::2], ends[1::2], strict=True):
            if not 0 <= least <= most <= f.LIMITS["max_dim"]:
                raise self.damaged(name, "a range of sizes", f"{least} to {most}")
            limits.append((least, None if most == f.LIMITS["max_dim"] else most))
        return Port(name, dtype, shape, tuple(limits))

    def code(
        self, method: dict[str, Any], name: str, states: int
    ) -> tuple[tuple[Instruction, ...], dict[int, Value | None]]:
        """And the registers that are written: the values that regions put there, None for inputs and states."""
        if method["registers"] < method["input_count"] + states:
            raise self.damaged(name, "a register for each input and state", method["registers"])
        written: dict[int, Value | None] = dict.fromkeys(range(method["input_count"] + states))
        steps: list[Instruction] = []
        for pc in range(self.counted(f.INSTRUCTION, method["code"], method["code_count"])):
            row = self.row(f.INSTRUCTION, method["code"] + pc, name)
            op = _INSTRUCTION_NAMES.get(row["op"])
            if op is None:
                raise self.damaged("CODE", "a known instruction", row["op"])
            args = self.span(self.indices, row["args"], row["arg_count"], "CODE")
            results = self.span(self.indices, row["results"], row["result_count"], "CODE")
            if unwritten := [r for r in args if r not in written]:
                raise self.damaged("CODE", "registers that were written before", f"register {unwritten[0]}")
            if (op == "return") != (pc + 1 == method["code_count"]):
                raise self.damaged("CODE", "return as the last instruction, once", "another order")
            if (again := [r for r in results if r in written]) or len(set(results)) != len(results):
                raise self.damaged("CODE", "results in registers of their own", f"register {(again or results)[0]}")
            if any(r >= method["registers"] for r in results):
                raise self.damaged("CODE", f"registers below {method['registers']}", max(results))
            region = self.region(row["target"]) if op == "region" else None
            shape = (len(region.inputs), len(region.outputs)) if region else (0, 0)
            shape = (method["output_count"], 0) if op == "return" else shape
            if (len(args), len(results)) != shape:
                raise self.damaged(
                    "CODE", f"{shape[0]} arguments and {shape[1]} results of {op}", f"{len(args)} and {len(results)}"
                )
            written.update(zip(results, region.outputs if region else (), strict=True))
            device = _STAGE_DEVICES.get(row["target"]) if op == "stage" else ""
            if device is None:
                raise self.damaged("CODE", "a stage on a device that is known", row["target"])
            steps.append(Instruction(op, region, tuple(args), tuple(results), device))
        if not steps:
            raise self.damaged("CODE", "a return", "none")
        return tuple(steps), written
