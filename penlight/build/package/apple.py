"""What lies around an XCFramework, so that a Swift package or a pod is a folder: sources for Objective-C and Swift, which the app's Xcode
compiles, C++ headers, and the descriptions that Xcode and CocoaPods read.

    Package.swift  Penlight.podspec  LibTorch-Lite.podspec     what there is, for Swift packages and CocoaPods
    PenlightObjC/  PenlightKit/                                classes for Objective-C; Swift over them
    cpp/  torch/                                               penlight.hpp; PyTorch's names for it
"""

from __future__ import annotations

import shutil
from pathlib import Path

import penlight
from penlight.build.generate import BINDINGS
from penlight.build.package import HEADER, copy_headers, cpp_headers, torch_headers
from penlight.build.selection import Selection
from penlight.build.targets import IOS_VERSION
from penlight.errors import BuildError
from penlight.paths import replace_text, replaced_folder

_FILES = ("Package.swift", "Penlight.podspec", "LibTorch-Lite.podspec")
_MARKS = {
    "cpp": "penlight_library.h",
    "torch": "penlight_torch",
}  # what lies in those of ours; the other folders' names are ours alone


def check_place(out: Path) -> None:
    """Raises where something in `out` has a name of these, and is no earlier build's: it would be lost."""
    others = [out / name for name, mark in _MARKS.items() if (out / name).exists() and not (out / name / mark).exists()]
    others += [out / name for name in _FILES if (out / name).exists() and b"enlight" not in (out / name).read_bytes()]
    if others:
        raise BuildError(
            f"{others[0]}: expected nothing of this name, or what an earlier build wrote, got something else, which would be lost."
            " Name another folder with -o"
        )


def write_package(selection: Selection, out: Path) -> None:
    """Writes them into `out` anew."""
    apple = BINDINGS / "apple"
    for name in ("PenlightObjC", "PenlightKit"):
        with replaced_folder(out / name) as folder:
            shutil.copytree(apple / name, folder, dirs_exist_ok=True)
    headers = cpp_headers()
    del headers[HEADER.name]  # the framework's
    with replaced_folder(out / "cpp") as folder:
        copy_headers(headers, folder)
        replace_text(folder / "penlight_library.h", library_header(selection))
    with replaced_folder(out / "torch") as folder:
        copy_headers(torch_headers(), folder)
    for name in _FILES:
        text = (apple / name).read_text(encoding="utf-8")
        replace_text(out / name, text.replace("@VERSION@", penlight.__version__).replace("@IOS@", IOS_VERSION))


def library_header(selection: Selection) -> str:
    """For penlight.hpp: a program that is linked with a static library must not name what that lacks."""
    return (
        "// What the library beside it holds, for penlight.hpp. Written by `penlight build`.\n"
        f"#define PENLIGHT_HAS_VM {int(selection.vm)}\n"
        f"#define PENLIGHT_HAS_BUFFERS {int(len(selection.backends) > 1)}\n"
    )
