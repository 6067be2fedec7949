"""The .pen format, declared once: the writer packs by these records, the C++ header is generated from them
(`cpp_header`), and SPEC.md's tables are checked against them (`spec_tables`).

A file is a header, a section table, small tables of fixed-size little-endian records, and the weights. Records may
grow at their end only: a reader copies min(stored size, its own size) bytes and zero-fills the rest, so every field
added later must mean "as before" when it is 0. Records below 16 bytes never grow. This module needs the standard library only (isolated builds run it).
"""

from __future__ import annotations

import functools
import struct
from dataclasses import dataclass

from penlight.magic import PEN as MAGIC

VERSION = 4
# A file has the lowest version that can say what it says: older runtimes read it then.
VERSION_PLAIN = 1
VERSION_WITH_VM = 2  # VM code or bundled inputs
VERSION_QUANTIZED = 3  # a quantized tensor in a region, or weights in f16
VERSION_WITH_STATE = 4  # a planned method that keeps state
ALIGNMENT = 64  # of the weights: a cache line, and the widest vector
NONE = 0xFFFFFFFF  # "no string / value / constant" in an index field
EXPR_BASE = -(2**63)  # an i64 below EXPR_BASE + 2**31 is dim expression number (value - EXPR_BASE)
EXPR_LIMIT = 2**31
HASH_OFFSET = 48  # of Header.hash; these 32 bytes count as zero when the hash is taken

# Limits that a reader enforces before it allocates anything.
LIMITS = {
    "max_table_bytes": 256 << 20,
    "max_rank": 8,
    "max_expr_steps": 4096,
    "max_inputs": 4096,
    "max_nodes": 1 << 20,
    "max_dim": 1 << 40,
    "max_links": 1 << 20,
    "max_verify_steps": 1 << 24,
    "max_stages": 4096,
    "max_registers": 1 << 20,
    "max_live_registers": 1 << 22,
    "max_frames": 2000,
    "max_datum_depth": 64,
    "max_operator_args": 4096,
    "max_operator_results": 8,
}

_SIZES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i64": "q", "f64": "d"}
_CPP = {"u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t", "i64": "int64_t", "f64": "double"}


@dataclass(frozen=True)
class Field:
    name: str
    type: str  # a key of _SIZES, or "u8[n]"
    doc: str

    @property
    def code(self) -> str:
        return f"{self.type[3:-1]}s" if self.type.startswith("u8[") else _SIZES[self.type]


@dataclass(frozen=True)
class Record:
    name: str
    section: str  # four letters; "" for the header and the section table
    doc: str
    fields: tuple[Field, ...]

    @functools.cached_property  # asked for each record that is read
    def struct(self) -> struct.Struct:
        return struct.Struct("<" + "".join(f.code for f in self.fields))

    @functools.cached_property
    def size(self) -> int:
        return self.struct.size

    def pack(self, **values: int | float | bytes) -> bytes:
        names = [f.name for f in self.fields if not f.name.startswith("reserved")]
        if sorted(values) != sorted(names):
            raise ValueError(f"record {self.name} has fields {names}, got {sorted(values)}")
        empty = {"s": b""}
        return self.struct.pack(*(values.get(f.name, empty.get(f.code[-1], 0)) for f in self.fields))


def _record(name: str, section: str, doc: str, *fields: str) -> Record:
    """Fields as "type name: what it is"."""
    parsed = []
    for text in fields:
        head, doc_text = text.split(": ", 1)
        kind, field_name = head.split()
        parsed.append(Field(field_name, kind, doc_text))
    return Record(name, section, doc, tuple(parsed))


