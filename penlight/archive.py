"""The zip container of PyTorch files: bytes → named records under one root folder.

A reader of our own, because any file may be hostile and weights must not be copied: stored records are views of the (mapped) file,
and only those that are asked for are looked at. What is inflated is bounded by the size of the file, records may not share
bytes, and names may not leave the root folder.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from penlight import magic
from penlight.budget import Budget
from penlight.errors import CaptureError

_END = struct.Struct("<4s4H2LH")  # end of central directory
_END64 = struct.Struct("<4sQ2H2L4Q")
_END64_LOCATOR = struct.Struct("<4sLQL")
_ENTRY = struct.Struct("<4s6H3L5H2L")  # of the central directory
_LOCAL = struct.Struct("<4s5H3L2H")

_MAX_COMMENT = 0xFFFF
_MAX_RECORDS = 1 << 18
_MAX_NAME = 4096
_INFLATE_BASE = 1 << 20  # what may be inflated in all: this, and _INFLATE_RATIO times the size of the file
_INFLATE_RATIO = 32


@dataclass(frozen=True)
class Record:
    name: str  # without the root folder
    start: int  # of its bytes in the file
    stored_size: int
    size: int
    crc: int  # 0: the writer left it out
    deflated: bool


class Archive:
    """Records of a zip file. `data` is the whole file, one-dimensional uint8, mapped or in memory."""

    def __init__(self, data: np.ndarray, file: str = "") -> None:
        self._data = data
        self._file = file or "this file"
        self.budget = Budget(len(data), self._file)  # for all who read its records
        self._inflate_left = _INFLATE_BASE + _INFLATE_RATIO * len(data)
        self.root, self.records = self._directory()

    def __contains__(self, name: str) -> bool:
        return name in self.records

    def read(self, name: str) -> bytes:
        """The bytes of a record, checked against its CRC."""
        record = self._record(name)
        content = self._inflate(record) if record.deflated else self._slice(record).tobytes()
        if record.crc and zlib.crc32(content) != record.crc:
            raise self._corrupt(f"record {name!r} does not have the checksum that the directory gives")
        return content

    def view(self, name: str) -> np.ndarray:
        """The bytes of a record without reading them where they lie in the file as they are. (So, no CRC: that would read
        every weight.)"""
        record = self._record(name)
        return np.frombuffer(self._inflate(record), np.uint8) if record.deflated else self._slice(record)

    def extra_files(self) -> dict[str, bytes]:
        """What was stored beside the model by `_extra_files`."""
        return {n.removeprefix("extra/"): self.read(n) for n in self.records if n.startswith("extra/")}

    def rewritten(self) -> bytes:
        """A zip file of the same records, as they are read here: for another reader, which might see others in this file."""
        return self.packed({name: self.read(name) for name in self.records})

    def packed(self, records: Mapping[str, bytes]) -> bytes:
        """A zip file of these. torch finds records whatever their case, so no two names may differ in that only."""
        seen: set[str] = set()
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as target:
            for name, content in records.items():
                if name.lower() in seen:
                    raise self._corrupt(
                        f"another record has the name {name!r} but for capitals, and torch does not tell them apart"
                    )
                seen.add(name.lower())
                target.writestr(f"{self.root}/{name}", content)
        return made.getvalue()

    def _record(self, name: str) -> Record:
        try:
            return self.records[name]
        except KeyError:
            raise self._corrupt(f"it has no record {name!r}") from None

    def _slice(self, record: Record) -> np.ndarray:
        return self._data[record.start : record.start + record.size]

    def _inflate(self, record: Record) -> bytes:
        if record.size > self._inflate_left:
            raise self._corrupt(
                f"record {record.name!r} would inflate to {record.size} bytes; a file of {len(self._data)} bytes may inflate "
                f"to {_INFLATE_BASE + _INFLATE_RATIO * len(self._data)} in all"
            )
        self._inflate_left -= record.size
        self.budget.take(record.size)
        source = self._data[record.start : record.start + record.stored_size]
        inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            content = inflater.decompress(source.data, record.size + 1)
        except zlib.error as e:
            raise self._corrupt(f"record {record.name!r} cannot be inflated: {e}") from None
        if len(content) != record.size or (not inflater.eof and inflater.decompress(inflater.unconsumed_tail, 1)):
            raise self._corrupt(
                f"record {record.name!r} does not inflate to the {record.size} bytes that the directory gives"
            )
        return content

    def _directory(self) -> tuple[str, dict[str, Record]]:
        start, size, count = self._end()
        if count > _MAX_RECORDS:
            raise self._corrupt(f"it claims {count} records; at most {_MAX_RECORDS} are read")
        if start + size > len(self._data):
            raise self._corrupt("its directory lies outside of the file: it is cut short, or not a zip file")
        directory = self._data[start : start + size].tobytes()
        records: dict[str, Record] = {}
        root = ""
        at = 0
        for _ in range(count):
            if at + _ENTRY.size > len(directory):
                raise self._corrupt("its directory ends in the middle of an entry")
            record, at = self._entry(directory, at)
            folder, slash, name = record.name.partition("/")
            root = root or folder
            if not slash or folder != root:
                raise self._corrupt(f"record {record.name!r} lies outside of the root folder {root!r}")
            if not name or name.endswith("/"):  # a folder, which other zip tools list
                continue
            if name in records:
                raise self._corrupt(f"two records have the name {name!r}")
            records[name] = self._located(record, name, start)
        if not records:
            raise self._corrupt("it holds no records")
        ordered = sorted(records.values(), key=lambda r: r.start)
        for a, b in pairwise(ordered):
            if a.start + a.stored_size > b.start:
                raise self._corrupt(f"records {a.name!r} and {b.name!r} overlap")
        return root, records

    def _end(self) -> tuple[int, int, int]:
        """Start and size of the directory, and the number of its entries."""
        tail_start = max(0, len(self._data) - _END.size - _MAX_COMMENT)
        tail = self._data[tail_start:].tobytes()
        at = tail.rfind(b"PK\x05\x06")
        if at < 0 or at + _END.size > len(tail):
            raise self._corrupt("it starts like a zip file, but has no directory at its end: it is probably cut short")
        _, disk, first_disk, _, count, size, start, _ = _END.unpack_from(tail, at)
        end64 = self._end64(tail_start + at)
        if end64 is not None and (count == 0xFFFF or size == 0xFFFFFFFF or start == 0xFFFFFFFF):
            return end64
        if disk or first_disk:
            raise self._corrupt("it is one part of a zip file in several")
        return start, size, count

    def _end64(self, end: int) -> tuple[int, int, int] | None:
        locator = end - _END64_LOCATOR.size
        if locator < 0:
            return None
        magic, _, at, _ = _END64_LOCATOR.unpack(self._data[locator:end].tobytes())
        if magic != b"PK\x06\x07":
            return None
        if at + _END64.size > locator:
            raise self._corrupt("its directory lies outside of the file")
        magic, _, _, _, _, _, _, count, size, start = _END64.unpack(self._data[at : at + _END64.size].tobytes())
        if magic != b"PK\x06\x06":
            raise self._corrupt("its 64-bit directory is not where it should be")
        return start, size, count

    def _entry(self, directory: bytes, at: int) -> tuple[Record, int]:
        fields = _ENTRY.unpack_from(directory, at)
        magic, flags, method, crc, stored_size, size = fields[0], fields[3], fields[4], fields[7], fields[8], fields[9]
        name_size, extra_size, comment_size, offset = fields[10], fields[11], fields[12], fields[16]
        if magic != b"PK\x01\x02":
            raise self._corrupt("an entry of its directory does not start as one")
        at += _ENTRY.size
        if at + name_size + extra_size + comment_size > len(directory):
            raise self._corrupt("its directory ends in the middle of an entry")
        name = self._name(directory[at : at + name_size])
        extra = directory[at + name_size : at + name_size + extra_size]
        at += name_size + extra_size + comment_size
        if flags & 0x1:
            raise self._corrupt(f"record {name!r} is encrypted")
        if method not in (0, 8):
            raise self._corrupt(
                f"record {name!r} has compression method {method}; stored (0) and deflated (8) are read"
            )
        size, stored_size, offset = self._wide(name, extra, size, stored_size, offset)
        if method == 0 and size != stored_size:
            raise self._corrupt(f"record {name!r} is stored, but with two different sizes, {stored_size} and {size}")
        return Record(name, offset, stored_size, size, crc, method == 8), at

    def _wide(self, name: str, extra: bytes, *values: int) -> tuple[int, ...]:
        """Values of 2**32 - 1 stand, in this order, in the extra field 1 as 64-bit numbers."""
        if 0xFFFFFFFF not in values:
            return values
        at = 0
        while at + 4 <= len(extra):
            kind, size = struct.unpack_from("<2H", extra, at)
            at += 4
            if kind == 1:
                wide = [v for (v,) in struct.iter_unpack("<Q", extra[at : at + size - size % 8])]
                if len(wide) >= values.count(0xFFFFFFFF):
                    return tuple(wide.pop(0) if v == 0xFFFFFFFF else v for v in values)
            at += size
        raise self._corrupt(f"record {name!r} lacks its 64-bit sizes")

    def _name(self, raw: bytes) -> str:
        try:
            name = raw.decode("utf-8")
        except UnicodeDecodeError:
            raise self._corrupt(f"a record has the name {raw[:60]!r}, which is not UTF-8") from None
        if (
            not name
            or len(name) > _MAX_NAME
            or "\0" in name
            or "\\" in name
            or ".." in name.split("/")
            or name[0] == "/"
        ):
            raise self._corrupt(f"a record has the name {name[:60]!r}, which is no path inside of the file")
        return name

    def _located(self, record: Record, name: str, directory: int) -> Record:
        """With the start of the bytes, behind the local header, and all of them in front of the directory."""
        at = record.start
        if at + _LOCAL.size > directory:
            raise self._corrupt(f"record {name!r} starts outside of the file")
        fields = _LOCAL.unpack(self._data[at : at + _LOCAL.size].tobytes())
        if fields[0] != magic.ZIP:
            raise self._corrupt(f"record {name!r} does not start with a header")
        start = at + _LOCAL.size + fields[9] + fields[10]
        if start + record.stored_size > directory:
            raise self._corrupt(f"record {name!r} ends outside of the file")
        return Record(name, start, record.stored_size, record.size, record.crc, record.deflated)

    def _corrupt(self, what: str) -> CaptureError:
        return CaptureError(f"{self._file} cannot be read: {what}")
