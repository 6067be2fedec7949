"""The documentation is true: generated parts are current, code that is quoted exists, links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penlight.tools.documents import DOCUMENTS, ROOT

PROSE = [
    ROOT / name
    for name in (
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "docs/TOUR.md",
        "docs/GLOSSARY.md",
        "docs/ANDROID.md",
        "docs/IOS.md",
        "docs/CPP.md",
        "docs/MOVING.md",
        "docs/WEB.md",
        "docs/BUILD.md",
        "docs/SPEED_BENCHMARK.md",
        "penlight/file/SPEC.md",
    )
]
QUOTE = re.compile(r"<!-- from (\S+) -->\n```\w+\n(.*?)\n```\n", re.DOTALL)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_generated_parts_are_current(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == DOCUMENTS[name](ROOT / name), (
        "run python -m penlight.tools.documents"
    )


def test_quoted_code_is_real() -> None:
    """Between the … of a quotation, lines are those of the source, in order."""
    quotes = [q for path in PROSE for q in QUOTE.findall(path.read_text(encoding="utf-8"))]
    assert len(quotes) >= 7
    for source, quote in quotes:
        text, at = (ROOT / source).read_text(encoding="utf-8"), 0
        for piece in quote.split("\n…\n"):
            at = text.find(piece, at)
            assert at >= 0, f"{source} has not (or not in this order):\n{piece}"


@pytest.mark.parametrize("path", PROSE, ids=lambda p: p.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        assert "://" in target or (path.parent / target).exists(), target


def test_files_named_in_the_tour_exist() -> None:
    text = (ROOT / "docs/TOUR.md").read_text(encoding="utf-8")
    for name in re.findall(r"`((?:penlight/|bindings/)?[a-z_]+/[a-z_/]*\w+\.(?:py|cc|h))`", text):
        assert (ROOT / name).exists() or (ROOT / "penlight" / name).exists(), name
