"""Files put together by hand: pickles of chosen opcodes, archives of chosen records, programs of a few instructions."""

from __future__ import annotations

import io
import pickle
import pickletools
import struct
import zipfile
from typing import Any

START, STOP = b"\x80\x02", b"."


def pickled(value: Any) -> bytes:
    """Plain values, in opcodes that torch's pickler uses too."""
    return pickletools.optimize(pickle.dumps(value, 2))


def text(value: str) -> bytes:
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def integer(value: int) -> bytes:
    return b"K" + bytes([value]) if 0 <= value < 256 else b"\x8a\x08" + struct.pack("<q", value)


def name(module: str, leaf: str) -> bytes:
    return f"c{module}\n{leaf}\n".encode()


def integers(values: tuple[int, ...]) -> bytes:
    return b"(" + b"".join(map(integer, values)) + b"t"


def storage(key: str, count: int, kind: str = "FloatStorage") -> bytes:
    return b"(" + text("storage") + name("torch", kind) + text(key) + text("cpu") + integer(count) + b"tQ"


def tensor(
    key: str, count: int, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0, **kind: str
) -> bytes:
    hooks = name("collections", "OrderedDict") + b")R"
    head = name("torch._utils", "_rebuild_tensor_v2") + b"(" + storage(key, count, **kind)
    return head + integer(offset) + integers(shape) + integers(strides) + b"\x89" + hooks + b"tR"


def module(attributes: dict[str, bytes], type_name: str = "M") -> bytes:
    items = b"".join(text(k) + v for k, v in attributes.items())
    return name("__torch__", type_name) + b")\x81}(" + items + b"ub"


def code(
    instructions: tuple[Any, ...] = (("RET", 0, 0),),
    operators: Any = (),
    constants: Any = (),
    types: Any = (),
    registers: Any = 1,
) -> tuple[Any, ...]:
    fields = ("instructions", instructions), ("operators", operators), ("constants", constants), ("types", types)
    return (*fields, ("register_size", registers))


def schema(*arguments: tuple[str, str]) -> tuple[Any, ...]:
    rows = tuple((("name", n), ("type", t), ("default_value", None)) for n, t in arguments)
    return ("arguments", rows), ("returns", ())


def function(code_table: Any = None, qualified: str = "__torch__.M.forward") -> tuple[Any, ...]:
    return qualified, code() if code_table is None else code_table, schema(("self", "__torch__.M"))


def archive(records: dict[str, bytes], method: int = zipfile.ZIP_STORED, root: str = "m") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as target:
        for record, content in records.items():
            target.writestr(f"{root}/{record}", content)
    return out.getvalue()


def program(
    *,
    version: int = 8,
    functions: tuple[Any, ...] | None = None,
    bytecode: bytes | None = None,
    data: bytes | None = None,
    **records: bytes,
) -> bytes:
    """A whole file, of which the arguments replace parts."""
    table = (version, *(functions if functions is not None else (function(),)))
    parts = {
        "version": b"3\n",
        "data.pkl": START + (data if data is not None else module({"training": b"\x89"})) + STOP,
        "bytecode.pkl": bytecode if bytecode is not None else pickled(table),
    }
    return archive({**parts, **{k.replace("__", "/"): v for k, v in records.items()}})
