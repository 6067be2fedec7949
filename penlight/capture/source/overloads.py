"""Which operator a call in source text means: names there have no overloads, so those of one name are tried against the arguments.

As torch does, of the schemas that the arguments fit the one is taken that needs the fewest conversions. What the VM lacks is
called by its bare name: whoever compiles for it tells what is missing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from penlight.capture.source.types import ANY, NONE, Type, filled_in, fits, in_schema, misfit
from penlight.ops.vm_operators import Param, VmOperator, operators


@dataclass(frozen=True)
class Chosen:
    """An operator, and for each argument it takes the number of the one given, or the value of its default."""

    name: str
    takes: tuple[tuple[str, Any], ...]  # ("given", number) or ("default", value)
    params: tuple[Param, ...]
    returns: tuple[Type, ...]


@lru_cache(maxsize=1)
def _by_base() -> dict[str, list[VmOperator]]:
    table: dict[str, list[VmOperator]] = {}
    for operator in operators().values():
        table.setdefault(operator.name.partition(".")[0], []).append(operator)
    return table


@lru_cache(maxsize=1 << 14)
def choose(base: str, given: tuple[Type, ...], keywords: tuple[tuple[str, Type], ...] = ()) -> Chosen | None:
    """The operator "aten::add" on arguments of these types; None where none of this name takes them. `takes` numbers the arguments as
    they come, those by name after the others."""
    best: tuple[int, Chosen] | None = None
    for operator in _by_base().get(base, ()):
        tried = _tried(operator, given, dict(keywords))
        if tried is not None and (best is None or tried[0] < best[0]):
            best = tried
    return best[1] if best else None


def known(base: str) -> bool:
    return base in _by_base()


def _tried(operator: VmOperator, given: Sequence[Type], keywords: dict[str, Type]) -> tuple[int, Chosen] | None:
    names = {p.name for p in operator.params}
    if (len(given) > len(operator.params) and not operator.variadic) or any(k not in names for k in keywords):
        return None
    bound: dict[str, Type] = {}
    takes: list[tuple[str, Any]] = []
    cost = 0
    order = list(keywords)
    for i, param in enumerate(operator.params):
        if i < len(given) and not param.keyword:
            takes.append(("given", i))
            cost += misfit(_wanted(param), given[i], bound)
        elif param.name in keywords:
            takes.append(("given", len(given) + order.index(param.name)))
            cost += misfit(_wanted(param), keywords[param.name], bound)
        elif param.default is not None:
            takes.append(("default", param.value))
        elif param.optional and param.keyword:
            takes.append(("default", None))
        else:
            return None
    if not fits(cost):
        return None
    positional = sum(not p.keyword for p in operator.params)
    if len(given) > positional:
        if not operator.variadic:
            return None
        takes += [("given", i) for i in range(len(operator.params), len(given))]
    returns = tuple(filled_in(in_schema(re.sub(r" \w+$", "", r)), bound) for r in operator.returns)
    return cost, Chosen(operator.name, tuple(takes), operator.params, returns)


def _wanted(param: Param) -> Type:
    wanted = in_schema(param.type)
    return Type("Optional", (wanted,)) if param.default == "None" and wanted.name != "Optional" else wanted


def unknown(base: str, count: int, results: int) -> Chosen:
    """A call of what the VM lacks, as it is written."""
    return Chosen(base, tuple(("given", i) for i in range(count)), (), (ANY,) * results if results else (NONE,))
