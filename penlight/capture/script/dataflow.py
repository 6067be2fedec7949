"""Analyses of register code: which actions write where, which branches depend on data, and how long each value is needed.

`steps` visits every instruction once, both ways at a branch, with a set of tags for what each register holds: "input NAME"
(the argument itself or a view of it), "data" (a number read out of a tensor), "shape" (a size or rank). A fresh tensor has none.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penlight.ir.script import Action, ScriptFunction
from penlight.ops.vm_operators import operators

Tags = frozenset[str]
NONE: Tags = frozenset()

VIEWS = {
    "slice", "select", "view", "view_as", "reshape", "transpose", "permute", "t", "unsqueeze", "squeeze", "expand", "expand_as", "narrow",
    "detach", "alias", "flatten", "contiguous", "diagonal", "unfold", "as_strided", "swapaxes", "swapdims", "movedim", "to", "real", "imag",
}  # fmt: skip
READS_DATA = {
    "item", "is_nonzero", "ScalarImplicit", "IntImplicit", "FloatImplicit", "equal", "allclose", "tolist",
}  # fmt: skip
READS_DATA_OF_TENSORS = {"Bool", "Int", "Float"}  # given numbers, they only convert
READS_SHAPE = {"size", "dim", "len", "numel", "stride", "shape"}
READS_KIND = {
    "is_quantized", "is_cuda", "is_cpu", "is_floating_point", "is_complex", "is_sparse", "dtype", "device", "layout", "requires_grad",
}  # fmt: skip
"""Facts about a tensor that no number in it changes."""


@dataclass(frozen=True)
class Step:
    """An instruction, and the tags of its arguments."""

    at: int
    action: Action
    taken: tuple[Tags, ...]


def steps(function: ScriptFunction) -> Iterator[Step]:
    """The steps of a function that can be reached."""
    start = {i: frozenset({f"input {p['name']}"}) for i, p in enumerate(function.parameters) if i}  # 0 is self
    pending: list[tuple[int, dict[int, Tags]]] = [(0, start)]
    seen: set[int] = set()
    while pending:
        at, registers = pending.pop()
        while 0 <= at < len(function.code) and at not in seen:
            seen.add(at)
            action = function.code[at]
            taken = tuple(registers.get(a, NONE) if isinstance(a, int) else NONE for a in action.args)
            yield Step(at, action, taken)
            if action.op in ("branch", "loop", "planned"):
                other = dict(registers)
                if action.op == "loop":  # leaving it, what it carries moves down over count, limit and condition
                    other.update(zip([a for a in action.args if isinstance(a, int)], taken[3:], strict=False))
                target = action.extra if action.op == "planned" else action.target
                pending.append((target, other) if isinstance(target, int) else (-1, {}))
            elif action.op == "jump":
                at = action.target
                continue
            elif action.op == "return" or action.target == "prim::RaiseException":
                break
            registers.update(dict.fromkeys(action.results, _result(action, taken)))
            at += 1


def _result(action: Action, taken: tuple[Tags, ...]) -> Tags:
    if action.op in ("move", "unpack"):
        return taken[0] if taken else NONE
    if action.op != "op":
        return NONE
    short = short_name(action.target)
    if reads_data(action.target):
        return frozenset({"data"})
    if short in READS_SHAPE:
        return frozenset({"shape"})
    if short in READS_KIND:
        return NONE
    if short in VIEWS or is_in_place(action.target):
        return taken[0] if taken else NONE
    # Arithmetic on numbers: as its arguments; on tensors: a new one.
    return frozenset(tag for tags in taken for tag in tags if tag in ("data", "shape"))


def reads_data(name: str) -> bool:
    """Whether an operator's result is a number out of a tensor."""
    short = short_name(name)
    return short in READS_DATA or (short in READS_DATA_OF_TENSORS and name.endswith(".Tensor"))


def short_name(name: str) -> str:
    """aten::add_.Tensor -> add_"""
    return name.partition("::")[2].partition(".")[0]


def is_in_place(name: str) -> bool:
    """aten::add_.Tensor, aten::copy_; not aten::__and__."""
    short = short_name(name)
    return short.endswith("_") and not short.startswith("__")


JUMPS = ("jump", "branch", "loop")


def data_decisions(function: ScriptFunction) -> set[int]:
    """Branches and loops that depend on numbers read from tensors."""
    code = function.code
    before = [-1] * len(code)  # registers that hold such numbers, as bits; -1: not reached yet
    if code:
        before[0] = 0
    waiting = Waiting(0)
    for i in waiting if code else ():
        after = _with_data(code[i], before[i])
        for way in following(code, i):
            joined = after if before[way] < 0 else before[way] | after
            if joined != before[way]:
                before[way] = joined
                waiting.add(way)
    decisive = {"branch": 1, "loop": 3}  # of its arguments: the condition; the count, its limit and the condition
    return {
        i
        for i, a in enumerate(code)
        if before[i] > 0 and any(before[i] >> x & 1 for x in a.args[: decisive.get(a.op, 0)] if isinstance(x, int))
    }


def _with_data(a: Action, before: int) -> int:
    """The registers that hold numbers read from tensors after an action, as bits."""
    taken = any(before >> r & 1 for r in reads(a))
    short = short_name(a.target) if a.op == "op" else ""
    made = (a.op == "op" and reads_data(a.target)) or (
        taken and short not in (*READS_SHAPE, *READS_KIND, "__is__", "__isnot__")
    )
    mask = sum(1 << r for r in set(reads(a) if a.op == "loop" else a.results))  # a loop's registers move down
    if a.op in ("op", "move", "list", "tuple", "dict", "unpack", "loop"):
        return before | mask if made else before if a.op == "loop" else before & ~mask
    return before & ~mask


