"""Freezes register code: attributes that never change become constants, branches on them are decided, dead code is removed.

    r1 = get_attr(r0) training                        r3 = op(r2, #weight, …) aten::conv2d
    branch r1, else 5                    becomes      …
    …
    r3 = op(r2, r7, …) aten::conv2d

Scripted code reads its own attributes all the time, which costs time on a phone. An attribute is constant if no code sets it and
none writes into it in place, directly or through a view or a container. Needs no torch.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

from penlight.budget import Budget
from penlight.capture.lite.read import objects_in
from penlight.capture.lite.restore import BY_IDENTITY, PLAIN_OPERATORS, PLAIN_OVERLOADS, is_plain
from penlight.capture.script.dataflow import JUMPS, Waiting, following, gives_view, live_after, reads, renamed, written
from penlight.ir.script import Action, Const, Script, ScriptFunction
from penlight.ir.values import ScriptObject, ScriptTensor
from penlight.ops.vm_operators import operators

_BYTES_PER_ACTION = 512  # as which an instruction counts, for the budget
Slot = tuple[int, int]  # id of an object, number of its attribute; object 0: any
_FOLDED: dict[str, Callable[..., Any]] = {
    "aten::__and__.bool": operator.and_, "aten::__or__.bool": operator.or_, "aten::len.t": len,
    **{f"{name}.{kind}".rstrip("."): call for name, call in PLAIN_OPERATORS.items() for kind in PLAIN_OVERLOADS},
}  # fmt: skip
# Actions that do nothing but give their results.
_ENDS = (*JUMPS, "return", "planned")  # of blocks
_PURE = ("move", "get_attr", "tuple", "list", "dict", "isinstance")


def freeze(script: Script) -> None:
    """Rewrites the functions of a script in place."""
    _forget_uncalled(script)
    before: set[Slot] | None = None
    size = sum(len(f.code) for f in script.functions.values())
    budget = Budget(_BYTES_PER_ACTION * size, "the model's code", f"{size} instructions")
    for function in script.functions.values():
        budget.take(3 * len(function.code) * (function.registers // 8))  # which of them live, as the bits of numbers
    while (changing := changing_slots(script, budget)) != before:  # again: what changed an attribute may be gone now
        for function in script.functions.values():
            known = _propagate(script, function, changing, budget)
            _put_in(script, function, known)
            _clean(function)
        before = changing
    _forget_unread(script, changing, budget)


# ---- which attributes change ----
def changing_slots(script: Script, budget: Budget | None = None) -> set[Slot]:
    """Attributes that code sets, or may write into in place: also those that share memory with such a one."""
    found: set[Slot] = set()
    touched: set[Slot] = set()
    budget = budget or Budget(1 << 30, "the model's code")
    handed_on: set[Slot] = set()  # also stored in another attribute, or returned: writing there changes these
    for function in script.functions.values():
        code = renamed(function)
        holders = _objects(script, function, code, budget)
        origins = _origins(code, holders, budget)
        for a in code:
            if a.op == "set_attr":
                found |= {(holder, a.target) for holder in holders.get(_register(a.args[0]), {0})}
                handed_on |= origins.get(_register(a.args[1]), set())
            elif a.op == "return" and function.method is None:
                handed_on |= origins.get(_register(a.args[0]), set())
            calls = a.op in ("call", "call_method")  # another function may do anything
            for register in reads(a) if calls else written(a):
                touched |= origins.get(register, set())
    return found | (_in_one_memory(script, touched | handed_on) if touched else set())


def _in_one_memory(script: Script, slots: set[Slot]) -> set[Slot]:
    """The same attributes, and all others that share a tensor's memory or a container with one of them."""
    places: dict[int, set[Slot]] = {}  # id of a storage or container -> the attributes that have it
    for owner in objects_in([script.module]):
        for slot, value in enumerate(owner.attributes.values()):
            for memory in _memory(value):
                places.setdefault(memory, set()).add((id(owner), slot))
    shared = [at for at in places.values() if len(at) > 1]
    return slots.union(*(at for at in shared if any(x in slots or (0, x[1]) in slots for x in at)))


