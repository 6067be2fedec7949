"""A TorchScript file → the bytes of one that torch may open: only what was read and checked here, in an archive of its own.

torch runs code while it loads a file: __setstate__ of classes, with all of its operators. So it gets a file only when the reader here has
run each of them, within its limits, and when all text that it compiles passes penlight/capture/source/computes.py. Records that nobody here
reads are left out (torch unpickles some of them), and so are names that differ in case only: torch finds records whatever their case.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from penlight.archive import Archive
from penlight.capture.lite.read import objects_in
from penlight.capture.source import SourceProgram
from penlight.capture.source.computes import NotPlainError, check_texts
from penlight.capture.trust import is_packed_class, untrusted
from penlight.errors import CaptureError

_READ = re.compile(
    r"(data|constants)\.pkl|(data|constants)/.*|code/.*\.py|\.data/[a-z_]+|version|byteorder|\.[a-z_]+", re.DOTALL
)
_ARENA = ("torchscriptArena", "torchscript_arena")
_DEBUG = ("torchscriptDebugArena", "torchscript_debug_arena")
_STATE = ("getStateAttributeId", "get_state_attribute_id")
_MAX_DEPTH = 100


def clean(program: SourceProgram) -> bytes:
    """Raises UntrustedError, with the reason, where torch might do more than compute, or CaptureError where the file cannot be read."""
    archive, file = program.archive, program.file
    names = [name for name in archive.records if _READ.fullmatch(name)]
    _check_code(archive, [n for n in names if n.startswith("code/")], file)
    script = program.script()  # runs each __setstate__, or raises
    module, constants = program.state()
    for value in objects_in([module, *constants, script.module]):
        if not is_packed_class(value.type_name):
            raise untrusted(
                f"{file}: it has an object of class {value.type_name[:80]}, which is made by code of torch or of an extension"
            )
    return archive.packed({name: archive.read(name) for name in names})


def clean_legacy(archive: Archive, file: str) -> bytes:
    """The same of a file of PyTorch before 1.4. Only torch reads its pickles, so nothing in it may run while they are read."""
    table = _json(archive, file)
    code: list[str] = []
    _walk(table, code, file, 0)
    code += [name for name in archive.records if name.endswith(".py")]
    code = list(dict.fromkeys(code))
    _check_code(archive, code, file, may_restore=False)
    if "attributes.pkl" in archive and b"classes" in archive.read("attributes.pkl"):
        raise untrusted(f"{file}: attributes.pkl may have objects that are made by code of torch or of an extension")
    records = {name: archive.read(name) for name in archive.records if not name.endswith(".debug_pkl")}
    return archive.packed(records | {"model.json": json.dumps(table).encode()})


def _check_code(archive: Archive, names: Iterable[str], file: str, may_restore: bool = True) -> None:
    texts = {name: archive.read(name) for name in names}
    for text in texts.values():
        archive.budget.step(len(text))
    try:
        check_texts(texts.values(), may_restore)
    except NotPlainError as e:
        raise untrusted(f"{file}: torch would compile code of this file, and {e}") from None


def _json(archive: Archive, file: str) -> Any:
    try:
        return archive.budget.json(archive.read("model.json"))
    except (ValueError, RecursionError, MemoryError) as e:
        raise CaptureError(f"{file}: model.json is no JSON: {str(e)[:200]}") from None


def _walk(value: Any, code: list[str], file: str, depth: int) -> None:
    """Records with code; source ranges, which nobody needs, are taken out."""
    if depth > _MAX_DEPTH:
        raise CaptureError(f"{file}: model.json is nested deeper than {_MAX_DEPTH}")
    if isinstance(value, dict):
        for name in _DEBUG:
            value.pop(name, None)
        for name, item in value.items():
            if name in _STATE:
                raise untrusted(f"{file}: it has a module with __setstate__, which torch runs while it loads the file")
            if name in _ARENA:
                key = item.get("key") if isinstance(item, dict) else None
                if not isinstance(key, str):
                    raise CaptureError(f"{file}: model.json names no record with the code of a module")
                code.append(key)
            _walk(item, code, file, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _walk(item, code, file, depth + 1)
