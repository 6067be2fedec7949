"""Random cases of every structured operator against torch, on every instruction set (families.py says how they are drawn,
draw.py how tensors lie). Seeded: a case has a number, which an error names.

More of them, by hand: python -m tests.ops.test_differential --minutes 10 [--seed 7] [--family convolution]
"""

from __future__ import annotations

import argparse
import time
import traceback
from collections import Counter
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree

from penlight import _runtime
from penlight.model import Model
from penlight.ops import registry
from tests.ops import image_families  # noqa: F401 it registers families
from tests.ops.draw import FAMILIES, Draw
from tests.ops.families import NOT_DRAWN
from tests.ops.tape import Refused
from tests.ops.test_winograd import TOLERANCE as WINOGRAD

ISAS = list(_runtime.isas())


def structured() -> set[str]:
    return {name for name, op in registry.load_all().items() if op.rule is None}


class Case:
    """Number `seed` of a family: what torch gives, and the file that should give it too."""

    def __init__(self, family: str, seed: int) -> None:
        self.draw = Draw(seed, FAMILIES[family].special)
        self.name = f"{family} {seed}"
        with torch.inference_mode(), self.draw.tape:
            results = FAMILIES[family].draw(self.draw)
        self.expected = pytree.tree_leaves(results)
        self.file = self.draw.tape.file(self.expected)
        self.given = [self.draw.tape.given, [self.draw.laid(x, keep=True) for x in self.draw.tape.given]]
        keys = self.draw.tape.keys
        self.tolerance = max([1e-5, *(registry.get(key.partition(".")[0]).tolerance for key in keys)])
        self.tolerance = max([self.tolerance, *(t for n, t in WINOGRAD.items() if f"conv2d.f32.winograd{n}" in keys)])

    def run(self, isa: str) -> None:
        """As the inputs were drawn, and once more as they may lie else: the plan is made for all."""
        model = Model(self.file, threads=1, isa=isa)
        for given in self.given:
            for got, expected in zip(model(*given), self.expected, strict=True):
                problem = difference(got, expected, self.tolerance)
                if problem:
                    lie = ", ".join(str(x.stride()) for x in given)
                    calls = "\n  ".join(
                        [*self.draw.tape.calls, f"inputs with strides {lie}", *sorted(self.draw.tape.keys)]
                    )
                    raise AssertionError(f"{self.name} on {isa}: {problem}\n  {calls}")


def difference(got: torch.Tensor, expected: torch.Tensor, tolerance: float) -> str:
    """Errors are measured against the largest number, and numbers here are of the order of 1."""
    if got.dtype != expected.dtype or got.shape != expected.shape:
        return f"{got.dtype} {tuple(got.shape)}, torch gives {expected.dtype} {tuple(expected.shape)}"
    got, expected = (torch.view_as_real(x.resolve_conj()) if x.is_complex() else x for x in (got, expected))
    if not expected.dtype.is_floating_point:
        return "" if torch.equal(got, expected) else f"{int((got != expected).sum())} of {got.numel()} elements differ"
    same = (got == expected) | (got.isnan() & expected.isnan())
    error = (got.double() - expected.double()).abs().masked_fill(same, 0)
    scale = max(1.0, float(expected[expected.isfinite()].abs().max())) if expected.isfinite().any() else 1.0
    wrong = ~(error <= tolerance * scale)
    if not wrong.any():
        return ""
    where = wrong.nonzero()[0].tolist()
    return f"{int(wrong.sum())} of {got.numel()} elements are off, by {float(error[wrong].max()):.3g} of {scale:.3g}; the first at {where}"


def cases(family: str, count: int, seed: int = 0) -> Any:
    """`count` cases: what torch refuses is none."""
    while count:
        try:
            yield Case(family, seed)
            count -= 1
        except Refused:
            pass
        seed += 1


@pytest.mark.parametrize("family", FAMILIES)
def test_some_cases(family: str) -> None:
    for case in cases(family, 6 * FAMILIES[family].share):
        for isa in ISAS:
            case.run(isa)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_many_cases(family: str) -> None:
    """Enough that every operator of the family is among them."""
    operators, seen = FAMILIES[family].operators, set()
    for case in cases(family, FAMILIES[family].share * (60 + 6 * len(operators)), seed=1000):
        seen |= case.draw.tape.ops
        for isa in ISAS:
            case.run(isa)
    assert operators <= seen, f"never drawn: {sorted(operators - seen)}"


def test_every_structured_operator_is_drawn() -> None:
    drawn = frozenset().union(*(family.operators for family in FAMILIES.values()))
    assert drawn | NOT_DRAWN.keys() == structured()
    assert not drawn & NOT_DRAWN.keys()


def main() -> None:
    parser = argparse.ArgumentParser(description="Draws cases until the time is over; shows what is wrong.")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=1000000)
    parser.add_argument("--family", choices=FAMILIES)
    options = parser.parse_args()
    names = [options.family] if options.family else [n for n, f in FAMILIES.items() for _ in range(f.share)]
    wrong: Counter[str] = Counter()
    start, refused, drawn, runs = time.monotonic(), 0, 0, 0
    keys: set[str] = set()
    while time.monotonic() < start + 60 * options.minutes:
        seed, family = options.seed + drawn, names[drawn % len(names)]
        drawn += 1
        try:
            case = Case(family, seed)
            keys |= case.draw.tape.keys
            for isa in ISAS:
                case.run(isa)
                runs += len(case.given)
        except Refused:
            refused += 1
        except Exception as e:  # whatever it is, it is shown, and the next case is drawn
            wrong[family] += 1
            print(
                f"--- {family} {seed}: {type(e).__name__}: {e}\n{'' if isinstance(e, AssertionError) else traceback.format_exc(-2)}",
                flush=True,
            )
    print(f"{runs} runs of {drawn - refused} cases, and {refused} that torch refuses; wrong: {dict(wrong)}")
    print(
        "kernels not met:",
        *sorted(k for k in _runtime.kernel_keys() if k.split(".")[0] in structured() and k not in keys),
    )


if __name__ == "__main__":
    main()
