"""Bytes of what is shipped: the Python extension and the runtime-only library, and where they come from: `./dev size`.

    bench/size.py build/release [--json FILE]

The library is measured as it would be shipped, stripped. Folder sums are of object files before linking, code and
data only, and so a little more than what the linker keeps.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

from penlight.tools.screen import in_bytes, screen, table

ROOT = Path(__file__).resolve().parents[1]
SECTIONS = {"code": (".text", ".init", ".fini", ".plt"), "constants": (".rodata", ".eh_frame", ".gcc_except"), "data": (".data", ".tdata"),
            "zero data": (".bss", ".tbss"), "linking": (".dyn", ".rela", ".rel.", ".gnu", ".got", ".hash", ".init_array", ".fini_array")}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path, nargs="?", default=ROOT / "build" / "release")
    parser.add_argument("--json", type=Path, help="write the numbers to this file too")
    options = parser.parse_args()
    libraries = {
        "Python extension": next(ROOT.glob("penlight/_runtime*.so"), None),
        "runtime library": options.build / "libpenlight.so",
    }
    found: dict[str, dict[str, int]] = {}
    shown = table("Shipped files", "file", "stripped", *SECTIONS, right=("stripped", *SECTIONS))
    for name, path in libraries.items():
        if path is None or not path.exists():
            raise SystemExit(f"{name}: not built; run ./dev build")
        found[name] = {"stripped": stripped_size(path), **sections(path)}
        shown.add_row(f"{name} ({path.name})", *(in_bytes(v) for v in found[name].values()))
    screen().print(shown)
    screen().print()
    folders = object_sizes(options.build)
    by_folder = table(
        "Code and constants by folder and instruction set, before linking",
        "folder",
        *isas(folders),
        "all",
        right=(*isas(folders), "all"),
    )
    total = {isa: sum(sizes.get(isa, 0) for sizes in folders.values()) for isa in isas(folders)}
    for folder, sizes in [*sorted(folders.items(), key=lambda item: -sum(item[1].values())), ("all", total)]:
        cells = [in_bytes(sizes[isa]) if sizes.get(isa) else "" for isa in isas(folders)]
        by_folder.add_row(folder, *cells, in_bytes(sum(sizes.values())))
    screen().print(by_folder)
    if options.json:
        options.json.write_text(json.dumps({"files": found, "folders": folders}, indent=2) + "\n")


def stripped_size(path: Path) -> int:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        subprocess.run(["strip", "-o", str(copy), str(path)], check=True)
        return copy.stat().st_size


def sections(path: Path) -> dict[str, int]:
    """Bytes in memory by kind of section."""
    sums = dict.fromkeys(SECTIONS, 0)
    for name, size in section_sizes(path):
        kind = next((k for k, prefixes in SECTIONS.items() if name.startswith(prefixes)), None)
        if kind:
            sums[kind] += size
    return sums


def section_sizes(path: Path) -> list[tuple[str, int]]:
    text = subprocess.run(["readelf", "-SW", str(path)], check=True, capture_output=True, text=True).stdout
    rows = re.findall(r"^\s*\[\s*\d+\] (\S+)\s+(\S+)\s+[0-9a-f]+ [0-9a-f]+ ([0-9a-f]+)", text, re.MULTILINE)
    return [(name, int(size, 16)) for name, _, size in rows]


def object_sizes(build: Path) -> dict[str, dict[str, int]]:
    """folder of sources -> instruction set ("any": compiled once) -> bytes of code and constants."""
    sums: dict[str, dict[str, int]] = defaultdict(dict)
    kernels = sorted((build / "CMakeFiles").glob("pen_kernels_*.dir"))
    for base in [build / "CMakeFiles" / "pen_once.dir", *kernels]:
        isa = base.stem.removeprefix("pen_kernels_") if base in kernels else "any"
        for path in sorted(base.rglob("*.o")):
            parts = path.relative_to(base).parts
            if "generated" in parts:
                folder = "generated (elementwise, registry)"
            else:
                folder = "/".join(parts[parts.index("penlight") :][:3])
            size = sum(s for name, s in section_sizes(path) if name.startswith((".text", ".rodata", ".data")))
            sums[folder][isa] = sums[folder].get(isa, 0) + size
    return dict(sums)


def isas(folders: dict[str, dict[str, int]]) -> list[str]:
    order = ["any", "base", "sse4", "avx2", "avx512"]
    names = {isa for sizes in folders.values() for isa in sizes}
    return sorted(names, key=lambda n: (order.index(n) if n in order else len(order), n))


if __name__ == "__main__":
    main()
