"""Object files and libraries as bytes: what they say of themselves (an ELF file's build-id, a Mach-O file's UUID, the number that a DLL and
its symbol file share), and symbols taken out."""

from __future__ import annotations

import io
import struct
from pathlib import Path

from penlight.build.pe import read_pe
from penlight.build.toolchain import INSTALL
from penlight.errors import BuildError


def elf_tools() -> None:
    """An error in words where pyelftools is missing."""
    try:
        import elftools  # noqa: F401
    except ModuleNotFoundError:
        raise BuildError(f"pyelftools, which reads what was built, is not installed: {INSTALL}") from None


def build_id_of(path: Path) -> str:
    """In hexadecimal."""
    with open(path, "rb") as file:
        if file.read(4) == b"\x7fELF":
            elf_tools()
            from elftools.elf.elffile import ELFFile
            from elftools.elf.sections import NoteSection

            notes = ELFFile(file).get_section_by_name(".note.gnu.build-id")
            if not isinstance(notes, NoteSection):
                raise BuildError(f"{path}: expected a build-id, found none")
            return str(next(iter(notes.iter_notes()))["n_desc"])
        file.seek(0)
        data = file.read()
    return read_pe(data).pdb_id if data[:2] == b"MZ" else _uuid(data)


def _uuid(macho: bytes) -> str:
    count, at = struct.unpack_from("<I", macho, 16)[0], 32  # 64-bit header
    for _ in range(count):
        command, size = struct.unpack_from("<II", macho, at)
        if command == 0x1B:  # LC_UUID
            return macho[at + 8 : at + 24].hex()
        at += size
    raise BuildError("expected a Mach-O file with a UUID, found none")


def without_definitions(elf: bytes, names: set[str]) -> bytes:
    """A 32-bit object file in which these symbols are not defined any more, only used."""
    elf_tools()
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    changed = bytearray(elf)
    table = ELFFile(io.BytesIO(elf)).get_section_by_name(".symtab")
    assert isinstance(table, SymbolTableSection)  # an object has one
    for i, symbol in enumerate(table.iter_symbols()):
        if symbol.name in names:
            at = table["sh_offset"] + i * table["sh_entsize"]  # name, value, size, info, other, section
            struct.pack_into("<IIBBH", changed, at + 4, 0, 0, 0x10, 0, 0)  # global, of no section
    return bytes(changed)