def _memory(value: Any) -> Iterator[int]:
    if isinstance(value, ScriptTensor):
        yield id(value.storage)
    elif isinstance(value, (list, tuple, dict)):
        yield id(value)
        for item in value.values() if isinstance(value, dict) else value:
            yield from _memory(item)


def _register(at: int | Const) -> int:
    return at if isinstance(at, int) else -1


def _objects(script: Script, function: ScriptFunction, code: list[Action], budget: Budget) -> dict[int, set[int]]:
    """The objects that each register may hold at any time, as ids; 0: any object. Does not look at the order of the code."""
    by_id = {id(o): o for o in objects_in([script.module])}
    held = {i: {0} for i in range(len(function.parameters))}
    if function.method is not None:
        held[0] = {id(script.module)}
    replaced = {a.target for f in script.functions.values() for a in f.code if a.op == "set_attr"}
    changed = True
    while changed:
        changed = False
        for i, a in enumerate(code):
            made: set[int] = set()
            budget.step(1 + len(a.results))
            if a.op == "get_attr":
                for owner in held.get(_register(a.args[0]), {0}):
                    value = _slot_value(by_id.get(owner), a.target)
                    made |= {id(value)} if isinstance(value, ScriptObject) else set() if owner in by_id else {0}
                made |= {0} if a.target in replaced else set()
            elif a.op == "move":
                made = held.get(_register(a.args[0]), set())
            elif a.op == "create":
                made = {-1 - i}  # no object of the model
            elif a.op in ("op", "unpack", "call", "call_method", "loop"):
                made = {0} if a.op != "op" or gives_view(a.target) else set()
            for r in a.results:
                if not made <= held.get(r, set()):
                    held.setdefault(r, set()).update(made)
                    changed = True
    return held


def _slot_value(owner: ScriptObject | None, slot: int) -> Any:
    values = list(owner.attributes.values()) if owner is not None else []
    return values[slot] if slot < len(values) else None


