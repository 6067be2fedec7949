"""Arrays that a command is given or saves: a .npy file, or an .npz of several. Nothing in them is unpickled."""

from __future__ import annotations

import struct
import tokenize
import zlib
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import click
import numpy as np

# What numpy ends with where a file is damaged or hostile: the header of a .npy is text in Python, an .npz is a zip.
_UNREADABLE = (
    OSError, ValueError, SyntaxError, EOFError, TypeError, LookupError, ArithmeticError, RuntimeError, MemoryError, tokenize.TokenError, struct.error, zlib.error, BadZipFile,
)  # fmt: skip


def load_arrays(path: str | Path) -> np.ndarray | dict[str, np.ndarray]:
    try:
        loaded = np.load(path, allow_pickle=False)
        return loaded if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    except FileNotFoundError:
        raise click.UsageError(f"--input: no such file: {path}") from None
    except _UNREADABLE as e:
        raise click.UsageError(f"--input: {path} is not an array saved by numpy ({str(e)[:200]})") from None


def save_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """An .npz. numpy's savez takes names as those of its own arguments: with one called "file" it writes another file than it is told."""
    with ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
