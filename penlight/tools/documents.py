"""Writes the generated parts of the documentation anew: `python -m penlight.tools.documents`, in a checkout.

    docs/OPERATORS.md        all of it, from the operators' declarations (support_table.py)
    docs/MOVING.md           all of it, from names in the bindings' sources and tests (moving.py)
    docs/TOUR.md             the graphs, from a real run (tour.py; needs torch)
    penlight/file/SPEC.md    the record tables, from file/format.py

Tests fail when a committed text is not what this would write.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from penlight.file.format import spec_tables
from penlight.tools.moving import moving
from penlight.tools.support_table import support_table
from penlight.tools.tour import tour

ROOT = Path(__file__).resolve().parents[2]
BEGIN = "<!-- generated from format.py by `python -m penlight.tools.documents`; a test compares -->\n"
END = "<!-- end of generated part -->\n"


def specification(path: Path) -> str:
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"{path}: the marks around the generated tables are gone")
    return f"{before}{BEGIN}{spec_tables()}{END}{after}"


DOCUMENTS: dict[str, Callable[[Path], str]] = {
    "docs/OPERATORS.md": lambda path: support_table(),
    "docs/MOVING.md": lambda path: moving(),
    "docs/TOUR.md": tour,
    "penlight/file/SPEC.md": specification,
}
"""Every file with generated parts -> what it should be."""


if __name__ == "__main__":
    for name, write in DOCUMENTS.items():
        text = write(ROOT / name)
        (ROOT / name).write_text(text, encoding="utf-8")
        print(f"wrote {name}")