HEADER = _record(
    "Header", "", "First bytes of the file.",
    "u8[8] magic: 89 50 45 4E 0D 0A 1A 0A",
    "u32 version: format version; a reader refuses a newer one and names it",
    "u32 header_size: bytes of this record",
    "u32 section_count: entries of the section table, which follows the header",
    "u32 reserved0: 0",
    "u64 file_size: bytes of the whole file",
    "u64 tables_size: bytes from the start up to the end of the last table; all sections but DATA lie there",
    "u64 reserved1: 0",
    "u8[32] hash: SHA-256 of the file with these 32 bytes as zero",
)  # fmt: skip
SECTION = _record(
    "Section", "", "One table: `count` records of `record_size` bytes at `offset`.",
    "u8[4] id: four letters",
    "u32 record_size: bytes of one record as written",
    "u64 offset: from the start of the file; a multiple of 8, of 64 for DATA",
    "u64 count: records",
)  # fmt: skip
STRING = _record(
    "String", "STRS", "A string: UTF-8 in TEXT, followed by a zero byte that `size` does not count.",
    "u32 offset: in TEXT",
    "u32 size: bytes",
)  # fmt: skip
CONSTANT = _record(
    "Constant", "CNST", "A tensor that lies in DATA, in the layout that `layout` names.",
    "u32 name: string",
    "u32 layout: string: plain, or a packed layout (see Layouts)",
    "u8 dtype: dtype code",
    "u8 rank: of the logical shape",
    "u16 groups: of the convolution that it was packed for, where VM code takes it as a storage (see VM code); else 0",
    "u32 dims: start in INTS of `rank` logical dims",
    "u64 offset: in DATA, a multiple of 64",
    "u64 size: bytes",
)  # fmt: skip
EXPR = _record(
    "Expr", "EXPR", "A symbolic dim: postfix steps in STEP.",
    "u32 start: first step",
    "u32 count: steps",
)  # fmt: skip
STEP = _record(
    "Step", "STEP", "One postfix step of a dim expression.",
    "u32 op: see Step operations",
    "u32 reserved0: 0",
    "i64 arg: const: the value; register_dim: register * 256 + dim; register_value: register; else 0",
)  # fmt: skip
VALUE = _record(
    "Value", "VALS", "A tensor inside a region.",
    "u32 name: string",
    "u32 constant: index in CNST, or none",
    "u8 dtype: dtype code",
    "u8 rank: number of dims",
    "u8 layout: 0 plain, 1 nhwc, 2 strided (a view)",
    "u8 reserved0: 0",
    "u32 dims: start in INTS of `rank` dims, for people; the runtime computes them anew",
    "u32 quant: 1 + what its integers stand for, in QUNT; 0: themselves",
)  # fmt: skip
PLAIN_VALUE_SIZE = 16  # up to `dims`, as versions 1 and 2 have it
QUANT = _record(
    "Quant", "QUNT", "What the integers of a quantized tensor (u8, i8, i32) stand for: (stored - zero point) * scale.",
    "u32 axis: dim of a constant along which each place has a scale of its own; none: one for all",
    "u32 scales: of one for all: its place in FLTS, finite and above 0; else index in CNST of a plain f32 tensor of `count` scales",
    "u32 count: of scales",
    "u32 zeros: start in INTS of zero points, within the dtype's range",
    "u32 zero_count: 1, which is for all, or `count`",
)  # fmt: skip
NODE = _record(
    "Node", "NODE", "One kernel call in a region.",
    "u32 key: string: op.dtype or op.dtype.variant",
    "u32 source: string: the Python line it came from, or none",
    "u32 inputs: start in INDX of value indices (none: an optional input left out)",
    "u32 input_count: inputs",
    "u32 outputs: start in INDX of value indices",
    "u32 output_count: outputs",
    "u32 attrs: start in ATTR",
    "u32 attr_count: attributes",
)  # fmt: skip
ATTR = _record(
    "Attr", "ATTR", "An attribute of a node, by name.",
    "u32 name: string",
    "u8 kind: see Attribute kinds",
    "u8 reserved0: 0",
    "u16 reserved1: 0",
    "u32 start: int, ints: in INTS; float, floats: in FLTS; str: string; bool: 0 or 1",
    "u32 count: elements of ints and floats; else 0",
)  # fmt: skip
REGION = _record(
    "Region", "REGN", "Straight-line code that is planned as a whole.",
    "u32 values: start in VALS",
    "u32 value_count: values; indices in INDX are relative to `values`",
    "u32 nodes: start in NODE",
    "u32 node_count: nodes, in execution order",
    "u32 inputs: start in INDX of value indices",
    "u32 input_count: inputs",
    "u32 outputs: start in INDX of value indices",
    "u32 output_count: outputs",
)  # fmt: skip
INSTRUCTION = _record(
    "Instruction", "CODE", "One step of a method's VM code. Registers 0 … n-1 hold the method's n inputs at the start, those after them its states.",
    "u32 op: see Instructions",
    "u32 target: region: its index; stage: see Stage devices; else 0",
    "u32 args: start in INDX of registers read",
    "u32 arg_count: registers read",
    "u32 results: start in INDX of registers written",
    "u32 result_count: registers written",
)  # fmt: skip
PORT = _record(
    "Port", "PORT", "What a method takes or gives back.",
    "u32 name: string",
    "u8 dtype: dtype code",
    "u8 rank: number of dims",
    "u16 reserved0: 0",
    "u32 dims: start in INTS of `rank` dims, each a number or a dim expression",
    "u32 ranges: start in INTS of `rank` pairs (least, most) for inputs; none for outputs",
)  # fmt: skip
METHOD = _record(
    "Method", "METH", "A function that a caller can run.",
    "u32 name: string",
    "u32 code: start in CODE",
    "u32 code_count: instructions; the last one is return",
    "u32 registers: how many registers the code uses",
    "u32 inputs: start in PORT",
    "u32 input_count: inputs",
    "u32 outputs: start in PORT",
    "u32 output_count: outputs",
    "u32 input_spec: string: JSON of the containers around the inputs (ir/containers.py)",
    "u32 output_spec: string: JSON of the containers around the outputs",
)  # fmt: skip
STATE = _record(
    "State", "STAT", "A tensor that a planned method keeps from run to run. Its states follow each other, and so do methods.",
    "u32 method: in METH",
    "u32 name: string: the buffer's name in the model",
    "u32 constant: index in CNST: what it starts from, in layout plain; a state has its dtype and dims",
    "u32 result: register that holds its next value when a run ends, written by a region and not returned",
)  # fmt: skip
KEY = _record(
    "Key", "KEYS", "A kernel that the file needs, activations fused into others included.",
    "u32 key: string",
)  # fmt: skip

