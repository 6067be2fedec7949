"""Java on this machine: the binding's classes and its native library, compiled by the host's compilers into build/java, and JUnit tests run on
the desktop's virtual machine. Android's classes are stubs (stubs/), which exist here only."""

from __future__ import annotations

import functools
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from penlight.build.generate import ISAS
from tests import vulkan_drivers
from tests.runtime import native

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BINDING = ROOT / "bindings/java"
OUT = ROOT / "build/java"
LIBRARY = ROOT / "build/release/libpenlight.so"
JARS = [Path("/usr/share/java") / name for name in ("junit4.jar", "hamcrest.jar")]
FLAGS = [
    "-std=c++17",
    "-O2",
    "-fPIC",
    "-fno-exceptions",
    "-fno-rtti",
    "-fvisibility=hidden",
    "-fno-threadsafe-statics",
    "-ffp-contract=off",
    "-Wall",
    "-Wextra",
    "-Werror",
]


def needs_java() -> None:
    """Skips the test where the machine has no Java, or the runtime was not built as a shared library."""
    if not shutil.which("javac") or not all(jar.exists() for jar in JARS):
        pytest.skip("Java is not installed: apt-get install default-jdk-headless junit4 (./dev test does)")
    if not LIBRARY.exists():
        pytest.skip(f"{LIBRARY} is not there: ./dev build makes it")


@functools.lru_cache(1)
def jdk() -> Path:
    """Where the JDK lies."""
    return Path(shutil.which("javac") or "/usr/bin/javac").resolve().parents[1]


def run_tool(command: Sequence[object]) -> str:
    """What a compiler or the like says; the test fails with its words where it does."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


def _older(made: Path, sources: list[Path]) -> bool:
    return not made.exists() or any(s.stat().st_mtime > made.stat().st_mtime for s in sources)


def compile_classes(sources: list[Path], out: Path, classpath: list[Path]) -> Path:
    """Java 8 bytecode, as the Android package has it; any warning is an error."""
    stamp = out / ".compiled"
    if _older(stamp, sources):
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        path = os.pathsep.join(map(str, classpath)) or "."
        run_tool(["javac", "-Xlint:all,-options", "-Werror", "--release", "8", "-cp", path, "-d", out, *sources])
        stamp.touch()
    return out


@functools.lru_cache(1)
def classes() -> list[Path]:
    """The class path: stubs, the binding, the tests, JUnit."""
    with native.locked(OUT / "classes.lock"):
        stubs = compile_classes(sorted((HERE / "stubs").rglob("*.java")), OUT / "stubs", [])
        binding = compile_classes(sorted((BINDING / "src").rglob("*.java")), OUT / "binding", [stubs])
        tests = compile_classes(sorted((HERE / "src").rglob("*.java")), OUT / "tests", [stubs, binding, *JARS])
    return [stubs, binding, tests, *JARS]


@functools.lru_cache(1)
def library() -> Path:
    """The folder with libpenlight_jni.so, built for this machine, and libpenlight.so beside it."""
    folder = OUT / "lib"
    room = ROOT / "penlight/runtime/image"
    units: list[tuple[Path, str]] = [
        (p, "base") for p in sorted((BINDING / "jni").glob("*.cc")) if p.stem != "jvm_check"
    ]
    isas = [n for n, isa in ISAS.items() if isa.processors in ("any", platform.machine()) and not isa.headers]
    units += [(room / "image.cc", "base"), *((room / "rows.cc", isa) for isa in isas)]
    headers = [*(BINDING / "jni").glob("*.h"), *room.glob("*.h"), *(ROOT / "penlight/runtime/include").glob("*.h*")]
    with native.locked(OUT / "lib.lock"):
        folder.mkdir(parents=True, exist_ok=True)
        objects = []
        for source, isa in units:
            made = folder / f"{source.parent.name}_{source.stem}_{isa}.o"
            if _older(made, [source, *headers]):
                chosen = [] if isa == "base" else [f"-DPEN_ISA={isa}", *ISAS[isa][1]]
                run_tool(["g++", *FLAGS, *chosen, f"-I{ROOT}", "-c", source, "-o", made])
            objects.append(made)
        made = folder / "libpenlight_jni.so"
        if _older(made, [*objects, LIBRARY]):
            shutil.copy(LIBRARY, folder)
            run_tool(
                [
                    "gcc",
                    "-shared",
                    "-o",
                    made,
                    *objects,
                    f"-L{folder}",
                    "-lpenlight",
                    "-Wl,-rpath,$ORIGIN",
                    "-Wl,-z,defs",
                ]
            )
    return folder


def counting_library() -> Path:
    """allocations.c, to be preloaded."""
    made, source = OUT / "libcounting.so", HERE / "allocations.c"
    with native.locked(OUT / "counting.lock"):
        if _older(made, [source]):
            run_tool(["gcc", "-O1", "-fno-builtin", "-Wall", "-Wextra", "-fPIC", "-shared", "-o", made, source])
    return made


def java(
    arguments: list[str],
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> str:
    """What a Java program says; the test fails where the program does, or where -Xcheck:jni has something to complain of."""
    path = os.pathsep.join(map(str, classes()))
    command = [
        "java",
        "-Xcheck:jni",
        "-Xmx512m",
        f"-Djava.library.path={folder or library()}",
        "-cp",
        path,
        *options,
        *arguments,
    ]
    surroundings = {**os.environ, **vulkan_drivers.ENVIRONMENT, **(environment or {})}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=surroundings)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-12000:]
    complaints = re.findall(r"(?:WARNING|FATAL ERROR).*(?:JNI|native).*", said)
    assert not complaints, "\n".join(complaints)
    return said


def junit(test: str, models: Path, options: Sequence[str] = (), **more: Any) -> str:
    """Runs the tests of a class; at least one must be there."""
    said = java(["org.junit.runner.JUnitCore", test], [f"-Dmodels={models}", *options], **more)
    assert re.search(r"OK \([1-9]\d* tests?\)", said), said
    return said
