"""What a file says of itself, changed without compiling anew: another metadata section in front of the same tables and weights. And
extra files, which PyTorch stored beside a model's code: here they are part of the metadata."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from penlight.errors import InputError, LoadError
from penlight.file import format as f

EXTRA_FILES = "extra_files"  # key in the metadata


def stored_files(files: Mapping[str, str | bytes]) -> dict[str, Any]:
    """As JSON: text as it is, other bytes in base 64."""
    return {name: _stored(content) for name, content in files.items()}


def _stored(content: str | bytes) -> Any:
    if isinstance(content, str):
        return content
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise InputError(f"an extra file: expected text or bytes, got {type(content).__name__}")
    try:
        return bytes(content).decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def as_json(metadata: Mapping[str, Any], allow_nan: bool = True) -> bytes:
    """As a file has it. What UTF-8 has no bytes for is a question mark."""
    return json.dumps(dict(metadata), ensure_ascii=False, sort_keys=True, allow_nan=allow_nan).encode(
        "utf-8", "replace"
    )


def check_files(metadata: Mapping[str, Any]) -> None:
    """ValueError unless the extra files in it are such. (What is in base 64 is looked at when it is asked for: it may be large.)"""
    found = metadata.get(EXTRA_FILES, {})
    if not isinstance(found, dict) or not all(
        isinstance(
            content["base64"] if isinstance(content, dict) and len(content) == 1 and "base64" in content else content,
            str,
        )
        for content in found.values()
    ):
        raise ValueError(f"{EXTRA_FILES}: expected names with texts, or texts in base 64")


def extra_files(metadata: Mapping[str, Any]) -> dict[str, bytes]:
    """The files that `stored_files` put into a model's metadata."""
    found = metadata.get(EXTRA_FILES, {})
    try:
        return {
            name: base64.b64decode(content["base64"], validate=True)
            if isinstance(content, dict)
            else str(content).encode()
            for name, content in found.items()
        }
    except ValueError as e:
        raise LoadError(f"this file is damaged: an extra file is not in base 64 ({e})") from None


def with_metadata(image: np.ndarray, metadata: Mapping[str, Any]) -> np.ndarray:
    """A copy of a whole and valid file with this metadata in place of its own."""
    return with_sections(image, {"META": as_json(metadata) + b"\0"})


def sections(image: np.ndarray) -> dict[str, tuple[int, bytes]]:
    """Of a valid file: its sections in their order, each with the size of its records."""
    header = dict(zip((x.name for x in f.HEADER.fields), f.HEADER.struct.unpack_from(image.data), strict=True))
    found = {}
    for i in range(header["section_count"]):
        at = f.HEADER.size + i * f.SECTION.size
        row = dict(zip((x.name for x in f.SECTION.fields), f.SECTION.struct.unpack_from(image.data, at), strict=True))
        size = row["record_size"] * row["count"]
        found[row["id"].decode()] = row["record_size"], image[row["offset"] : row["offset"] + size].tobytes()
    return found


def with_sections(image: np.ndarray, new: Mapping[str, bytes]) -> np.ndarray:
    """A copy of a whole and valid file with these bytes in place of its own."""
    header = dict(zip((x.name for x in f.HEADER.fields), f.HEADER.struct.unpack_from(image.data), strict=True))
    table, parts = b"", []
    offset = f.HEADER.size + header["section_count"] * f.SECTION.size
    tables_size = 0
    for name, (record_size, old) in sections(image).items():
        body = new.get(name, old)
        if name == "DATA":
            tables_size = offset
        pad = -offset % (f.ALIGNMENT if name == "DATA" else 8)
        parts += [b"\0" * pad, body]
        table += f.SECTION.pack(
            id=name.encode(), record_size=record_size, offset=offset + pad, count=len(body) // record_size
        )
        offset += pad + len(body)
    head = f.HEADER.pack(
        **{name: header[name] for name in ("magic", "version", "header_size", "section_count")},
        file_size=offset, tables_size=tables_size, hash=b"",
    )  # fmt: skip
    made = head + table + b"".join(parts)
    return np.frombuffer(made[: f.HASH_OFFSET] + hashlib.sha256(made).digest() + made[f.HASH_OFFSET + 32 :], np.uint8)
