"""torch's size expressions become Dims with the same value at every size."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import sympy
import torch
from torch.utils._sympy import functions as f

from penlight.capture.export.symbols import Symbols, symbol_range
from penlight.errors import CaptureError
from penlight.ir.dims import evaluate, parse_dim

S, T = sympy.symbols("s0 s1", integer=True, positive=True)

CASES: list[tuple[Any, Callable[[int, int], int], str]] = [
    (S + T - 3, lambda s, t: s + t - 3, "a + b - 3"),
    (7 - S, lambda s, t: 7 - s, "7 - a"),
    (-S - T, lambda s, t: -s - t, "0 - a - b"),
    (2 * S * T + 1, lambda s, t: 2 * s * t + 1, ""),
    (S**3, lambda s, t: s**3, ""),
    (f.PowByNatural(S, sympy.Integer(2)), lambda s, t: s**2, ""),
    (f.FloorDiv(S - 1, 2) + 1, lambda s, t: (s - 1) // 2 + 1, "((a - 1) // 2) + 1"),
    (f.CleanDiv(6 * S, 3), lambda s, t: 2 * s, ""),
    (f.CeilDiv(S, 3), lambda s, t: -(-s // 3), ""),
    (f.Mod(S, 4), lambda s, t: s % 4, "a % 4"),
    (f.PythonMod(S - 20, 7), lambda s, t: (s - 20) % 7, ""),
    (f.ModularIndexing(S, 2, 3), lambda s, t: s // 2 % 3, ""),
    (f.Max(S, T, 5), lambda s, t: max(s, t, 5), ""),
    (f.Min(S, T) - 1, lambda s, t: min(s, t) - 1, ""),
    (f.TruncToInt(1.5 * f.ToFloat(S)), lambda s, t: int(1.5 * s), "(3 * a) // 2"),
    (f.TruncToInt(0.3 * f.ToFloat(S)), lambda s, t: int(0.3 * s), "(3 * a) // 10"),
    (f.CeilToInt(0.75 * f.ToFloat(S)), lambda s, t: math.ceil(0.75 * s), ""),
    (f.TruncToInt(f.ToFloat(S) / 3), lambda s, t: int(s / 3), ""),
    (f.FloorToInt(f.IntTrueDiv(S, T)), lambda s, t: math.floor(s / t), "a // b"),
    (f.CeilToInt(f.IntTrueDiv(S, sympy.Integer(4))), lambda s, t: math.ceil(s / 4), ""),
    (f.FloorToInt(f.IntTrueDiv(S, sympy.Integer(2)) + 0.5), lambda s, t: math.floor(s / 2 + 0.5), ""),
]


@pytest.mark.parametrize(
    ("expression", "value", "text"), CASES, ids=lambda c: str(c) if isinstance(c, sympy.Basic) else None
)
def test_expression(expression: Any, value: Callable[[int, int], int], text: str) -> None:
    symbols = Symbols()
    symbols.define("s0", "a")
    symbols.define("s1", "b")
    dim = symbols.dim(expression)
    for s, t in itertools.product([1, 2, 3, 7, 10, 17, 30, 224, 1001], [1, 2, 5, 16]):
        assert evaluate(dim, {"a": s, "b": t}) == value(s, t), (str(dim), s, t)
    assert parse_dim(str(dim)) == dim
    if text:
        assert str(dim) in (text, f"({text})") or evaluate(parse_dim(text), {"a": 9, "b": 4}) == evaluate(
            dim, {"a": 9, "b": 4}
        )


@pytest.mark.parametrize("rounded", [(f.TruncToInt, math.trunc), (f.FloorToInt, math.floor), (f.CeilToInt, math.ceil)])
@pytest.mark.parametrize("scale", [0.1, 0.3, 0.7, 0.75, 1.1, 1.3, 1 / 3, 2.4, 0.55, 1.999, 3.14159, math.pi])
def test_sizes_times_a_decimal_round_as_in_torch_or_are_refused(scale: float, rounded: Any) -> None:
    """0.7 * 90 is 62.999… in doubles: no fraction of integers gives 62 there and 7 for 10."""
    symbolic, real = rounded
    try:
        dim = Symbols().dim(symbolic(scale * f.ToFloat(S)))
    except CaptureError as e:
        assert scale != 0.75
        assert str(scale) in str(e)
        return
    assert [evaluate(dim, {"s0": n}) for n in range(1, 3000)] == [real(n * scale) for n in range(1, 3000)]


@pytest.mark.parametrize(
    "expression", [f.RoundToInt(0.5 * f.ToFloat(S)), f.OpaqueUnaryFn_sqrt(S), f.FloatPow(f.ToFloat(S), 0.5)]
)
def test_what_is_no_integer_arithmetic_is_an_error_in_words(expression: Any) -> None:
    with pytest.raises(CaptureError, match=r"\+ - \* // %"):
        Symbols().dim(expression)


def test_names_are_identifiers_and_unique() -> None:
    symbols = Symbols()
    for theirs, wish in (
        ("s0", "batch"),
        ("s1", "batch"),
        ("s0", "other"),
        ("s2", "x.0"),
        ("s3", "2nd"),
        ("s4", "max"),
    ):
        symbols.define(theirs, wish)
    assert symbols.names == {"s0": "batch", "s1": "batch_2", "s2": "x_0", "s3": "d2nd", "s4": "max_2"}


def test_ranges_follow_torch() -> None:
    """torch says "at least 2" for sizes that it did not treat as 0 or 1, and accepts 0 and 1 when run."""
    from torch.utils._sympy.numbers import int_oo

    assert (symbol_range(2, int_oo).min, symbol_range(2, int_oo).max) == (0, None)
    assert (symbol_range(sympy.Integer(17), sympy.Integer(64)).min, symbol_range(17, 64).max) == (17, 64)
    exported = torch.export.export(torch.nn.ReLU(), (torch.ones(4, 2),), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    assert exported.module()(torch.ones(1, 2)).shape == (1, 2)
    assert exported.module()(torch.ones(0, 2)).shape == (0, 2)
