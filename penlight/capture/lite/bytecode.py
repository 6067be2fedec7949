"""The zip container, versions 4 to 8: bytecode.pkl, constants, state, debug information → LiteProgram.

bytecode.pkl = (version, (name, code, schema), …), where code and schema are rows of (field, value) in a fixed order. Tensors among
the constants lie under bytecode/, or, since version 5, under constants/.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from penlight.archive import Archive
from penlight.capture.lite.instructions import (
    check_operator_version,
    check_registers,
    check_size,
    check_version,
    instruction,
)
from penlight.capture.lite.program import Argument, Function, LiteProgram, Operator
from penlight.capture.lite.sources import read_modules, read_sources
from penlight.capture.lite.unpickle import unpickle
from penlight.errors import CaptureError
from penlight.ir.values import ScriptObject, Storage


def read_zip(archive: Archive, file: str) -> LiteProgram:
    """Everything in an archive, as it stands there: states of objects are not unpacked, operators not upgraded."""
    version = bytecode_version(archive, file)
    check_version(file, version)
    check_byte_order(archive, file)
    storages: dict[str, Storage] = {}
    constants = "bytecode/" if any(n.startswith("bytecode/") for n in archive.records) else "constants/"
    table = unpickle(
        archive.read("bytecode.pkl"), f"{file}: bytecode.pkl", storages_in(archive, constants, storages), archive.budget
    )
    table = _tuple(table, f"{file}: bytecode.pkl")
    sources, modules = read_sources(archive, file), read_modules(archive, file)
    functions: dict[str, Function] = {}
    size = 0
    for entry in table[1:]:
        function = _function(entry, version, file, size)
        size += len(function.instructions)
        if function.name in functions:
            raise CaptureError(f"{file}: two functions have the name {function.name}")
        lines = sources.get(function.name)
        of = modules.get(function.name)
        if lines is None and of and len(of) == len(function.operators):
            lines = [of[s.x] if s.op == "OP" and 0 <= s.x < len(of) else "" for s in function.instructions]
        function.sources = lines if lines is not None and len(lines) == len(function.instructions) else None
        functions[function.name] = function
    module = unpickle(
        archive.read("data.pkl"), f"{file}: data.pkl", storages_in(archive, "data/", storages), archive.budget
    )
    if not isinstance(module, ScriptObject):
        raise CaptureError(f"{file}: data.pkl holds {type(module).__name__}, expected a module")
    return LiteProgram(
        "zip", version, operator_version(archive, file), functions, module, archive.extra_files(), file, archive.budget
    )


def bytecode_version(archive: Archive, file: str) -> int:
    """The version that bytecode.pkl gives itself; 3 where it gives none."""
    if "bytecode.pkl" not in archive:
        raise CaptureError(
            f"{file} has no bytecode: it is a TorchScript file for the full PyTorch. Open it with torch installed "
            "(torch.jit.load), or save it with _save_for_lite_interpreter"
        )
    data = archive.read("bytecode.pkl")
    at = 3 if data[2:3] == b"(" else 2  # torch marks the start of tuples of more than three
    size = {0x4B: 2, 0x4D: 3, 0x4A: 5, 0x8A: 10}.get(data[at] if len(data) > at else 0)
    return unpickle(data[:2] + data[at : at + size] + b".", f"{file}: bytecode.pkl") if size else 3


def operator_version(archive: Archive, file: str) -> int:
    name = "version" if "version" in archive else ".data/version"
    text = archive.read(name)[:20].strip()
    if not text.isdigit():
        raise CaptureError(f"{file}: its record {name!r} holds {text!r}, expected a number")
    return check_operator_version(file, int(text))


def check_byte_order(archive: Archive, file: str) -> None:
    if "byteorder" in archive and archive.read("byteorder") != b"little":
        raise CaptureError(f"{file} was saved on a big-endian machine: save it again on a little-endian one")


def storages_in(archive: Archive, folder: str, known: dict[str, Storage]) -> Callable[[str], Storage]:
    def find(key: str) -> Storage:
        name = folder + key
        if key.startswith(folder) and name not in archive:  # version 5 writes the folder into the key
            name = key
        if name not in known:
            known[name] = Storage(archive.view(name), name)
        return known[name]

    return find


def _function(entry: Any, version: int, file: str, size_before: int) -> Function:
    parts = _tuple(entry, f"{file}: bytecode.pkl: a function")
    if not 2 <= len(parts) <= 3 or not isinstance(parts[0], str):
        raise CaptureError(f"{file}: bytecode.pkl: a function is no (name, code, schema)")
    name = parts[0]
    where = f"{file}: {name}"
    code = _rows(parts[1], where, "instructions", "operators", "constants", "types", "register_size")
    arguments = returns = None
    if len(parts) == 3:  # optional in version 4
        schema = _rows(parts[2], where, "arguments", "returns")
        arguments, returns = (_arguments(schema[field], where) for field in ("arguments", "returns"))
    elif version > 4:
        raise CaptureError(f"{where} has no schema")
    instructions = []
    check_size(where, size_before + len(_tuple(code["instructions"], where)))
    for row in code["instructions"]:
        if not isinstance(row, tuple) or len(row) != 3:
            raise CaptureError(f"{where}: an instruction is no (name, X, N)")
        instructions.append(instruction(where, *row))
    types = list(_tuple(code["types"], where))
    if not all(isinstance(t, str) for t in types):
        raise CaptureError(f"{where}: a type is no text")
    return Function(
        name,
        instructions,
        [_operator(row, where) for row in _tuple(code["operators"], where)],
        list(_tuple(code["constants"], where)),
        [spaced(t) for t in types],
        check_registers(where, code["register_size"]),
        arguments,
        returns,
    )


def _operator(row: Any, where: str) -> Operator:
    name, overload, *rest = row if isinstance(row, tuple) and 2 <= len(row) <= 3 else (None, None)
    count = rest[0] if rest else None
    if not isinstance(name, str) or not isinstance(overload, str) or not (count is None or type(count) is int):
        raise CaptureError(f"{where}: an operator is no (name, overload, number of arguments)")
    return operator(where, name, overload, count)


def operator(where: str, name: str, overload: str, count: int | None) -> Operator:
    """A checked operator; a count of -1 is none."""
    if count is not None and not -1 <= count < 1 << 16:
        raise CaptureError(f"{where}: operator {name} takes {count} arguments")
    return Operator(name, overload, None if count == -1 else count)


def spaced(type_name: str) -> str:
    """A type as the newer writers print it: "Dict[str, int]", where older ones leave out the space."""
    return re.sub(r",(?! )", ", ", type_name)


def argument(name: str, type_name: str, default: Any) -> Argument:
    """Files write None for arguments without a default, and for those whose default is None: the latter are Optional."""
    type_name = spaced(type_name)
    return Argument(name, type_name, default, default is not None or type_name.startswith(("Optional[", "NoneType")))


def _arguments(rows: Any, where: str) -> list[Argument]:
    result = []
    for row in _tuple(rows, where):
        fields = _rows(row, where, "name", "type", "default_value")
        if not isinstance(fields["name"], str) or not isinstance(fields["type"], str):
            raise CaptureError(f"{where}: an argument's name or type is no text")
        result.append(argument(fields["name"], fields["type"], fields["default_value"]))
    return result


def _rows(table: Any, where: str, *fields: str) -> dict[str, Any]:
    """(("a", 1), ("b", 2)) as {"a": 1, "b": 2}; all of `fields` are there, in this order."""
    rows = _tuple(table, where)
    if len(rows) < len(fields):
        raise CaptureError(f"{where}: its table lacks {', '.join(fields[len(rows) :])}")
    for row, field in zip(rows, fields, strict=False):
        if not isinstance(row, tuple) or len(row) != 2 or row[0] != field:
            raise CaptureError(f"{where}: expected ({field!r}, …) in its table")
    return {row[0]: row[1] for row in rows[: len(fields)]}


def _tuple(value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, tuple):
        raise CaptureError(f"{where}: {type(value).__name__} where a tuple is expected")
    return value
