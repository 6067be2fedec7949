"""One target in Python for a while, in a process of its own, so that it may crash or hang:

    python -m tests.fuzz.worker TARGET SECONDS FIRST CRASH CORPUS     files FIRST, FIRST + 1, ... until the time is up; "-": no corpus
    python -m tests.fuzz.worker TARGET --file FILE...                 these files as they are
    python -m tests.fuzz.worker TARGET --minimize FILE SECONDS        the same finding in a smaller file, which takes this one's place

Says how far it is each second ("executions 123 next 45") and what it finds ("finding PATH SIGNATURE"); the file that is being run is always in
CRASH, should the process end.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import sys
import time
import warnings
from pathlib import Path

from tests.fuzz import minimize
from tests.fuzz.python_target import Finding, PythonTarget

CORPUS = 500  # files of it that one process takes


def main(words: list[str]) -> int:
    from tests.fuzz.targets import python_target

    warnings.simplefilter("ignore")
    name, *rest = words
    target = python_target(name)
    if rest[0] == "--file":
        return replay(target, [Path(p) for p in rest[1:]])
    if rest[0] == "--minimize":
        return shrink(target, Path(rest[1]), float(rest[2]))
    seconds, first, crash, corpus = float(rest[0]), int(rest[1]), Path(rest[2]), rest[3]
    return work(target, seconds, first, crash, None if corpus == "-" else Path(corpus))


def work(target: PythonTarget, seconds: float, first: int, crash: Path, corpus: Path | None) -> int:
    seeds, known = read_corpus(corpus, first)
    until, next_word, number = time.monotonic() + seconds, time.monotonic() + 1, first
    found: set[str] = set()
    while time.monotonic() < until:
        data = target.make(number, seeds)
        crash.write_bytes(data)
        try:
            end = target.run(data)
        except Finding as e:
            if e.signature not in found:
                found.add(e.signature)
                path = crash.with_name(f"{crash.name}.{len(found)}")
                path.write_bytes(data)
                print(f"finding {path} {e.signature}", flush=True)
                print(f"--- {e.signature}\n{e.told}", file=sys.stderr, flush=True)
            end = ""
        # one line, whatever stood in the file: its words may be no text
        end = end.replace("\n", " ").encode(errors="backslashreplace").decode()
        if corpus is not None and end and end not in known:
            known.add(end)
            (corpus / str(number)).write_bytes(data)
            with open(corpus / ".outcomes", "a") as file:
                file.write(end + "\n")
        number += 1
        if time.monotonic() > next_word:
            print(f"executions {target.executions} next {number}", flush=True)
            next_word = time.monotonic() + 1
    print(f"executions {target.executions} next {number} end", flush=True)
    crash.unlink(missing_ok=True)
    return 0


def read_corpus(corpus: Path | None, first: int) -> tuple[list[bytes], set[str]]:
    if corpus is None:
        return [], set()
    names = sorted(p for p in corpus.iterdir() if not p.name.startswith("."))
    if len(names) > CORPUS:
        names = random.Random(first).sample(names, CORPUS)
    known: set[str] = set()
    with contextlib.suppress(FileNotFoundError):
        known = set((corpus / ".outcomes").read_text(errors="replace").splitlines())
    return [p.read_bytes() for p in names], known


def replay(target: PythonTarget, paths: list[Path]) -> int:
    for path in paths:
        try:
            target.run(path.read_bytes())
        except Finding as e:
            print(f"{path}: {e.signature}\n{e.told}", file=sys.stderr)
            return 1
    return 0


def shrink(target: PythonTarget, path: Path, seconds: float) -> int:
    data = path.read_bytes()

    def signature(candidate: bytes) -> str:
        try:
            target.run(candidate)
        except Finding as e:
            return e.signature
        return ""

    wanted = signature(data)
    if wanted:
        path.write_bytes(minimize.smallest(data, lambda c: signature(c) == wanted, time.monotonic() + seconds))
    return 0


def name_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:10]


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(status)  # threads of a target that hangs do not keep it
