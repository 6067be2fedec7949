"""Where the bytes of a library went: by section, by operator or part of the runtime, by symbol. Read off the linker's map, in which every
function and table of every object stands with its size; sections and the total off the library itself.

What it says on the terminal and as a page is report_page.py's.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from penlight.build.formats import elf_tools
from penlight.build.library import FLOATS, Library
from penlight.build.pe import read_pe

_ALLOCATED = 2  # SHF_ALLOC: part of the process, not of the file alone
# lld: one address or (ELF) two, size, alignment, object:(section). GNU ld: section, address, size, object.
_LLD = re.compile(r"^ *(?:[0-9a-f]+ +){1,2}([0-9a-f]+) +\d+ +(\S+\.o):\((\S+)\)$")
_GNU = re.compile(r"^ (\.\S+)\s+0x[0-9a-f]+\s+0x([0-9a-f]+) (\S+\.o)$", re.MULTILINE)
_ALONE = re.compile(r"^( \.\S+)\n +", re.MULTILINE)
_ROW = re.compile(r"(\w+?)_(?:[fiu]\d+|bf16|bool)(?:_\w+)?$")  # a function of an elementwise rule
_KEPT = re.compile(r"^\.(text|rodata|rdata|data|init_array|eh_frame|ARM|xdata|pdata)")
_NAMED = re.compile(r"^\.(?:text|rodata|data\.rel\.ro|data|bss|rdata|xdata|pdata)[.$](?:cst\d+\.|str\d+\.\d+\.)?(.+)")


@dataclass(frozen=True)
class Symbol:
    name: str  # readable
    part: str  # the operator or the part of the runtime that it belongs to
    isa: str  # "": compiled once
    size: int


@dataclass
class Sizes:
    """Of one library, in bytes."""

    library: Library
    total: int  # of the file as it is shipped
    sections: dict[str, int] = field(default_factory=dict)  # largest first, as all of these
    parts: dict[str, int] = field(default_factory=dict)
    symbols: list[Symbol] = field(default_factory=list)


def sizes_of(library: Library) -> Sizes:
    """Only the total for what is neither ELF nor for Windows."""
    sizes = Sizes(library, library.path.stat().st_size)
    if not (found := _sections(library)):
        return sizes
    sizes.sections = dict(Counter(found).most_common())
    sizes.symbols = sorted(_symbols(library.link_map), key=lambda s: (-s.size, s.name))
    counted: Counter[str] = Counter()
    for symbol in sizes.symbols:
        counted[symbol.part] += symbol.size
    for part, size in (
        ("dynamic tables, merged strings", sum(sizes.sections.values())),
        ("headers, padding", sizes.total),
    ):
        counted[part] = max(size - sum(counted.values()), 0)
    sizes.parts = dict(counted.most_common())
    return sizes


def _sections(library: Library) -> dict[str, int]:
    """What becomes part of a process, in the file."""
    if library.target.system == "windows":
        return {s.name: s.size for s in read_pe(library.path.read_bytes()).sections}
    if not library.target.elf:
        return {}
    elf_tools()
    from elftools.elf.elffile import ELFFile

    with open(library.path, "rb") as file:
        found = [
            s for s in ELFFile(file).iter_sections() if s["sh_flags"] & _ALLOCATED and s["sh_type"] != "SHT_NOBITS"
        ]
        return {s.name: s["sh_size"] for s in found if s["sh_size"]}


def _symbols(link_map: str) -> list[Symbol]:
    placed = [(m[2], m[3], int(m[1], 16)) for m in map(_LLD.match, link_map.splitlines()) if m]
    if not placed:  # a long section name has a line of its own there; what was left out stands before the memory map
        kept = link_map.partition("Linker script and memory map")[2]
        placed = [(obj, section, int(size, 16)) for section, size, obj in _GNU.findall(_ALONE.sub(r"\1 ", kept))]
    return [
        Symbol(readable(named[1]) if (named := _NAMED.match(section)) else section, *_part(obj, section), size)
        for obj, section, size in placed
        if size and _KEPT.match(section)
    ]


def _part(obj: str, section: str) -> tuple[str, str]:
    """The part that an object belongs to, and its instruction set: objects lie in objects/<rule>/<path of the source>."""
    rule, _, path = obj.partition("objects/")[2].partition("/")
    isa = "" if rule.startswith(("once", "traced")) else rule.removesuffix(FLOATS)
    folder, _, stem = path.removesuffix(".o").rpartition("/")
    if not path:
        return "compiler's own functions", ""
    if folder.startswith("generated"):
        if not stem.startswith("elementwise"):
            return "tables of kernels and operators", isa
        row = _ROW.match(readable(section).rpartition("::")[2])
        return f"elementwise {row[1] if row else 'loops'}", isa
    if folder.startswith("runtime"):
        return f"{folder}/{stem}", isa
    return (
        "VM " if stem.endswith("_ops") or folder == "ops/script" else ""
    ) + f"{folder.removeprefix('ops/')}/{stem}", isa


def readable(symbol: str) -> str:
    """A C++ name without its types.

    >>> readable("_ZN3pen4base8gelu_f32EPvPKPKvPKllPKd")
    'pen::base::gelu_f32'
    """
    at = symbol.find("_ZN")
    if at < 0:
        return symbol
    at += 3
    names = []
    while found := re.compile(r"[KL]?(\d+)").match(symbol, at):
        at = found.end() + int(found[1])
        names.append(symbol[found.end() : at].replace("_GLOBAL__N_1", "(file)"))
    return "::".join(names) or symbol
