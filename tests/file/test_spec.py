"""SPEC.md says what the code does: its tables are the generated ones, and every name in the code is in the text."""

from __future__ import annotations

import re

from penlight.file import format as f
from penlight.ir.containers import _FORMS
from penlight.ir.types import DTYPES
from penlight.lower.prepack import PACKERS
from penlight.preprocess import COLORS, INTERPOLATIONS, LAYOUTS, Preprocessing
from penlight.tools.documents import ROOT, specification

SPEC = (ROOT / "penlight" / "file" / "SPEC.md").read_text(encoding="utf-8")


def test_record_tables_are_current() -> None:
    assert specification(ROOT / "penlight" / "file" / "SPEC.md") == SPEC, "run python -m penlight.tools.documents"


def test_the_version_in_the_title() -> None:
    assert SPEC.startswith(f"# The .pen file format, version {f.VERSION}\n")


def test_every_dtype_has_its_code() -> None:
    for name, (code, _) in DTYPES.items():
        assert re.search(rf"\| {name} \| {code} \|", SPEC), name


def test_every_layout_is_told() -> None:
    for name in ("plain", *PACKERS):
        assert f"| `{name}` |" in SPEC, name


def test_every_limit_is_told() -> None:
    for name, value in f.LIMITS.items():
        assert re.search(rf"\| `{name}`.* \| {value} \|", SPEC), name


def test_every_container_form_is_told() -> None:
    for form in _FORMS:
        assert f'{{"{form}": ' in SPEC, form


def test_every_preprocessing_field_is_told() -> None:
    section = SPEC[SPEC.index("### preprocessing") :]
    for field in Preprocessing.__dataclass_fields__:
        assert f'"{field}": ' in section, field
        assert f"`{field}`" in section, field
    for name in (*INTERPOLATIONS, *COLORS, *LAYOUTS):
        assert name in section, name


def test_the_example_of_preprocessing_reads() -> None:
    import json

    text = SPEC[SPEC.index("```json\n") + 8 :]
    steps = Preprocessing.from_metadata(json.loads(text[: text.index("```")]))
    assert steps.to_metadata() == json.loads(text[: text.index("```")])
