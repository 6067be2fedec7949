"""What a .pen file holds, as dataclasses for people and tests; reader.py fills them. `str()` of a method, and so of a whole
file, is its code as text, close to the IR's text form:

    method forward(x: f32[x_0, 3, 8, 8]) {
      r1 = region(r0) (%x: f32[x_0, 3, 8, 8]) {
        %v1: f32[x_0, 16, 6, 6] nhwc = conv2d.f32.gemm(%x, @w, none, none, stride=[1, 1], …)  # model.py:12
        return %v1
      }
      return r1
    }
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np

from penlight.file.format import HASH_OFFSET
from penlight.ir.script import Bundle, Script, ScriptFunction
from penlight.ir.script_text import script_text
from penlight.ir.types import DTYPES


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

    @property
    def array(self) -> np.ndarray:
        """The numbers, read-only, without a copy: in the logical shape if the layout is plain, else flat as stored."""
        flat = self._data.view(DTYPES[self.dtype][1])
        return flat.reshape(self.shape) if self.layout == "plain" else flat


@dataclass(frozen=True)
class Value:
    """A tensor inside a region; with a constant, it is that weight."""

    name: str
    dtype: str
    shape: tuple[int | Expression, ...]
    layout: str
    constant: Constant | None

    def __str__(self) -> str:
        layout = "" if self.layout == "plain" else f" {self.layout}"
        return f"%{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]{layout}"


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
class Method:
    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    code: tuple[Instruction, ...]
    registers: int
    input_spec: Any  # containers around the inputs (penlight.capture.containers)
    output_spec: Any

    @property
    def regions(self) -> list[Region]:
        return [i.region for i in self.code if i.region is not None]

    @property
    def nodes(self) -> list[Node]:
        return [node for region in self.regions for node in region.nodes]

    def __str__(self) -> str:
        lines = [f"method {self.name}({', '.join(map(str, self.inputs))}) {{"]
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
    script: Script | None = None  # code that is interpreted
    bundles: list[Bundle] = field(default_factory=list)  # example inputs

    @property
    def functions(self) -> tuple[ScriptFunction, ...]:
        """Of VM code."""
        return tuple(self.script.functions.values()) if self.script is not None else ()

    @property
    def script_operators(self) -> dict[str, int]:
        """Operators that VM code calls, by torch's names, and how many instructions call each."""
        return self.script.operators if self.script is not None else {}

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
    def weight_bytes(self) -> int:
        return sum(c.size for c in self.constants)

    def verify_hash(self) -> bool:
        """Whether the content is what the stored hash describes. Reads the whole file."""
        digest = sha256(self._bytes[:HASH_OFFSET].data)
        digest.update(bytes(32))
        digest.update(self._bytes[HASH_OFFSET + 32 :].data)
        return digest.hexdigest() == self.hash

    def __str__(self) -> str:
        code = [script_text(self.script)] if self.script is not None else []
        return "\n\n".join([*code, *map(str, self.methods)])


def _attr_text(value: AttrValue) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, str) and not isinstance(value, Expression):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def _one_line(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
