"""The iOS apps of examples/ios without a Mac: every file that Xcode would compile is checked by clang, as with ARC, against GNUstep's
Foundation and stand-ins for UIKit; what they do from model to result is compiled, linked with the library and run.

Debian's GNUstep runs on GCC's Objective-C library, which has no ARC and wants instance variables in the interface: for what runs, they are
moved there. Swift is parsed, not compiled.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.runtime import native

ROOT = native.ROOT
EXAMPLES, HERE = ROOT / "examples/ios", Path(__file__).parent / "ios"
APPS = ("HelloWorld", "HelloWorld-Metal", "ImageSegmentation", "TestApp")
HEADERS = [ROOT / "bindings/cpp/compat", ROOT / "bindings/cpp/include", ROOT / "penlight/runtime/include"]
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]


@functools.cache
def clang() -> str:
    found = shutil.which("clang") or shutil.which("clang-14")
    if not found or not Path("/usr/include/GNUstep/Foundation/Foundation.h").exists() or not gcc_headers():
        pytest.skip("Objective-C needs Debian's clang, gobjc and libgnustep-base-dev")
    return found


def gcc_headers() -> Path | None:
    return next(iter(sorted(Path("/usr/lib/gcc").glob("*/*/include/objc"), reverse=True)), None)


def target(app: str) -> dict[str, Any]:
    ((_, given),) = yaml.safe_load((EXAMPLES / app / "project.yml").read_text())["targets"].items()
    return given  # type: ignore[no-any-return]


def sources(app: str) -> list[Path]:
    """What the project compiles."""
    given = [EXAMPLES / app / source for source in target(app)["sources"]]
    files = [file for path in given for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    return [file for file in files if file.suffix in (".m", ".mm", ".swift")]


def options(app: str, source: Path, headers: Sequence[Path]) -> list[str]:
    macros = target(app)["settings"]["base"].get("GCC_PREPROCESSOR_DEFINITIONS", "").split()
    included = [HERE, EXAMPLES / app / app, EXAMPLES / "shared", *headers]
    standard = "-std=c++17" if source.suffix == ".mm" else "-std=gnu11"
    system = ["-isystem", "/usr/include/GNUstep", "-idirafter", str(gcc_headers().parent)]  # type: ignore[union-attr]
    defined = ["-DNS_SWIFT_NAME(name)=", *(f"-D{macro}" for macro in macros)]
    return [standard, *defined, *(f"-I{path}" for path in included), *system]


def check(app: str, source: Path, folder: Path) -> None:
    """As Xcode compiles it, with ARC, and with what `penlight build` wrote to folder/penlight where the project looks for it."""
    headers = shutil.copytree(gcc_headers(), folder / "objc", dirs_exist_ok=True)  # type: ignore[arg-type]
    text = (headers / "runtime.h").read_text()  # reads an object's first word, which ARC forbids and nobody needs here
    (headers / "runtime.h").write_text(text.replace("return object->class_pointer;", "return Nil;"))
    search = [
        Path(path.replace("$(SRCROOT)", str(folder))) for path in target(app)["settings"]["base"]["HEADER_SEARCH_PATHS"]
    ]
    framework = f"-F{folder / 'penlight/Penlight.xcframework/ios-arm64'}"
    arc = ["-fsyntax-only", "-fobjc-arc", "-fobjc-runtime=gnustep-2.0", f"-I{folder}", framework]
    call([clang(), *arc, *WARNINGS, *options(app, source, search), source])


def build(app: str, program: str, names: Sequence[str], folder: Path, flags: Sequence[str] = ()) -> Path:
    """A program of the app's sources, without its screen, over the static library."""
    objects = []
    for name in [*names, f"{program}.mm"]:
        path = next(each for each in [*sources(app), HERE / name] if each.name == name)
        made = folder / name
        made.write_text(for_gcc_runtime(path))
        runtime = [
            "-fobjc-runtime=gcc",
            "-fconstant-string-class=NSConstantString",
            "-fexceptions",
            "-fobjc-exceptions",
        ]
        define = ["-D_NATIVE_OBJC_EXCEPTIONS", "-DGNUSTEP_BASE_LIBRARY=1", "-O1"]
        call(
            [clang(), "-c", *runtime, *define, *WARNINGS, *options(app, made, HEADERS), *flags, made, "-o", f"{made}.o"]
        )
        # of GCC's library too: what it lets catch is Objective-C's exceptions alone, where Apple's has C++'s as well
        call(["objcopy", "--redefine-sym", "__gnu_objc_personality_v0=__gxx_personality_v0", f"{made}.o"])
        objects.append(f"{made}.o")
    library = native.build("plain") / "libpenlight.a"
    linked = ["-lgnustep-base", "-lobjc", "-lstdc++", "-lm", "-lpthread", "-ldl"]
    search = [f"-L{path}" for path in sorted(Path("/usr/lib/gcc").glob("*/*"), reverse=True)]
    call([clang(), *objects, library, *search, *linked, "-o", folder / program])
    return folder / program


def for_gcc_runtime(path: Path) -> str:
    """With the instance variables of the implementation in the interface, which is put in its header's place."""
    text = path.read_text()
    found = re.search(r"@implementation (\w+) (\{.*?\n\})\n", text, re.DOTALL)
    if not found:
        return text
    name, variables = found[1], found[2]
    text = text.replace(found[0], f"@implementation {name}\n")
    header = (
        path.with_name(f"{name}.h")
        .read_text()
        .replace(f"@interface {name} : NSObject\n", f"@interface {name} : NSObject {variables}\n")
    )
    text = text.replace(f'#import "{name}.h"\n', "#import <Foundation/Foundation.h>\n")
    return text.replace("@implementation", f"{header}\n@implementation", 1)


def make_assets(app: str, folder: Path, *more: str) -> Path:
    script = EXAMPLES / app / ("benchmark/trace_model.py" if app == "TestApp" else "make_model.py")
    call([sys.executable, script, "--out", folder, *more], ROOT)
    return folder


def call(command: Sequence[object], path: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **({"PYTHONPATH": str(path)} if path else {})}
    done = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command[0]} failed:\n{done.stdout[-3000:]}{done.stderr[-6000:]}"
    return done
