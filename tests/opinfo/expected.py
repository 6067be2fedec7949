"""OpInfo operators that Penlight does not compute yet, singly, each with its reason. The test fails when one that is not
here fails, and when one that is here passes.
"""

from __future__ import annotations

# "operator" (all dtypes) or "operator:dtype" -> why
FAILURES: dict[str, str] = {
    "argsort:bool": "without stable=True torch leaves the order of equal numbers open; here it is the stable one",
}


def reason(name: str, dtype: str) -> str:
    return FAILURES.get(f"{name}:{dtype}") or FAILURES.get(name, "")
