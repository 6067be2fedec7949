"""The instructions of lite-interpreter code, by the numbers that flatbuffer files give them, and the limits of a function."""

from __future__ import annotations

from penlight.capture.lite.program import Instruction
from penlight.errors import CaptureError

MIN_VERSION, MAX_VERSION = 4, 9  # of the bytecode
MAX_OPERATOR_VERSION = 10
MAX_REGISTERS = 1 << 20
MAX_INSTRUCTIONS = 1 << 20  # of all functions

# The place in this row is the number in a flatbuffer file.
_ROW = """OP OPN LOAD MOVE STOREN STORE DROP DROPR LOADC JF JMP LOOP RET WAIT CALL GUARD TYPECHECK FAIL_GUARD PROFILE_OP TAIL_CALL
INTERFACE_CALL GET_ATTR SET_ATTR LIST_UNPACK TUPLE_CONSTRUCT NAMED_TUPLE_CONSTRUCT LIST_CONSTRUCT DICT_CONSTRUCT CREATE_OBJECT
ISINSTANCE TUPLE_SLICE TUPLE_INDEX RAISE_EXCEPTION DICT_INDEX UNCHECKED_CAST __IS__ UN_INITIALIZED __ISNOT__ FORMAT DEVICE DTYPE
DIM __NOT__ TO_LIST NUM_TO_TENSOR IS_CUDA FORK WARN ENTER EXIT AWAITABLE"""
NAMES = tuple(_ROW.split())
_FULL_PYTORCH = {
    "WAIT",
    "GUARD",
    "TYPECHECK",
    "FAIL_GUARD",
    "PROFILE_OP",
    "TAIL_CALL",
    "FORK",
    "ENTER",
    "EXIT",
    "AWAITABLE",
}
_SUPPORTED = frozenset(NAMES) - _FULL_PYTORCH


def instruction(where: str, op: object, x: object, n: object) -> Instruction:
    if not isinstance(op, str) or op not in _SUPPORTED:
        known = isinstance(op, str) and op in _FULL_PYTORCH
        raise CaptureError(
            f"{where}: {op} is not supported in mobile module." if known else f"{where}: unknown instruction {op!r:.60}"
        )
    if type(x) is not int or type(n) is not int or not -(2**31) <= x < 2**31 or not 0 <= n < 2**16:
        raise CaptureError(f"{where}: {op} with the operands {x!r:.60} and {n!r:.60}")
    return Instruction(op, x, n)


def check_version(where: str, version: int) -> int:
    if not MIN_VERSION <= version <= MAX_VERSION:
        raise CaptureError(
            f"{where}: Lite Interpreter version number does not match. The model version must be between {MIN_VERSION} and "
            f"{MAX_VERSION} but the model version is {version}"
        )
    return version


def check_operator_version(where: str, version: int) -> int:
    if not 1 <= version <= MAX_OPERATOR_VERSION:
        raise CaptureError(
            f"{where}: its operators have version {version}; versions 1 to {MAX_OPERATOR_VERSION} are known. A newer Penlight may "
            "know it; else save the model again with an older PyTorch"
        )
    return version


def check_size(where: str, count: int) -> None:
    if count > MAX_INSTRUCTIONS:
        raise CaptureError(f"{where}: {count} instructions; at most {MAX_INSTRUCTIONS} are read")


def check_registers(where: str, count: object) -> int:
    if type(count) is not int or not 0 <= count <= MAX_REGISTERS:
        raise CaptureError(f"{where}: {count!r:.60} registers; at most {MAX_REGISTERS} are possible")
    return count
