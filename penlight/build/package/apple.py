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


def write_package(selection: Selection, out: Path) -> None:
    """Writes them into `out` anew."""
    apple = BINDINGS / "apple"
    for name in ("PenlightObjC", "PenlightKit", "cpp", "torch"):
        shutil.rmtree(out / name, ignore_errors=True)
    for name in ("PenlightObjC", "PenlightKit"):
        shutil.copytree(apple / name, out / name)
    headers = cpp_headers()
    del headers[HEADER.name]  # the framework's
    copy_headers(headers, out / "cpp")
    copy_headers(torch_headers(), out / "torch")
    (out / "cpp/penlight_library.h").write_text(library_header(selection), encoding="utf-8")
    for name in ("Package.swift", "Penlight.podspec", "LibTorch-Lite.podspec"):
        text = (apple / name).read_text(encoding="utf-8")
        text = text.replace("@VERSION@", penlight.__version__).replace("@IOS@", IOS_VERSION)
        (out / name).write_text(text, encoding="utf-8")


def library_header(selection: Selection) -> str:
    """For penlight.hpp: a program that is linked with a static library must not name what that lacks."""
    return (
        "// What the library beside it holds, for penlight.hpp. Written by `penlight build`.\n"
        f"#define PENLIGHT_HAS_VM {int(selection.vm)}\n"
        f"#define PENLIGHT_HAS_BUFFERS {int(len(selection.backends) > 1)}\n"
    )
