"""The source text in a TorchScript file, code/**/*.py → its classes and functions, by qualified name.

It is a small part of Python, written by torch's own printer, and parsed by Python's ast; nothing of it is run.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from penlight.archive import Archive
from penlight.capture.lite.sources import Ranges
from penlight.capture.source.types import Type, annotated
from penlight.errors import CaptureError

_MAX_BYTES = 1 << 24  # of one file of source text


def stores(body: list[ast.stmt]) -> Counter[str]:
    """How often each variable is assigned in some statements."""
    names = (n for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return Counter(n.id for n in names)


@dataclass(eq=False)
class Function:
    name: str  # qualified
    node: ast.FunctionDef
    text: Text

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]

    @cached_property
    def parameters(self) -> list[tuple[str, Type]]:
        return [(a.arg, annotated(a.annotation)) for a in self.node.args.args]

    @cached_property
    def returns(self) -> Type:
        return annotated(self.node.returns)

    @cached_property
    def returns_last(self) -> bool:
        """Whether its last statement is the only one that returns."""
        *before, last = self.node.body
        return isinstance(last, ast.Return) and not any(isinstance(n, ast.Return) for s in before for n in ast.walk(s))

    @cached_property
    def stores(self) -> Counter[str]:
        """How often each variable is assigned."""
        return stores(self.node.body)


@dataclass(eq=False)
class Class:
    name: str
    kind: str  # "Module", "NamedTuple", "Enum", "Interface", "ModuleInterface", or "" for other classes
    attributes: dict[str, Type] = field(default_factory=dict)  # in the order of their slots
    constants: dict[str, ast.expr] = field(default_factory=dict)  # of enums: the values by name
    methods: dict[str, Function] = field(default_factory=dict)


class Text:
    """One file of source text: where its lines begin, and which lines of the original each place of it came from."""

    def __init__(self, archive: Archive, record: str, file: str) -> None:
        raw = archive.read(record)
        self.where = f"{file}: {record}"
        if len(raw) > _MAX_BYTES:
            raise CaptureError(f"{self.where} has {len(raw)} bytes of source text; at most {_MAX_BYTES} are read")
        try:
            self.tree = ast.parse(
                raw.decode("utf-8")
            )  # as text: bytes may name an encoding, in which it says something else
        except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
            raise CaptureError(f"{self.where}: this is no TorchScript source text: {e}") from None
        self._starts = [0]
        for line in raw.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._lines: dict[int, list[Any]] = {}
        debug = f"{record}.debug_pkl"
        self._ranges = Ranges.of(archive.read(debug), file, archive.budget) if debug in archive else None

    def lines(self, node: ast.AST) -> list[Any]:
        """The original's lines that a node came from, innermost first."""
        if self._ranges is None or not isinstance(node, (ast.expr, ast.stmt)):
            return []
        offset = self._starts[node.lineno - 1] + node.col_offset
        if offset not in self._lines:
            self._lines[offset] = self._ranges.at_offset(offset)
        return self._lines[offset]


class Declarations:
    def __init__(self, archive: Archive, file: str) -> None:
        self.archive = archive
        self.file = file
        self._known: dict[str, Class | Function] = {}
        self.written: set[str] = set()  # names of attributes that some code sets
        for record in self.archive.records:
            if record.startswith("code/") and record.endswith(".py"):
                self._read(record[len("code/") : -len(".py")].replace("/", "."))

    def find(self, name: str) -> Class | Function | None:
        """By qualified name, "__torch__.torch.nn.modules.conv.Conv2d"."""
        return self._known.get(name)

    def class_of(self, type_: Type) -> Class | None:
        found = self._known.get(type_.name)
        return found if isinstance(found, Class) else None

    def _read(self, prefix: str) -> None:
        text = Text(self.archive, f"code/{prefix.replace('.', '/')}.py", self.file)
        for node in text.tree.body:
            if isinstance(node, ast.ClassDef):
                self._known[f"{prefix}.{node.name}"] = _class(f"{prefix}.{node.name}", node, text)
            elif isinstance(node, ast.FunctionDef):
                self._known[f"{prefix}.{node.name}"] = Function(f"{prefix}.{node.name}", node, text)
        for inner in ast.walk(text.tree):
            if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
                self.written.add(inner.attr)


def _class(name: str, node: ast.ClassDef, text: Text) -> Class:
    kind = node.bases[0].id if node.bases and isinstance(node.bases[0], ast.Name) else ""
    made = Class(name, kind)
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            made.methods[item.name] = Function(f"{name}.{item.name}", item, text)
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            if item.value is not None:
                made.constants[item.target.id] = item.value
            else:
                made.attributes[item.target.id] = annotated(item.annotation)
        elif isinstance(item, ast.Assign):
            target = item.targets[0]
            if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):  # __annotations__["0"] = …
                made.attributes[str(target.slice.value)] = annotated(item.value)
            elif isinstance(target, ast.Name) and kind == "Enum":
                made.constants[target.id] = item.value
    return made