def reads(action: Action) -> Iterator[int]:
    return (a for a in action.args if isinstance(a, int))


def written(action: Action) -> Iterator[int]:
    """Registers whose tensor or container an operator changes; all of them where nothing is known of it."""
    if action.op == "op":
        known = operators().get(action.target)
        for i, a in enumerate(action.args):
            is_written = (
                is_in_place(action.target) if known is None else i < len(known.params) and bool(known.params[i].written)
            )
            if isinstance(a, int) and is_written:
                yield a


def gives_view(name: str) -> bool:
    """Whether an operator's result may share memory with an argument."""
    known = operators().get(name)
    return known is None or known.shares


def leaders(function: ScriptFunction) -> set[int]:
    """Where straight lines of code begin: at targets of jumps, and after jumps."""
    found = {0}
    for i, a in enumerate(function.code):
        if a.op in JUMPS:
            found |= {a.target, i + 1}
        if a.op == "loop":
            found.add(i)
        elif a.op in ("return", "planned"):
            found.add(i + 1)
    return found


class Waiting:
    """Actions to be looked at, in the order of the code: what comes before a join is done before what comes after it."""

    def __init__(self, first: int) -> None:
        self._heap = [first]
        self._inside = {first}

    def add(self, i: int) -> None:
        if i not in self._inside:
            heapq.heappush(self._heap, i)
            self._inside.add(i)

    def __iter__(self) -> Iterator[int]:
        while self._heap:
            i = heapq.heappop(self._heap)
            self._inside.discard(i)
            yield i


def following(code: list[Action], i: int) -> list[int]:
    """Where action i may go on."""
    a = code[i]
    ways = [] if a.op in ("return", "jump") else [i + 1]
    return [
        w for w in [*ways, *([a.target] if a.op in JUMPS else [a.extra] if a.op == "planned" else [])] if w < len(code)
    ]


def live_before(function: ScriptFunction) -> list[int]:
    """For each action, the registers whose value may still be read from there on, as the bits of a number."""
    code = function.code
    used = [sum(1 << r for r in set(reads(a))) for a in code]  # a loop's registers move down: all of them may be read
    made = [sum(1 << r for r in set(a.results)) for a in code]
    ways = [following(code, i) for i in range(len(code))]
    live = [0] * (len(code) + 1)
    changed = True
    while changed:
        changed = False
        for i in range(len(code) - 1, -1, -1):
            after = 0
            for way in ways[i]:
                after |= live[way]
            before = after & ~used[i] if code[i].op == "drop" else (after & ~made[i]) | used[i]
            if before != live[i]:
                live[i], changed = before, True
    return live


def live_after(function: ScriptFunction) -> list[int]:
    """The same after each action."""
    live, code = live_before(function), function.code
    return [functools.reduce(operator.or_, (live[way] for way in following(code, i)), 0) for i in range(len(code))]


def renamed(function: ScriptFunction) -> list[Action]:
    """The code with registers numbered anew, so that two values that share one in turn are told apart. For looking at only: a loop
    is shown with what it writes as results."""
    # Register -> actions that write it; -1: it is a parameter.
    defined: dict[int, list[int]] = {r: [-1] for r in range(len(function.parameters))}
    for i, a in enumerate(function.code):
        for r in set(_writes(a)):
            defined.setdefault(r, []).append(i)
    shared = {r: {at: k for k, at in enumerate(places)} for r, places in defined.items() if len(places) > 1}
    before = _reaching(function, shared)
    names = itertools.count(function.registers)
    groups = _groups(shared, before, function.code)
    numbers: dict[tuple[int, int], int] = {}

    def name(register: int, definition: int) -> int:
        if register not in shared:
            return register
        key = (register, groups[register][definition])
        if key not in numbers:
            numbers[key] = next(names)
        return numbers[key]

    def read(i: int, x: Any) -> Any:
        mask = before[i].get(x, 0) if isinstance(x, int) and i in before else 0
        return name(x, mask.bit_length() - 1) if mask else x

    return [
        Action(
            a.op,
            [read(i, x) for x in a.args],
            [name(r, shared[r][i]) if r in shared else r for r in _writes(a)],
            a.target,
        )
        for i, a in enumerate(function.code)
    ]


def _writes(a: Action) -> list[int]:
    return list(reads(a)) if a.op == "loop" else a.results


def _reaching(function: ScriptFunction, shared: dict[int, dict[int, int]]) -> dict[int, dict[int, int]]:
    """For each action that can be reached: which definitions of the shared registers may be in force before it, as bits."""
    code = function.code
    before: dict[int, dict[int, int]] = {0: {r: 1 for r in shared if r < len(function.parameters)}}
    waiting = Waiting(0)
    for i in waiting if code else ():
        after = {**before[i], **{r: 1 << shared[r][i] for r in _writes(code[i]) if r in shared}}
        for way in following(code, i):
            seen = before.get(way)
            joined = after if seen is None else {r: seen.get(r, 0) | after.get(r, 0) for r in {*seen, *after}}
            if joined != seen:
                before[way] = joined
                waiting.add(way)
    return before


def _groups(
    shared: dict[int, dict[int, int]], before: dict[int, dict[int, int]], code: list[Action]
) -> dict[int, list[int]]:
    """Definitions of a register that some action may both read belong together: for each, the first of its group."""
    groups = {r: list(range(len(places))) for r, places in shared.items()}
    for i, state in before.items():
        for r in reads(code[i]):
            mask = state.get(r, 0)
            if mask & (mask - 1):
                joined = {g for k, g in enumerate(groups[r]) if mask >> k & 1}
                groups[r] = [min(joined) if g in joined else g for g in groups[r]]
    return groups
