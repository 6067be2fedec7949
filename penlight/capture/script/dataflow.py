"""Where values in register code come from and how long they are needed: what writes where, what hangs on data, what is live.

For `steps`, every instruction is visited once, both ways at a branch, with a set of tags for what each register holds: "input NAME"
(the argument itself or a view of it), "data" (a number read out of a tensor), "shape" (a size or rank). A fresh tensor has none.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from dataclasses import dataclass

from penlight.ir.script import Action, ScriptFunction
from penlight.ops.vm_operators import operators

Tags = frozenset[str]
NONE: Tags = frozenset()

VIEWS = {
    "slice", "select", "view", "view_as", "reshape", "transpose", "permute", "t", "unsqueeze", "squeeze", "expand", "expand_as", "narrow",
    "detach", "alias", "flatten", "contiguous", "diagonal", "unfold", "as_strided", "swapaxes", "swapdims", "movedim", "to", "real", "imag",
}  # fmt: skip
READS_DATA = {
    "Bool",
    "Int",
    "Float",
    "item",
    "is_nonzero",
    "ScalarImplicit",
    "IntImplicit",
    "FloatImplicit",
    "equal",
    "allclose",
    "tolist",
}
READS_SHAPE = {"size", "dim", "len", "numel", "stride", "shape"}


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
    if short in READS_DATA:
        return frozenset({"data"})
    if short in READS_SHAPE:
        return frozenset({"shape"})
    if short in VIEWS or is_in_place(action.target):
        return taken[0] if taken else NONE
    # Arithmetic on numbers: as its arguments; on tensors: a new one.
    return frozenset(tag for tags in taken for tag in tags if tag in ("data", "shape"))


def short_name(name: str) -> str:
    """aten::add_.Tensor -> add_"""
    return name.partition("::")[2].partition(".")[0]


def is_in_place(name: str) -> bool:
    """aten::add_.Tensor, aten::copy_; not aten::__and__."""
    short = short_name(name)
    return short.endswith("_") and not short.startswith("__")


JUMPS = ("jump", "branch", "loop")


def data_decisions(function: ScriptFunction) -> set[int]:
    """Branches and loops that hang on numbers out of tensors. Follows no order: a register that ever held such a number counts."""
    tags: dict[int, Tags] = {}
    changed = True
    while changed:
        changed = False
        for a in function.code:
            taken = tuple(tags.get(x, NONE) if isinstance(x, int) else NONE for x in a.args)
            if a.op == "loop":
                made = frozenset().union(*taken)
            else:
                made = _result(a, taken)
            for r in reads(a) if a.op == "loop" else a.results:
                if not made <= tags.get(r, NONE):
                    tags[r] = tags.get(r, NONE) | made
                    changed = True
    decisive = {"branch": 1, "loop": 3}  # of its arguments: the condition; the count, its limit and the condition
    return {
        i
        for i, a in enumerate(function.code)
        if any("data" in tags.get(x, NONE) for x in a.args[: decisive.get(a.op, 0)] if isinstance(x, int))
    }


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
