"""The operators that models in production used (docs/production_operators.txt: how many models, name): those of more than ten models must all be
here. What is missing among the others is listed by `coverage`, which the documents use too.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from penlight import _runtime
from penlight.tools.production import INSTRUCTIONS, LEFT_OUT, production

OFTEN = 10


@dataclass(frozen=True)
class Coverage:
    """Of operators used by more than `OFTEN` models and of the others: how many there are, and how many of their uses."""

    often_have: int
    often_count: int
    seldom_have: int
    seldom_count: int
    seldom_uses_have: int
    seldom_uses: int
    often_missing: tuple[str, ...]
    seldom_missing: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.often_have} of {self.often_count} operators that more than {OFTEN} models used; "
            f"{self.seldom_have} of the {self.seldom_count} others "
            f"({100 * self.seldom_uses_have / max(self.seldom_uses, 1):.1f} % by use)"
        )


def coverage() -> Coverage:
    have = set(_runtime.operator_names()) | INSTRUCTIONS
    rows = production()
    often = {n for n, count in rows.items() if count > OFTEN and n not in LEFT_OUT}
    seldom = {n for n, count in rows.items() if count <= OFTEN}
    return Coverage(
        often_have=len(often & have),
        often_count=len(often),
        seldom_have=len(seldom & have),
        seldom_count=len(seldom),
        seldom_uses_have=sum(rows[n] for n in seldom & have),
        seldom_uses=sum(rows[n] for n in seldom),
        often_missing=tuple(sorted(often - have, key=lambda n: (-rows[n], n))),
        seldom_missing=tuple(sorted(seldom - have, key=lambda n: (-rows[n], n))),
    )


def test_list() -> None:
    rows = production()
    assert len(rows) == 441
    assert sum(count > OFTEN for count in rows.values()) == 239
    assert set(LEFT_OUT) - set(rows) == set()


def test_operators_of_more_than_ten_models() -> None:
    rows, missing = production(), coverage().often_missing
    listing = "\n".join(f"{rows[n]:5} {n}" for n in missing)
    assert not missing, f"{len(missing)} operators of production are missing:\n{listing}"


def test_others(capsys: pytest.CaptureFixture[str]) -> None:
    found, rows = coverage(), production()
    with capsys.disabled():
        print(f"\n{found}; missing: {', '.join(f'{n} ({rows[n]})' for n in found.seldom_missing)}")
    assert set(found.seldom_missing) <= set(LEFT_OUT), (
        "each that is left out has a reason in penlight/tools/production.py"
    )
    assert not set(LEFT_OUT) & set(_runtime.operator_names()), "these are there: take them off the list"
