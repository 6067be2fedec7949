"""What a machine does to a program: no memory, no disk, reads that fail or come short, a kill in the middle of `save`, forks, signals, threads.

Each fault is made at every place where it can come up (faults.c), in a process of its own.
"""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penlight
from penlight import vm_module
from penlight.capture.quiet import quiet
from tests.capture.lite import legacy
from tests.fuzz.small_models import Cases, contained, planned, scripted
from tests.fuzz.targets import BUILD, ROOT
from tests.runtime import native

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD as Linux has it")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, Cases]]:
    folder = tmp_path_factory.mktemp("models")
    made = []
    with quiet():
        for name, (model, cases) in {"planned": planned(), "scripted": scripted(), "contained": contained()}.items():
            path = folder / f"{name}.pen"
            model.save(path)
            path.with_suffix(".cases").write_bytes(pickle.dumps(cases))
            made.append((path, cases))
    return made


@pytest.fixture(scope="module")
def faults() -> Path:
    """faults.c as a library."""
    out = BUILD / "faults.so"
    source = HERE / "faults.c"
    with native.locked(out.with_suffix(".lock")):
        if not out.exists() or out.stat().st_mtime < source.stat().st_mtime:
            subprocess.run(
                ["gcc", "-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", source, "-o", out], check=True
            )
    return out


def faulty(faults: Path, *words: object, timeout: float = 170) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.fuzz.faulty", *map(str, words)], capture_output=True, text=True, timeout=timeout, check=False,
        env={**os.environ, "LD_PRELOAD": str(faults), "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def well(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout[-500:]}\n{done.stderr[-4000:]}"
    return done.stdout


def number(said: str, form: str) -> int:
    found = re.search(form, said)
    assert found, said
    return int(found[1])


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1, 2])
def test_every_allocation_fails_once(which: int, faults: Path, models: list[tuple[Path, Cases]]) -> None:
    """On Python's way through: MemoryError, or an error that speaks of memory; the same call works the next time."""
    said = well(faulty(faults, "allocations", models[which][0]))
    assert number(said, r"(\d+) allocations failed") > 60


@pytest.mark.slow
def test_every_read_fails_once(faults: Path, models: list[tuple[Path, Cases]]) -> None:
    """By path and by open file, mapped and copied: with EIO, a part of what was asked for, EINTR."""
    said = well(faulty(faults, "reads", *(path for path, _ in models)))
    assert number(said, r"(\d+) reads failed") > 60


def test_every_read_of_the_readers_in_python_fails_once(faults: Path, models: list[tuple[Path, Cases]]) -> None:
    files = [legacy.FIXTURES / "small.v8.ptl", *(path for path, _ in models)]
    assert number(well(faulty(faults, "readers", *files)), r"(\d+) reads failed") > 20


@pytest.mark.parametrize("how", [0, 1])
def test_the_disk_is_full(how: int, faults: Path, models: list[tuple[Path, Cases]], tmp_path: Path) -> None:
    """At each call of `save` that writes: the old file is there as it was, and nothing beside it. `how` 1: a part is written first."""
    (tmp_path / "folder").mkdir()
    said = well(faulty(faults, "writes", how, models[0][0], tmp_path / "folder" / "m.pen"))
    assert number(said, r"(\d+) writes failed") >= 3


@pytest.mark.slow
def test_killed_while_it_saves(faults: Path, models: list[tuple[Path, Cases]], tmp_path: Path) -> None:
    """At any moment: the old file, or the new one."""
    file, target = models[0][0], tmp_path / "m.pen"
    new, seen = file.read_bytes(), set()
    for n in range(40):
        target.write_bytes(b"the old file")
        done = faulty(faults, "kill", n, file, target)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        assert target.read_bytes() in (b"the old file", new)
        seen.add(target.read_bytes())
        if done.returncode == 0:
            break
    assert n >= 3
    assert seen == {b"the old file", new}


def same(model: penlight.Model, cases: Cases) -> bool:
    return all(
        np.array_equal(np.asarray(a), b)
        for given, expected in cases
        for a, b in zip(model(*given), expected, strict=True)
    )


@pytest.mark.slow
def test_signals(models: list[tuple[Path, Cases]]) -> None:
    """A thousand a second, handled by Python, while models are loaded, run and saved."""
    seen = []
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        until = time.monotonic() + 3
        while time.monotonic() < until:
            for path, cases in models:
                assert same(penlight.load(path, threads=2, copy=len(seen) % 2 == 0), cases)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(seen) > 100


_FORKING = """
import os, pickle, sys, threading, time
import numpy as np
import penlight
from tests.fuzz.test_faults import same

models = []
for p in sys.argv[1:]:
    with open(p.replace(".pen", ".cases"), "rb") as f:
        models.append((penlight.load(p, threads=2), pickle.load(f)))
stopping = False

def work(i):
    model, cases = models[i % len(models)]
    while not stopping:
        assert same(model, cases)

workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for w in workers:
    w.start()
time.sleep(0.2)
failed = []
for n in range(12):
    child = os.fork()
    if child == 0:
        import signal
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(40)
        fine = all(same(m, c) for m, c in models) and all(same(penlight.load(p), c) for p, (_, c) in zip(sys.argv[1:], models))
        os._exit(0 if fine else 1)
    status = os.waitpid(child, 0)[1]
    if status:
        failed.append((n, status))
stopping = True
for w in workers:
    w.join()
assert not failed, failed
print("survived")
"""


@pytest.mark.slow
def test_forks_while_threads_run(models: list[tuple[Path, Cases]]) -> None:
    """The child goes on with the same models, whatever other threads were doing with them."""
    known = (
        models if hasattr(vm_module, "_after_fork") else models[:1]
    )  # without it, interpreted ones hang in the child
    done = subprocess.run(
        [sys.executable, "-c", _FORKING, *(str(path) for path, _ in known)], capture_output=True, text=True, timeout=170, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert well(done) == "survived\n"


def test_a_model_is_dropped_while_others_run_it(models: list[tuple[Path, Cases]]) -> None:
    """Each thread holds its own reference; the last one to end frees it."""
    wrong: list[Any] = []
    for _ in range(5):
        for path, cases in models:
            model = penlight.load(path, threads=2)

            def work(model: penlight.Model = model, cases: Cases = cases) -> None:
                if not all(same(model, cases) for _ in range(5)):
                    wrong.append(1)

            workers = [threading.Thread(target=work) for _ in range(6)]
            for w in workers:
                w.start()
            del model
            for w in workers:
                w.join(60)
    assert not wrong
