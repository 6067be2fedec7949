"""A TorchScript file → the bytes of one that torch may open: only what was read and checked here, in an archive of its own.

torch runs code while it loads a file: __setstate__ of classes, with all of its operators. So it gets a file only when the reader here has
run each of them, within its limits, and when all text that it compiles passes penlight/capture/source/computes.py. Records that nobody here
reads are left out (torch unpickles some of them), and so are names that differ in case only: torch finds records whatever their case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from penlight.archive import Archive
from penlight.capture.lite.read import objects_in
from penlight.capture.source import SourceProgram
from penlight.capture.source.computes import NotPlainError, check_texts
from penlight.capture.trust import is_packed_class, untrusted

_READ = re.compile(
    r"(data|constants)\.pkl|(data|constants)/.*|code/.*\.py|\.data/[a-z_]+|version|byteorder|\.[a-z_]+", re.DOTALL
)


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


def _check_code(archive: Archive, names: Iterable[str], file: str) -> None:
    texts = {name: archive.read(name) for name in names}
    for text in texts.values():
        archive.budget.step(len(text))
    try:
        check_texts(texts.values())
    except NotPlainError as e:
        raise untrusted(f"{file}: torch would compile code of this file, and {e}") from None
