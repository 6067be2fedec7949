"""Any PyTorch Mobile file → LiteProgram; the container is told by its first bytes. Files are mapped, weights not read."""

from __future__ import annotations

import io
import mmap
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import numpy as np

from penlight import magic
from penlight.archive import Archive
from penlight.capture.lite.bytecode import bytecode_version as zip_version
from penlight.capture.lite.bytecode import read_zip
from penlight.capture.lite.packed import PREFIX, unpack
from penlight.capture.lite.program import LiteProgram
from penlight.capture.lite.registers import translated
from penlight.capture.lite.restore import restore
from penlight.capture.lite.upgrade import name_in_file, upgrade
from penlight.errors import BudgetError, CaptureError
from penlight.file_kinds import is_flat, map_file, mapped
from penlight.ir.values import ScriptObject, ScriptTensor

Source = str | os.PathLike[str] | bytes | bytearray | memoryview | IO[bytes]

_MAX_PATH = 500  # characters of a name that lead to a tensor


def read(source: Source) -> LiteProgram:
    """The whole file. CaptureError says what is wrong with it, FileNotFoundError and the like that it cannot be opened."""
    data, file = opened(source)
    with _scattered(data):
        return _read(data, file)


def _read(data: np.ndarray, file: str) -> LiteProgram:
    container = _container(data, file)
    if container == "flatbuffer":
        from penlight.capture.lite.flatbuffer import read_flatbuffer

        program = read_flatbuffer(data, file)
    else:
        program = read_zip(Archive(data, file), file)
    _unpack_states(program)
    name_tensors(program.module)
    upgrade(program)
    return program


def extra_files(source: Source) -> dict[str, bytes]:
    """What was stored beside the model in a .ptl, .pt or .pt2 file."""
    data, file = opened(source)
    with _scattered(data):
        if bytes(data[:2]) == magic.ZIP[:2]:
            return {} if is_flat(data) else Archive(data, file).extra_files()
        return _read(data, file).extra_files


def bytecode_version(source: Source) -> int:
    """The version of the bytecode in a file, also of ones too old or too new to read; -1 where it is no such file."""
    data, file = opened(source)
    try:
        with _scattered(data):
            return _version(data, file)
    except CaptureError:
        return -1


def _version(data: np.ndarray, file: str) -> int:
    if _container(data, file) == "flatbuffer":
        from penlight.capture.lite.flatbuffer import flatbuffer_version

        return flatbuffer_version(data, file)
    return zip_version(Archive(data, file), file)


def operators(program: LiteProgram) -> dict[str, int | None]:
    """The operators that a program calls, by the full name in its file, each with how many arguments the code pushes: the most of
    all calls; None where the file leaves it to the operator's schema."""
    found: dict[str, int | None] = {}
    for function in program.functions.values():
        for operator in function.operators:
            name, count = name_in_file(operator), operator.arg_count
            known = found.get(name, 0)
            found[name] = None if known is None or count is None else max(known, count)
    return found


def contained_types(program: LiteProgram) -> set[str]:
    """The types in a program's tables, taken apart: "Dict[str, Tensor]" gives Dict, str and Tensor. TorchBind classes count with their
    full names, named tuples as NamedTuple."""
    found: set[str] = set()
    for function in program.functions.values():
        for text in function.types:
            found |= _types_in(text)
    return found


def _types_in(text: str) -> set[str]:
    """A named tuple is "__torch__.N[NamedTuple, [[field, type], ...]]"; the names of its fields are no types."""
    words = re.findall(r"[A-Za-z_][\w.]*|[\[\],]", text)
    found = set()
    for i, word in enumerate(words):
        if word in "[],":
            continue
        is_field = words[i - 2 : i] in (["[", "["], [",", "["]) and words[i + 1 : i + 2] == [","]
        if not is_field and (not word.startswith("__torch__.") or word.startswith(PREFIX)):
            found.add(word)
    return found


