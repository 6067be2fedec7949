"""Source lines of TorchScript nodes. A scripted node knows its own line with the code around it, a traced one its whole
Python stack; calls in progress give the lines above. The innermost line outside of torch is the one to show."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from penlight.capture.export.source_lines import describe, is_torch

_SCRIPTED = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)\n(?P<text>.*?)(?=\n\S|\Z)', re.DOTALL)
_TRACED = re.compile(r"^(?P<file>[^\n(]+)\((?P<line>\d+)\): (?P<function>\S+)$", re.MULTILINE)
_INSTALLED_TORCH = re.compile(r"(site|dist)-packages[/\\]torch[/\\]|^torch[/\\]")
_MARK = re.compile(r"\s*~+( <--- HERE)?\s*")


@dataclass(frozen=True)
class Line:
    file: str
    number: int
    function: str
    code: str

    @property
    def is_torch(self) -> bool:
        return is_torch(self.file) or bool(_INSTALLED_TORCH.search(self.file))

    def text(self, layer: str) -> str:
        return describe(self.file, self.number, self.function, self.code, layer)


class Frames:
    """The calls in progress, outermost first, each at its current node."""

    def __init__(self) -> None:
        self._functions: list[str] = []
        self._ranges: list[str] = []
        self._layers = [""]

    @contextmanager
    def inside(self, function: str, layer: str = "") -> Iterator[None]:
        """In a function, which may be a method of a layer of the model."""
        self._functions.append(function)
        self._ranges.append("")
        self._layers.append(layer or self._layers[-1])
        yield
        self._functions.pop()  # not after an exception: `source` then tells where it happened
        self._ranges.pop()
        self._layers.pop()

    def at(self, node: Any) -> None:
        where = node.sourceRange()
        if where:  # some nodes have none; the last known line is near enough
            self._ranges[-1] = where

    def source(self) -> str:
        """The line to blame, as text."""
        inner: Line | None = None
        for where, function in zip(reversed(self._ranges), reversed(self._functions), strict=True):
            for line in lines(where, function):
                if not line.is_torch:
                    return line.text(self._layers[-1])
                inner = inner or line
        return inner.text(self._layers[-1]) if inner else ""


@lru_cache(maxsize=4096)
def lines(source_range: str, function: str) -> tuple[Line, ...]:
    """The lines that a node's range tells of, innermost first. (A loaded file also tells where it is in its own serialized
    code: that is shown only where nothing else is known.)"""
    original, _, rest = source_range.partition("Serialized ")
    traced = [
        Line(m["file"], int(m["line"]), m["function"], linecache.getline(m["file"], int(m["line"])).strip())
        for m in _TRACED.finditer(original)
        if "jit/_trace.py" not in m["file"]
    ]
    if traced:
        return tuple(traced)
    return tuple(_scripted(m, function) for m in _SCRIPTED.finditer(original if original.strip() else rest))


def _scripted(match: re.Match[str], function: str) -> Line:
    """The range is printed as an excerpt in which rows of ~~~ follow the lines in question; the first one counts."""
    excerpt = match["text"].split("\n")
    marked = next((i for i, text in enumerate(excerpt) if _MARK.fullmatch(text)), 0)
    code = excerpt[marked - 1].strip() if marked else ""
    return Line(match["file"], int(match["line"]), function, code)
