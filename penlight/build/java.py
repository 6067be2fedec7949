"""The Java classes of an Android archive: from their sources (bindings/java) by javac in a checkout, compiled already in a wheel.

Classes of Android that they name, such as a bitmap, are compiled against stand-ins with the same methods, which go into no archive.
`python -m penlight.build.java classes.jar` writes what a wheel carries.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from penlight.build.class_files import JAVA_8, read_class
from penlight.build.generate import BINDINGS, ROOT
from penlight.build.package.zip_file import jar
from penlight.errors import BuildError

SHIPPED = ROOT / "bindings/java/classes.jar"
STAND_INS = ROOT.parent / "tests/java/stubs"
INSTALL = "Debian: apt-get install default-jdk-headless; elsewhere any JDK from 9 on, found by PATH or JAVA_HOME"


def java_classes() -> dict[str, bytes]:
    """Class files by their names in a jar."""
    if SHIPPED.exists():
        with zipfile.ZipFile(SHIPPED) as shipped:
            return {name: shipped.read(name) for name in shipped.namelist() if name.endswith(".class")}
    if sources := sorted((BINDINGS / "java/src").rglob("*.java")):
        return compile_classes(sources, [STAND_INS])
    raise BuildError(
        "the Java classes of an Android archive are missing: this copy of Penlight was installed where there was no javac."
        f" Install one and Penlight again, or a wheel that has them. {INSTALL}"
    )


def compile_classes(sources: Sequence[Path], looked_up: Sequence[Path]) -> dict[str, bytes]:
    """Of Java 8, the same bytes from the same javac. `looked_up`: folders of sources that those name, of which nothing comes out."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--release", "8", "-Xlint:-options", "-g:source,lines", "-encoding", "UTF-8", "-implicit:none"]
        options += ["-sourcepath", os.pathsep.join(map(str, looked_up)), "-d", folder]
        done = subprocess.run(
            [find_javac(), *options, *map(str, sources)], capture_output=True, text=True, errors="replace"
        )
        if done.returncode:
            raise BuildError(f"Java classes do not compile:\n{done.stdout}{done.stderr}".rstrip())
        made = {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(Path(folder).rglob("*.class"))}
    for name, data in made.items():
        if (version := read_class(data, name).version) != JAVA_8:
            raise BuildError(f"{name}: expected a class of Java 8 (version {JAVA_8}), got version {version}")
    return made


def find_javac() -> str:
    home = os.environ.get("JAVA_HOME")
    found = (shutil.which("javac", path=str(Path(home) / "bin")) if home else None) or shutil.which("javac")
    if not found:
        raise BuildError(f"javac, which compiles the Java classes of an Android archive, is not installed. {INSTALL}")
    return found


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(jar(java_classes()))
