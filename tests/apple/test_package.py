"""What lies around an XCFramework: a Swift package and pods whose every path is there, Objective-C that compiles for Apple's runtime with ARC
(against outlines of Foundation: it runs in test_classes.py), and Swift that parses. No Swift is compiled here."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import penlight
from penlight.build.package.xcframework import write_xcframework
from penlight.build.selection import Selection
from tests.apple.test_classes import app_of
from tests.build.test_aar import stand_in
from tests.cpp.test_documents import METAL

pytestmark = pytest.mark.slow  # it compiles

HERE = Path(__file__).parent
SELECTIONS = {"whole": Selection(), "planned only": Selection(frozenset(), frozenset(), vm=False)}


def package(selection: Selection, folder: Path) -> Path:
    write_xcframework([replace(stand_in("ios-arm64", folder), selection=selection)], folder)
    return folder


@pytest.mark.parametrize("selection", SELECTIONS)
def test_objective_c_compiles_with_arc(selection: str, tmp_path: Path) -> None:
    """For planned models only, nothing is named that such a library lacks: Apple's linker takes no weak names for it."""
    ziglang = pytest.importorskip("ziglang")
    made = package(SELECTIONS[selection], tmp_path)
    includes = [
        f"-I{folder}" for folder in (HERE / "outlines", made / "cpp", made / "torch", made / "PenlightObjC/include")
    ]
    options = [
        "-std=c++17",
        "-fobjc-arc",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-F{made / 'Penlight.xcframework/ios-arm64'}",
        *includes,
    ]
    wanted: set[bytes] = set()
    (tmp_path / "document.mm").write_text(app_of(METAL))  # an app's own TorchModule
    for source in [*sorted((made / "PenlightObjC").glob("*.mm")), tmp_path / "document.mm"]:
        command = [
            Path(ziglang.__file__).parent / "zig",
            "c++",
            "-target",
            "aarch64-macos",
            *options,
            "-c",
            source,
            "-o",
            tmp_path / "made.o",
        ]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-4000:]
        data = (tmp_path / "made.o").read_bytes()
        assert b"_objc_storeStrong" in data or b"_objc_release" in data, "ARC"
        wanted |= set(re.findall(rb"_(pen_\w+)\0", data))
    names = {name.decode() for name in wanted}
    assert "pen_session_run" in names
    lacking = {n for n in names if n.startswith(("pen_module_", "pen_value_", "pen_model_function_"))}
    assert bool(lacking) == SELECTIONS[selection].vm
    assert not [n for n in names if n.startswith("pen_buffer_")], "a library for the CPU"


def test_paths_and_versions(tmp_path: Path) -> None:
    (tmp_path / "PenlightObjC").mkdir()
    (tmp_path / "PenlightObjC/old.mm").write_text("of a build before")
    made = package(Selection(), tmp_path)
    assert not (made / "PenlightObjC/old.mm").exists()
    swift = (made / "Package.swift").read_text()
    for path in re.findall(r'path: "(.*?)"', swift):
        assert (made / path).exists(), path
    for name in ("Penlight", "LibTorch-Lite"):
        pod = (made / f"{name}.podspec").read_text()
        assert f"s.version = '{penlight.__version__}'" in pod
        assert "@" not in pod
    pod = (made / "Penlight.podspec").read_text()
    for path in re.findall(r"s\.(?:vendored_frameworks|source_files|public_header_files) = '([^'{*]*)", pod):
        assert (made / path).exists(), path
    assert {
        "torch/torch/script.h",
        "torch/LibTorch-Lite/LibTorch-Lite.h",
        "cpp/penlight.hpp",
        "PenlightObjC/include/module.modulemap",
    } <= {p.relative_to(made).as_posix() for p in made.rglob("*")}
    assert not list(made.glob("cpp/**/penlight.h")), "it is the framework's"
    assert "PENLIGHT_HAS_VM 1" in (made / "cpp/penlight_library.h").read_text()


def test_swift_parses(tmp_path: Path) -> None:
    tree_sitter = pytest.importorskip("tree_sitter")
    parser = tree_sitter.Parser(tree_sitter.Language(pytest.importorskip("tree_sitter_swift").language()))
    made = package(Selection(), tmp_path)
    for path in (made / "Package.swift", made / "PenlightKit/Penlight.swift"):
        assert not problems(parser.parse(path.read_bytes()).root_node), path
    assert problems(parser.parse(b"public func f( -> {").root_node), "what is wrong is seen"


def problems(node: object) -> list[str]:
    found = [f"line {node.start_point[0] + 1}"] if node.type == "ERROR" or node.is_missing else []  # type: ignore[attr-defined]
    return found + [p for child in node.children for p in problems(child)]  # type: ignore[attr-defined]
