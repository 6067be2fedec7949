"""What a .pen file holds, as dataclasses for people and tests; reader.py fills them. `str()` of a method, and so of a whole
file, is its code as text, close to the IR's text form:

    method forward(x: f32[x_0, 3, 8, 8]) {
      r1 = region(r0) (%x: f32[x_0, 3, 8, 8]) {
        %v1: f32[x_0, 16, 6, 6] nhwc = conv2d.f32.gemm(%x, @w, none, none, stride=[1, 1], …)  # model.py:12
        return %v1
      }
      return r1
    }

and of a function of VM code (SPEC.md, VM code), with its jumps by label and its constants in place:

    function __torch__.M.forward(r0: self, r1: x) {  # method forward
      r2 = aten::mul.Scalar(r1, 2)  # model.py:3
      if not r3 jump L5
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np

from penlight.file.format import HASH_OFFSET
from penlight.ir.graph import HALVES
from penlight.ir.script import Bundle
from penlight.ir.types import DTYPES, Quant


class Expression(str):
    """The text of a dim that depends on input sizes: "x_0 // 2", where x_0 is dim 0 of the input named x. r3_0 is dim 0 of
    register 3, a result of an earlier stage, and r3 the number that it holds."""


AttrValue = Any  # None, int, Expression, float, bool, str, or a tuple of ints and Expressions or of floats


@dataclass(frozen=True)
class Constant:
    """A weight. `shape` is the logical one; `layout` says how the bytes lie (SPEC.md, Layouts)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    layout: str
    offset: int  # from the start of the file
    size: int  # bytes
    _data: np.ndarray  # uint8, a view of the mapped file
    groups: int = 0  # 1 or more: VM code takes it as a storage, unpacked

    @property
    def storage(self) -> np.ndarray:
        """The bytes that tensors of VM code lie in."""
        if not self.groups:
            return self._data
        from penlight.lower.prepack import UNPACKERS

        plain = np.ascontiguousarray(UNPACKERS[self.layout](self.array, self.shape, self.groups))
        return plain.reshape(-1).view(np.uint8)

    @property
    def storage_bytes(self) -> int:
        return math.prod(self.shape) * 4 if self.groups else self.size

    @property
    def array(self) -> np.ndarray:
        """The numbers, read-only, without a copy (but of f16): in the logical shape if the layout is plain, else flat as stored."""
        if self.stored != self.dtype:
            flat = self._data.view(DTYPES[self.stored][1]).astype(DTYPES[self.dtype][1])
        else:
            flat = self._data.view(DTYPES[self.dtype][1])
        return flat.reshape(self.shape) if self.layout.removeprefix(HALVES) == "plain" else flat

    @property
    def stored(self) -> str:
        """The dtype of the numbers in the file."""
        return "f16" if self.layout.startswith(HALVES) else self.dtype


@dataclass(frozen=True)
class Value:
    """A tensor inside a region; with a constant, it is that weight."""

    name: str
    dtype: str
    shape: tuple[int | Expression, ...]
    layout: str
    constant: Constant | None
    quant: Quant | None = None

    def __str__(self) -> str:
        layout = "" if self.layout == "plain" else f" {self.layout}"
        quant = "" if self.quant is None else f" {self.quant}"
        return f"%{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]{quant}{layout}"


@dataclass(frozen=True)
class Node:
    """One kernel call."""

    key: str
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value, ...]
    attrs: dict[str, AttrValue]
    source: str

    @property
    def op(self) -> str:
        return self.key.partition(".")[0]

    def __str__(self) -> str:
        uses = ["none" if v is None else ("@" if v.constant else "%") + v.name for v in self.inputs]
        given = [f"{name}={_attr_text(value)}" for name, value in self.attrs.items()]
        comment = f"  # {_one_line(self.source)}" if self.source else ""
        return f"{', '.join(map(str, self.outputs))} = {self.key}({', '.join(uses + given)}){comment}"


@dataclass(frozen=True)
class Region:
    """Straight-line code that the runtime plans as a whole."""

    inputs: tuple[Value, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Value, ...]


@dataclass(frozen=True)
class Instruction:
    """A step of a method: runs `region` on registers, or returns them, or begins another stage."""

    op: str
    region: Region | None
    args: tuple[int, ...]
    results: tuple[int, ...]
    device: str = ""  # of a stage: "cpu", or the session's


