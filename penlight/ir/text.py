"""The text form of graphs and programs, as `penlight inspect` shows it and tests write it; parse.py reads it back.

    graph forward(%x: f32[n, 3, 8, 8]) {
      @w: f32[16, 3, 3, 3]
      @one: f32[] = [1.0]
      %v1: f32[n, 16, 6, 6] nhwc = conv2d(%x, @w, none, none, stride=[1, 1], …, act="")  # model.py:12
      %v2: f32[n, 16, 6, 6] = add(%v1, @one)
      return %v2
    }

A constant's data is written out up to 16 elements; beyond that it is left out and parses as zeros. A trailing comment
is the node's source. Layout "plain" is not written. Quantized types say what their integers stand for: `u8[1, 8] q(0.02, 128)`. Nested blocks: `%r: f32[2] = region(%x) (%a: f32[2]) { … }`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import numpy as np

from penlight.ir.dims import Expr
from penlight.ir.graph import Attr, Block, Graph, Method, Node, Program, SymbolRange, Value

INLINE_ELEMENTS = 16
PLAIN_NAME = re.compile(r"[\w.]+")
"""Names that need no quotes; any other name (`@"block 1.weight"`) is written as a JSON string."""


def print_program(program: Program) -> str:
    """The whole program: its metadata, then each method with its specs, symbol ranges and graph."""
    parts = [f"program {json.dumps(program.metadata, ensure_ascii=False)}\n"]
    return "\n".join(parts + [_method(name, method) for name, method in program.methods.items()])


def print_graph(graph: Graph) -> str:
    lines = [f"graph {_name(graph.name)}({_params(graph.inputs)}) {{"]
    lines += [f"  {_constant(value)}" for value in graph.constants.values()]
    _block(graph, "  ", lines)
    return "\n".join([*lines, "}"]) + "\n"


def _method(name: str, method: Method) -> str:
    lines = [f"method {_name(name)}"]
    if method.symbols:
        lines.append(f"symbols {', '.join(f'{n}: {_range(r)}' for n, r in method.symbols.items())}")
    if method.input_spec is not None:
        lines.append(f"inputs {json.dumps(method.input_spec, ensure_ascii=False)}")
    if method.output_spec is not None:
        lines.append(f"outputs {json.dumps(method.output_spec, ensure_ascii=False)}")
    lines += [f"state {_constant(value)}" for value in method.states]
    return "\n".join([*lines, print_graph(method.graph)])


def _range(symbol: SymbolRange) -> str:
    return f"{symbol.min}..{'' if symbol.max is None else symbol.max}"


def _block(block: Block, indent: str, lines: list[str]) -> None:
    for node in block.nodes:
        _node(node, indent, lines)
    lines.append(f"{indent}return {', '.join(map(_use, block.outputs))}".rstrip())


def _node(node: Node, indent: str, lines: list[str]) -> None:
    arguments = [_use(value) for value in node.inputs] + [f"{name}={print_attr(a)}" for name, a in node.attrs.items()]
    line = f"{indent}{_params(node.outputs)}{' = ' if node.outputs else ''}{node.op}({', '.join(arguments)})"
    if node.kernel:
        line += f" using {node.kernel}"
    comment = (
        "  # " + node.source.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r") if node.source else ""
    )
    for block in node.blocks:
        lines.append(f"{line} ({_params(block.inputs)}) {{{comment}")
        _block(block, indent + "  ", lines)
        line, comment = indent + "}", ""
    lines.append(line + comment)


def _params(values: Sequence[Value]) -> str:
    return ", ".join(f"{_use(value)}: {value.type}{_layout(value)}" for value in values)


def _layout(value: Value) -> str:
    return "" if value.layout == "plain" else f" {value.layout}"


def _constant(value: Value) -> str:
    line = f"{_use(value)}: {value.type}{_layout(value)}"
    array = value.constant
    if array is None or array.size > INLINE_ELEMENTS or value.layout != "plain":
        return line
    return f"{line} = [{', '.join(map(_element, array.reshape(-1)))}]"


def _element(x: np.generic) -> str:
    """The shortest decimal that gives back the same bits; NaNs lose their payload."""
    if isinstance(x, np.bool_):
        return str(bool(x)).lower()
    if isinstance(x, np.integer):
        return str(int(x))
    if np.isnan(x):
        return "nan"
    short = str(x)  # shortest for its own width; read as a double, then rounded, it could be one bit off
    return short if type(x)(float(short)) == x else repr(float(x))


def _use(value: Value | None) -> str:
    return "none" if value is None else ("@" if value.is_constant else "%") + _name(value.name)


def _name(name: str) -> str:
    return name if PLAIN_NAME.fullmatch(name) else json.dumps(name)


def print_attr(attr: Attr) -> str:
    match attr:
        case tuple():
            return f"[{', '.join(print_attr(item) for item in attr)}]"
        case None:
            return "none"
        case bool():
            return str(attr).lower()
        case str():
            return json.dumps(attr, ensure_ascii=False)
        case int() | float() | Expr():
            return repr(attr)
    raise TypeError(f"{attr!r} cannot be an attribute")
