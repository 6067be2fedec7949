"""What a wheel must be before anybody installs it, read off the file: its name, its metadata, its extension's name and its extension's symbols
all say which Pythons and systems it is for, and pip believes the name alone. So they must agree.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import struct
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from penlight.build import checks
from penlight.build.checks import dll_problems, glibc_version
from penlight.build.formats import elf_tools
from penlight.build.pe import X86_64, Pe, read_pe
from penlight.errors import BuildError

STABLE = (3, 12)  # the first stable ABI that nanobind can do with
GLIBC = (2, 28)
LARGEST = 6_000_000  # bytes
NEEDED = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
WINDOWS = rf"python3\.dll|{checks.WINDOWS}"
_MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64", 0x01000007: "x86_64", 0x0100000C: "arm64", X86_64: "amd64"}


@dataclass(frozen=True)
class Binary:
    """An extension or a library: ELF, Mach-O or PE."""

    machine: str  # as the platform tag ends
    imports: frozenset[str]
    exports: frozenset[str]
    needed: frozenset[str] = frozenset()
    versions: frozenset[str] = frozenset()  # of symbols: GLIBC_2.17
    macos: tuple[int, int] | None = None  # the oldest that it says it runs on
    dll: Pe | None = None


def check_wheel(path: Path) -> None:
    """A BuildError that names everything that is wrong with it."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    wrong = list(_problems(path, files))
    if wrong:
        raise BuildError(f"{path}: not fit to be installed:\n" + "\n".join(f"  {text}" for text in wrong))


def _problems(path: Path, files: dict[str, bytes]) -> Iterator[str]:
    name, version, python, abi, platform = path.stem.split("-")
    info = f"{name}-{version}.dist-info"
    tags = re.findall(r"^Tag: (.*)$", files.get(f"{info}/WHEEL", b"").decode(), re.M)
    expected = sorted(f"{python}-{abi}-{p}" for p in platform.split("."))
    if sorted(tags) != expected:
        yield f"WHEEL: expected the tags of the file's name, {', '.join(expected)}, got {', '.join(tags) or 'none'}"
    if path.stat().st_size > LARGEST:
        yield f"size: expected {LARGEST} bytes at most, got {path.stat().st_size}"
    yield from _record_problems(files, f"{info}/RECORD")
    windows = platform.startswith("win")
    library = f"penlight/lib/libpenlight.{'dylib' if platform.startswith('macosx') else 'so'}"
    if windows:
        library = "penlight/lib/penlight.dll"
    for wanted in (
        "penlight/__init__.py",
        "penlight/runtime/include/penlight.h",
        "penlight/bindings/java/classes.jar",
        library,
        *(["penlight/lib/penlight.lib"] if windows else []),
        f"{info}/METADATA",
        f"{info}/entry_points.txt",
    ):
        if wanted not in files:
            yield f"contents: expected {wanted}, found none"
    if strays := [
        f for f in files if not f.startswith(("penlight/", f"{info}/")) or f.endswith((".pyc", ".pen", ".o"))
    ]:
        yield f"contents: expected the package alone, got {strays[0]} too"
    suffix = (".pyd" if windows else ".abi3.so") if abi == "abi3" else f".cpython-{abi.removeprefix('cp')}-"
    extensions = [f for f in files if re.match(r"penlight/_runtime\.(.*\.)?(so|pyd)$", f)]
    if len(extensions) != 1 or not extensions[0].startswith(f"penlight/_runtime{suffix}"):
        yield f"extension: expected _runtime{suffix}{'' if abi == 'abi3' else '*.so'} for {abi}, got {', '.join(extensions) or 'none'}"
    for f in [*extensions, *([library] if library in files else [])]:
        yield from (
            f"{f}: {text}" for text in _binary_problems(read_binary(files[f]), f == library, python, abi, platform)
        )


def check_sdist(path: Path, package: Iterable[str]) -> None:
    """Everything that CMake and pip read must be in it, the files of the package among them, and nothing that was built."""
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        *package,
        "pyproject.toml",
        "CMakeLists.txt",
        "README.md",
        "LICENSE",
        "PKG-INFO",
        "bindings/python/runtime.cc",
        "bindings/java/src/org/pytorch/Module.java",
        "tests/java/stubs/android/graphics/Bitmap.java",
    }
    wrong = [f"expected {name}, found none" for name in sorted(wanted - names)]
    wrong += [
        f"expected sources only, got {n} too"
        for n in sorted(names)
        if n.endswith((".so", ".dll", ".pyd", ".o", ".a", ".pyc", ".pen"))
    ]
    if wrong:
        raise BuildError(f"{path}: not fit to be installed:\n" + "\n".join(f"  {text}" for text in wrong))


def _record_problems(files: dict[str, bytes], record: str) -> Iterator[str]:
    rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(files.get(record, b"").decode())) if row}
    if different := sorted(set(rows) ^ set(files)):
        yield f"RECORD: expected every file in it, and no other, got {different[0]} on one side only"
    for name, data in files.items():
        hashed = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        if name in rows and name != record and rows[name] != [f"sha256={hashed}", str(len(data))]:
            yield f"RECORD: expected the hash of {name}, got another"