@dataclass(frozen=True)
class Port:
    """An input or output of a method. `limits`: least and greatest size of each dim (None: no bound); inputs only."""

    name: str
    dtype: str
    shape: tuple[int | Expression, ...]
    limits: tuple[tuple[int, int | None], ...] = ()

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class State:
    """A tensor that a method keeps from run to run: in `register` when one starts, in `result` when it ends."""

    name: str
    initial: Constant
    register: int
    result: int

    def __str__(self) -> str:
        return f"{self.name}: {self.initial.dtype}[{', '.join(map(str, self.initial.shape))}]"


@dataclass(frozen=True)
class Method:
    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    code: tuple[Instruction, ...]
    registers: int
    input_spec: Any  # containers around the inputs (penlight.ir.containers)
    output_spec: Any
    states: tuple[State, ...] = ()

    @property
    def regions(self) -> list[Region]:
        return [i.region for i in self.code if i.region is not None]

    @property
    def nodes(self) -> list[Node]:
        return [node for region in self.regions for node in region.nodes]

    def __str__(self) -> str:
        lines = [f"method {self.name}({', '.join(map(str, self.inputs))}) {{"]
        lines += [f"  state {s}, r{s.register} from @{s.initial.name}, then r{s.result}" for s in self.states]
        for step in self.code:
            if step.region is None:
                lines.append(f"  {step.op} {', '.join(f'r{r}' for r in step.args)}".rstrip())
                continue
            lines.append(
                f"  {', '.join(f'r{r}' for r in step.results)} = region({', '.join(f'r{r}' for r in step.args)}) ({', '.join(map(str, step.region.inputs))}) {{"
            )
            lines += [f"    {node}" for node in step.region.nodes]
            lines += [f"    return {', '.join('%' + v.name for v in step.region.outputs)}", "  }"]
        return "\n".join([*lines, "}"])


@dataclass(frozen=True, eq=False)
class TensorDatum:
    """A tensor that VM code uses: a strided view of a weight. Quantized ones have a zero point and a scale, or one of each for
    every place along `axis`."""

    constant: Constant
    dtype: str
    offset: int  # in elements
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements
    axis: int = -2  # -2: not quantized; -1: one scale
    zero_points: tuple[int, ...] = ()
    scales: tuple[float, ...] = ()

    @property
    def array(self) -> np.ndarray:
        """The numbers, read-only; without a copy where they do not lie packed."""
        kind = np.dtype(DTYPES[self.dtype][1])
        if 0 in self.shape:
            return np.zeros(self.shape, kind)
        strides = [s * kind.itemsize for s in self.strides]
        return np.ndarray(self.shape, kind, self.constant.storage.data, self.offset * kind.itemsize, strides)


@dataclass(frozen=True, eq=False)
class Fields:
    """An object of a class, a module above all, or a named tuple."""

    type: str
    items: dict[str, Any]
    is_tuple: bool = False


@dataclass(frozen=True)
class Const:
    """An argument that is a constant: a Python value, a TensorDatum or Fields."""

    value: Any


@dataclass(frozen=True)
class VmInstruction:
    """A step of a function (SPEC.md, VM instructions). `target` is what the code means, by name where it has one: of an operator,
    a function, a class, a planned method; the place of a jump as an index in the code."""

    op: str
    args: tuple[int | Const, ...]
    results: tuple[int, ...]
    target: Any
    extra: int
    source: str

    def text(self, labels: dict[int, str]) -> str:
        args = [value_text(a.value) if isinstance(a, Const) else f"r{a}" for a in self.args]
        given, to = ", ".join(args), labels.get(self.target, "") if self.op in ("jump", "branch", "loop") else ""
        match self.op:
            case "move" | "return":
                line = given if self.op == "move" else f"return {given}"
            case "op" | "call":
                line = f"{self.target}({given})"
            case "jump":
                line = f"jump {to}"
            case "branch":
                line = f"if not {given} jump {to}"
            case "loop":
                line = f"loop({given}) else jump {to}"
            case "get_attr":
                line = f"{given}.{self.target}"
            case "set_attr":
                line = f"{args[0]}.{self.target} = {args[1]}"
            case "isinstance":
                line = f"isinstance({given}, {_one_line(self.target)})"
            case "call_method":
                line = f"{args[0]}.{_one_line(self.target)}({', '.join(args[1:])})"
            case "planned":
                line = f"planned {self.target}({given}) then jump {labels[self.extra]}"
            case _:
                line = f"{self.op}{f' {self.target}' if isinstance(self.target, str) else ''}({given})"
        results = f"{', '.join(f'r{r}' for r in self.results)} = " if self.results else ""
        return f"{results}{line}{f'  # {_one_line(self.source)}' if self.source else ''}"


