"""Reads the text form (text.py) back: text in, Graph or Program out, or a ParseError that says line, column and why.

One hand-written recursive descent over the characters: the grammar is small, and every rule can say in words what it
expected. The result is not verified; that is verify.py's work.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from penlight.ir.dims import Dim, parse_dim
from penlight.ir.graph import Attr, AttrItem, Block, Graph, Method, Node, Program, SymbolRange, Value
from penlight.ir.rewrite import reserve_names
from penlight.ir.types import (
    DTYPES,
    SCALAR_KINDS,
    DictType,
    ListType,
    Quant,
    ScalarType,
    TensorType,
    TupleType,
    Type,
    numpy_dtype,
)

_BLANK = re.compile(r"(?:[ \t\r]*(?:#[^\n]*)?\n)*[ \t\r]*(?:#[^\n]*\Z)?")
_COMMENT = re.compile(r"[ \t]*(?:# ?([^\r\n]*))?")
_NAME = re.compile(r"[\w.]+")
_WORD = re.compile(r"[A-Za-z_]\w*")
_QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_NUMBER = re.compile(r"-?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|inf|nan)(?![\w.])")
_WORDS: dict[str, AttrItem] = {"true": True, "false": False, "none": None}
_ESCAPES = {"\\\\": "\\", "\\n": "\n", "\\r": "\r"}


class ParseError(ValueError):
    """Text that is not a graph; `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.line, self.column = line, column


def parse_graph(text: str, constants: Mapping[str, np.ndarray] | None = None) -> Graph:
    """The graph that `text` shows. `constants` gives data, by name, for those whose data the text leaves out."""
    parser = _Parser(text, constants)
    parser.blank()
    graph = parser.graph()
    parser.end()
    return graph


def parse_program(text: str, constants: Mapping[str, np.ndarray] | None = None) -> Program:
    parser = _Parser(text, constants)
    parser.blank()
    program = parser.program()
    parser.end()
    return program


class _Parser:
    def __init__(self, text: str, constants: Mapping[str, np.ndarray] | None) -> None:
        self.text, self.pos = text, 0
        self.data = constants or {}

    # Characters

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        at = self.pos if at is None else at
        raise ParseError(message, self.text.count("\n", 0, at) + 1, at - self.text.rfind("\n", 0, at))

    def here(self) -> str:
        """What stands at the current place, for messages."""
        if self.pos >= len(self.text):
            return "the end of the text"
        if self.text[self.pos] == "\n":
            return "the end of the line"
        word = re.compile(r"[%@]?[\w.]+|.").match(self.text, self.pos)
        return repr(word[0] if word else self.text[self.pos])

    def skip(self) -> int:
        """Over spaces, to the next thing on this line; returns its place."""
        while self.pos < len(self.text) and self.text[self.pos] in " \t":
            self.pos += 1
        return self.pos

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        self.skip()
        match = pattern.match(self.text, self.pos)
        if match:
            self.pos = match.end()
        return match

    def accept(self, token: str) -> bool:
        self.skip()
        if not self.text.startswith(token, self.pos):
            return False
        after = self.text[self.pos + len(token) : self.pos + len(token) + 1]
        if token[-1].isalnum() and (after.isalnum() or after == "_"):
            return False
        self.pos += len(token)
        return True

    def expect(self, token: str, why: str = "") -> None:
        if not self.accept(token):
            self.fail(f"expected {token!r}{' ' + why if why else ''}, got {self.here()}")

    def blank(self) -> None:
        """Over empty lines and lines that hold only a comment."""
        self.pos = _BLANK.match(self.text, self.pos).end()  # type: ignore[union-attr]

    def end_of_line(self) -> str:
        """Its trailing comment."""
        match = _COMMENT.match(self.text, self.pos)
        assert match
        self.pos = match.end()
        if self.pos < len(self.text) and self.text[self.pos] not in "\r\n":
            self.fail(f"expected the end of the line, got {self.here()}")
        self.blank()
        return re.sub(r"\\[\\nr]", lambda m: _ESCAPES[m[0]], match[1] or "")

    def end(self) -> None:
        self.blank()
        if self.pos < len(self.text):
            self.fail(f"expected nothing more, got {self.here()}")

    def name(self, what: str) -> str:
        if quoted := self.take(_QUOTED):
            return str(self.json_string(quoted[0]))
        match = self.take(_NAME)
        if not match:
            self.fail(f"expected {what}, got {self.here()}")
        return match[0]

    def json_string(self, quoted: str) -> str:
        try:
            return str(json.loads(quoted))
        except ValueError as e:
            self.fail(f"not a string: {quoted} ({e})", self.pos - len(quoted))

    def json(self) -> Any:
        """JSON up to the end of the line."""
        start = self.skip()
        try:
            value, self.pos = json.JSONDecoder().raw_decode(self.text, start)
        except ValueError as e:
            self.fail(f"expected JSON ({e})", start)
        return value

    # Types and attributes

    def dim(self) -> Dim:
        start, depth = self.skip(), 0
        while self.pos < len(self.text):
            c = self.text[self.pos]
            if c in '[]{}"\n#' or (depth == 0 and c in ",)"):
                break
            depth += (c == "(") - (c == ")")
            self.pos += 1
        try:
            return parse_dim(self.text[start : self.pos])
        except ValueError:
            self.fail(f"expected an integer or a dim expression, got {self.text[start : self.pos].strip()!r}", start)

    def type(self) -> Type:
        start = self.skip()
        word = self.take(_WORD)
        if not word:
            self.fail(f"expected a type, got {self.here()}")
        if word[0] in SCALAR_KINDS and not self.text.startswith("[", self.pos):  # bool is a scalar, bool[2] a tensor
            return ScalarType(word[0])
        if word[0] == "list":
            self.expect("<")
            element = self.type()
            self.expect(">")
            return ListType(element)
        if word[0] == "tuple":
            self.expect("<")
            elements: list[Type] = []
            while not self.accept(">"):
                if elements:
                    self.expect(",", "or '>'")
                elements.append(self.type())
            return TupleType(tuple(elements))
        if word[0] == "dict":
            self.expect("<")
            key = self.type()
            self.expect(",")
            value = self.type()
            self.expect(">")
            return DictType(key, value)
        if word[0] not in DTYPES:
            self.fail(
                f"unknown type {word[0]!r}; known: {', '.join([*DTYPES, *SCALAR_KINDS, 'list', 'tuple', 'dict'])}",
                start,
            )
        self.expect("[", "and dims after a dtype")
        dims: list[Dim] = []
        while not self.accept("]"):
            if dims:
                self.expect(",", "or ']'")
            dims.append(self.dim())
        return TensorType(word[0], tuple(dims), self.quant(dims) if self.accept("q(") else None)

    def quant(self, dims: list[Dim]) -> Quant:
        """What follows q( : scale, zero point; or lists of them and their axis. Scales that were left out parse as ones."""
        start = self.pos
        scales: Attr = None
        zeros: Attr = 0
        if not self.text.startswith("axis", self.skip()):
            scales = self.attr()
            self.expect(",", "and a zero point")
            zeros = self.attr()
            if not self.accept(","):
                self.expect(")", "or ',' and an axis")
                if not isinstance(scales, (int, float)) or not isinstance(zeros, int):
                    self.fail("expected a scale and a zero point", start)
                return Quant.of(scales, zeros)
        self.expect("axis")
        self.expect("=")
        axis = self.dim()
        self.expect(")")
        if not isinstance(axis, int) or not 0 <= axis < len(dims) or not isinstance(dims[axis], int):
            self.fail(f"expected a dim of {len(dims)} whose size is a number as axis, got {axis}", start)
        count = dims[axis]
        assert isinstance(count, int)
        found = scales if isinstance(scales, tuple) else (1.0,) * count
        places = zeros if isinstance(zeros, tuple) else (zeros,) * count
        if any(not isinstance(x, (int, float)) for x in found) or any(not isinstance(x, int) for x in places):
            self.fail("expected scales that are numbers and zero points that are integers", start)
        return Quant(tuple(map(float, found)), tuple(places), axis)  # type: ignore[arg-type]

    def attr(self) -> Attr:
        if not self.accept("["):
            return self.attr_item()
        items: list[AttrItem] = []
        while not self.accept("]"):
            if items:
                self.expect(",", "or ']'")
            items.append(self.attr_item())
        return tuple(items)

    def attr_item(self) -> AttrItem:
        if quoted := self.take(_QUOTED):
            return self.json_string(quoted[0])
        if number := self.take(_NUMBER):
            return float(number[0])
        for word, value in _WORDS.items():
            if self.accept(word):
                return value
        return self.dim()

    # Values

    def typed(self, sigil: str) -> Value:
        """%name: type layout"""
        self.expect(sigil, "and a name")
        name = self.name("a name")
        self.expect(":", f"and a type after {sigil}{name}")
        value = Value(name, self.type())
        if layout := self.take(_WORD):
            value.layout = layout[0]
        return value

    def params(self, scope: dict[str, Value]) -> list[Value]:
        self.expect("(")
        values: list[Value] = []
        while not self.accept(")"):
            if values:
                self.expect(",", "or ')'")
            values.append(self.typed("%"))
            scope[values[-1].name] = values[-1]
        return values

    def use(self, graph: Graph, scope: dict[str, Value]) -> Value | None:
        """%value, @constant or none; defined before."""
        if self.accept("none"):
            return None
        sigil = "@" if self.accept("@") else "%"
        if sigil == "%":
            self.expect("%", "or '@' and a name, or none")
        start = self.pos - 1
        name = self.name("a name")
        known = graph.constants if sigil == "@" else scope
        if name not in known:
            self.fail(f"{sigil}{name} is not defined above", start)
        return known[name]

    def constant(self, constants: dict[str, Value]) -> None:
        start = self.pos
        value = self.typed("@")
        if value.name in constants:
            self.fail(f"@{value.name} is defined twice", start)
        if not isinstance(value.type, TensorType) or not value.type.is_static:
            self.fail(f"@{value.name}: expected a tensor type with a static shape, got {value.type}", start)
        shape = tuple(d for d in value.type.shape if isinstance(d, int))
        dtype = numpy_dtype(value.type.dtype)
        if self.accept("="):
            self.expect("[", "and the constant's elements")
            elements: list[AttrItem] = []
            while not self.accept("]"):
                if elements:
                    self.expect(",", "or ']'")
                elements.append(self.attr_item())
            kinds = {"b": bool, "i": int, "u": int}.get(dtype.kind, (int, float))
            try:
                if any(not isinstance(e, kinds) or (isinstance(e, bool) and dtype.kind != "b") for e in elements):
                    raise TypeError(f"not all of them fit {value.type.dtype}")
                value.constant = np.array(elements, dtype).reshape(shape)
            except (ValueError, TypeError, OverflowError) as e:
                self.fail(f"@{value.name}: these elements do not make a {value.type} ({e})", start)
        else:
            value.constant = self.data[value.name] if value.name in self.data else np.zeros(shape, dtype)
        constants[value.name] = value
        self.end_of_line()

    # Nodes, blocks, graphs

    def node(self, graph: Graph, scope: dict[str, Value]) -> Node:
        outputs: list[Value] = []
        while self.text.startswith("%", self.pos):
            outputs.append(self.typed("%"))
            if not self.accept(","):
                self.expect("=", "or ',' after an output")
                break
            self.skip()
        word = self.take(_WORD)
        if not word:
            self.fail(f"expected an operator, got {self.here()}")
        node = Node(word[0], [], {}, outputs)
        self.expect("(", f"after {word[0]}")
        first = True
        while not self.accept(")"):
            if not first:
                self.expect(",", "or ')'")
            first = False
            self.argument(node, graph, scope)
        if self.accept("using"):
            node.kernel = self.name("a kernel's key")
        while self.accept("("):
            self.pos -= 1
            inner = dict(scope)
            block = Block(self.params(inner))
            self.expect("{", "and a block")
            comment = self.end_of_line()
            node.source = comment if not node.blocks else node.source
            self.block(block, graph, inner)
            node.blocks.append(block)
        comment = self.end_of_line()
        node.source = comment if not node.blocks else node.source
        return node

    def argument(self, node: Node, graph: Graph, scope: dict[str, Value]) -> None:
        start = self.skip()
        word = self.take(_WORD)
        if word and self.accept("="):
            if word[0] in node.attrs:
                self.fail(f"attribute {word[0]} is given twice", start)
            node.attrs[word[0]] = self.attr()
            return
        self.pos = start
        if node.attrs:
            self.fail(f"expected name=value (attributes come after all inputs), got {self.here()}")
        node.inputs.append(self.use(graph, scope))

    def block(self, block: Block, graph: Graph, scope: dict[str, Value]) -> None:
        """Nodes, `return …` and the closing brace; `scope` knows the values around it and its inputs."""
        own = {v.name for v in block.inputs}
        while True:
            if self.accept("return"):
                break
            if self.pos >= len(self.text) or self.accept("}"):
                self.fail("a block ends with 'return' and its outputs")
            if self.text.startswith("@", self.pos):
                if block is not graph or block.nodes:
                    self.fail("constants are listed at the top of the graph, before its nodes")
                self.constant(graph.constants)
                continue
            start = self.pos
            node = block.append(self.node(graph, scope))
            for value in node.outputs:
                if value.name in own:
                    self.fail(f"%{value.name} is defined twice", start)
                own.add(value.name)
                scope[value.name] = value
        self.skip()
        while self.pos < len(self.text) and self.text[self.pos] in "%@,":
            if block.outputs:
                self.expect(",")
            output = self.use(graph, scope)
            if output is None:
                self.fail("none cannot be an output")
            block.outputs.append(output)
        self.end_of_line()
        self.expect("}", "after the outputs")

    def graph(self) -> Graph:
        self.expect("graph")
        graph = Graph(name=self.name("the graph's name"))
        scope: dict[str, Value] = {}
        graph.inputs = self.params(scope)
        self.expect("{")
        self.end_of_line()
        self.block(graph, graph, scope)
        self.end_of_line()
        reserve_names(graph)
        return graph

    def program(self) -> Program:
        self.expect("program")
        metadata = self.json()
        if not isinstance(metadata, dict):
            self.fail("expected a JSON object as the program's metadata")
        program = Program({}, metadata)
        self.end_of_line()
        while self.accept("method"):
            name = self.name("the method's name")
            self.end_of_line()
            symbols = self.symbols() if self.accept("symbols") else {}
            input_spec = self.spec("inputs")
            output_spec = self.spec("outputs")
            states: dict[str, Value] = {}
            while self.accept("state"):
                self.skip()
                self.constant(states)
            if name in program.methods:
                self.fail(f"method {name!r} is given twice")
            program.methods[name] = Method(self.graph(), input_spec, output_spec, symbols, list(states.values()))
        return program

    def spec(self, word: str) -> Any:
        if not self.accept(word):
            return None
        spec = self.json()
        self.end_of_line()
        return spec

    def symbols(self) -> dict[str, SymbolRange]:
        found: dict[str, SymbolRange] = {}
        while not found or self.accept(","):
            name = self.name("a symbol")
            self.expect(":")
            match = self.take(re.compile(r"(\d+)\.\.(\d*)"))
            if not match:
                self.fail(f"expected a range such as 1..64 or 1.., got {self.here()}")
            found[name] = SymbolRange(int(match[1]), int(match[2]) if match[2] else None)
        self.end_of_line()
        return found
