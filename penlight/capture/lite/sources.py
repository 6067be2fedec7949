"""Debug information of a zip file → the source line of each instruction, "model.py:12, in forward: y = f(x)  [layer1.0]".

mobile_debug_handles.pkl gives a handle to each instruction, callstack_debug_map.pkl the range and the calls of each handle, and the
.debug_pkl records beside the serialized code the ranges themselves. Files of PyTorch 1.6 to 1.8 have mobile_debug.pkl in their
place, which only tells the module of each operator: "in forward  [layer1.0]". All of it is for messages only: what does not fit together
is left out, never an error.
"""

from __future__ import annotations

import bisect
import os
import re
from dataclasses import dataclass
from typing import Any

from penlight.archive import Archive
from penlight.budget import Budget
from penlight.capture.lite.unpickle import unpickle
from penlight.errors import CaptureError

_TORCH = re.compile(r"(site|dist)-packages[/\\]torch[/\\]|^torch[/\\]|^<")
_TRACED = re.compile(r"^(?P<file>[^\n(]+)\((?P<line>\d+)\): (?P<function>\S+)$", re.MULTILINE)
_MAX_CALLS = 200
_MAX_SCANNED = 1 << 28  # bytes of source text, each as often as it is looked at
_MAX_NAME = 300


@dataclass(frozen=True)
class _Line:
    file: str
    number: int
    code: str
    function: str = ""  # only traced lines know it

    @property
    def is_torch(self) -> bool:
        return bool(_TORCH.search(self.file))


def read_sources(archive: Archive, file: str) -> dict[str, list[str]]:
    """Source lines by the name of the function, one for each instruction; {} where the file has none."""
    if "mobile_debug_handles.pkl" not in archive or "callstack_debug_map.pkl" not in archive:
        return {}
    try:
        handles = unpickle(archive.read("mobile_debug_handles.pkl"), file, budget=archive.budget)
        calls = unpickle(archive.read("callstack_debug_map.pkl"), file, budget=archive.budget)
        ranges = Ranges()
        for name in archive.records:
            if name.endswith(".debug_pkl"):
                ranges.read(unpickle(archive.read(name), file, budget=archive.budget))
        described = {entry[0]: entry for entry in calls if isinstance(entry[0], int)}  # to hash a tuple may take long
        texts: dict[tuple[int, str], str] = {}
        result: dict[str, list[str]] = {}
        for function, ((_, (numbers,)),) in (entry for entry in handles if isinstance(entry, tuple)):
            method = function.rpartition(".")[2]
            if not isinstance(function, str) or not all(isinstance(number, int) for number in numbers):
                continue
            archive.budget.step(len(numbers))
            for number in numbers:
                if (number, method) not in texts:
                    texts[number, method] = _text(described.get(number), method, ranges)
            result[function] = [texts[number, method] for number in numbers]
        return result
    except (CaptureError, TypeError, ValueError, IndexError, AttributeError, KeyError):
        return {}