@dataclass(frozen=True)
class Function:
    """VM code. Registers 0 … parameters - 1 hold the arguments at the start; those from `first_slot` on are emptied when read."""

    name: str
    method: str | None  # its name as a method of the module
    parameters: tuple[str, ...]
    schema: Any  # JSON: arguments and results with their types
    code: tuple[VmInstruction, ...]
    registers: int
    first_slot: int
    defaults: tuple[Any, ...]

    def __str__(self) -> str:
        targets = {i.target for i in self.code if i.op in ("jump", "branch", "loop")}
        targets |= {i.extra for i in self.code if i.op == "planned"}
        labels = {at: f"L{at}" for at in sorted(targets)}
        first = len(self.parameters) - len(self.defaults)
        named = [
            f"r{i}: {_one_line(p)}" + (f" = {value_text(self.defaults[i - first])}" if i >= first else "")
            for i, p in enumerate(self.parameters)
        ]
        comment = f"  # method {_one_line(self.method)}" if self.method is not None else ""
        lines = [f"function {_one_line(self.name)}({', '.join(named)}) {{{comment}"]
        for at, step in enumerate(self.code):
            lines += [*([f"{labels[at]}:"] if at in labels else []), f"  {step.text(labels)}"]
        return "\n".join([*lines, "}"])


@dataclass(frozen=True)
class PenFile:
    """A whole file. Weights stay mapped for as long as this object or an array of it lives."""

    name: str
    version: int
    size: int
    tables_size: int
    data_offset: int
    hash: str  # hex SHA-256, as stored
    methods: tuple[Method, ...]
    constants: tuple[Constant, ...]
    keys: tuple[str, ...]
    metadata: dict[str, Any]
    _bytes: np.ndarray
    functions: tuple[Function, ...] = ()  # VM code
    bundles: tuple[Bundle, ...] = ()
    script_operators: dict[str, int] = field(default_factory=dict)  # by name: how many instructions call each
    module: Fields | None = None  # the state of what VM code belongs to

    def method(self, name: str = "forward") -> Method:
        for method in self.methods:
            if method.name == name:
                return method
        raise KeyError(f"{self.name} has no method {name!r}; it has {', '.join(m.name for m in self.methods)}")

    @property
    def nodes(self) -> list[Node]:
        return [node for method in self.methods for node in method.nodes]

    @property
    def operators(self) -> Counter[str]:
        """How many nodes call each operator."""
        return Counter(node.op for node in self.nodes)

    @property
    def weights(self) -> list[Constant]:
        """Constants may share their bytes: one of each."""
        return list({c.offset: c for c in reversed(self.constants)}.values())[::-1]

    @property
    def dtypes_read(self) -> dict[str, str]:
        """By the name of its first output: the dtype, as stored, of the largest weight that a kernel call reads."""
        read = {
            n.outputs[0].name: [v.constant for v in n.inputs if v is not None and v.constant is not None]
            for n in self.nodes
        }
        return {name: max(weights, key=lambda c: c.size).stored for name, weights in read.items() if weights}

    @property
    def weight_dtypes(self) -> dict[str, int]:
        """Bytes of weights by the dtype that the file holds them in, most first."""
        sizes: Counter[str] = Counter()
        for c in self.weights:
            sizes[c.stored] += c.size
        return dict(sizes.most_common())

    @property
    def weight_bytes(self) -> int:
        return sum(c.size for c in self.weights)

    def verify_hash(self) -> bool:
        """Whether the content is what the stored hash describes. Reads the whole file."""
        digest = sha256(self._bytes[:HASH_OFFSET].data)
        digest.update(bytes(32))
        digest.update(self._bytes[HASH_OFFSET + 32 :].data)
        return digest.hexdigest() == self.hash

    def __str__(self) -> str:
        return "\n\n".join(map(str, (*self.methods, *self.functions)))


def _attr_text(value: AttrValue) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, str) and not isinstance(value, Expression):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def value_text(value: Any, depth: int = 0) -> str:
    """A value in a few words: parts may be shared, so that all of it could be endless."""
    match value:
        case TensorDatum():
            return f"@{_one_line(value.constant.name)}: {value.dtype}[{', '.join(map(str, value.shape))}]"
        case Fields():
            return f"<{_one_line(value.type)}>"
        case str():
            return json.dumps(value if len(value) <= 60 else f"{value[:60]}…", ensure_ascii=False)
        case list() | tuple() if depth < 2:
            items = [value_text(v, depth + 1) for v in value[:8]] + ["…"] * (len(value) > 8)
            return f"[{', '.join(items)}]" if isinstance(value, list) else f"({', '.join(items)})"
        case list() | tuple() | dict():
            return f"<{type(value).__name__} of {len(value)}>"
    return str(value)


def _one_line(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
