"""Every model of the zoo against torch: exported once, with free batch and, where it takes others, free sizes; run at batch 1 and
3 and at another size. Error: at most 1e-4 of max |y|."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.zoo import UNSUPPORTED, ZOO

DOCUMENT = Path(__file__).parents[2] / "docs" / "MODELS.md"


def _marked(name: str) -> object:
    marks = [] if ZOO[name].quick else [pytest.mark.slow]
    if name in UNSUPPORTED:
        marks.append(pytest.mark.xfail(strict=True, reason=UNSUPPORTED[name]))
    return pytest.param(name, marks=marks, id=name.replace(" ", "-"))


@pytest.mark.parametrize("name", [_marked(name) for name in ZOO])
def test_model(name: str, record_property: pytest.RecordProperty) -> None:
    entry = ZOO[name]
    module = entry.build()
    record_property("error", max(entry.errors(module, {})))


def test_every_model_is_in_the_table() -> None:
    """docs/MODELS.md is written by `./dev bench --zoo`."""
    rows = {line.split("|")[1].strip() for line in DOCUMENT.read_text().splitlines() if line.startswith("| ")}
    assert set(ZOO) & rows == set(ZOO) - set(UNSUPPORTED), "run ./dev bench --zoo"
    assert set(UNSUPPORTED) <= set(ZOO)