class Ranges:
    """Lines by the tags of their ranges, and by where in the serialized text these begin; each list innermost first."""

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._records: list[tuple[Any, ...]] = []  # of each offset
        self._lines: dict[int, list[_Line]] = {}
        # By the id of a source: the source, so that its id stays its own; its text; its traced lines.
        self._texts: dict[int, tuple[Any, bytes, list[_Line]]] = {}
        self._left = _MAX_SCANNED
        self.by_tag = True

    @classmethod
    def of(cls, data: bytes, file: str, budget: Budget) -> Ranges | None:
        """Those of one .debug_pkl; None where it does not fit together."""
        made = cls()
        made.by_tag = False
        try:
            made.read(unpickle(data, file, budget=budget))
        except (CaptureError, TypeError, ValueError, IndexError, AttributeError, KeyError):
            return None
        return made

    def get(self, tag: int) -> list[_Line]:
        return self._lines.get(tag, [])

    def at_offset(self, offset: int) -> list[_Line]:
        """The lines that a place in the serialized text came from."""
        at = bisect.bisect_right(self._offsets, offset) - 1
        try:
            return self._at(*self._records[at]) if at >= 0 else []
        except (CaptureError, TypeError, ValueError, IndexError, AttributeError, KeyError):
            return []

    def read(self, table: Any) -> None:
        """Adds those of a .debug_pkl. Newer files share their texts in a table of strings."""
        strings: tuple[str, ...] | None = None
        records = table
        if len(table) == 3 and table[0] == "FORMAT_WITH_STRING_TABLE":
            _, strings, records = table
        for record in records:
            # (offset, range, tag), before the string table (offset, tag, range), before tags (offset, range)
            if len(record) == 2:
                record = (*record, None)
            if len(record) != 3:
                continue
            offset, (source, start, _), tag = (
                record if isinstance(record[1], tuple) else (record[0], record[2], record[1])
            )
            if not isinstance(offset, int) or not isinstance(tag, int | None):
                continue
            if not self._offsets or offset > self._offsets[-1]:
                self._offsets.append(offset)
                self._records.append((source, start, strings))
            if tag is not None and tag not in self._lines and self.by_tag:
                self._lines[tag] = self._at(source, start, strings)

    def _at(self, source: Any, start: int, strings: tuple[str, ...] | None) -> list[_Line]:
        text, file, first_line = source
        if id(source) not in self._texts:
            self._texts[id(source)] = (source, *self._open(text, strings))
        _, raw, traced = self._texts[id(source)]
        self._spend(len(raw))
        if traced or not raw:
            return traced
        name = strings[file] if strings is not None else file or ""
        begin = raw.rfind(b"\n", 0, start) + 1
        end = raw.find(b"\n", start)
        code = raw[begin : end if end >= 0 else len(raw)][:_MAX_NAME].decode("utf-8", "replace").strip()
        return [_Line(name, first_line + raw.count(b"\n", 0, start), code)]

    def _open(self, text: Any, strings: tuple[str, ...] | None) -> tuple[bytes, list[_Line]]:
        if strings is not None:
            self._spend(sum(len(strings[i]) for i in text))
            text = "".join(strings[i] for i in text)
        raw = text.encode("utf-8", "surrogateescape")  # offsets count bytes
        lines = [
            _Line(m["file"], int(m["line"]), "", m["function"])
            for m in _TRACED.finditer(text)
            if "jit/_trace.py" not in m["file"]
        ]
        return raw, lines

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise CaptureError("more debug information than is read")


def read_modules(archive: Archive, file: str) -> dict[str, list[str]]:
    """From mobile_debug.pkl, by the name of the function: a text for each of its operators (not instructions)."""
    if "mobile_debug.pkl" not in archive:
        return {}
    try:
        table = unpickle(archive.read("mobile_debug.pkl"), file, budget=archive.budget)
        entries = [entry for entry in table if isinstance(entry, tuple)]
        return {function: [_module(text) for text in texts] for function, ((_, texts),) in entries}
    except (CaptureError, TypeError, ValueError, AttributeError):
        return {}


def _module(text: str) -> str:
    """ "top(Net).layer1(Sequential).0(Block).forward" as "in forward  [layer1.0]"."""
    parts = re.sub(r"\([^)]*\)", "", text[: 10 * _MAX_NAME]).split(".")
    if parts[0] != "top" or len(parts) < 2:
        return ""
    layer = ".".join(parts[1:-1])[-_MAX_NAME:]
    return f"in {parts[-1][:_MAX_NAME]}" + (f"  [{layer}]" if layer else "")


def _text(entry: Any, method: str, ranges: Ranges) -> str:
    if entry is None:
        return ""
    tag, stack = entry[1], entry[-1]
    functions, tags, path = [method], [], []
    for _ in range(_MAX_CALLS):  # from the outermost call inwards
        if stack is None:
            break
        instance, call_tag, callee, *name = stack
        if instance is not None and instance[1] not in ("", "SELF"):
            path.append(instance[1])
        functions.append(name[0] if name else "")
        tags.append(call_tag)
        stack = callee
    frames = zip(reversed(functions), [tag, *reversed(tags)], strict=True)
    return described([(ranges.get(t), function) for function, t in frames], path)


def described(frames: list[tuple[list[_Line], str]], path: list[str]) -> str:
    """The line to show of calls in progress, innermost first, each with the lines it is at and its function; `path`: the names that
    lead to the module at work."""
    lines = [(line, line.function or function) for found, function in frames for line in found]
    chosen = next((pair for pair in lines if not pair[0].is_torch), lines[0] if lines else None)
    layer = ".".join(name[:_MAX_NAME] for name in path)[-_MAX_NAME:]
    if chosen is None:
        return f"in {frames[0][1][:_MAX_NAME]}" + (f"  [{layer}]" if path else "")
    line, function = chosen
    text = f"{os.path.basename(line.file)[-_MAX_NAME:]}:{line.number}" + (
        f", in {function[:_MAX_NAME]}" if function else ""
    )
    text += f": {line.code}" if line.code else ""
    return text + (f"  [{layer}]" if path else "")
