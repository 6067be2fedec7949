"""What a shared library must be before anybody ships it, read off the file that was linked: pages, relocations, what it needs, what it
exports. A library that is none of this loads on the developer's phone and fails on somebody else's, or in the store's review.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from penlight.build.formats import elf_tools
from penlight.build.pe import ANYWHERE, ANYWHERE_64, NO_EXECUTE, X86_64, Pe, read_pe
from penlight.build.targets import Target
from penlight.errors import BuildError

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

PAGE = 16384
NEEDED = {
    "android": {"libc.so", "libm.so", "libdl.so", "liblog.so"},
    "linux": {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0"},
}
WINDOWS = r"KERNEL32\.dll|api-ms-win-crt-\w+-l1-1-0\.dll"
EXPORTS = ("pen_*",)
JNI_EXPORTS = ("Java_*", "JNI_OnLoad")
_PLACING = {ANYWHERE: "DYNAMIC_BASE", ANYWHERE_64: "HIGH_ENTROPY_VA", NO_EXECUTE: "NX_COMPAT"}
_DF_TEXTREL = 4
_NEWEST_GLIBC = (2, 17)


@dataclass(frozen=True)
class _Role:
    """What tells libraries of a target apart."""

    name: str  # how others need it
    exports: tuple[str, ...]  # patterns
    must_export: Collection[str]
    without: str  # what it is if it does not
    needed: frozenset[str] = frozenset()  # besides the system's


def check_library(path: Path, target: Target) -> None:
    """A BuildError that names everything that is wrong with it."""
    _check(path, target, _Role(target.library, EXPORTS, ["pen_version"], "a library without the C interface"))


def check_jni(path: Path, target: Target, natives: Collection[str]) -> None:
    """The same of what Java loads: `natives` are the functions that its classes look for."""
    without = "a library that classes do not find their native methods in"
    _check(path, target, _Role(target.jni_library, JNI_EXPORTS, natives, without, frozenset([target.library])))


def _check(path: Path, target: Target, role: _Role) -> None:
    if target.system == "windows":
        dll = read_pe(path.read_bytes())
        wrong = [*dll_problems(dll, WINDOWS), *_export_problems(dll.exports, role)]
    elif target.elf:
        wrong = _elf_problems(path, target, role)
    else:
        return
    if wrong:
        raise BuildError(f"{path}: not fit for {target.name}:\n" + "\n".join(f"  {text}" for text in wrong))


def dll_problems(dll: Pe, allowed: str) -> Iterator[str]:
    """What a DLL must be: `allowed` are the libraries of Windows that it may need, as a pattern."""
    if dll.machine != X86_64:
        yield f"processor: expected x86-64 ({X86_64:#x}), got {dll.machine:#x}"
    missing = [name for flag, name in _PLACING.items() if not dll.flags & flag]
    if missing := [*missing, *([] if dll.relocated else ["relocations"])]:
        yield f"flags: expected a DLL that may lie anywhere and whose data are not executed, got one without {', '.join(missing)}"
    if not dll.unwound:
        yield "unwind tables: expected some, as every function that calls another must have one, got none"
    if dll.writable_code:
        yield f"sections: expected none that is both written and executed, got {', '.join(dll.writable_code)}"
    if others := sorted(name for name in dll.imports if not re.fullmatch(allowed, name, re.IGNORECASE)):
        yield f"needed libraries: expected those of every Windows 10, got {', '.join(others)} too"


def _elf_problems(path: Path, target: Target, role: _Role) -> list[str]:
    elf_tools()
    from elftools.elf.elffile import ELFFile

    with open(path, "rb") as file:
        return list(_problems(ELFFile(file), target, role))


def _problems(elf: ELFFile, target: Target, role: _Role) -> Iterator[str]:
    from elftools.elf.dynamic import DynamicSegment

    segments = list(elf.iter_segments())
    for s in segments:
        if s["p_type"] == "PT_LOAD" and s["p_align"] % PAGE:
            yield f"page alignment: expected a multiple of {PAGE} bytes in every segment, got {s['p_align']} (-z max-page-size={PAGE})"
            break
    stack = [s for s in segments if s["p_type"] == "PT_GNU_STACK"]
    if not stack or stack[0]["p_flags"] & 1:
        yield "stack: expected one that cannot be executed, got one that can (-z noexecstack)"
    dynamic = next((s for s in segments if isinstance(s, DynamicSegment)), None)
    if dynamic is None:
        yield "expected a shared library, got a file without a dynamic section"
        return
    tags = list(dynamic.iter_tags())
    if any(
        t.entry.d_tag == "DT_TEXTREL" or (t.entry.d_tag == "DT_FLAGS" and t.entry.d_val & _DF_TEXTREL) for t in tags
    ):
        yield "text relocations: expected none, got some: code was compiled without -fPIC"
    needed = [t.needed for t in tags if t.entry.d_tag == "DT_NEEDED"]  # type: ignore[attr-defined]
    if missing := sorted(role.needed - set(needed)):
        yield f"needed libraries: expected {', '.join(missing)} among them, got {', '.join(needed) or 'none'}"
    allowed = NEEDED.get(target.system, frozenset()) | role.needed
    if target.system in NEEDED and (others := sorted(set(needed) - allowed)):
        yield f"needed libraries: expected {', '.join(sorted(allowed))} at most, got {', '.join(others)} too"
    names = [t.soname for t in tags if t.entry.d_tag == "DT_SONAME"]  # type: ignore[attr-defined]
    if names != [role.name]:
        yield f"soname: expected {role.name}, got {names[0] if names else 'none'}"
    yield from _symbol_problems(elf, target, role)


def _symbol_problems(elf: ELFFile, target: Target, role: _Role) -> Iterator[str]:
    from elftools.elf.gnuversions import GNUVerNeedSection
    from elftools.elf.sections import SymbolTableSection

    symbols = elf.get_section_by_name(".dynsym")
    exported = []
    if isinstance(symbols, SymbolTableSection):
        exported = [
            s.name
            for s in symbols.iter_symbols()
            if s["st_shndx"] != "SHN_UNDEF" and s["st_info"]["bind"] != "STB_LOCAL"
        ]
    yield from _export_problems(exported, role)
    versions = elf.get_section_by_name(".gnu.version_r")
    if target.system == "host" or not isinstance(versions, GNUVerNeedSection):
        return
    wanted = sorted({v.name for _, of_file in versions.iter_versions() for v in of_file})
    if target.system == "android":
        yield f"symbol versions: expected none, as Android has none, got {', '.join(wanted)}"
    elif late := [v for v in wanted if glibc_version(v) > _NEWEST_GLIBC]:
        yield f"symbol versions: expected GLIBC_{'.'.join(map(str, _NEWEST_GLIBC))} or older, got {', '.join(late)}"


def _export_problems(exported: Collection[str], role: _Role) -> Iterator[str]:
    if others := sorted(name for name in exported if not any(fnmatchcase(name, e) for e in role.exports)):
        yield f"exported symbols: expected {', '.join(role.exports)} only, got {_some(others)} too"
    if missing := sorted(set(role.must_export) - set(exported)):
        yield f"exported symbols: expected {_some(missing)} among them, got {role.without}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def glibc_version(version: str) -> tuple[int, ...]:
    """(2, 17) of GLIBC_2.17; of any other name a version that is too new."""
    name, _, numbers = version.partition("_")
    parts = numbers.split(".")
    return tuple(map(int, parts)) if name == "GLIBC" and all(p.isdigit() for p in parts) else (999,)