FUNCTION = _record(
    "Function", "FUNC", "A function of VM code: TorchScript that is interpreted. Its parameters are in registers 0 … n-1 at the start.",
    "u32 name: string, qualified: __torch__.M.forward",
    "u32 code: start in VMCD",
    "u32 code_count: instructions; the last one is return or jump",
    "u32 registers: how many registers the code uses",
    "u32 first_slot: registers from this one on are emptied by the instruction that reads them",
    "u32 param_count: parameters, self included",
    "u32 method: string: the name by which a caller runs it as a method of the module, or none",
    "u32 schema: string: JSON of its arguments and results, for people and bindings",
    "u32 defaults: start in INDX of DATM: the last parameters' default values",
    "u32 default_count: how many of them",
)  # fmt: skip
VM_INSTRUCTION = _record(
    "VmInstruction", "VMCD", "One step of a function. Arguments are registers, or (with bit 31 set) constants: entries of DATM.",
    "u32 op: see VM instructions",
    "u32 target: what it refers to, see VM instructions; else 0",
    "u32 extra: as target; else 0",
    "u32 args: start in INDX",
    "u32 arg_count: arguments",
    "u32 results: start in INDX of registers written",
    "u32 result_count: registers written",
    "u32 source: string: the line it came from, or none",
)  # fmt: skip
OPERATOR = _record(
    "Operator", "OPER", "An operator that VM code calls by name.",
    "u32 name: string: aten::add.Tensor",
    "u32 calls: how many instructions call it",
)  # fmt: skip
DATUM = _record(
    "Datum", "DATM", "A constant or a part of the module's state. Parts have smaller numbers than what they are part of.",
    "u32 kind: see Datum kinds",
    "u32 type: object, tuple: class in CLAS, or none; else 0",
    "i64 number: int, bool: its value; float: its bits; str: string; else 0",
    "u32 start: list, tuple, dict (keys and values in turn), object: parts, in INDX; tensor: in INTS",
    "u32 count: parts",
)  # fmt: skip
CLASS = _record(
    "Class", "CLAS", "A class of objects or of named tuples.",
    "u32 name: string, qualified",
    "u32 fields: start in INDX of strings: the attributes' names",
    "u32 field_count: attributes",
)  # fmt: skip
BUNDLE = _record(
    "Bundle", "BNDL", "Example inputs of a method, and what they should give.",
    "u32 method: string",
    "u32 args: DATM: a tuple",
    "u32 outputs: DATM, or none",
    "u32 info: string: what the author says of it, or none",
    "f64 absolute: how far a number may be off …",
    "f64 relative: … and how far in parts of it",
)  # fmt: skip
PROGRAM = _record(
    "Program", "PROG", "The module that VM code belongs to; one record, or none where there is no VM code.",
    "u32 module: DATM: the object that is self",
    "u32 reserved0: 0",
)  # fmt: skip

