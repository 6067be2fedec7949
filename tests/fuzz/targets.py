"""What is fuzzed: each target's program, how it is started for a while or on one file, and what its files are.

A target runs in a process of its own, which may crash, hang or eat memory. The programs in C++ are built under AddressSanitizer and UBSan.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.python_target import PythonTarget
from tests.runtime import native
from tests.vulkan_drivers import DRIVERS, PACKAGES

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build/fuzzing"  # corpus and findings; never in git
# What is freed stays forbidden until 16 MB more are, which is several sessions; with the usual 256 MB each block that is used again has
# left the caches, and looking for leaks goes through all of them. Eight calls say where a block is from.
SANITIZERS = {
    "ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1:detect_stack_use_after_return=1:abort_on_error=1"
    ":quarantine_size_mb=16:malloc_context_size=8",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:abort_on_error=1",
    "PENLIGHT_GUARD": "weights",
}


@dataclass(frozen=True)
class Target:
    name: str
    about: str
    make: Callable[[], PythonTarget] | None = None  # None: a program in C++
    needs: str = ""  # a module that must be there
    session: bool = False  # its files are sessions of operators
    driver: str = ""  # of a GPU on which plans run too

    def missing(self) -> str:
        """Why it cannot run here; "": it can."""
        if self.driver and not (DRIVERS[self.driver].exists() and shutil.which("glslc")):
            return f"{PACKAGES[self.driver]} and glslc are not both installed"
        if not self.needs:
            return ""
        try:
            found = importlib.util.find_spec(self.needs) is not None
        except ModuleNotFoundError:
            found = False
        return "" if found else f"{self.needs} is not there"

    def environment(self, corpus: Path | None = None) -> dict[str, str]:
        own = {**os.environ, "PYTHONPATH": str(ROOT)}
        if self.make is None:
            own |= SANITIZERS | {"FUZZ_PROGRESS": "1"}
            if corpus is not None and self.name == "pen":
                own["FUZZ_CORPUS"] = str(corpus)
        if self.driver:
            icd = str(DRIVERS[self.driver])
            own |= {
                "VK_ICD_FILENAMES": icd,
                "VK_DRIVER_FILES": icd,
                "PENLIGHT_CACHE": "",
                "LP_NUM_THREADS": "1",
                "FUZZ_DEVICE": "vulkan",
            }
        return own

    def command(self, seconds: float, first: int, crash: Path, corpus: Path | None) -> list[str]:
        """For so many seconds, files FIRST, FIRST + 1, ...; what is being run when it ends is in `crash`."""
        where = "-" if corpus is None else str(corpus)
        if self.make is not None:
            return [sys.executable, "-m", "tests.fuzz.worker", self.name, str(seconds), str(first), str(crash), where]
        program = str(self.program())
        if self.name == "operators":
            return [program, str(seconds), str(first), str(crash), where]
        fields, seeds = pen_seeds()
        return [program, str(fields), str(seconds), str(first), str(crash), *map(str, seeds)]

    def replay(self, file: Path) -> list[str]:
        """Exit status 0: all is well with this file."""
        if self.make is not None:
            return [sys.executable, "-m", "tests.fuzz.worker", self.name, "--file", str(file)]
        return [str(self.program()), "--file", str(file)]

    def program(self) -> Path:
        source = HERE / "operators.cc" if self.name == "operators" else HERE.parent / "file/fuzz_runner.cc"
        return native.fuzzer(source)


def pen_seeds() -> tuple[Path, list[Path]]:
    from tests.file.test_fuzz import write_fields, write_seeds

    folder = BUILD / "seeds"
    folder.mkdir(parents=True, exist_ok=True)
    with native.locked(BUILD / "seeds.lock"):
        return write_fields(folder / "fields.txt"), write_seeds(folder)


def _readers(kind: str, flatbuffer: bool = False) -> Callable[[], PythonTarget]:
    def make() -> PythonTarget:
        from tests.fuzz.readers import Readers

        return Readers(kind, flatbuffer)

    return make


def _cases() -> PythonTarget:
    from tests.fuzz.differential import Cases

    return Cases()


def _networks() -> PythonTarget:
    from tests.fuzz.differential import Networks

    return Networks()


def _threads() -> PythonTarget:
    from tests.fuzz.threads import Threads

    return Threads()


_HOSTILE = "tests.hostile.mutations"
TARGETS = {
    t.name: t
    for t in (
        Target("pen", ".pen files: loaded, planned, run, interpreted"),
        Target(
            "gpu", ".pen files planned and run on a software GPU too: the CPU's numbers, or words", driver="lavapipe"
        ),
        Target("operators", "every operator of the VM, on random arguments and on each other's results", session=True),
        Target("pen_python", ".pen files through load, repr, inspect, lint", _readers("pen"), _HOSTILE),
        Target("ptl", "lite interpreter files (zip) through inspect, lint, optimize", _readers("ptl"), _HOSTILE),
        Target(
            "flatbuffer", "lite interpreter files (flatbuffer), the same", _readers("ptl", flatbuffer=True), _HOSTILE
        ),
        Target("pt", "TorchScript files, the same", _readers("pt"), _HOSTILE),
        Target("pt2", "torch.export files through optimize", _readers("pt2"), _HOSTILE),
        Target("cases", "single operators against torch, every instruction set, 1 and 2 threads", _cases),
        Target("networks", "random networks against torch, planned and interpreted", _networks),
        Target("threads", "16 threads that load, run and drop models; memory must not grow", _threads),
    )
}


def python_target(name: str) -> PythonTarget:
    make = TARGETS[name].make
    if make is None:
        raise ValueError(f"{name} is a program in C++")
    return make()
