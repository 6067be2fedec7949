"""Where values in register code come from: enough to see that code writes into an input, or branches on data.

Every instruction is visited once, both ways at a branch, with a set of tags for what each register holds: "input NAME" (the
argument itself or a view of it), "data" (a number read out of a tensor), "shape" (a size or rank). A fresh tensor has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penlight.ir.script import Action, ScriptFunction

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


def short_name(operator: str) -> str:
    """aten::add_.Tensor -> add_"""
    return operator.partition("::")[2].partition(".")[0]


def is_in_place(operator: str) -> bool:
    """aten::add_.Tensor, aten::copy_; not aten::__and__."""
    short = short_name(operator)
    return short.endswith("_") and not short.startswith("__")
