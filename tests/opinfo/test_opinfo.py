"""Every operator that torch itself tests: what exports must give torch's numbers, in f32, on up to 64 samples, evenly chosen (most
operators have fewer; a pooling's 1,440 differ in a stride). PENLIGHT_OPINFO=all: on every sample, and on one batch each of i64 and bool,
which share their kernels' structure (three times the time).

`python -m tests.opinfo [NAME…]` runs all samples of any dtype, shows what fails and counts.
"""

from __future__ import annotations

import os

import pytest

from tests.opinfo import expected
from tests.opinfo.samples import BATCH, DTYPES, calls_of, check, operators

ALL = os.environ.get("PENLIGHT_OPINFO") == "all"
MOST = None if ALL else 4 * BATCH
HERE = DTYPES if ALL else {"f32": DTYPES["f32"]}
CASES = [(name, dtype) for name, op in operators().items() for dtype, d in HERE.items() if op.supports_dtype(d, "cpu")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype"), CASES, ids=lambda part: str(part))
def test_opinfo(name: str, dtype: str, record_property: pytest.RecordProperty) -> None:
    listed, why = expected.of(name, dtype)
    result = check(name, dtype, most=MOST if dtype == "f32" else BATCH, alone=listed)
    record_property("samples", f"{len(result.passed)} of {result.exported}")  # --junitxml shows them
    if not result.exported:
        pytest.skip(f"none of {result.samples} samples is exported by torch")
    new = {sample: text for sample, text in result.failures.items() if sample not in listed}
    shown = "\n".join(f"sample {sample}: {text}" for sample, text in list(new.items())[:3])
    assert not new, f"{len(new)} of {result.exported} samples fail that should not:\n{shown}"
    good = expected.spans(listed & result.passed)
    assert not good, f"samples {good} pass: take them out of tests/opinfo/expected.py ({why})"


@pytest.mark.slow
def test_expected_failures_are_of_cases() -> None:
    """A name that is misspelt, or a sample that is not there, would expect nothing."""
    for name, (dtypes, samples, _) in expected.FAILURES.items():
        for dtype in dtypes.split(", "):
            assert max(expected.numbers(samples)) < len(calls_of(name, dtype)), (name, dtype)
