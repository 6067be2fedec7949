"""Collects the actions of a function, then assigns its registers (`finish`). A value that is read once, in the block that made it,
gets a slot, which reading empties. Other registers are emptied (`drop`) after their last reader: memory is freed as soon as in torch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penlight.ir.script import Action, Const

_JUMPS = {"jump", "branch", "loop"}


class Code:
    def __init__(self, parameters: int) -> None:
        self.actions: list[Action] = []
        self.registers = self.parameters = parameters
        self.source = ""

    def register(self, count: int = 1) -> int:
        """The first of so many new ones in a row."""
        self.registers += count
        return self.registers - count

    def emit(
        self, op: str, args: Iterable[int | Const] = (), results: Iterable[int] = (), target: Any = None
    ) -> Action:
        action = Action(op, list(args), list(results), target, None, self.source)
        self.actions.append(action)
        return action

    def finish(self) -> tuple[list[Action], int, int]:
        """The code, how many registers it has, and the first that is a slot."""
        actions = self.actions
        blocks = _blocks(actions)
        _find_live(actions, blocks)
        slots = _slots(actions, blocks, self.parameters)
        made = _with_drops(actions, blocks, slots)
        used = {r for a in made for r in (*a.args, *a.results) if isinstance(r, int)} | set(range(self.parameters))
        order = [*sorted(used - slots), *sorted(used & slots)]
        number = {r: i for i, r in enumerate(order)}
        for a in made:
            a.args = [number[r] if isinstance(r, int) else r for r in a.args]
            a.results = [number[r] for r in a.results]
        return made, len(order), len(used - slots)


class _Block:
    def __init__(self, begin: int, end: int) -> None:
        self.begin, self.end = begin, end
        self.next: list[_Block] = []
        self.before: list[_Block] = []
        self.live_in: set[int] = set()
        self.live_out: set[int] = set()


def _blocks(actions: list[Action]) -> list[_Block]:
    leaders = {0} | {a.target for a in actions if a.op in _JUMPS}
    leaders |= {i + 1 for i, a in enumerate(actions) if a.op in _JUMPS or a.op == "return"}
    starts = sorted(i for i in leaders if i < len(actions))
    blocks = [_Block(b, e) for b, e in zip(starts, [*starts[1:], len(actions)], strict=True)]
    at = {b.begin: b for b in blocks}
    for b in blocks:
        last = actions[b.end - 1]
        following = [last.target] if last.op in _JUMPS else []
        if last.op not in ("jump", "return"):
            following.append(b.end)
        b.next = [at[i] for i in dict.fromkeys(following) if i in at]
        for n in b.next:
            n.before.append(b)
    return blocks


def _reads(a: Action) -> set[int]:
    return {r for r in a.args if isinstance(r, int)}


def _find_live(actions: list[Action], blocks: list[_Block]) -> None:
    reads: dict[_Block, set[int]] = {}
    writes: dict[_Block, set[int]] = {}
    for b in blocks:
        reads[b], writes[b] = set(), set()
        for a in actions[b.begin : b.end]:
            reads[b] |= _reads(a) - writes[b]
            writes[b].update(a.results)
    pending = list(blocks)
    while pending:
        b = pending.pop()
        b.live_out = set().union(*(n.live_in for n in b.next))
        live_in = reads[b] | (b.live_out - writes[b])
        if live_in != b.live_in:
            b.live_in = live_in
            pending += b.before


def _slots(actions: list[Action], blocks: list[_Block], parameters: int) -> set[int]:
    """Registers that are written once and read once, in one block."""
    written: dict[int, list[int]] = {}
    read: dict[int, list[int]] = {}
    excluded: set[int] = set(range(parameters))
    for n, b in enumerate(blocks):
        for a in actions[b.begin : b.end]:
            if a.op == "loop":
                excluded |= _reads(a)
            for r in a.args:
                if isinstance(r, int):
                    read.setdefault(r, []).append(n)
            for r in a.results:
                written.setdefault(r, []).append(n)
    return {r for r, at in written.items() if len(at) == 1 and read.get(r) == at and r not in excluded}


def _with_drops(actions: list[Action], blocks: list[_Block], slots: set[int]) -> list[Action]:
    made: list[Action] = []
    starts: dict[int, int] = {}
    for b in blocks:
        starts[b.begin] = len(made)
        gone = set().union(*(p.live_out for p in b.before)) - b.live_in
        if gone - slots:
            made.append(Action("drop", [*sorted(gone - slots)]))
        made += _block_with_drops(actions[b.begin : b.end], b.live_out, slots)
    for a in made:
        if a.op in _JUMPS:
            a.target = starts[a.target]
    return made


def _block_with_drops(actions: list[Action], live_out: set[int], slots: set[int]) -> list[Action]:
    backwards: list[Action] = []
    alive = set(live_out)
    for a in reversed(actions):
        touched = _reads(a) | set(a.results)
        last = touched - alive - slots
        if last and a.op not in ("return", "jump", "branch", "loop"):
            backwards.append(Action("drop", [*sorted(last)], source=a.source))
        alive -= set(a.results)
        alive |= _reads(a)
        backwards.append(a)
    return backwards[::-1]
