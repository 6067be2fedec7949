"""A smaller file with the same finding. What may be left out depends on what the file is:

a session of operators      calls, then bytes that arguments are drawn from
a zip file                  records, then bytes of each
a .pen file                 nothing (offsets would be wrong), but bytes may become 0, and the end may go
JSON with "steps"           steps
anything else               bytes
"""

from __future__ import annotations

import io
import json
import time
import zipfile
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
Holds = Callable[[bytes], bool]


def smallest(data: bytes, holds: Holds, until: float, session: bool = False) -> bytes:
    """`holds` says whether a candidate still shows it; `until`: on time.monotonic()'s clock."""
    if session:
        return _session(data, holds, until)
    if data[:1] == b"{" and b'"steps"' in data:
        told = json.loads(data)
        steps = fewer(told["steps"], lambda s: holds(json.dumps({**told, "steps": s}).encode()), until)
        return json.dumps({**told, "steps": steps}).encode()
    if data[:2] == b"PK":
        return _archive(data, holds, until)
    if data[:4].lower().startswith(b"pen"):
        return zeroed(data, holds, until)
    return bytes(fewer(list(data), lambda b: holds(bytes(b)), until))


def fewer(items: list[T], holds: Callable[[list[T]], bool], until: float) -> list[T]:
    """As few of the items as still hold: runs of them are left out, long ones first."""
    size = len(items)
    while size >= 1:
        at, left_out = 0, False
        while at < len(items):
            if time.monotonic() > until:
                return items
            candidate = items[:at] + items[at + size :]
            if holds(candidate):
                items, left_out = candidate, True
            else:
                at += size
        size = size if left_out and size == 1 else size // 2
    return items


def zeroed(data: bytes, holds: Holds, until: float) -> bytes:
    for end in (len(data) // 2, len(data) * 3 // 4):
        if holds(data[:end]):
            data = data[:end]
            break
    size = max(len(data) // 2, 1)
    while size >= 8:
        for at in range(0, len(data), size):
            if time.monotonic() > until:
                return data
            piece = data[at : at + size]
            candidate = data[:at] + bytes(len(piece)) + data[at + size :]
            if any(piece) and holds(candidate):
                data = candidate
        size //= 2
    return data


def _archive(data: bytes, holds: Holds, until: float) -> bytes:
    def packed(records: list[tuple[str, bytes]]) -> bytes:
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            for name, content in records:
                archive.writestr(name, content)
        return stream.getvalue()

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            records = [(name, archive.read(name)) for name in archive.namelist()]
    except Exception:  # its directory is what is damaged
        return bytes(fewer(list(data), lambda b: holds(bytes(b)), until))
    if not holds(packed(records)):
        return bytes(fewer(list(data), lambda b: holds(bytes(b)), until))
    records = fewer(records, lambda r: holds(packed(r)), until)
    for i, (name, content) in enumerate(records):

        def with_content(b: list[int], i: int = i, name: str = name) -> bytes:
            return packed([*records[:i], (name, bytes(b)), *records[i + 1 :]])

        records[i] = (name, bytes(fewer(list(content), lambda b: holds(with_content(b)), until)))
    return packed(records)


def calls_of(data: bytes) -> list[tuple[bytes, bytes]]:
    """A session as operators.cc writes it: name and bytes of each call."""
    calls, at = [], 0
    while at < len(data):
        parts = []
        for _ in range(2):
            size = data[at] if at < len(data) else 0
            parts.append(data[at + 1 : at + 1 + size])
            at += 1 + size
        calls.append((parts[0], parts[1]))
    return calls


def session_of(calls: list[tuple[bytes, bytes]]) -> bytes:
    return b"".join(bytes([len(part)]) + part for call in calls for part in call)


def _session(data: bytes, holds: Holds, until: float) -> bytes:
    calls = fewer(calls_of(data), lambda c: holds(session_of(c)), until)
    for i, (name, drawn) in enumerate(calls):

        def with_bytes(b: Any, i: int = i, name: bytes = name) -> bytes:
            return session_of([*calls[:i], (name, bytes(b)), *calls[i + 1 :]])

        end = next((n for n in (0, 4, 8, 16, 32, 48) if n < len(drawn) and holds(with_bytes(drawn[:n]))), len(drawn))
        kept = bytearray(drawn[:end])
        for k in range(len(kept)):
            was, kept[k] = kept[k], 0
            if was and (time.monotonic() > until or not holds(with_bytes(kept))):
                kept[k] = was
        calls[i] = (name, bytes(kept))
    return session_of(calls)
