"""Every operator that torch itself tests: what exports must give torch's numbers, on all samples that torch thinks of in f32. With
PENLIGHT_OPINFO=all also one batch each of i64 and bool, which share their kernels' structure (and double the time).

`python -m tests.opinfo [NAME…]` runs all samples of any dtype, shows what fails and counts.
"""

from __future__ import annotations

import os

import pytest

from tests.opinfo import expected
from tests.opinfo.samples import BATCH, DTYPES, check, operators

HERE = DTYPES if os.environ.get("PENLIGHT_OPINFO") == "all" else {"f32": DTYPES["f32"]}
CASES = [(name, dtype) for name, op in operators().items() for dtype, d in HERE.items() if op.supports_dtype(d, "cpu")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype"), CASES, ids=lambda part: str(part))
def test_opinfo(name: str, dtype: str, record_property: pytest.RecordProperty) -> None:
    result = check(name, dtype, most=None if dtype == "f32" else BATCH)
    record_property("samples", f"{result.passed} of {result.exported}")  # --junitxml shows them
    if not result.exported:
        pytest.skip(f"none of {result.samples} samples is exported by torch")
    why = expected.reason(name, dtype)
    if why:
        assert result.problems, f"{name} passes: take it out of tests/opinfo/expected.py ({why})"
    else:
        shown = "\n".join(result.problems[:3])
        assert not result.problems, f"{result.exported - result.passed} of {result.exported} samples fail:\n{shown}"


def test_expected_failures_exist() -> None:
    known = set(operators())
    assert {key.partition(":")[0] for key in expected.FAILURES} <= known


def test_most_operators_pass() -> None:
    """At most one in twenty of the float32 operators is listed as failing."""
    listed = {key.partition(":")[0] for key in expected.FAILURES if not key.endswith((":i64", ":bool"))}
    assert len(listed) <= 0.05 * sum(dtype == "f32" for _, dtype in CASES)
