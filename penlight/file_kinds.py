"""What kind of model file something is, told by its content: "pen", "zip" or "flatbuffer" (.ptl), "torchscript", "exported", "pickle".

The one place that decides it, for every command and every call; zip files are seen through the reader (archive.py) that all of them are
then read with, so that no two parts can take a file for different things. Bytecode goes first: what is read as data is never handed to
something that may run it because of what lies beside it. Reads names and first bytes only; needs no torch.
"""

from __future__ import annotations

import io
import mmap
import os
import zipfile
from typing import Any

import numpy as np

from penlight import magic
from penlight.archive import Archive
from penlight.errors import CaptureError, LoadError
from penlight.paths import check_path

WORDS = {
    "pen": "a .pen file", "zip": "a .ptl file of PyTorch Mobile", "flatbuffer": "a .ptl file of PyTorch Mobile (flatbuffer)",
    "torchscript": "TorchScript (torch.jit.save)", "exported": "an exported program (torch.export.save)",
    "pickle": "a pickle of torch.save, which holds no graph: load it into its nn.Module, and give that", "other": "something else",
}  # fmt: skip
OLD_EXPORTED = "serialized_exported_program.json"  # torch before 2.8 wrote it without a folder around the records
_MAX_FLAT_RECORDS = 1000
# As archive.py. Of others zipfile inflates all that there is, whatever it is asked for.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def file_kind(source: str | os.PathLike[str] | bytes) -> str:
    """One of WORDS."""
    data = mapped(source)
    head = data[:8].tobytes()
    if head == magic.PEN:
        return "pen"
    if head[4:8] == magic.FLATBUFFER:
        return "flatbuffer"
    if head[:2] != magic.ZIP[:2]:
        return "pickle" if data[: len(magic.PICKLE)].tobytes() == magic.PICKLE else "other"
    try:
        names = Archive(data).records
    except CaptureError:
        return "exported" if is_flat(data) else "other"
    if "bytecode.pkl" in names:
        return "zip"
    if any(name.startswith("models/") for name in names):
        return "exported"
    if any(name.startswith("code/") for name in names):
        return "torchscript"
    return "pickle" if "data.pkl" in names else "other"


def mapped(source: str | os.PathLike[str] | bytes) -> np.ndarray:
    """All bytes of a file, mapped."""
    if isinstance(source, bytes):
        return np.frombuffer(source, np.uint8)
    check_path(source)
    with open(source, "rb") as handle:
        try:
            return map_file(handle)
        except (OSError, ValueError) as e:  # not on every file system; too large; cut short just now
            raise LoadError(
                f"{os.fspath(source)!r}: expected a file that can be mapped into memory, got {e}", "io"
            ) from None


def map_file(handle: Any) -> np.ndarray:
    if os.fstat(handle.fileno()).st_size == 0:
        return np.empty(0, np.uint8)
    return np.frombuffer(mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)


def is_flat(data: np.ndarray) -> bool:
    """Whether it is an exported program of torch before 2.8."""
    try:
        return OLD_EXPORTED in flat_records(data)
    except CaptureError:
        return False


def flat_records(data: np.ndarray) -> dict[str, zipfile.ZipInfo]:
    """The records of a zip file without a folder around them."""
    try:
        with zipfile.ZipFile(io.BytesIO(data.data)) as archive:
            found = archive.infolist()
    except Exception as e:  # zipfile fails in any way on a damaged file
        raise CaptureError(f"this zip file cannot be read: {type(e).__name__}: {e}") from None
    if len(found) > _MAX_FLAT_RECORDS or len({r.filename for r in found}) != len(found):
        raise CaptureError(f"this zip file has {len(found)} records, or two of one name")
    return {record.filename: record for record in found}


def read_flat(data: np.ndarray, record: zipfile.ZipInfo, limit: int) -> bytes:
    """The bytes of one of them, at most `limit`."""
    if record.compress_type not in _METHODS:
        raise CaptureError(
            f"record {record.filename[:80]!r} has compression method {record.compress_type}; stored (0) and deflated (8) are read"
        )
    try:
        with zipfile.ZipFile(io.BytesIO(data.data)) as archive, archive.open(record) as handle:
            content = handle.read(limit + 1)
    except Exception as e:
        raise CaptureError(f"record {record.filename[:80]!r} cannot be read: {type(e).__name__}: {e}") from None
    if len(content) > limit:
        raise CaptureError(f"record {record.filename[:80]!r} inflates to more than {limit} bytes, out of proportion")
    return content