RECORDS = (HEADER, SECTION, STRING, CONSTANT, EXPR, STEP, VALUE, NODE, ATTR, REGION, INSTRUCTION, PORT, METHOD, KEY,
           FUNCTION, VM_INSTRUCTION, OPERATOR, DATUM, CLASS, BUNDLE, PROGRAM, QUANT, STATE)  # fmt: skip
OPTIONAL = {r.section for r in RECORDS[RECORDS.index(FUNCTION) :]}  # absent where there is nothing to say

# Sections that are plain arrays: id -> (element type, meaning)
ARRAYS = {
    "TEXT": ("u8", "the bytes of strings"),
    "INTS": ("i64", "dims and integer attributes; a value below -2^63 + 2^31 is a dim expression"),
    "FLTS": ("f64", "float attributes"),
    "INDX": ("u32", "lists of value or register indices"),
    "META": ("u8", "metadata: one JSON object, UTF-8, followed by a zero byte"),
    "DATA": ("u8", "the weights, 64-byte aligned"),
}

STEP_OPS = {
    "const": 0,
    "register_dim": 1,
    "+": 2,
    "-": 3,
    "*": 4,
    "//": 5,
    "%": 6,
    "max": 7,
    "min": 8,
    "register_value": 9,
}
ATTR_KINDS = {"none": 0, "int": 1, "float": 2, "bool": 3, "str": 4, "ints": 5, "floats": 6}
INSTRUCTIONS = {"region": 0, "return": 1, "stage": 2}
STAGE_DEVICES = {"": 0, "cpu": 1}  # the session's; the CPU, whatever the session runs on
# name: code, and what target and extra mean
VM_INSTRUCTIONS = {
    "move": 0,
    "op": 1,  # target: OPER
    "jump": 2,  # target: instruction, counted from the function's first
    "branch": 3,  # jumps to target if args[0] is false
    "loop": 4,  # args: consecutive registers [trip, max, condition, carried …]; exit: target
    "return": 5,
    "list": 6,
    "tuple": 7,  # target: CLAS of a named tuple, or none
    "dict": 8,  # args: keys and values in turn
    "unpack": 9,
    "get_attr": 10,  # target: number of the attribute
    "set_attr": 11,  # target: number of the attribute; args: object, value
    "create": 12,  # target: CLAS
    "isinstance": 13,  # target: string: types, separated by |
    "call": 14,  # target: FUNC
    "call_method": 15,  # target: string: method of args[0]
    "drop": 16,  # empties registers
    "planned": 17,  # target: METH, run on args where these fit it, then on to extra; else the next instruction
}
DATUM_KINDS = {
    "none": 0,
    "bool": 1,
    "int": 2,
    "float": 3,
    "str": 4,
    "tensor": 5,
    "list": 6,
    "tuple": 7,
    "dict": 8,
    "object": 9,
}
VALUE_LAYOUTS = {"plain": 0, "nhwc": 1, "strided": 2}


