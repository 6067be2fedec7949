"""Arrays that a command is given or saves: a .npy file, or an .npz of several. Nothing in them is unpickled."""

from __future__ import annotations

import itertools
import struct
import tokenize
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import BinaryIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

import click
import numpy as np

from penlight.paths import check_path, replace_file

# What numpy ends with where a file is damaged or hostile: the header of a .npy is text in Python, an .npz is a zip.
_UNREADABLE = (
    OSError, ValueError, SyntaxError, EOFError, TypeError, LookupError, ArithmeticError, RuntimeError, MemoryError, tokenize.TokenError, struct.error, zlib.error, BadZipFile,
)  # fmt: skip
_LONGEST = 10_000  # letters of a name in an .npz


def load_arrays(path: str | Path) -> np.ndarray | dict[str, np.ndarray]:
    check_path(path)
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            if any(entry.compress_type not in (ZIP_STORED, ZIP_DEFLATED) for entry in loaded.zip.infolist()):
                # Of others zipfile inflates all that it has read: gigabytes of some kilobytes.
                raise ValueError("expected arrays that are stored or deflated, got another compression")
            return {name: loaded[name] for name in loaded.files}
    except FileNotFoundError:
        raise click.UsageError(f"--input: no such file: {path}") from None
    except _UNREADABLE as e:
        raise click.UsageError(f"--input: {path} is not an array saved by numpy ({str(e)[:200]})") from None


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, or where it is taken one that begins with it."""
    others = (f"{name}~{i}" for i in itertools.count(len(taken) + 1))
    return next(n for n in itertools.chain((name,), others) if n not in taken)


def _entry_name(name: str) -> str:
    """As a zip file may have it: in UTF-8, without a NUL, which would be its end, and of less than 64 kB."""
    return name.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")[:_LONGEST]


def save_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """An .npz, or the .npy of one. numpy's savez takes names as those of its own arguments: with one called "file" it writes another file than
    it is told."""

    def write(out: BinaryIO) -> int:
        taken: set[str] = set()
        if path.suffix == ".npz":
            with ZipFile(out, "w") as archive:
                for name, array in arrays.items():
                    told = free_name(_entry_name(name), taken)
                    taken.add(told)
                    with archive.open(f"{told}.npy", "w", force_zip64=True) as entry:
                        np.lib.format.write_array(entry, array, allow_pickle=False)
        else:
            (array,) = arrays.values()
            np.lib.format.write_array(out, array, allow_pickle=False)
        return out.tell()

    replace_file(path, write)
