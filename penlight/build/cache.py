"""Where compiled files lie between builds: a folder per target, tools and flags. In each one process builds at a time.

Over a limit the folders that were used longest ago go, never one that a running process has used: each such process holds a shared lock
on the folder's mark. Only folders with a mark are ours; whatever else lies in a folder that `--cache` named stays.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from penlight.errors import BuildError

MARK = "penlight.used"  # its time is that of the last use
LIMIT = "4 GB"
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
# Marks that this process holds, until it ends: what builds return may lie in their folders.
_used: dict[Path, IO[str]] = {}


def cache_folder() -> Path:
    """As the system likes it."""
    if named := os.environ.get("PENLIGHT_CACHE"):
        return Path(named)
    try:
        home = Path.home()
    except RuntimeError:  # in a container, a user who is not listed, without HOME
        raise BuildError("there is no home folder to keep compiled files in: set PENLIGHT_CACHE to a folder") from None
    if sys.platform == "darwin":
        return home / "Library/Caches/penlight"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData/Local")) / "penlight/Cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "penlight"


def cache_limit() -> int:
    """In bytes."""
    text = os.environ.get("PENLIGHT_CACHE_LIMIT") or LIMIT
    found = re.fullmatch(r"(\d{1,18}(?:\.\d+)?) *([kMGT]?)B?", text)
    if not found:
        raise BuildError(f"PENLIGHT_CACHE_LIMIT: expected a size such as 4 GB or 500 MB, got {text!r}")
    return int(float(found[1]) * _UNITS[found[2]])


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One build at a time in a folder, others wait; it is kept for as long as this process runs."""
    _keep(folder)
    with open(folder / "lock", "w") as handle:
        _lock(handle)
        yield


def _keep(folder: Path) -> None:
    mark = folder / MARK
    while folder not in _used or not _is(mark, _used[folder]):
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # removed since: once more
            handle = open(mark, "a")  # noqa: SIM115 (until the process ends)
            _lock(handle, shared=True)
            _used[folder] = handle
    os.utime(mark)


def _is(path: Path, handle: IO[str]) -> bool:
    """Whether a file is still the one that was opened."""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle.fileno()))
    except FileNotFoundError:
        return False


def _lock(handle: IO[str], shared: bool = False, wait: bool = True) -> bool:
    """Until the file is closed. False: another has it, and we do not wait."""
    if sys.platform != "win32":
        import fcntl

        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
    return True


def prune(cache: Path) -> list[Path]:
    """Brings a cache below the limit, as far as nobody uses it; says which folders went. Not on Windows, where there are no such locks."""
    limit, ages = cache_limit(), {}
    if sys.platform == "win32":
        return []
    for mark in cache.glob(f"*/{MARK}"):
        with suppress(FileNotFoundError):  # another process removes it
            ages[mark.parent] = mark.stat().st_mtime
    sizes = {folder: _size(folder) for folder in ages}
    over, gone = sum(sizes.values()) - limit, []
    for folder in sorted(ages, key=ages.__getitem__):
        if over > 0 and _remove(folder):
            over -= sizes[folder]
            gone.append(folder)
    return gone


def _size(folder: Path) -> int:
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # a build that runs takes its temporary files away
                total += os.lstat(os.path.join(root, name)).st_size
    return total


def _remove(folder: Path) -> bool:
    """The mark last, so that what an interrupted removal leaves is found the next time."""
    mark = folder / MARK
    with suppress(FileNotFoundError), open(mark) as handle:  # another process may remove it too
        if not _lock(handle, wait=False) or not _is(mark, handle):
            return False
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path != mark:
                path.unlink()
        mark.unlink()
        with suppress(OSError):  # somebody who waited for it begins anew in it
            folder.rmdir()
    return True
