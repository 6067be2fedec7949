"""Writes a lowered Program as a .pen file: tables first, then weights, each 64-byte aligned.

The file goes to a temporary name and is moved into place when it is whole. The same program gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

from penlight.file import format as f
from penlight.file.metadata import as_json
from penlight.file.script_writer import ScriptTables
from penlight.file.weights import Weights
from penlight.ir.dims import Dim, Expr, evaluate, parse_dim, symbols_of
from penlight.ir.graph import HALVES, Attr, Block, Graph, Method, Node, Program, SymbolRange, Value
from penlight.ir.symbols import defined_by, is_sized_by_data
from penlight.ir.types import DTYPES, Quant, TensorType
from penlight.lower.select import required_keys
from penlight.ops import registry
from penlight.paths import replace_file

Progress = Callable[[int, int], None]  # bytes written, bytes in all


def write_file(program: Program, path: str | os.PathLike[str], progress: Progress | None = None) -> int:
    """Writes `program` to `path` and returns the file's size."""
    return replace_file(path, lambda out: write(program, out, progress))


def to_array(program: Program) -> np.ndarray:
    """The file as bytes in memory, at a 64-byte boundary, so that it can be run in place."""
    out = _AlignedBuffer()
    write(program, out)  # type: ignore[arg-type]
    return out.view()


class _AlignedBuffer:
    """The part of a binary file that `write` uses, over one aligned array that is allocated at its final size."""

    def __init__(self) -> None:
        self.room = np.empty(f.ALIGNMENT, np.uint8)
        self.start = self.position = 0

    def truncate(self, size: int) -> None:
        self.room = np.empty(size + f.ALIGNMENT, np.uint8)
        self.start = -self.room.ctypes.data % f.ALIGNMENT

    def write(self, data: bytes | memoryview) -> int:
        at = self.start + self.position
        self.room[at : at + len(data)] = np.frombuffer(data, np.uint8)
        self.position += len(data)
        return len(data)

    def view(self) -> np.ndarray:
        return self.room[self.start : self.start + self.position]


def write(program: Program, out: BinaryIO, progress: Progress | None = None) -> int:
    tables = _Tables()
    for name, method in program.methods.items():
        tables.add_method(name, method)
    extras = ScriptTables(tables, program)
    if program.script is not None:
        extras.add_script(program.script, list(program.methods))
    for bundle in program.bundles:
        extras.add_bundle(bundle)
    tables.meta = as_json(program.metadata) + b"\0"
    head, data = tables.finish()
    total = len(head) + sum(len(pad) + array.nbytes for pad, array in data)
    digest = hashlib.sha256(head)
    for pad, array in data:
        digest.update(pad)
        digest.update(array.reshape(-1).view(np.uint8).data if array.nbytes else b"")
    out.truncate(total)
    out.write(head[: f.HASH_OFFSET] + digest.digest() + head[f.HASH_OFFSET + 32 :])
    done = len(head)
    for pad, array in data:
        out.write(pad)
        out.write(array.reshape(-1).view(np.uint8).data if array.nbytes else b"")
        done += len(pad) + array.nbytes
        if progress:
            progress(done, total)
    return total


