"""Files of any kind at paths that a caller gives: what is no file is refused in words, and what is written is whole before it has its name.

Needs no numpy: builds of the package import it.
"""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from penlight.errors import ArgumentError, LoadError

_MAX_TEXT = 64 << 20


def check_path(path: str | os.PathLike[str]) -> None:
    """Raises in words what the system would say otherwise, or not at all: a NUL would end the name, and a pipe would be waited for."""
    name = os.fspath(path)
    if "\0" in name if isinstance(name, str) else b"\0" in name:
        raise ArgumentError(f"the path {name!r} has a NUL in it, which no file's name has")
    try:
        mode = os.stat(name).st_mode
    except OSError:  # whoever opens it says what is wrong
        return
    kind = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
    if stat.S_IFMT(mode) in kind:
        raise LoadError(
            f"{os.fspath(path)!r} is {kind[stat.S_IFMT(mode)]}, expected a file, which can be mapped, and replaced when it is saved: to read a model"
            " from a pipe, give penlight.load the open file",
            "io",
        )


def text_of(path: str | os.PathLike[str]) -> str:
    """What is in a file of labels, metadata or operators, or comes by a pipe. ValueError where it is not UTF-8, or comes to no end."""
    with open(path, "rb") as handle:
        data = handle.read(_MAX_TEXT + 1)
    if len(data) > _MAX_TEXT:
        raise ValueError(f"expected at most {_MAX_TEXT} bytes of text, got more")
    return data.decode("utf-8-sig")  # editors of Windows put a mark in front


def replace_file(path: str | os.PathLike[str], write_to: Callable[[BinaryIO], int], mode: int = 0o666) -> int:
    """Lets `write_to` fill a new file beside `path`, then puts it in its place: on any error, or if the machine stops, the old file is there
    as it was, or the new one as it should be. A link is followed; the file keeps the mode that it had, or gets `mode`, less the umask."""
    check_path(path)
    target, before = _meant(path)
    # Beside it; of its name so much that this one fits too: file systems take 255 bytes, and a character may have four.
    temporary = target.with_name(f".{target.name[:50]}.{secrets.token_hex(8)}")
    mode = mode if before is None else 0o600  # from which the system takes the umask
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as out:
            size = write_to(out)
            out.flush()
            if before is not None and hasattr(os, "fchown"):
                _give_back(out.fileno(), before)
            os.fsync(out.fileno())
        os.replace(temporary, target)
    except FileExistsError:  # another's, by chance
        raise
    except BaseException as e:  # Ctrl-C may come before there is a file, and right after it had its place
        if isinstance(e, OSError) and e.filename is None:  # a full disk: which
            e.filename = os.fspath(path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _sync_folder(target.parent)
    return size


@contextlib.contextmanager
def replaced_folder(path: Path) -> Iterator[Path]:
    """A new folder to fill beside it, which takes its place when it is whole; on any error the old one stays. A link is followed."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_dir():
        raise NotADirectoryError(f"{str(path)!r} is a file, expected a folder, or nothing yet")
    made, old = (target.with_name(f".{target.name[:50]}.{secrets.token_hex(8)}") for _ in range(2))
    made.mkdir(parents=True)
    try:
        yield made
        if target.exists():
            os.rename(target, old)
        os.rename(made, target)
    finally:
        if old.exists() and not target.exists():
            os.rename(old, target)
        for left in (made, old):
            shutil.rmtree(left, ignore_errors=True)


def replace_text(path: str | os.PathLike[str], text: str) -> int:
    """The same for a page or a list. What UTF-8 has no bytes for, as names in a file may have, is a question mark."""
    return replace_file(path, lambda out: out.write(text.encode("utf-8", "replace")))


def write_all(out: Any, data: memoryview) -> int:
    """Into a file that somebody else opened. One without a buffer takes as much as it likes at a time, and one that does not wait, nothing."""
    size = len(data)
    while len(data):
        taken = out.write(data)
        if taken is None and not isinstance(out, io.RawIOBase):  # what says nothing took it all
            break
        if not isinstance(taken, int) or taken <= 0:
            raise BlockingIOError(
                f"{out!r}: expected a file that takes {size} bytes, got one that takes no more after {size - len(data)}"
            )
        data = data[taken:]
    return size


def _meant(path: str | os.PathLike[str]) -> tuple[Path, os.stat_result | None]:
    """The file behind all links, and what is there; None: nothing yet."""
    name = os.fsdecode(path)
    try:
        before = os.stat(name)
    except FileNotFoundError:  # nor behind a link; a loop of links is another error
        before = None
    if not os.path.basename(name) or (before is not None and stat.S_ISDIR(before.st_mode)):
        raise IsADirectoryError(f"{name!r} is a folder, expected the name of a file to write")
    if before is None:
        os.path.realpath(os.path.dirname(name), strict=True)  # says which folder is missing
    target = Path(os.path.realpath(name))
    if (
        before is not None and not before.st_nlink and not os.path.lexists(target)
    ):  # /proc/self/fd/3 of one that was removed
        raise FileNotFoundError(f"{name!r} is a file without a name, expected one that another can take the place of")
    return target, before


def _give_back(handle: int, before: os.stat_result) -> None:
    """Owner and mode of the file before. As whenever a file is written, setuid and setgid are gone."""
    mode = stat.S_IMODE(before.st_mode) & 0o777
    try:
        os.fchown(handle, before.st_uid, before.st_gid)
    except OSError:  # another user's file, which only root may give back
        try:
            os.fchown(handle, -1, before.st_gid)
        except OSError:  # nor is the caller in its group: what that might do, the caller's own need not
            mode &= ~0o070
    os.fchmod(handle, mode)


def _sync_folder(folder: Path) -> None:
    """So that the new name is on the disk too."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows
        return
    with contextlib.suppress(OSError):  # file systems that cannot
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
