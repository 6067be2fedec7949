"""What kind of model file something is, told by its content: "pen", "zip" or "flatbuffer" (.ptl), "torchscript", "exported", "pickle".
Reads names and first bytes only; needs no torch."""

from __future__ import annotations

import io
import os
import zipfile

MAGIC = (
    b"\x89PEN\r\n\x1a\n"  # of a .pen file. A transfer that strips bits or rewrites line ends shows at once, as in PNG
)
WORDS = {
    "pen": "a .pen file", "zip": "a .ptl file of PyTorch Mobile", "flatbuffer": "a .ptl file of PyTorch Mobile (flatbuffer)",
    "torchscript": "TorchScript (torch.jit.save)", "exported": "an exported program (torch.export.save)",
    "pickle": "a pickle of torch.save, which holds no graph", "other": "something else",
}  # fmt: skip


def file_kind(source: str | os.PathLike[str] | bytes) -> str:
    """One of WORDS."""
    if isinstance(source, bytes):
        head = source[:8]
    else:
        with open(source, "rb") as file:
            head = file.read(8)
    if head[: len(MAGIC)] == MAGIC:
        return "pen"
    if head[4:8] == b"PTMF":
        return "flatbuffer"
    if head[:2] != b"PK":
        return "other"
    try:
        with zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source) as archive:
            names = [name.partition("/")[2] or name for name in archive.namelist()]
    except (zipfile.BadZipFile, OSError, ValueError):
        return "other"
    if "bytecode.pkl" in names:
        return "zip"
    if any(name.startswith("models/") or name == "serialized_exported_program.json" for name in names):
        return "exported"
    if any(name.startswith("code/") for name in names):
        return "torchscript"
    return "pickle" if "data.pkl" in names else "other"
