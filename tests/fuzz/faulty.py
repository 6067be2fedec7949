"""A process in which calls of the C library fail (faults.c, by LD_PRELOAD); test_faults.py starts it, with small models that are already there:

    allocations FILES        every allocation of the runtime fails once, in load, run and save: MemoryError or PenlightError, and the next works
    reads FILES              everything that reads fails once, comes short, or is interrupted
    readers FILES            so in the readers in Python
    writes HOW FILE TARGET   so does everything that writes in save; the old file stays, and nothing lies beside it
    kill N FILE TARGET       the process dies at the N-th of these; exit status 0: there were fewer

Needs no torch: what it imports is imported before anything fails.
"""

from __future__ import annotations

import ctypes
import io
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np

import penlight
import penlight._runtime  # loaded before its allocations are watched
from penlight.errors import PenlightError

ALLOCATES, READS, WRITES = range(3)
FAILS, SHORT, KILLED, INTERRUPTED = range(4)
Cases = list[tuple[tuple[Any, ...], list[np.ndarray]]]


class Faults:
    def __init__(self) -> None:
        self.library = ctypes.CDLL(None)
        self.library.fault_arm.argtypes = (ctypes.c_int, ctypes.c_long, ctypes.c_int)
        self.library.fault_calls.restype = ctypes.c_long

    def during(self, kind: int, n: int, how: int, call: Any) -> tuple[bool, BaseException | None, Any]:
        """Whether call n was reached, what was raised, and what was returned."""
        raised, result = None, None
        self.library.fault_arm(kind, n, how)
        try:
            result = call()
        except Exception as e:
            raised = e
        finally:
            self.library.fault_disarm(kind)
        return self.library.fault_calls(kind) > n >= 0, raised, result


def check(cases: Cases, results: list[Any]) -> None:
    for (_, expected), got in zip(cases, results, strict=True):
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(a), b)


def go(source: Any, cases: Cases, **options: Any) -> list[Any]:
    model = penlight.load(source, threads=1, **options)
    repr(model)
    return [[np.array(y) for y in model(*given)] for given, _ in cases]


def other_ways(source: Any, cases: Cases, **options: Any) -> list[Any]:
    """Results by way of given memory, copies, and containers of containers."""
    model = penlight.load(source, threads=1, **options)
    model = model.with_metadata({"name": "again"})
    results: list[Any] = []
    for given, expected in cases:
        if "forward" in model.planned_methods:
            model.prepare(*given)
            into = [np.empty_like(y) for y in expected]
            model.run_into(into, *given)
            results.append(into)
        else:
            model.run_method("forward", *given)
            results.append([np.array(y) for y in model(*given)])
        model.bundled_inputs()
        model.reset()
    if "forward" in model.planned_methods:
        model.state()
    model.save(io.BytesIO())
    pickle.loads(pickle.dumps(model))
    return results


def models(paths: list[str]) -> list[tuple[Path, Cases]]:
    return [(Path(p), pickle.loads(Path(p).with_suffix(".cases").read_bytes())) for p in paths]


def every(faults: Faults, kind: int, how: int, call: Any, cases: Cases, fits: Any, about: str) -> int:
    """Call 0, 1, ... fails, until there are no more; how many did."""
    check(cases, call())
    n = 0
    while True:
        print(f"{about}: {n}", end="\r", flush=True)  # where it was, should it crash
        reached, raised, result = faults.during(kind, n, how, call)
        if raised is not None and not fits(raised):
            raise SystemExit(f"{about}, call {n}: {type(raised).__name__}: {raised}") from raised
        if raised is None:
            check(cases, result)
        if not reached:
            if raised is not None:
                raise SystemExit(f"{about}: {raised!r} though nothing failed") from raised
            return n
        n += 1


def allocations(paths: list[str]) -> None:
    faults = Faults()
    if not faults.library.fault_watch(b"_runtime"):  # not libstdc++: nanobind does not survive a failing operator new
        raise SystemExit("the runtime is not among the loaded libraries")
    total = 0
    for path, cases in models(paths):
        data = path.read_bytes()
        for about, source, options in (
            (path.name, path, {}),
            (f"{path.name} copied", path, {"copy": True}),
            (f"{path.name} as bytes", data, {}),
        ):

            def call(source: Any = source, options: Any = options, cases: Cases = cases) -> list[Any]:
                return go(source, cases, **options)

            total += every(faults, ALLOCATES, FAILS, call, cases, in_words, about)
        total += every(
            faults,
            ALLOCATES,
            FAILS,
            lambda d=data, c=cases: other_ways(d, c),
            cases,
            in_words,
            f"{path.name}, other ways",
        )
    print(f"{total} allocations failed")


