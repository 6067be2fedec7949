"""Files of every kind that are read by Python code, mutated, through all that reads them: a result or a PenlightError, in time.

Which mutations, which readers and what counts as a problem is tests/hostile/mutations.py; here come what needs more than one file (records of
one archive in another, two files merged, pieces of one flatbuffer in another) and a corpus.
"""

from __future__ import annotations

import functools
import io
import random
import resource
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.python_target import Finding, drawn, outcome

MEMORY = 12 << 30  # of the process: torch alone maps some


class Readers:
    def __init__(self, kind: str, flatbuffer: bool = False) -> None:
        import torch

        from tests.hostile import mutations

        torch.set_num_threads(1)
        self.mutations, self.kind, self.executions = mutations, kind, 0
        every = mutations.seeds()
        self.seeds = [b for b in every[kind] if kind != "ptl" or (b[:2] != b"PK") == flatbuffer]
        self.others = [b for k in ("ptl", "pt", "pt2", "pen") for b in every[k]]
        self.folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    def make(self, number: int, corpus: list[bytes]) -> bytes:
        random_ = drawn(number)
        data = random_.choice(corpus if corpus and random_.random() < 0.4 else self.seeds)
        if random_.random() < 0.2:
            data = merged(data, random_.choice(self.others + corpus[:50]), random_)
            if random_.random() < 0.5:
                return data
        return bytes(self.mutations.mutated(data, random_)) if _whole(data) else self.mutations.changed(data, random_)

    def run(self, data: bytes) -> str:
        ends = []
        for reader in self.mutations.READERS[self.kind]:
            self.executions += 1
            said: list[str] = []
            what, told = self.mutations.problem(_saying(reader, said), data, self.folder)
            if what:
                raise Finding(f"{self.kind}: {what}", told)
            ends.append(said[0] if said else "")
        return outcome(" | ".join(ends))

    def close(self) -> None:
        import shutil

        shutil.rmtree(self.folder, ignore_errors=True)


def _saying(reader: Callable[[bytes, Path], None], said: list[str]) -> Callable[[bytes, Path], None]:
    """The reader, which notes how it ended."""
    from penlight.errors import PenlightError

    @functools.wraps(reader)
    def run(data: bytes, folder: Path) -> None:
        try:
            reader(data, folder)
            said.append("read")
        except PenlightError as e:
            said.append(f"{type(e).__name__} {e}")
            raise

    return run


def _whole(data: bytes) -> bool:
    """Not a zip file, or one that Python can open: records of others cannot be changed."""
    return data[:2] != b"PK" or _records(data) is not None


def _records(data: bytes) -> dict[str, bytes] | None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(i.file_size for i in archive.infolist()) > 50_000_000:
                return None
            return {name: archive.read(name) for name in archive.namelist()}
    except Exception:  # whatever a damaged archive does to Python's reader
        return None


def merged(data: bytes, other: bytes, random_: random.Random) -> bytes:
    """Of two archives: some or all records of the other in place of ours of that name, beside ours, or both directories after each
    other; of other files: pieces of one in another."""
    ours, theirs = _records(data), _records(other)
    if ours is None or theirs is None:
        at, start = random_.randrange(len(data) + 1), random_.randrange(len(other) + 1)
        size = random_.choice((8, 64, 1024, len(other)))
        return data[:at] + other[start : start + size] + data[at if random_.random() < 0.5 else at + size :]
    if random_.random() < 0.15:
        return data + other if random_.random() < 0.5 else other + data
    root = next(iter(ours), "x/").split("/")[0]
    some = random_.random() < 0.7
    for name, content in theirs.items():
        if not some or random_.random() < 0.3:
            inside = name.partition("/")[2] or name
            ours[f"{root}/{inside}" if random_.random() < 0.9 else name] = content
    if random_.random() < 0.3 and len(ours) > 1:
        names, contents = list(ours), list(ours.values())
        random_.shuffle(contents)
        ours = dict(zip(names, contents, strict=True))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in ours.items():
            archive.writestr(name, content)
    return stream.getvalue()
