"""Decisions that a model's code takes by its sizes: `if h % 2: pad`. The graph holds the side that the examples took.

torch notes such decisions as guards on the symbols. Where the allowed sizes settle them, all is well; else the graph would be
silently wrong for some sizes, and capture refuses. Guards from inside torch's operators are left out: they are about strides,
or are checks that the runtime makes itself when it binds shapes.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from penlight.capture.export.source_lines import describe, is_torch
from penlight.capture.export.symbols import Symbols
from penlight.errors import CaptureError
from penlight.ir.graph import SymbolRange

_CALLS_OF_MODULES = os.path.join("torch", "nn", "modules", "module.py")  # calls a layer, and decides nothing itself
_MODEL_CODE_IN_TORCH = (os.path.join("torch", "nn") + os.sep, os.path.join("torch", "functional.py"))


@dataclass(frozen=True)
class Decision:
    condition: str  # with the names of our symbols
    source: str
    symbols: frozenset[str]  # torch's names


class UndecidedError(CaptureError):
    """Some sizes would need another graph."""

    def __init__(self, decisions: list[Decision]) -> None:
        self.symbols = frozenset().union(*(d.symbols for d in decisions))
        lines = "\n".join(f"  {d.condition}\n      {d.source}" for d in decisions)
        super().__init__(
            "the model's code takes another way for other sizes; what was captured holds only where\n"
            f"{lines}\nFix these dims, or state what holds in dynamic_shapes (16 * Dim('h'), Dim('h', min=64)), or use"
            ' dynamic_shapes="auto", which fixes them for you.'
        )


def check_decisions(ep: ExportedProgram, symbols: Symbols, decided: Mapping[Any, str]) -> None:
    """UndecidedError where a guard of the model's code does not follow from the ranges of its symbols. `decided` gives the
    source of conditions that held in TorchScript."""
    lines = {str(text): line for held, line in decided.items() for text in (held, sympy.Not(held))}
    found = dict.fromkeys(_decisions(ep, symbols, lines))
    if found:
        raise UndecidedError(list(found))


def _decisions(ep: ExportedProgram, symbols: Symbols, lines: Mapping[str, str]) -> Iterator[Decision]:
    environment = _shape_environment(ep)
    if environment is None:
        return
    for guard in environment.guards:
        frame = guard.sloc.framework_loc
        file = getattr(frame, "filename", "")
        scripted = lines.get(str(guard.expr))
        is_model_code = any(part in file for part in _MODEL_CODE_IN_TORCH) and not file.endswith(_CALLS_OF_MODULES)
        if scripted is None and is_torch(file) and not is_model_code:
            continue
        expr = environment.replace(guard.expr)
        used = {str(s) for s in expr.free_symbols}
        if not used & symbols.names.keys() or _follows(environment, expr):
            continue
        if scripted is None:
            scripted = describe(file, frame.lineno, frame.name, linecache.getline(file, frame.lineno))
        yield Decision(_text(expr, symbols), scripted, frozenset(used))


def raise_least(
    ep: ExportedProgram, symbols: Symbols, decided: Mapping[Any, str], ranges: Mapping[str, SymbolRange]
) -> None:
    """Takes sizes 0 and 1 out of the ranges where a condition that held does not hold for them. torch notes no guard for that: it
    takes every free size for 2 or more."""
    environment = _shape_environment(ep)
    for held in decided if environment is not None else ():
        for s in held.free_symbols:
            known = ranges.get(symbols.names.get(str(s), ""))
            for size in (1, 0):
                if (
                    known is not None
                    and known.min <= size
                    and not _follows(environment, held, {s: ValueRanges(size, size)})
                ):
                    known.min = size + 1


def _follows(environment: Any, expr: Any, given: Mapping[Any, Any] | None = None) -> bool:
    """Whether the ranges alone imply it. (The environment's own answer would use the guards: it takes them as granted.)"""
    ranges = {s: environment.var_to_range[s] for s in expr.free_symbols if s in environment.var_to_range}
    try:
        possible = bound_sympy(expr, {**ranges, **(given or {})})
    except Exception:
        return False
    return bool(possible.is_singleton()) and possible.lower == sympy.true


def _text(expr: Any, symbols: Symbols) -> str:
    """The condition in Python's words."""
    words = {"Eq": "==", "Ne": "!=", "Equality": "==", "Unequality": "!=", "StrictLessThan": "<", "LessThan": "<=",
             "StrictGreaterThan": ">", "GreaterThan": ">="}  # fmt: skip
    sign = words.get(type(expr).__name__)
    if sign is not None:
        try:
            return f"{symbols.dim(expr.args[0])} {sign} {symbols.dim(expr.args[1])}"
        except CaptureError:
            pass
    return str(expr)


def _shape_environment(ep: ExportedProgram) -> Any:
    """torch's record of symbols and guards; none where all sizes are fixed or the program comes from a file."""
    for node in ep.graph.nodes:
        if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.Tensor):
            return getattr(getattr(node.meta["val"], "fake_mode", None), "shape_env", None)
    return None