def section_ids() -> list[str]:
    """In the order in which the writer lays them down."""
    return [r.section for r in RECORDS if r.section] + list(ARRAYS)


def cpp_header() -> str:
    """C++ structs and constants of the format, for the runtime's loader."""
    cpp_names = {"+": "add", "-": "sub", "*": "mul", "//": "floor_div", "%": "mod", "const": "constant", "return": "ret",
                 "float": "real", "int": "integer", "bool": "boolean"}  # fmt: skip
    lines = [
        "// Generated from penlight/file/format.py by penlight/build/generate.py. Do not edit.",
        "#pragma once",
        "#include <stdint.h>",
        "namespace pen::format {",
        f"constexpr uint8_t kMagic[8] = {{{', '.join(f'0x{b:02X}' for b in MAGIC)}}};",
        f"constexpr uint32_t kVersion = {VERSION};",
        f"constexpr uint32_t kVersionWithState = {VERSION_WITH_STATE};",
        f"constexpr uint32_t kAlignment = {ALIGNMENT};",
        f"constexpr uint32_t kNone = 0x{NONE:X};",
        "constexpr int64_t kExprBase = INT64_MIN;",
        f"constexpr int64_t kExprLimit = {EXPR_LIMIT};",
        f"constexpr uint32_t kHashOffset = {HASH_OFFSET};",
    ]
    for name, value in LIMITS.items():
        lines.append(f"constexpr int64_t k{name.title().replace('_', '')} = {value};")
    for title, table in (
        ("StepOp", STEP_OPS),
        ("AttrKind", ATTR_KINDS),
        ("InstructionOp", INSTRUCTIONS),
        ("StageDevice", {name or "session": code for name, code in STAGE_DEVICES.items()}),
        ("ValueLayout", VALUE_LAYOUTS),
        ("VmOp", VM_INSTRUCTIONS),
        ("DatumKind", DATUM_KINDS),
    ):
        items = ", ".join(f"{cpp_names.get(n, n)} = {v}" for n, v in table.items())
        lines.append(f"enum class {title} : uint32_t {{ {items} }};")
        lines.append(f"constexpr uint32_t k{title}Count = {len(table)};")
    for record in RECORDS:
        lines.append(f"struct {record.name} {{  // {record.section or 'no section'}: {record.doc}")
        for f in record.fields:
            declared = f"uint8_t {f.name}[{f.type[3:-1]}]" if f.type.startswith("u8[") else f"{_CPP[f.type]} {f.name}"
            lines.append(f"  {declared};  // {f.doc}")
        lines.append("};")
        lines.append(f'static_assert(sizeof({record.name}) == {record.size}, "padding in {record.name}");')
    lines.append("}  // namespace pen::format")
    return "\n".join(lines) + "\n"


def spec_tables() -> str:
    """The record tables of SPEC.md, as Markdown."""
    out = []
    for record in RECORDS:
        title = f"### {record.name}" + (f" (section `{record.section}`)" if record.section else "")
        out += [title, record.doc, "", "| offset | type | field | meaning |", "| --- | --- | --- | --- |"]
        offset = 0
        for f in record.fields:
            out.append(f"| {offset} | {f.type} | {f.name} | {f.doc} |")
            offset += struct.calcsize("<" + f.code)
        out.append("")
    out += ["### Arrays", "", "| section | element | meaning |", "| --- | --- | --- |"]
    out += [f"| `{name}` | {kind} | {doc} |" for name, (kind, doc) in ARRAYS.items()]
    for title, table in (
        ("Step operations", STEP_OPS),
        ("Attribute kinds", ATTR_KINDS),
        ("Instructions", INSTRUCTIONS),
        ("Stage devices", {name or "the session's": code for name, code in STAGE_DEVICES.items()}),
        ("Value layouts", VALUE_LAYOUTS),
        ("VM instructions", VM_INSTRUCTIONS),
        ("Datum kinds", DATUM_KINDS),
    ):
        out += ["", f"### {title}", "", "| name | code |", "| --- | --- |"]
        out += [f"| {name} | {code} |" for name, code in table.items()]
    return "\n".join(out) + "\n"
