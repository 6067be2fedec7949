"""Objects of TorchScript classes with __setstate__: its bytecode, run in Python, turns the state into attributes.

PyTorch's loader runs these methods too. They only take a tuple apart, compare numbers and store: what is needed for that is here,
with a limit of steps. An object whose method does more keeps its state, and whoever runs the program calls the method first.
Attributes get the numbers of their slots as names, since the file does not tell others.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penlight.capture.lite.packed import PREFIX, unpack
from penlight.capture.lite.program import Function, LiteProgram
from penlight.errors import CaptureError
from penlight.ir.values import ScriptObject, TypedDict, TypedList

_MAX_STEPS = 10_000
_MAX_SLOTS = 4096


class _CannotRunError(Exception):
    pass


def restore(value: ScriptObject, program: LiteProgram) -> bool:
    """Runs __setstate__ on an object that has a state; False where that takes more than is here."""
    function = program.functions.get(f"{value.type_name}.__setstate__")
    if function is None or value.is_custom or not value.has_state:
        return False
    slots: dict[int, Any] = {}
    try:
        _run(function, value, slots, program.path)
    except (_CannotRunError, IndexError, KeyError, TypeError, ValueError, AttributeError):
        return False
    value.attributes = {str(i): slots.get(i) for i in range(max(slots, default=-1) + 1)}
    value.state, value.has_state = None, False
    return True


def _run(function: Function, target: ScriptObject, slots: dict[int, Any], file: str) -> None:
    stack: list[Any] = [target, target.state]
    registers: dict[int, Any] = {}
    at = 0
    for _ in range(_MAX_STEPS):
        step = function.instructions[at]
        at += 1
        op, x, n = step.op, step.x, step.n
        if op == "RET":
            return
        if op == "STOREN":
            for i in reversed(range(n)):
                registers[x + i] = stack.pop()
        elif op == "STORE":
            registers[x] = stack.pop()
        elif op == "LOAD":
            stack.append(registers[x])
        elif op == "MOVE":
            stack.append(registers.pop(x))
        elif op == "DROP":
            stack.pop()
        elif op == "DROPR":
            registers.pop(x, None)
        elif op == "LOADC":
            stack.append(function.constants[_index(x)])
        elif op == "JMP":
            at = _index(at - 1 + x)
        elif op == "JF":
            if not stack.pop():
                at = _index(at - 1 + x)
        elif op == "SET_ATTR":
            value, owner = stack.pop(), stack.pop()
            if owner is not target or not 0 <= x < _MAX_SLOTS:
                raise _CannotRunError
            slots[x] = value
        elif op == "GET_ATTR":
            owner = stack.pop()
            stack.append(slots[x] if owner is target else list(owner.attributes.values())[_index(x)])
        elif op == "TUPLE_CONSTRUCT":
            stack.append(tuple(_take(stack, x)))
        elif op == "TUPLE_SLICE":
            stack.append(stack.pop()[_index(x) : x + n])
        elif op in ("TUPLE_INDEX", "DICT_INDEX"):
            key, value = stack.pop(), stack.pop()
            stack.append(value[key])
        elif op == "LIST_UNPACK":
            values = stack.pop()
            if len(values) != x:
                raise _CannotRunError
            stack.extend(values)
        elif op == "LIST_CONSTRUCT":
            stack.append(TypedList(_take(stack, n), function.types[_index(x)]))
        elif op == "DICT_CONSTRUCT":
            items = _take(stack, n)
            stack.append(TypedDict(zip(items[::2], items[1::2], strict=True), function.types[_index(x)]))
        elif op in ("__IS__", "__ISNOT__"):
            b, a = stack.pop(), stack.pop()
            stack.append((a is b) == (op == "__IS__"))
        elif op == "__NOT__":
            stack.append(not stack.pop())
        elif op == "UNCHECKED_CAST":
            pass
        elif op in ("OP", "OPN"):
            _call(function.operators[_index(x)].full_name, stack, file)
        else:
            raise _CannotRunError
    raise _CannotRunError


def _index(x: int) -> int:
    if x < 0:
        raise IndexError
    return x


def _take(stack: list[Any], count: int) -> list[Any]:
    if not 0 <= count <= len(stack):
        raise IndexError
    taken = stack[len(stack) - count :]
    del stack[len(stack) - count :]
    return taken


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
_PREPACK = {f"quantized::conv{t}{n}d_prepack": (n, bool(t)) for t in ("", "_transpose") for n in (1, 2, 3)}


def _call(name: str, stack: list[Any], file: str) -> None:
    base, _, overload = name.partition(".")
    if name == "prim::TupleUnpack":
        stack.extend(_tuple(stack.pop()))
    elif name == "prim::TupleIndex":
        key, value = stack.pop(), stack.pop()
        stack.append(_tuple(value)[key])
    elif name in ("prim::unchecked_cast", "prim::unchecked_unwrap_optional"):
        pass
    elif name in ("aten::__is__", "aten::__isnot__"):
        b, a = stack.pop(), stack.pop()
        stack.append((a is b) == (name == "aten::__is__"))
    elif name == "aten::__not__":
        stack.append(not stack.pop())
    elif base == "aten::__getitem__":
        key, value = stack.pop(), stack.pop()
        if not isinstance(value, (list, dict)):
            raise _CannotRunError
        stack.append(value[key])
    elif base.removeprefix("aten::") in _COMPARE and overload in ("int", "float", "str", "bool"):
        b, a = stack.pop(), stack.pop()
        stack.append(_COMPARE[base.removeprefix("aten::")](a, b))
    elif name in ("quantized::linear_prepack", "quantized::linear_prepack_fp16"):
        stack.append(_packed("quantized.LinearPackedParamsBase", tuple(_take(stack, 2)), file))
    elif name in _PREPACK:
        rank, transposed = _PREPACK[name]
        stack.append(_packed_conv(rank, transposed, _take(stack, 7 if transposed else 6), file))
    else:
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
