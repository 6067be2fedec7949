"""Zip files that are the same bytes every time: contents by name in, a file out, in which what an app ships begins on a page."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Mapping

PAGE = 16384  # what Android maps at a time, at most
_PADDING = 0xD935  # the extra field of a zip entry that Android's own tools pad with
_ENTRY_HEAD = 30  # bytes before the name of a zip entry
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first day a zip knows


def jar(classes: Mapping[str, bytes]) -> bytes:
    """Class files, as Java takes them."""
    return packed({"META-INF/MANIFEST.MF": b"Manifest-Version: 1.0\r\n\r\n", **classes})


def packed(contents: Mapping[str, bytes]) -> bytes:
    """A zip, by name, dated the same always."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(contents.items()):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o100644 << 16
            entry.create_system = 3  # as on Linux, wherever this runs
            entry.compress_type = zipfile.ZIP_DEFLATED
            if name.startswith("jni/"):
                entry.compress_type = zipfile.ZIP_STORED
                entry.extra = _padding(made.tell() + _ENTRY_HEAD + len(name.encode()))
            archive.writestr(entry, data)
            entry.extra = b""  # it counts before the data; the directory at the end need not repeat it
    return made.getvalue()


def _padding(at: int) -> bytes:
    """An extra field at `at` after which a page begins."""
    head = struct.calcsize("<HHH")
    zeros = -(at + head) % PAGE
    return struct.pack("<HHH", _PADDING, 2 + zeros, PAGE) + bytes(zeros)