def _origins(code: list[Action], holders: dict[int, set[int]], budget: Budget) -> dict[int, set[Slot]]:
    """For each register, the attributes whose memory its value may share."""
    origins: dict[int, set[Slot]] = {}
    changed = True
    while changed:
        changed = False
        for a in code:
            if a.op == "get_attr":
                made = {(holder, a.target) for holder in holders.get(_register(a.args[0]), {0})}
            elif a.op in ("move", "tuple", "list", "dict", "unpack", "loop") or (a.op == "op" and gives_view(a.target)):
                made = set().union(*(origins.get(r, set()) for r in reads(a)))
            elif a.op in ("call", "call_method"):
                made = {(0, -1)}  # anything that was handed on
            else:
                continue
            budget.step(1 + len(made) * len(a.results) // 4)
            for r in a.results:
                if not made <= origins.get(r, set()):
                    origins.setdefault(r, set()).update(made)
                    changed = True
    return origins


# ---- what registers hold ----
class Known:
    """A value that is the same in every call."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def same(self, other: Known) -> bool:
        if isinstance(self.value, (bool, int, float, str)):
            return repr(self.value) == repr(other.value)  # 0.0 is not -0.0, nor 1 True
        return self.value is other.value

    @property
    def is_constant(self) -> bool:
        """Whether code may name it as a constant. A list would have to be made anew for each reader, and modules are state."""
        v = self.value
        return (
            v is None
            or isinstance(v, (bool, int, float, str, ScriptTensor))
            or (isinstance(v, ScriptObject) and v.is_custom)
        )


Registers = dict[int, Known]


def _propagate(script: Script, function: ScriptFunction, changing: set[Slot], budget: Budget) -> dict[int, Registers]:
    """For each action that can be reached: what it is known to hold, of the registers that it reads. What all registers hold is kept where
    ways meet only: kept before each action, it would grow with the square of the code."""
    code = function.code
    start: Registers = {0: Known(script.module)} if function.method is not None else {}
    before: dict[int, Registers] = {0: start}  # of all registers, where blocks begin
    begins = {way for i, a in enumerate(code) if a.op in _ENDS for way in following(code, i)} | {0}
    narrowed: dict[int, Registers] = {}
    waiting = Waiting(0)
    for first in waiting:
        registers, i = dict(before[first]), first
        while True:
            a = code[i]
            budget.step(1 + len(a.args))
            narrowed[i] = {r: registers[r] for r in reads(a) if r in registers}
            if a.op in _ENDS or i + 1 in begins or i + 1 >= len(code):
                break
            _advance(script, a, registers, changing)
            i += 1
        decided = _decision(script, a, registers)
        for way in following(code, i):
            if decided is not None and way != (i + 1 if decided else a.target):
                continue
            budget.step(1 + len(registers))
            after = _after(script, a, registers, changing, leaving=a.op == "loop" and way == a.target)
            seen = before.get(way)
            joined = after if seen is None else {r: k for r, k in seen.items() if r in after and k.same(after[r])}
            if seen is None or len(joined) != len(seen):
                before[way] = joined
                waiting.add(way)
    return narrowed


def _value(script: Script, at: int | Const, registers: Registers) -> Known | None:
    return Known(script.constants[at.index]) if isinstance(at, Const) else registers.get(at)


def _decision(script: Script, a: Action, registers: Registers) -> bool | None:
    if a.op != "branch":
        return None
    known = _value(script, a.args[0], registers)
    return known.value if known is not None and isinstance(known.value, bool) else None


def _after(script: Script, a: Action, before: Registers, changing: set[Slot], leaving: bool) -> Registers:
    registers = dict(before)
    if a.op == "loop":
        row = list(reads(a))
        moved = {r: before[s] for r, s in zip(row, row[3:], strict=False) if s in before} if leaving else {}
        for r in row if leaving else (row[0], row[2]):
            registers.pop(r, None)
        registers.update(moved)
        return registers
    _advance(script, a, registers, changing)
    return registers


def _advance(script: Script, a: Action, registers: Registers, changing: set[Slot]) -> None:
    """What registers hold after an action that is no loop, in place."""
    made = _result(script, a, registers, changing)
    for r in (*a.results, *(reads(a) if a.op == "drop" else ())):
        registers.pop(r, None)
    if made is not None:
        registers[a.results[0]] = made


def _result(script: Script, a: Action, registers: Registers, changing: set[Slot]) -> Known | None:
    """What an action with one result gives, if that is known."""
    if len(a.results) != 1:
        return None
    args = [_value(script, at, registers) for at in a.args]
    first = args[0] if args else None
    if a.op == "move":
        return first
    if a.op == "get_attr" and first is not None and isinstance(first.value, ScriptObject):
        owner = first.value
        changes = {(id(owner), a.target), (0, a.target)} & changing
        return Known(_slot_value(owner, a.target)) if not changes and a.target < len(owner.attributes) else None
    if a.op == "op" and a.target in _FOLDED and all(k is not None for k in args):
        values = [k.value for k in args if k is not None]
        base = a.target.partition(".")[0]
        if base not in BY_IDENTITY and not all(map(is_plain, values)) and not (base == "aten::len" and _is_row(values)):
            return None
        try:
            return Known(_FOLDED[a.target](*values))
        except (TypeError, ValueError):  # arguments that the operator does not take: the run says so
            return None
    return None


def _is_row(values: list[Any]) -> bool:
    return len(values) == 1 and isinstance(values[0], (tuple, list))


# ---- rewriting ----
def _put_in(script: Script, function: ScriptFunction, before: dict[int, Registers]) -> None:
    """Constants where registers are known; nothing where code cannot be reached; a jump where a branch is decided."""
    code: list[Action] = []
    moved: dict[int, int] = {}
    for i, a in enumerate(function.code):
        moved[i] = len(code)
        if i not in before:
            continue
        decided = _decision(script, a, before[i])
        if decided is not None:
            if not decided:
                code.append(Action("jump", target=a.target, source=a.source))
            continue
        if a.op not in ("drop", "loop"):
            a.args = [_constant(script, at, before[i]) for at in a.args]
        code.append(a)
    for a in code:
        if a.op in JUMPS:
            a.target = moved[a.target]
    function.code = code


def _constant(script: Script, at: int | Const, registers: Registers) -> int | Const:
    known = registers.get(at) if isinstance(at, int) else None
    if known is None or not known.is_constant:
        return at
    return script.constant(known.value)


def _clean(function: ScriptFunction) -> None:
    """Takes out what gives results that nobody reads, jumps to the next action, and drops of registers that hold nothing."""
    while True:
        after = live_after(function)
        held = {r for a in function.code for r in a.results} | set(range(len(function.parameters)))
        held |= {r for a in function.code if a.op == "loop" for r in reads(a)}
        gone = set()
        for i, a in enumerate(function.code):
            if a.op == "drop":
                a.args = [r for r in a.args if r in held]
            unread = bool(a.results) and not any(after[i] >> r & 1 for r in a.results)
            if (
                (a.op == "drop" and not a.args)
                or (a.op == "jump" and a.target == i + 1)
                or (unread and (a.op in _PURE or _only_computes(a)))
            ):
                gone.add(i)
        if not gone:
            return
        _remove(function, gone)


def _only_computes(a: Action) -> bool:
    if a.op != "op":
        return False
    known = operators().get(a.target)
    random = ("rand", "normal", "bernoulli", "multinomial", "dropout")
    return (
        known is not None
        and a.target.startswith(("aten::", "prim::"))
        and a.target not in ("prim::RaiseException", "prim::Print", "aten::warn")
        and not any(p.written for p in known.params)
        and not any(word in a.target for word in random)
    )


def _remove(function: ScriptFunction, gone: set[int]) -> None:
    moved, count = {}, 0
    for i in range(len(function.code) + 1):
        moved[i] = count
        count += i not in gone
    function.code = [a for i, a in enumerate(function.code) if i not in gone]
    for a in function.code:
        if a.op in JUMPS:
            a.target = moved[a.target]


def _forget_unread(script: Script, changing: set[Slot], budget: Budget) -> None:
    """Empties attributes that no code reads any more, so that the file does not hold them. Their slots stay: code names them by number."""
    read: set[Slot] = {(0, slot) for _, slot in changing}
    for function in script.functions.values():
        code = renamed(function)
        holders = _objects(script, function, code, budget)
        for a in code:
            if a.op == "get_attr":
                read |= {(holder, a.target) for holder in holders.get(_register(a.args[0]), {0})}
    for owner in objects_in([script.module]):
        if not owner.is_custom:
            for slot, name in enumerate(owner.attributes):
                if not {(id(owner), slot), (0, slot)} & read:
                    owner.attributes[name] = None


def _forget_uncalled(script: Script) -> None:
    """Functions that no method calls, directly or not. A call by a method's name alone may mean any function of that name."""
    kept = [f for f in script.functions.values() if f.method is not None]
    called = {f.name for f in kept}
    for function in kept:  # grows while it is gone through
        for a in function.code:
            if a.op in ("call", "call_method"):
                found = [f for f in script.functions.values() if a.target in (f.name, f.name.rpartition(".")[2])]
                kept += [f for f in found if f.name not in called]
                called |= {f.name for f in found}
    script.functions = {name: f for name, f in script.functions.items() if name in called}