def in_words(e: BaseException) -> bool:
    return isinstance(e, MemoryError) or (isinstance(e, PenlightError) and "memory" in str(e).lower())


def reads(paths: list[str]) -> None:
    faults, total = Faults(), 0
    for path, cases in models(paths):
        for how in (FAILS, SHORT, INTERRUPTED):
            for copy in (False, True):

                def call(path: Path = path, copy: bool = copy, cases: Cases = cases) -> list[Any]:
                    return go(path, cases, copy=copy)

                def opened(path: Path = path, copy: bool = copy, cases: Cases = cases) -> list[Any]:
                    with open(path, "rb") as file:
                        return go(file, cases, copy=copy)

                for name, f in (("path", call), ("file", opened)):
                    total += every(
                        faults, READS, how, f, cases, from_reading, f"{path.name} by {name}, {how}, copy={copy}"
                    )
    path = models(paths)[0][0]
    counts = []
    for how in (FAILS, INTERRUPTED):
        raised = (faults.during(READS, n, how, lambda: penlight.load(path, copy=True))[1] for n in range(9))
        counts.append(sum(e is not None for e in raised))
    if counts[1] >= counts[0]:
        raise SystemExit(f"a read that a signal interrupts is not begun again: {counts}")
    print(f"{total} reads failed")


def readers(paths: list[str]) -> None:
    """Those of other kinds of files, and the one of .pen files in Python."""
    from penlight.capture.lite import read as read_lite
    from penlight.file.reader import read as read_pen
    from penlight.file_kinds import file_kind

    faults, total = Faults(), 0
    for path in map(Path, paths):
        kind = file_kind(path)
        for how in (FAILS, SHORT, INTERRUPTED):

            def call(path: Path = path, kind: str = kind) -> list[Any]:
                if file_kind(path) != kind:
                    raise SystemExit(f"{path} is taken for {file_kind(path)}")
                (read_pen if kind == "pen" else read_lite)(path)
                return []

            def opened(path: Path = path) -> list[Any]:
                with open(path, "rb") as file:
                    read_lite(file)
                return []

            for f in (call,) if kind == "pen" else (call, opened):
                total += every(faults, READS, how, f, [], from_reading, f"{path.name}, {how}")
    print(f"{total} reads failed")


def from_reading(e: BaseException) -> bool:
    return isinstance(e, (OSError, PenlightError)) and bool(str(e))


def writes(how: int, file: str, target: Path) -> None:
    """The old file survives whatever fails, and no other is left."""
    faults, old, n, failed = Faults(), b"the old file", 0, 0
    model = penlight.load(file, copy=True)
    model.save(target)
    new = target.read_bytes()
    while True:
        target.write_bytes(old)
        reached, raised, _ = faults.during(WRITES, n, how, lambda: model.save(target))
        now = target.read_bytes()
        beside = sorted(os.listdir(target.parent))
        if now not in (old, new) or (raised is None and now != new):
            raise SystemExit(f"write {n}, {raised!r}: {len(now)} bytes that are neither the old file nor the new one")
        if beside != [target.name]:
            raise SystemExit(f"write {n}, {raised!r}: left behind: {beside}")
        if raised is not None and not from_reading(raised):
            raise SystemExit(f"write {n}: {type(raised).__name__}: {raised}")
        failed += raised is not None
        if not reached:
            break
        n += 1
    print(f"{n} writes failed, {failed} were told of")


def kill(n: int, file: str, target: Path) -> None:
    model = penlight.load(file, copy=True)
    model.save(target.with_name("warm"))
    os.unlink(target.with_name("warm"))
    Faults().during(WRITES, n, KILLED, lambda: model.save(target))


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "allocations":
        allocations(rest)
    elif what == "reads":
        reads(rest)
    elif what == "readers":
        readers(rest)
    elif what == "writes":
        writes(int(rest[0]), rest[1], Path(rest[2]))
    else:
        kill(int(rest[0]), rest[1], Path(rest[2]))
