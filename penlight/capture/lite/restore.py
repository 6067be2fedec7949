"""Objects of TorchScript classes with __setstate__: its register code, run in Python, turns the state into attributes.

PyTorch's loader runs these methods too. They only take a tuple apart, compare numbers and store: what is needed for that is here,
with a limit of steps. An object whose method does more keeps its state and has no attributes: code that reads one will fail.
Where the file does not tell the attributes' names, they get the numbers of their slots.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penlight.budget import Budget
from penlight.capture.lite.packed import PREFIX, unpack
from penlight.errors import CaptureError
from penlight.ir.script import Action, Const, ScriptFunction
from penlight.ir.values import ScriptObject, TypedDict, TypedList

_MAX_STEPS = 10_000
_MAX_SLOTS = 4096


class _CannotRunError(Exception):
    pass


def restore(
    value: ScriptObject,
    function: ScriptFunction,
    constants: list[Any],
    file: str,
    budget: Budget,
    names: list[str] | None = None,
) -> bool:
    """Runs __setstate__ on an object that has a state; False where that takes more than is here."""
    slots: dict[int, Any] = {}
    try:
        _run(function, constants, value, slots, file, budget)
        given = names or [str(i) for i in range(max(slots, default=-1) + 1)]
        value.attributes = {name: slots.get(i) for i, name in enumerate(given)}
    except (_CannotRunError, IndexError, KeyError, TypeError, ValueError, AttributeError):
        return False
    value.state, value.has_state = None, False
    return True


def _run(
    function: ScriptFunction,
    constants: list[Any],
    target: ScriptObject,
    slots: dict[int, Any],
    file: str,
    budget: Budget,
) -> None:
    registers: dict[int, Any] = {0: target, 1: target.state}
    at = 0
    for _ in range(_MAX_STEPS):
        action = function.code[at]
        at += 1
        budget.step(1 + len(action.args) + len(action.results))
        args = [constants[a.index] if isinstance(a, Const) else registers.get(a) for a in action.args]
        if action.op == "return":
            return
        if action.op == "jump" or (action.op == "branch" and not args[0]):
            at = action.target
        elif action.op == "set_attr":
            if args[0] is not target or not 0 <= action.target < _MAX_SLOTS:
                raise _CannotRunError
            slots[action.target] = args[1]
        elif action.op not in ("branch", "drop"):
            results = _results(action, args, target, slots, file)
            if action.op in ("list", "tuple", "dict") or isinstance(results[0] if results else None, (list, tuple)):
                made = results[0] if results else ()
                budget.step(len(made))
                budget.take(8 * len(made))
            registers.update(zip(action.results, results, strict=True))
    raise _CannotRunError


def _results(action: Action, args: list[Any], target: ScriptObject, slots: dict[int, Any], file: str) -> Any:
    match action.op:
        case "move":
            return args
        case "get_attr":
            owner = args[0]
            return [slots[action.target] if owner is target else list(owner.attributes.values())[action.target]]
        case "tuple" if action.target is None:
            return [tuple(args)]
        case "list":
            return [TypedList(args)]
        case "dict":
            if not all(map(is_plain, args[::2])):
                raise _CannotRunError
            return [TypedDict(zip(args[::2], args[1::2], strict=True))]
        case "unpack":
            return args[0]
        case "op":
            return [_call(action.target, args, file)]
    raise _CannotRunError


# Operators on numbers and text that Python has too, by name without overload; and the overloads that are theirs alone.
PLAIN_OPERATORS: dict[str, Callable[..., Any]] = {
    "aten::__not__": operator.not_, "aten::__is__": operator.is_, "aten::__isnot__": operator.is_not,
    **{f"aten::{name}": getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
}  # fmt: skip
BY_IDENTITY = ("aten::__not__", "aten::__is__", "aten::__isnot__")
PLAIN_OVERLOADS = ("", "int", "float", "str", "bool")
_PREPACK = {f"quantized::conv{t}{n}d_prepack": (n, bool(t)) for t in ("", "_transpose") for n in (1, 2, 3)}


def is_plain(value: Any) -> bool:
    """Numbers and text: to compare or hash others may take as long as a file likes, as parts of tuples are shared."""
    return value is None or isinstance(value, (bool, int, float, str))


def _call(name: str, args: list[Any], file: str) -> Any:
    base, _, overload = name.partition(".")
    if name == "prim::TupleIndex":
        return _tuple(args[0])[args[1]]
    if name == "prim::TupleSlice":
        return _tuple(args[0])[args[1] : args[2]]
    if base == "aten::__getitem__" and isinstance(args[0], (list, dict)) and is_plain(args[1]):
        return args[0][args[1]]
    if base in PLAIN_OPERATORS and overload in PLAIN_OVERLOADS:
        if base not in BY_IDENTITY and not all(map(is_plain, args)):
            raise _CannotRunError
        return PLAIN_OPERATORS[base](*args)
    if name in ("quantized::linear_prepack", "quantized::linear_prepack_fp16"):
        return _packed("quantized.LinearPackedParamsBase", tuple(args), file)
    if name in _PREPACK:
        return _packed_conv(*_PREPACK[name], args, file)
    raise _CannotRunError


def _packed_conv(rank: int, transposed: bool, arguments: list[Any], file: str) -> ScriptObject:
    """Of one dimension: as two with a height of 1."""
    weight, bias, stride, padding, *output_padding, dilation, groups = arguments
    rows = [stride, padding, dilation, *(output_padding or [[0] * rank])]
    if rank == 1:
        shape, strides = (list(t) for t in (weight.shape, weight.strides))
        shape.insert(2, 1)
        strides.insert(2, strides[2] * shape[3])
        weight = replace(weight, shape=tuple(shape), strides=tuple(strides))
        rows = [[fill, *row[-1:]] for fill, row in zip((1, 0, 1, 0), rows, strict=True)]
    dims = max(rank, 2)
    rows = [list(row) * dims if len(row) == 1 else list(row) for row in rows]
    numbers = [dims, *(n for row in rows for n in row), groups, int(transposed)]
    return _packed(f"quantized.Conv{dims}dPackedParamsBase", (3, numbers, [None, weight, bias]), file)


def _packed(name: str, state: Any, file: str) -> ScriptObject:
    made = ScriptObject(PREFIX + name, state=state, has_state=True)
    try:
        unpack(made, file)
    except CaptureError:
        raise _CannotRunError from None
    return made


def _tuple(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, tuple):
        raise _CannotRunError
    return value