def _binary_problems(binary: Binary, is_library: bool, python: str, abi: str, platform: str) -> Iterator[str]:
    if not platform.endswith(binary.machine):
        yield f"expected code for {platform}, got some for {binary.machine}"
    start = "pen_version" if is_library else "PyInit__runtime"
    if start not in binary.exports:
        yield f"exported symbols: expected {start} among them, found none"
    if others := sorted(name for name in binary.imports if name.startswith("pen_")):
        yield f"expected the whole runtime in it, got one without {', '.join(others[:5])}"
    if abi == "abi3" and not is_library and (others := unstable(binary.imports, python)):
        yield f"expected symbols of the stable ABI of {python} only, got {', '.join(others[:5])} too"
    if binary.dll:
        yield from dll_problems(binary.dll, checks.WINDOWS if is_library else WINDOWS)
        given = (start, "_ZTVN8nanobind")  # whose exceptions say themselves that they are exported
        if others := sorted(name for name in binary.exports if not is_library and not name.startswith(given)):
            yield f"exported symbols: expected {start} alone, got {', '.join(others[:5])} too"
    if found := re.match(r"manylinux_(\d+)_(\d+)_", platform):
        if others := sorted(binary.needed - NEEDED):
            yield f"needed libraries: expected those of every Linux, got {', '.join(others)} too"
        newest = int(found[1]), int(found[2])
        if late := sorted(v for v in binary.versions if glibc_version(v) > newest):
            yield f"symbol versions: expected GLIBC_{newest[0]}.{newest[1]} or older, as {platform} says, got {', '.join(late)}"
    if (found := re.match(r"macosx_(\d+)_(\d+)_", platform)) and (binary.macos or (999, 0)) > (
        int(found[1]),
        int(found[2]),
    ):
        yield f"expected code for macOS {found[1]}.{found[2]}, as {platform} says, got some for {binary.macos}"


def unstable(imports: frozenset[str], python: str) -> list[str]:
    """Python's symbols among these that its stable ABI did not have at that version ("cp312")."""
    import abi3info
    from abi3info.models import PyVersion, Symbol

    version = PyVersion(int(python[2]), int(python[3:]))
    listed = {**abi3info.FUNCTIONS, **abi3info.DATAS}
    names = sorted(name for name in imports if re.match(r"_?Py[A-Z_]", name))
    return [name for name in names if (entry := listed.get(Symbol(name))) is None or entry.added > version]


# --- files ---
def read_binary(data: bytes) -> Binary:
    if data[:2] == b"MZ":
        dll = read_pe(data)
        imports = frozenset(name for names in dll.imports.values() for name in names)
        return Binary(
            _MACHINES.get(dll.machine, hex(dll.machine)), imports, dll.exports, frozenset(dll.imports), dll=dll
        )
    return _elf(data) if data[:4] == b"\x7fELF" else _macho(data)


def _elf(data: bytes) -> Binary:
    elf_tools()
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.elffile import ELFFile
    from elftools.elf.gnuversions import GNUVerNeedSection
    from elftools.elf.sections import SymbolTableSection

    elf = ELFFile(io.BytesIO(data))
    symbols, dynamic, versions = (elf.get_section_by_name(n) for n in (".dynsym", ".dynamic", ".gnu.version_r"))
    assert isinstance(symbols, SymbolTableSection)  # what is loaded has these
    assert isinstance(dynamic, DynamicSection)
    sides: dict[bool, set[str]] = {True: set(), False: set()}
    for s in symbols.iter_symbols():
        sides[s["st_shndx"] == "SHN_UNDEF"].add(s.name)
    wanted = (
        {v.name for _, of in versions.iter_versions() for v in of} if isinstance(versions, GNUVerNeedSection) else set()
    )
    needed = {t.needed for t in dynamic.iter_tags() if t.entry.d_tag == "DT_NEEDED"}  # type: ignore[attr-defined]
    machine = _MACHINES.get(elf["e_machine"], elf["e_machine"])
    return Binary(machine, frozenset(sides[True]), frozenset(sides[False]), frozenset(needed), frozenset(wanted))


def _macho(data: bytes) -> Binary:
    """64-bit, one processor."""
    magic, processor, _, _, count = struct.unpack_from("<5I", data)
    if magic != 0xFEEDFACF:
        raise BuildError(f"expected an ELF or a 64-bit Mach-O file, got one that starts with {data[:4]!r}")
    at, macos = 32, None
    sides: dict[bool, set[str]] = {True: set(), False: set()}
    for _ in range(count):
        command, size = struct.unpack_from("<II", data, at)
        if command == 2:  # LC_SYMTAB
            symbols, number, strings = struct.unpack_from("<3I", data, at + 8)
            for i in range(number):
                name, kind = struct.unpack_from("<IB", data, symbols + 16 * i)
                text = data[strings + name : data.index(b"\0", strings + name)].decode()
                if kind & 1 and not kind & 0xE0:  # external, not for debuggers
                    sides[kind & 0x0E == 0].add(text.removeprefix("_"))
        elif command == 0x32:  # LC_BUILD_VERSION
            oldest = struct.unpack_from("<I", data, at + 12)[0]
            macos = oldest >> 16, oldest >> 8 & 255
        at += size
    return Binary(
        _MACHINES.get(processor, hex(processor)), frozenset(sides[True]), frozenset(sides[False]), macos=macos
    )
