"""Where values in stack bytecode come from: enough to see that code writes into an input, or branches on data.

Every instruction is visited once, both ways at a branch, with a set of tags for each value on the stack and in the registers:
"input NAME" (the argument itself or a view of it), "data" (a number read out of a tensor), "shape" (a size or rank), "attribute NAME".
A fresh tensor has none. Needs the operators' schemas to know how much they pop and push; where one is not known, the walk ends
there: what was found so far is true all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from penlight.capture.lite.program import Function

Tags = frozenset[str]
NONE: Tags = frozenset()

VIEWS = {
    "slice", "select", "view", "view_as", "reshape", "transpose", "permute", "t", "unsqueeze", "squeeze", "expand", "expand_as", "narrow",
    "detach", "alias", "flatten", "contiguous", "diagonal", "unfold", "as_strided", "swapaxes", "swapdims", "movedim", "to", "real", "imag",
}  # fmt: skip
READS_DATA = {"Bool", "Int", "Float", "item", "is_nonzero", "ScalarImplicit", "IntImplicit", "FloatImplicit", "equal", "allclose"}
READS_SHAPE = {"size", "dim", "len", "numel", "stride", "shape"}
_POPS_1_PUSHES_1 = {"GET_ATTR", "TUPLE_SLICE", "ISINSTANCE", "UNCHECKED_CAST", "DEVICE", "DTYPE", "DIM", "__NOT__", "NUM_TO_TENSOR", "IS_CUDA"}  # fmt: skip
_POPS_2_PUSHES_1 = {"TUPLE_INDEX", "DICT_INDEX", "__IS__", "__ISNOT__"}
_POPS_N_PUSHES_1 = {"LIST_CONSTRUCT", "TUPLE_CONSTRUCT", "NAMED_TUPLE_CONSTRUCT", "DICT_CONSTRUCT", "FORMAT"}


@dataclass(frozen=True)
class Step:
    """An instruction, and the tags of what it takes off the stack."""

    at: int
    op: str
    operator: str  # full name, for OP and OPN
    taken: tuple[Tags, ...]


Counts = Callable[[str], tuple[int, int] | None]  # operator -> how many arguments and results


def steps(function: Function, counts: Counts, callees: dict[str, Function]) -> Iterator[Step]:
    """The steps of a function that can be reached, in no particular order."""
    names = [a.name for a in function.arguments] if function.arguments else []
    count = _argument_count(function)
    start = tuple(
        frozenset({f"input {names[i] if i < len(names) else i}"}) if i else NONE for i in range(count)
    )  # argument 0 is self
    pending: list[tuple[int, tuple[Tags, ...], dict[int, Tags]]] = [(0, start, {})]
    seen: set[int] = set()
    while pending:
        at, stack_at, registers = pending.pop()
        stack, registers = list(stack_at), dict(registers)
        while 0 <= at < len(function.instructions) and at not in seen:
            seen.add(at)
            try:
                step, successors = _advance(function, at, stack, registers, counts, callees)
            except (IndexError, KeyError, _UnknownError):
                break
            yield step
            if not successors:
                break
            for other, other_stack in successors[1:]:
                pending.append((other, tuple(other_stack), dict(registers)))
            at, stack = successors[0]


class _UnknownError(Exception):
    pass


def _argument_count(function: Function) -> int:
    if function.arguments is not None:
        return len(function.arguments)
    first = function.instructions[0] if function.instructions else None
    return first.n if first is not None and first.op == "STOREN" else 1


def _advance(
    function: Function, at: int, stack: list[Tags], registers: dict[int, Tags], counts: Counts, callees: dict[str, Function]
) -> tuple[Step, list[tuple[int, list[Tags]]]]:
    """Executes one instruction on `stack` and `registers`; the step, and where it goes on with which stack."""
    instruction = function.instructions[at]
    op, x, n = instruction.op, instruction.x, instruction.n
    name = ""

    def pop(number: int) -> tuple[Tags, ...]:
        if number > len(stack) or number < 0:
            raise _UnknownError
        taken = tuple(stack[len(stack) - number :])
        del stack[len(stack) - number :]
        return taken

    taken: tuple[Tags, ...] = ()
    going_on: list[tuple[int, list[Tags]]] | None = None
    if op in ("OP", "OPN"):
        operator = function.operators[x]
        name = operator.full_name
        found = counts(name)
        arguments = n if op == "OPN" else operator.arg_count if operator.arg_count is not None else found and found[0]
        if arguments is None or (found is None and op == "OPN"):
            raise _UnknownError
        taken = pop(arguments)
        stack += [_result(name, taken)] * (found[1] if found else 1)
    elif op in ("LOAD", "MOVE"):
        stack.append(registers.get(x, NONE))
    elif op == "STORE":
        (registers[x],) = taken = pop(1)
    elif op == "STOREN":
        taken = pop(n)
        registers.update({x + i: tags for i, tags in enumerate(taken)})
    elif op == "DROP":
        taken = pop(1)
    elif op in ("LOADC", "CREATE_OBJECT", "UN_INITIALIZED"):
        stack.append(NONE)
    elif op == "JF":
        taken = pop(1)
        going_on = [(at + 1, stack), (at + x, list(stack))]
    elif op == "JMP":
        going_on = [(at + x, stack)]
    elif op == "LOOP":
        taken = tuple(stack[-(n + 1) :])
        if len(taken) != n + 1:
            raise _UnknownError
        after = stack[: len(stack) - n - 1] + list(taken[3:])
        going_on = [(at + 1, stack), (at + x, after)]
    elif op == "RET":
        going_on = []
    elif op == "RAISE_EXCEPTION":
        going_on = []
    elif op == "SET_ATTR":
        taken = pop(2)
    elif op in _POPS_N_PUSHES_1:
        taken = pop(n)
        stack.append(NONE)
    elif op in _POPS_1_PUSHES_1:
        taken = pop(1)
        kept = taken[0] if op in ("UNCHECKED_CAST", "TUPLE_SLICE", "__NOT__") else frozenset({"shape"}) if op == "DIM" else NONE
        stack.append(kept)
    elif op in _POPS_2_PUSHES_1:
        taken = pop(2)
        stack.append(NONE)
    elif op == "TO_LIST":
        taken = pop(3)
        stack.append(frozenset({"data"}))
    elif op == "LIST_UNPACK":
        taken = pop(1)
        stack += [taken[0]] * x
    elif op == "WARN":
        taken = pop(1)
    elif op == "CALL":
        callee = callees.get(function_name(function, x))
        if callee is None or callee.arguments is None:
            raise _UnknownError
        taken = pop(len(callee.arguments))
        stack.append(NONE)
    elif op == "INTERFACE_CALL":
        taken = pop(n)
        stack.append(NONE)
    elif op != "DROPR":
        raise _UnknownError
    return Step(at, op, name, taken), [(at + 1, stack)] if going_on is None else going_on


def function_name(function: Function, index: int) -> str:
    """Which function CALL calls: a constant holds its name."""
    value = function.constants[index] if 0 <= index < len(function.constants) else None
    return value if isinstance(value, str) else ""


def _result(name: str, taken: tuple[Tags, ...]) -> Tags:
    short = name.partition("::")[2].partition(".")[0]
    if short in READS_DATA:
        return frozenset({"data"})
    if short in READS_SHAPE:
        return frozenset({"shape"})
    if short in VIEWS or is_in_place(name):
        return taken[0] if taken else NONE
    # Arithmetic on numbers: as its arguments; on tensors: a new one.
    return frozenset(tag for tags in taken for tag in tags if tag in ("data", "shape"))


def is_in_place(name: str) -> bool:
    """aten::add_.Tensor, aten::copy_; not aten::__and__."""
    short = name.partition("::")[2].partition(".")[0]
    return short.endswith("_") and not short.startswith("__")
