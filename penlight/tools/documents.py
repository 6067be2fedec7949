"""Writes the generated parts of the documentation anew: `python -m penlight.tools.documents`, in a checkout.

    docs/OPERATORS.md        all of it, from the operators' declarations (support_table.py)
    penlight/file/SPEC.md    the record tables, from file/format.py

Tests fail when a committed text is not what this would write.
"""

from __future__ import annotations

from pathlib import Path

from penlight.file.format import spec_tables
from penlight.tools.support_table import support_table

ROOT = Path(__file__).resolve().parents[2]
BEGIN = "<!-- generated from format.py by `python -m penlight.tools.documents`; a test compares -->\n"
END = "<!-- end of generated part -->\n"


def documents() -> dict[Path, str]:
    """Every file with generated parts, as it should be."""
    spec = ROOT / "penlight" / "file" / "SPEC.md"
    before, _, rest = spec.read_text(encoding="utf-8").partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"{spec}: the marks around the generated tables are gone")
    return {spec: f"{before}{BEGIN}{spec_tables()}{END}{after}", ROOT / "docs" / "OPERATORS.md": support_table()}


if __name__ == "__main__":
    for path, text in documents().items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