def opened(source: Source) -> tuple[np.ndarray, str]:
    """All bytes of a file, mapped where possible, and a name for messages."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return np.frombuffer(source, np.uint8), "the model"
    if isinstance(source, (str, os.PathLike)):
        return mapped(source), os.path.basename(os.fsdecode(source))
    name = getattr(source, "name", "")
    file = os.path.basename(name) if isinstance(name, str) and name else "the model"
    # Of a file that inflates what it reads (gzip's), the descriptor is that of the compressed one.
    if isinstance(source, io.BufferedReader) and isinstance(source.raw, io.FileIO):
        try:
            if source.tell() == 0:
                return map_file(source), file
        except (OSError, ValueError):  # a pipe; or it cannot be mapped
            pass
    return np.frombuffer(source.read(), np.uint8), file


@contextmanager
def _scattered(data: np.ndarray) -> Iterator[None]:
    """Headers lie between the weights, all over the file: while only those are read, the system should neither read ahead nor
    keep what lies around them."""
    mapped = data.base.obj if isinstance(data.base, memoryview) else data.base
    if not isinstance(mapped, mmap.mmap) or not hasattr(mapped, "madvise") or not hasattr(mmap, "MADV_RANDOM"):
        yield
        return
    mapped.madvise(mmap.MADV_RANDOM)
    try:
        yield
    finally:
        mapped.madvise(mmap.MADV_DONTNEED)
        mapped.madvise(mmap.MADV_NORMAL)


def _container(data: np.ndarray, file: str) -> str:
    head = data[:8].tobytes()
    if head[4:8] == magic.FLATBUFFER:
        return "flatbuffer"
    if head[:4] == magic.ZIP:
        return "zip"
    raise CaptureError(
        f"{file} is not a PyTorch Mobile file: it starts with {head.hex(' ') or 'nothing'}; expected 'PK' (zip), or 'PTMF' at "
        "byte 4 (flatbuffer)"
    )


def _unpack_states(program: LiteProgram) -> None:
    functions = program.functions.values()
    objects = objects_in([program.module, *(c for f in functions for c in f.constants)])
    for value in objects:
        if value.has_state and not value.is_custom and f"{value.type_name}.__setstate__" not in program.functions:
            raise CaptureError(
                f"{program.path}: an object of class {value.type_name} was saved by __getstate__, but the file has no __setstate__ "
                "for it"
            )
        unpack(value, program.path)
    for value in objects:
        if not value.has_state or value.is_custom:
            continue
        try:
            function, constants = translated(program, program.functions[f"{value.type_name}.__setstate__"])
        except BudgetError:
            raise
        except CaptureError:  # broken code: the object keeps its state, as one whose method does too much
            continue
        restore(value, function, constants, program.path, program.budget)


def objects_in(values: list[Any]) -> list[ScriptObject]:
    """Every object in these, once."""
    seen: set[int] = set()
    found: list[ScriptObject] = []
    left = list(values)
    while left:
        value = left.pop()
        if not isinstance(value, (ScriptObject, list, tuple, dict)) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, ScriptObject):
            found.append(value)
            left += [*value.attributes.values(), value.state]
        else:
            left += [*value.values(), *value] if isinstance(value, dict) else value
    return found


def name_tensors(module: ScriptObject) -> None:
    """Tensors are named by the first path that leads to them."""
    seen: set[int] = set()

    def visit(value: Any, path: str) -> None:
        if isinstance(value, ScriptTensor):
            value.name = value.name or path
        if not isinstance(value, (ScriptObject, list, tuple, dict)) or id(value) in seen:
            return
        seen.add(id(value))
        prefix = f"{path[-_MAX_PATH:]}." if path else ""
        if isinstance(value, ScriptObject):
            for name, child in value.attributes.items():
                visit(child, prefix + name)
            if value.has_state:
                visit(value.state, path)
        else:
            for key, child in value.items() if isinstance(value, dict) else enumerate(value):
                visit(child, f"{prefix}{key}" if isinstance(key, (str, int)) else path)

    visit(module, "")