def define_symbols(graph: Graph) -> dict[str, Expr]:
    """symbol -> expression over input dims (symbols named "in<i>_<d>"), for every symbol of the inputs' shapes; for those
    that nodes define, over results of regions ("r<register>_<d>", or "r<register>" for the number in it)."""
    defined: dict[str, Expr] = {}
    compound: list[tuple[Expr, Expr]] = []
    for i, value in enumerate(graph.inputs):
        for d, dim in enumerate(value.shape if isinstance(value.type, TensorType) else ()):
            if isinstance(dim, Expr):
                here = Expr("sym", (f"in{i}_{d}",))
                if dim.op == "sym":
                    defined.setdefault(str(dim.args[0]), here)
                else:
                    compound.append((dim, here))
    for dim, here in compound:  # a * s + b: solved for s
        unknown = symbols_of(dim) - set(defined)
        if len(unknown) == 1:
            (name,) = unknown
            try:
                at = [evaluate(dim, {name: x}) for x in range(6)]
            except KeyError:
                continue
            slope = at[1] - at[0]
            if slope > 0 and all(at[x] == at[0] + slope * x for x in range(6)):
                defined[name] = Expr("//", (Expr("-", (here, at[0])), slope))
    register = len(graph.inputs)
    for region in graph.nodes:
        for value in region.blocks[0].outputs if region.blocks else ():
            if value.producer is not None and value.producer.op == "item":
                defined.setdefault(str(value.producer.attrs["symbol"]), Expr("sym", (f"r{register}",)))
            elif value.producer is not None and is_sized_by_data(value.producer) and value.shape:
                for name in symbols_of(value.shape[0]) & defined_by(value.producer):
                    defined.setdefault(name, Expr("sym", (f"r{register}_0",)))
            register += 1
    return defined


_REGISTER = re.compile(r"(?:in|r)(\d+)(?:_(\d+))?")


