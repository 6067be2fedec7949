"""A Windows DLL (PE) as bytes: for which processor it is, what it needs and exports, how it may be placed in memory, and by which number
debuggers find its symbols. And of the objects that it is linked from (COFF), what they define.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from penlight.errors import BuildError

X86_64 = 0x8664
ANYWHERE, ANYWHERE_64, NO_EXECUTE = 0x40, 0x20, 0x100  # DYNAMIC_BASE, HIGH_ENTROPY_VA, NX_COMPAT
_EXPORTS, _IMPORTS, _UNWINDING, _DEBUG = 0, 1, 3, 6  # of the directories
_FIXED = 1  # RELOCS_STRIPPED
_CODEVIEW = 2
_EXECUTED, _WRITTEN = 0x20000000, 0x80000000


@dataclass(frozen=True)
class Section:
    name: str
    address: int
    size: int  # in the file
    start: int
    flags: int


@dataclass(frozen=True)
class Pe:
    machine: int
    flags: int  # DllCharacteristics
    sections: tuple[Section, ...]
    exports: frozenset[str]
    imports: dict[str, frozenset[str]]  # by library
    relocated: bool  # whether it says what to change where it is placed elsewhere
    unwound: bool  # whether it says how functions are left: without, no crash report shows who called whom
    pdb_id: str  # of its symbol file; "": it has none

    @property
    def writable_code(self) -> list[str]:
        return [s.name for s in self.sections if s.flags & _EXECUTED and s.flags & _WRITTEN]


def read_pe(data: bytes) -> Pe:
    """64-bit."""
    start = struct.unpack_from("<I", data, 60)[0] if data[:2] == b"MZ" and len(data) > 64 else 0
    if data[start : start + 4] != b"PE\0\0" or struct.unpack_from("<H", data, start + 24)[0] != 0x20B:
        raise BuildError(f"expected a 64-bit file for Windows (PE), got one that starts with {data[:4]!r}")
    machine, count = struct.unpack_from("<HH", data, start + 4)
    optional = start + 24
    table = optional + struct.unpack_from("<H", data, start + 20)[0]
    sections = []
    for at in range(table, table + 40 * count, 40):
        _, address, size, place = struct.unpack_from("<4I", data, at + 8)
        name = data[at : at + 8].rstrip(b"\0").decode()
        sections.append(Section(name, address, size, place, struct.unpack_from("<I", data, at + 36)[0]))
    directories = [struct.unpack_from("<II", data, optional + 112 + 8 * i) for i in range(16)]
    image = _Image(data, sections)
    return Pe(
        machine,
        struct.unpack_from("<H", data, optional + 70)[0],
        tuple(sections),
        frozenset(image.exports(directories[_EXPORTS][0])),
        image.imports(directories[_IMPORTS][0]),
        not struct.unpack_from("<H", data, start + 22)[0] & _FIXED,
        directories[_UNWINDING][1] > 0,
        image.pdb_id(*directories[_DEBUG]),
    )


class _Image:
    """Bytes by the address that they have when loaded."""

    def __init__(self, data: bytes, sections: list[Section]) -> None:
        self.data, self.sections = data, sections

    def place(self, address: int) -> int:
        for s in self.sections:
            if s.address <= address < s.address + s.size:
                return address - s.address + s.start
        raise BuildError(f"expected a whole file for Windows (PE), got one without the bytes at address {address:#x}")

    def take(self, form: str, address: int) -> tuple[int, ...]:
        return struct.unpack_from(f"<{form}", self.data, self.place(address))

    def text(self, address: int) -> str:
        at = self.place(address)
        return self.data[at : self.data.index(b"\0", at)].decode()

    def exports(self, table: int) -> list[str]:
        if not table:
            return []
        count, _, names = self.take("3I", table + 24)
        return [self.text(a) for a in self.take(f"{count}I", names)]

    def imports(self, table: int) -> dict[str, frozenset[str]]:
        found: dict[str, frozenset[str]] = {}
        while table and (entry := self.take("5I", table))[3]:
            names, at = set(), entry[0]
            while name := self.take("Q", at)[0]:
                names.add(f"#{name & 0xFFFF}" if name >> 63 else self.text(name + 2))
                at += 8
            found[self.text(entry[3])] = frozenset(names)
            table += 20
        return found

    def pdb_id(self, table: int, size: int) -> str:
        for at in range(table, table + size, 28):
            kind, _, _, where = self.take("4I", at + 12)
            if kind == _CODEVIEW and self.data[where : where + 4] == b"RSDS":
                return self.data[where + 4 : where + 20].hex()
        return ""


def defined_symbols(coff: bytes) -> set[str]:
    """What an object has for others."""
    table, count = struct.unpack_from("<II", coff, 8)
    strings = table + 18 * count
    found, at = set(), table
    while at < strings:
        name, _, section, _, kind, more = struct.unpack_from("<8sIhHBB", coff, at)
        if kind == 2 and section > 0:  # external, of a section here
            if name[:4] == b"\0\0\0\0":
                start = strings + struct.unpack("<I", name[4:])[0]
                name = coff[start : coff.index(b"\0", start)]
            found.add(name.rstrip(b"\0").decode())
        at += 18 * (1 + more)
    return found
