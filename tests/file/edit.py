"""Takes a .pen file apart into records, lets a test change them, and puts it together again: for files that are wrong
in one chosen way. Follows format.py, so a field that is added there is here too."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from typing import Any

from penlight.file import format as f

_RECORDS = {r.section: r for r in f.RECORDS if r.section}
_ARRAY_CODES = {name: struct.Struct("<" + f._SIZES[kind]) for name, (kind, _) in f.ARRAYS.items()}


class Edit:
    """`tables["NODE"][3]["key"] = 7`, `arrays["INTS"][5] = -1`, `text`, `data`; then `bytes()`."""

    def __init__(self, file: bytes) -> None:
        header = dict(zip((x.name for x in f.HEADER.fields), f.HEADER.struct.unpack_from(file), strict=True))
        self.header: dict[str, Any] = header
        self.order: list[str] = []
        self.record_sizes: dict[str, int] = {}
        self.tables: dict[str, list[dict[str, Any]]] = {}
        self.arrays: dict[str, list[Any]] = {}
        self.text = self.meta = self.data = b""
        for i in range(header["section_count"]):
            name, size, offset, count = f.SECTION.struct.unpack_from(file, header["header_size"] + i * f.SECTION.size)
            section, body = name.decode(), file[offset : offset + count * size]
            self.order.append(section)
            self.record_sizes[section] = size
            if section in _RECORDS:
                record = _RECORDS[section]
                names = [x.name for x in record.fields]
                rows = [body[k * size : (k + 1) * size].ljust(record.size, b"\0")[: record.size] for k in range(count)]
                self.tables[section] = [dict(zip(names, record.struct.unpack(row), strict=True)) for row in rows]
                self.record_sizes[section] = max(size, record.size)  # what an older version wrote has grown
            elif section in ("TEXT", "META", "DATA"):
                setattr(self, {"TEXT": "text", "META": "meta", "DATA": "data"}[section], body)
            else:
                self.arrays[section] = [v for (v,) in _ARRAY_CODES[section].iter_unpack(body)]

    def string(self, text: str) -> int:
        """The index of a string, added where it is not there."""
        for i, row in enumerate(self.tables["STRS"]):
            if self.text[row["offset"] : row["offset"] + row["size"]] == text.encode():
                return i
        self.tables["STRS"].append({"offset": len(self.text), "size": len(text.encode())})
        self.text += text.encode() + b"\0"
        return len(self.tables["STRS"]) - 1

    def name(self, index: int) -> str:
        row = self.tables["STRS"][index]
        return self.text[row["offset"] : row["offset"] + row["size"]].decode()

    def node(self, key: str) -> dict[str, Any]:
        """The first node with a key that begins so."""
        return next(n for n in self.tables["NODE"] if self.name(n["key"]).startswith(key))

    def attr(self, node: dict[str, Any], name: str) -> dict[str, Any]:
        rows = self.tables["ATTR"][node["attrs"] : node["attrs"] + node["attr_count"]]
        return next(a for a in rows if self.name(a["name"]) == name)

    def append(self, array: str, *values: float) -> int:
        start = len(self.arrays[array])
        self.arrays[array] += values
        return start

    def bytes(self, change_section: Callable[[str, dict[str, Any]], None] | None = None) -> bytes:
        """The file, with a right hash. `change_section` may change a section table entry before it is written."""
        out = bytearray(self.header["header_size"] + len(self.order) * f.SECTION.size)
        entries = []
        tables_size = 0
        for section in self.order:
            out += b"\0" * (-len(out) % (f.ALIGNMENT if section == "DATA" else 8))
            if section in _RECORDS:
                record = _RECORDS[section]
                body = b"".join(
                    record.struct.pack(*(row[x.name] for x in record.fields)).ljust(self.record_sizes[section], b"\0")
                    for row in self.tables[section]
                )
            elif section in self.arrays:
                body = b"".join(_ARRAY_CODES[section].pack(v) for v in self.arrays[section])
            else:
                body = {"TEXT": self.text, "META": self.meta, "DATA": self.data}[section]
            entry = {
                "id": section.encode(),
                "record_size": self.record_sizes[section],
                "offset": len(out),
                "count": len(body) // self.record_sizes[section],
            }
            if change_section:
                change_section(section, entry)
            entries.append(entry)
            out += body
            if section != "DATA":
                tables_size = len(out)
        header = {k: v for k, v in self.header.items() if not k.startswith("reserved")}
        header |= {"file_size": len(out), "tables_size": tables_size, "section_count": len(entries), "hash": b""}
        out[: f.HEADER.size] = f.HEADER.pack(**header)
        for i, entry in enumerate(entries):
            at = self.header["header_size"] + i * f.SECTION.size
            out[at : at + f.SECTION.size] = f.SECTION.pack(**entry)
        return with_hash(bytes(out))


def with_hash(file: bytes) -> bytes:
    """The same bytes with the content hash that they should have."""
    zeroed = file[: f.HASH_OFFSET] + bytes(32) + file[f.HASH_OFFSET + 32 :]
    return zeroed[: f.HASH_OFFSET] + hashlib.sha256(zeroed).digest() + zeroed[f.HASH_OFFSET + 32 :]