class _Tables:
    """Builds all sections; every `add_…` returns the index of what it added."""

    def __init__(self) -> None:
        self.rows: dict[str, list[bytes]] = {r.section: [] for r in f.RECORDS if r.section}
        self.text = bytearray()
        self.strings: dict[bytes, int] = {}
        self.ints: list[int] = []
        self.floats: list[float] = []
        self.indices: list[int] = []
        self.meta = b"{}\0"
        self.constants: dict[int, int] = {}  # id(array) -> index
        self.has_halves = False
        self.data = Weights()
        self.exprs: dict[str, int] = {}
        self.quants: dict[Quant, int] = {}
        self.scales: list[np.ndarray] = []
        self.symbols: dict[str, Expr] = {}
        self.keys: set[str] = set()

    def row(self, record: f.Record, **values: int | float | bytes) -> int:
        rows = self.rows[record.section]
        rows.append(record.pack(**values))
        return len(rows) - 1

    def string(self, text: str) -> int:
        """A name, or other text for people: what is no UTF-8 in the file that it came from is "?"."""
        return self.raw_string(text.encode("utf-8", "replace"))

    def raw_string(self, content: bytes) -> int:
        if content not in self.strings:
            self.strings[content] = self.row(f.STRING, offset=len(self.text), size=len(content))
            self.text += content + b"\0"
        return self.strings[content]

    def index_list(self, items: list[int]) -> int:
        start = len(self.indices)
        self.indices += items
        return start

    def dim(self, dim: Dim) -> int:
        """As stored in INTS: the number, or a reference to an expression."""
        return dim if isinstance(dim, int) else f.EXPR_BASE + self.expr(dim)

    def int_list(self, dims: tuple[Dim, ...] | list[Dim]) -> int:
        encoded = [self.dim(d) for d in dims]
        start = len(self.ints)
        self.ints += encoded
        return start

    def expr(self, expr: Expr) -> int:
        key = str(expr)
        if key not in self.exprs:
            steps: list[tuple[str, int]] = []
            self._steps(expr, steps)
            start = len(self.rows["STEP"])
            for op, arg in steps:
                self.row(f.STEP, op=f.STEP_OPS[op], arg=arg)
            self.exprs[key] = self.row(f.EXPR, start=start, count=len(steps))
        return self.exprs[key]

    def _steps(self, dim: Dim, steps: list[tuple[str, int]]) -> None:
        if isinstance(dim, int):
            steps.append(("const", dim))
        elif dim.op == "sym":
            name = str(dim.args[0])
            if name in self.symbols:
                self._steps(self.symbols[name], steps)
            elif match := _REGISTER.fullmatch(name):
                if match[2]:
                    steps.append(("register_dim", int(match[1]) * 256 + int(match[2])))
                else:
                    steps.append(("register_value", int(match[1])))
            else:
                raise ValueError(f"symbolic dim {name!r} is not determined by the dims of the inputs, nor by a result")
        else:
            for arg in dim.args:
                assert not isinstance(arg, str)
                self._steps(arg, steps)
            steps.append((dim.op, 0))

    def constant(self, value: Value) -> int:
        array = value.constant
        assert array is not None
        if id(array) not in self.constants:
            stored = array
            if value.layout.startswith(HALVES):
                stored = array.astype(np.float16)
                self.has_halves = True
            self.constants[id(array)] = self.constant_row(value, self.data.place(stored), stored.nbytes)
            self.data.remember(value)
        return self.constants[id(array)]

    def constant_row(self, value: Value, offset: int, size: int, groups: int = 0) -> int:
        return self.row(
            f.CONSTANT, name=self.string(value.name), layout=self.string(value.layout), dtype=DTYPES[value.dtype][0],
            rank=value.rank, groups=groups, dims=self.int_list(value.shape), offset=offset, size=size,
        )  # fmt: skip

    def quant(self, quant: Quant | None) -> int:
        """1 + its index, as Value.quant has it; 0 for None."""
        if quant is None:
            return 0
        if quant not in self.quants:
            zeros = quant.zeros[:1] if len(set(quant.zeros)) == 1 else quant.zeros
            row = {
                "axis": f.NONE,
                "scales": len(self.floats),
                "count": 1,
                "zeros": len(self.ints),
                "zero_count": len(zeros),
            }
            self.ints += zeros
            if quant.axis is None:
                self.floats.append(quant.scale)
            else:
                array = np.array(quant.scales, np.float32)
                scales = Value("scales", TensorType("f32", array.shape), constant=array)
                self.scales.append(array)  # kept: constants are told apart by their identity
                row.update(axis=quant.axis, scales=self.constant(scales), count=array.size)
            self.quants[quant] = self.row(f.QUANT, **row)
        return self.quants[quant] + 1

    def attr(self, name: str, kind: str, attr: Attr) -> None:
        start = count = 0
        if attr is None:
            code = "none"
        elif kind in ("int", "int?"):
            code, start = "int", self.int_list([attr])  # type: ignore[list-item]
        elif kind in ("float", "float?"):
            code, start = "float", len(self.floats)
            self.floats.append(float(attr))  # type: ignore[arg-type]
        elif kind == "bool":
            code, start = "bool", int(bool(attr))
        elif kind == "str":
            code, start = "str", self.string(str(attr))
        elif kind == "int[]":
            assert isinstance(attr, tuple)
            code, start, count = "ints", self.int_list(list(attr)), len(attr)  # type: ignore[arg-type]
        else:
            assert isinstance(attr, tuple)
            code, start, count = "floats", len(self.floats), len(attr)
            self.floats += [float(x) for x in attr]  # type: ignore[arg-type]
        self.row(f.ATTR, name=self.string(name), kind=f.ATTR_KINDS[code], start=start, count=count)

    def region(self, block: Block) -> int:
        first = len(self.rows["VALS"])
        number: dict[Value, int] = {}

        def index_of(value: Value | None) -> int:
            if value is None:
                return f.NONE
            if value not in number:
                layout = "plain" if value.is_constant else value.layout
                number[value] = len(self.rows["VALS"]) - first
                constant = self.constant(value) if value.is_constant else f.NONE
                self.row(
                    f.VALUE, name=self.string(value.name), constant=constant, dtype=DTYPES[value.dtype][0], rank=value.rank,
                    layout=f.VALUE_LAYOUTS[layout], dims=self.int_list(value.shape), quant=self.quant(value.tensor.quant),
                )  # fmt: skip
            return number[value]

        inputs = self.index_list([index_of(v) for v in block.inputs])
        rows = [self._node(node, index_of) for node in block.nodes]
        nodes = len(self.rows["NODE"])
        for row in rows:
            self.row(f.NODE, **row)
        outputs = self.index_list([index_of(v) for v in block.outputs])
        self.keys.update(required_keys(block.nodes))
        return self.row(
            f.REGION, values=first, value_count=len(self.rows["VALS"]) - first, nodes=nodes, node_count=len(block.nodes),
            inputs=inputs, input_count=len(block.inputs), outputs=outputs, output_count=len(block.outputs),
        )  # fmt: skip

    def _node(self, node: Node, index_of: Callable[[Value | None], int]) -> dict[str, int]:
        if not node.kernel:
            raise ValueError(f"{node!r} has no kernel: lower the program before writing it")
        op = registry.get(node.op)
        inputs = [index_of(v) for v in node.inputs]
        outputs = [index_of(v) for v in node.outputs]
        attrs = len(self.rows["ATTR"])
        for param in op.attrs:
            self.attr(param.name, param.kind, node.attrs[param.name])
        return {
            "key": self.string(node.kernel), "source": self.string(node.source) if node.source else f.NONE,
            "inputs": self.index_list(inputs), "input_count": len(inputs),
            "outputs": self.index_list(outputs), "output_count": len(outputs),
            "attrs": attrs, "attr_count": len(op.attrs),
        }  # fmt: skip

    def port(self, name: str, type: TensorType, ranges: dict[str, SymbolRange] | None) -> bytes:
        start = f.NONE
        if ranges is not None:
            pairs: list[int] = []
            for dim in type.shape:
                if isinstance(dim, int):
                    pairs += [dim, dim]
                elif dim.op == "sym":
                    known = ranges.get(str(dim.args[0]), SymbolRange())
                    pairs += [known.min, f.LIMITS["max_dim"] if known.max is None else known.max]
                else:
                    pairs += [0, f.LIMITS["max_dim"]]
            start = len(self.ints)
            self.ints += pairs
        return f.PORT.pack(
            name=self.string(name),
            dtype=DTYPES[type.dtype][0],
            rank=type.rank,
            dims=self.int_list(type.shape),
            ranges=start,
        )

    def add_method(self, name: str, method: Method) -> None:
        graph = method.graph
        self.symbols = define_symbols(graph)
        self.exprs = {}  # expressions speak of this method's inputs
        registers: dict[Value, int] = {v: i for i, v in enumerate(graph.inputs)}
        code: list[dict[str, int]] = []
        unsettled = False  # whether this stage has results whose size or number the next one may use
        device = f.STAGE_DEVICES[""]
        for node in graph.nodes:
            if node.op != "region":
                raise ValueError(f"{node!r} is outside a region; VM operators are not written yet")
            before, device = device, f.STAGE_DEVICES[str(node.attrs.get("device", ""))]
            if unsettled or device != before:
                code.append(_instruction("stage", target=device))
            unsettled = any(defined_by(n) or is_sized_by_data(n) for n in node.blocks[0].nodes)
            args = [registers[v] for v in node.inputs if v is not None]
            results = [registers.setdefault(o, len(registers)) for o in node.outputs]
            code.append(_instruction(
                "region", target=self.region(node.blocks[0]), args=self.index_list(args), arg_count=len(args),
                results=self.index_list(results), result_count=len(results),
            ))  # fmt: skip
        taken, given = len(graph.inputs) - len(method.states), len(graph.outputs) - len(method.states)
        returned = [registers[o] for o in graph.outputs[:given]]
        code.append(_instruction("return", args=self.index_list(returned), arg_count=len(returned)))
        first = len(self.rows["CODE"])
        for instruction in code:
            self.row(f.INSTRUCTION, **instruction)
        inputs = [self.port(v.name, v.tensor, method.symbols) for v in graph.inputs[:taken]]
        outputs = [self.port(v.name, v.tensor, None) for v in graph.outputs[:given]]
        ports = len(self.rows["PORT"])
        self.rows["PORT"] += inputs + outputs
        number = self.row(
            f.METHOD, name=self.string(name), code=first, code_count=len(code), registers=len(registers), inputs=ports,
            input_count=len(inputs), outputs=ports + len(inputs), output_count=len(outputs),
            input_spec=self.string(json.dumps(method.input_spec)),
            output_spec=self.string(json.dumps(self.spec_in_input_dims(method.output_spec))),
        )  # fmt: skip
        for state, after in zip(method.states, graph.outputs[given:], strict=True):
            self.row(
                f.STATE, method=number, name=self.string(state.name), constant=self.constant(state), result=registers[after]
            )  # fmt: skip

    def spec_in_input_dims(self, spec: Any) -> Any:
        """An output spec whose {"dim": …} leaves speak of input dims ("in0_1": input 0, dim 1), not of symbols."""
        if isinstance(spec, list):
            return [self.spec_in_input_dims(s) for s in spec]
        if not isinstance(spec, dict):
            return spec
        if set(spec) == {"dim"}:
            return {"dim": str(self._in_input_dims(parse_dim(spec["dim"])))}
        return {k: self.spec_in_input_dims(v) for k, v in spec.items()}

    def _in_input_dims(self, dim: Dim) -> Dim:
        if isinstance(dim, int):
            return dim
        if dim.op == "sym":
            return self.symbols[str(dim.args[0])]
        return Expr(dim.op, tuple(a if isinstance(a, str) else self._in_input_dims(a) for a in dim.args))

    def finish(self) -> tuple[bytes, list[tuple[bytes, np.ndarray]]]:
        """Header and tables as bytes (hash still zero), and the weights, each with the padding before it."""
        for key in sorted(self.keys):
            self.row(f.KEY, key=self.string(key))
        bodies = {
            **{name: b"".join(rows) for name, rows in self.rows.items()},
            "TEXT": bytes(self.text), "INTS": struct.pack(f"<{len(self.ints)}q", *self.ints),
            "FLTS": struct.pack(f"<{len(self.floats)}d", *self.floats),
            "INDX": struct.pack(f"<{len(self.indices)}I", *self.indices), "META": self.meta,
        }  # fmt: skip
        element = {r.section: r.size for r in f.RECORDS} | {
            n: struct.calcsize("<" + f._SIZES[t]) for n, (t, _) in f.ARRAYS.items()
        }
        quantized, states = bool(self.rows["QUNT"]), bool(self.rows["STAT"])
        of_script = f.OPTIONAL - {"QUNT", "STAT"}
        script = any(self.rows[name] for name in of_script)
        if not quantized:  # records as older versions have them: such a file is theirs
            element["VALS"] = f.PLAIN_VALUE_SIZE
            bodies["VALS"] = b"".join(row[: f.PLAIN_VALUE_SIZE] for row in self.rows["VALS"])
        absent = {name for name in ("QUNT", "STAT") if not self.rows[name]} | (set() if script else of_script)
        ids = [name for name in f.section_ids() if name not in absent]
        version = f.VERSION_WITH_VM if script else f.VERSION_PLAIN
        version = f.VERSION_QUANTIZED if quantized or self.has_halves else version
        version = f.VERSION_WITH_STATE if states else version
        offset = f.HEADER.size + len(ids) * f.SECTION.size
        table, parts = b"", []
        for name in ids[:-1]:
            parts.append(b"\0" * (-offset % 8))
            offset += -offset % 8
            count = len(bodies[name]) // element[name]
            table += f.SECTION.pack(id=name.encode(), record_size=element[name], offset=offset, count=count)
            parts.append(bodies[name])
            offset += len(bodies[name])
        tables_size = offset
        parts.append(b"\0" * (-offset % f.ALIGNMENT))
        offset += -offset % f.ALIGNMENT
        table += f.SECTION.pack(id=b"DATA", record_size=1, offset=offset, count=self.data.size)
        header = f.HEADER.pack(
            magic=f.MAGIC, version=version, header_size=f.HEADER.size, section_count=len(ids), file_size=offset + self.data.size,
            tables_size=tables_size, hash=b"",
        )  # fmt: skip
        return header + table + b"".join(parts), self.data.in_order()


def _instruction(op: str, **fields: int) -> dict[str, int]:
    empty = {"target": 0, "args": 0, "arg_count": 0, "results": 0, "result_count": 0}
    return {"op": f.INSTRUCTIONS[op], **empty, **fields}
