"""Wheels: each thing that name, metadata and binaries must agree on, in small wheels that are wrong in one; and that CMake makes the module
that the tag promises. Building whole ones is left to `./dev wheel`, which checks and tries each."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from penlight.build import wheel_checks
from penlight.build.library import import_library, run_tool, stub_library
from penlight.build.stubs import definitions
from penlight.build.targets import TARGETS
from penlight.build.toolchain import WINDOWS_LINK, find_zig
from penlight.build.wheel import (
    PLATFORMS,
    Python,
    _backend,
    binding_files,
    find_python,
    find_pythons,
    package_files,
    write_wheel,
)
from penlight.build.wheel_checks import check_sdist, check_wheel, unstable
from penlight.errors import BuildError
from tests.runtime import native

pytestmark = pytest.mark.slow  # it compiles

LINUX, MAC = PLATFORMS["linux-x86_64"].tag, PLATFORMS["macos-arm64"].tag
EXTENSION = (
    'extern "C" { int CALLED(); __attribute__((visibility("default"))) int PyInit__runtime() { return CALLED(); } }'
)
LIBRARY = 'extern "C" __attribute__((visibility("default"))) int pen_version() { volatile int x[99]; return x[9] = 1; }'
FILES = {
    "penlight/__init__.py": b"",
    "penlight/runtime/include/penlight.h": b"//",
    "penlight/bindings/java/classes.jar": b"",
}
METADATA = {"METADATA": b"Metadata-Version: 2.1\n", "entry_points.txt": b""}


@pytest.fixture(scope="session")
def binary(tmp_path_factory: pytest.TempPathFactory):
    """A small shared library by (target, source, what it calls, in which version of which library)."""
    pytest.importorskip("ziglang")
    pytest.importorskip("elftools")
    made: dict[tuple[str, ...], bytes] = {}

    def make(
        name: str, source: str, called: str = "PyObject_Vectorcall", version: str = "", of: str = "libc.so.6"
    ) -> bytes:
        key = (name, source, called, version, of)
        if key not in made:
            folder, target, zig = tmp_path_factory.mktemp("binary"), TARGETS[name], find_zig()
            (folder / "x.cc").write_text(source.replace("CALLED", called))
            compiled = [
                f"--target={target.triple}",
                *target.flags,
                "-ffreestanding",
                "-fPIC",
                "-c",
                str(folder / "x.cc"),
                "-o",
                str(folder / "x.o"),
            ]
            run_tool([str(zig), "clang", *compiled])
            if target.system == "windows":
                name, of = (
                    ("PyInit__runtime", "python3.dll" if of == "libc.so.6" else of)
                    if source == EXTENSION
                    else ("pen_version", "KERNEL32.dll")
                )
                (folder / "x.def").write_text(definitions("x.dll", [name, *version.split()]))
                called_library = import_library(zig, of, [called], folder)
                run_tool([str(zig), "lld-link", *WINDOWS_LINK, f"/out:{folder / 'x.so'}", f"/def:{folder / 'x.def'}",
                          str(folder / "x.o"), str(called_library)])  # fmt: skip
                made[key] = (folder / "x.so").read_bytes()
                return made[key]
            if target.elf:
                called_library = stub_library(
                    zig, target.triple, (), target.emulation, of, {called: version} if version else {}, folder
                )
                link = ["ld.lld", "-m", target.emulation, "-shared", str(called_library)]
            else:
                link = ["cc", "-target", PLATFORMS[name].triple, "-shared", "-Wl,-undefined,dynamic_lookup"]
            run_tool([str(zig), *link, str(folder / "x.o"), "-o", str(folder / "x.so")])
            made[key] = (folder / "x.so").read_bytes()
        return made[key]

    return make


def _wheel(folder: Path, binary, tags: str, extension: str, target: str, *called: str, **changed: bytes | None) -> Path:
    library = TARGETS[target].library
    files = {
        **FILES,
        f"penlight/{extension}": binary(target, EXTENSION, *called),
        f"penlight/lib/{library}": binary(target, LIBRARY),
        **({"penlight/lib/penlight.lib": b"!<arch>"} if library.endswith(".dll") else {}),
    }
    files |= {name: data for name, data in changed.items() if data is not None}
    return write_wheel(tags, {n: d for n, d in files.items() if changed.get(n, d) is not None}, METADATA, "0.1", folder)


FIT = [
    (f"cp312-abi3-{LINUX}", "_runtime.abi3.so", "linux-x86_64"),
    (f"cp311-cp311-{LINUX}", "_runtime.cpython-311-x86_64-linux-gnu.so", "linux-x86_64", "PyUnicode_AsUTF8"),
    (f"cp312-abi3-{PLATFORMS['linux-arm64'].tag}", "_runtime.abi3.so", "linux-arm64"),
    (f"cp312-abi3-{MAC}", "_runtime.abi3.so", "macos-arm64"),
    ("cp312-abi3-win_amd64", "_runtime.pyd", "windows-x86_64"),
]


@pytest.mark.parametrize("wheel", FIT, ids=lambda w: w[0])
def test_a_fit_wheel_passes(wheel: tuple[str, ...], tmp_path: Path, binary) -> None:
    check_wheel(_wheel(tmp_path, binary, *wheel))


ABI3, NAME = f"cp312-abi3-{LINUX}", "_runtime.abi3.so"
WIN = FIT[-1]
WRONG = {
    "extension: expected _runtime.abi3.so for abi3, got penlight/_runtime.cpython-312": (ABI3, "_runtime.cpython-312-x86_64-linux-gnu.so", "linux-x86_64"),
    r"extension: expected _runtime.cpython-310-\*.so": (f"cp310-cp310-{LINUX}", "_runtime.cpython-311-x86_64-linux-gnu.so", "linux-x86_64"),
    "stable ABI of cp312 only, got PyUnicode_AsUTF8 too": (ABI3, NAME, "linux-x86_64", "PyUnicode_AsUTF8"),
    "abi3.so: expected symbols of the stable ABI of cp312 only, got _Py_Dealloc_x": (f"cp312-abi3-{MAC}", NAME, "macos-arm64", "_Py_Dealloc_x"),
    "GLIBC_2.28 or older, as manylinux_2_28_x86_64 says, got GLIBC_2.34": (ABI3, NAME, "linux-x86_64", "dlsym", "GLIBC_2.34"),
    "needed libraries: expected those of every Linux, got libother.so too": (ABI3, NAME, "linux-x86_64", "other", "OTHER_1", "libother.so"),
    "expected the whole runtime in it, got one without pen_trace_create": (ABI3, NAME, "linux-x86_64", "pen_trace_create"),
    "extension: expected _runtime.pyd for abi3, got penlight/_runtime.abi3.so": ("cp312-abi3-win_amd64", NAME, "windows-x86_64"),
    "pyd: needed libraries: expected those of every Windows 10, got MSVCP140.dll too": (*WIN, "PyList_New", "", "MSVCP140.dll"),
    "pyd: needed libraries: expected those of every Windows 10, got python312.dll too": (*WIN, "PyList_New", "", "python312.dll"),
    "pyd: exported symbols: expected PyInit__runtime alone, got pen_version too": (*WIN, "PyList_New", "pen_version=PyInit__runtime"),
    "pyd: expected symbols of the stable ABI of cp312 only, got PyUnicode_AsUTF8 too": (*WIN, "PyUnicode_AsUTF8"),
    "expected code for macosx_10_9_arm64|as macosx_10_9_arm64 says, got some for": ("cp312-abi3-macosx_10_9_arm64", NAME, "macos-arm64"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wheel_that_lies_is_refused(wrong: str, tmp_path: Path, binary) -> None:
    with pytest.raises(BuildError, match=wrong):
        check_wheel(_wheel(tmp_path, binary, *WRONG[wrong]))


@pytest.mark.parametrize(
    ("name", "data", "wrong"),
    [
        ("penlight/runtime/include/penlight.h", None, "expected penlight/runtime/include/penlight.h, found none"),
        ("penlight/lib/libpenlight.so", None, "expected penlight/lib/libpenlight.so, found none"),
        ("penlight/bindings/java/classes.jar", None, "expected penlight/bindings/java/classes.jar, found none"),
        ("penlight/old.pyc", b"", "expected the package alone, got penlight/old.pyc too"),
        ("tests/x.py", b"", "expected the package alone, got tests/x.py too"),
        ("penlight/_runtime.cpython-311-x86_64-linux-gnu.so", b"\x7fELF", "got .*abi3.so, .*cpython-311"),
    ],
)
def test_contents(name: str, data: bytes | None, wrong: str, tmp_path: Path, binary) -> None:
    if data:
        data = binary("linux-x86_64", EXTENSION)
    with pytest.raises(BuildError, match=wrong):
        check_wheel(_wheel(tmp_path, binary, *FIT[0], **{name: data}))


def test_name_metadata_size_and_processor(tmp_path: Path, binary, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel under another name, as one that was retagged by hand; one of too many bytes."""
    made = _wheel(tmp_path, binary, *FIT[0])
    other = made.rename(tmp_path / "penlight-0.1-cp312-abi3-manylinux_2_28_aarch64.whl")
    with pytest.raises(BuildError, match="WHEEL: expected the tags of the file's name") as raised:
        check_wheel(other)
    assert "expected code for manylinux_2_28_aarch64, got some for x86_64" in str(raised.value)
    monkeypatch.setattr(wheel_checks, "LARGEST", 100)
    with pytest.raises(BuildError, match="size: expected 100 bytes at most"):
        check_wheel(_wheel(tmp_path, binary, *FIT[0]))


def test_a_file_that_is_not_the_recorded_one(tmp_path: Path, binary) -> None:
    made = _wheel(tmp_path, binary, *FIT[0])
    made.write_bytes(_changed(made))
    with pytest.raises(BuildError, match="RECORD: expected the hash of penlight/__init__.py"):
        check_wheel(made)


def _changed(wheel: Path) -> bytes:
    import io
    import zipfile

    out = io.BytesIO()
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            new.writestr(name, b"# more" if name == "penlight/__init__.py" else old.read(name))
    return out.getvalue()


def test_the_stable_abi_has_versions() -> None:
    pytest.importorskip("abi3info")
    names = frozenset({"PyObject_Vectorcall", "PyList_New", "PyModule_Type", "memcpy", "PyPen"})
    assert unstable(names, "cp312") == ["PyPen"]
    assert unstable(names, "cp311") == ["PyObject_Vectorcall", "PyPen"]


def test_which_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each old version has a wheel of its own; from 3.12 on one serves all."""
    assert find_python("no-such-python") is None
    own = find_python(sys.executable)
    assert own is None or own.version == sys.version_info[:2]
    versions = {f"python3.{minor}": Python((3, minor), Path(), Path()) for minor in (10, 11, 12, 14)}
    monkeypatch.setattr("penlight.build.wheel.find_python", versions.get)
    found = find_pythons(["python3.14", "python3.9", "python3.12", "python3.10", "python3.11"])
    assert [p.tags(PLATFORMS["linux-arm64"]).rsplit("-", 1)[0] for p in found] == [
        "cp310-cp310",
        "cp311-cp311",
        "cp312-abi3",
    ]
    assert [p.extension(PLATFORMS["linux-arm64"]) for p in found[1:]] == [
        "_runtime.cpython-311-aarch64-linux-gnu.so",
        NAME,
    ]


def test_the_package_is_what_is_in_git() -> None:
    names = {name for name, _ in package_files()}
    assert {
        "penlight/__init__.py",
        "penlight/py.typed",
        "penlight/_runtime.pyi",
        "penlight/runtime/include/penlight.h",
    } <= names
    assert not [n for n in names if n.endswith((".so", ".pyc"))]
    assert {
        "penlight/bindings/cpp/include/penlight.hpp",
        "penlight/bindings/cpp/compat/torch/script.h",
        "penlight/bindings/cpp/cmake/penlight-config.cmake",
        "penlight/bindings/apple/PenlightObjC/PENModule.mm",
    } <= {name for name, _ in binding_files()}


def test_sdist(tmp_path: Path) -> None:
    """What scikit-build-core makes of this tree is whole; without a file, or with one that was built, it would not be."""
    pytest.importorskip("scikit_build_core")
    path = tmp_path / _backend(f"build_sdist({str(tmp_path)!r})")
    check_sdist(path, dict(package_files()))
    with pytest.raises(BuildError, match="expected penlight/more.cc, found none"):
        check_sdist(path, ["penlight/more.cc"])
    with tarfile.open(tmp_path / "other.tar.gz", "w:gz") as archive:
        archive.add(path, "penlight-0.1/penlight/_runtime.abi3.so")
    with pytest.raises(BuildError, match="expected sources only, got penlight/_runtime.abi3.so too"):
        check_sdist(tmp_path / "other.tar.gz", [])


def _stable_python() -> str | None:
    """Some Python with a stable ABI that nanobind can do with, and its headers."""
    programs = [f"python3.{minor}" for minor in range(12, 20)] + [
        str(p) for p in Path.home().glob(".pyenv/versions/3.*/bin/python")
    ]
    return next((p for p in programs if (found := find_python(p)) and found.stable), None)


@pytest.mark.parametrize("component", ["Development.SABIModule", ""])
def test_cmake_makes_the_module_that_the_tag_promises(component: str, tmp_path: Path) -> None:
    """pip tags a wheel abi3 (and then says so to CMake): the module is named so too, or nothing is made."""
    nanobind = pytest.importorskip("nanobind")
    python = _stable_python()
    if python is None:
        pytest.skip("no Python 3.12 or later with headers is here")
    options = [
        f"-DPython_EXECUTABLE={python}",
        f"-Dnanobind_ROOT={nanobind.cmake_dir()}",
        f"-DSKBUILD_SABI_COMPONENT={component}",
    ]
    source = Path(__file__).resolve().parents[2]
    command = [
        native.tool("cmake"),
        "-S",
        str(source),
        "-B",
        str(tmp_path),
        "-G",
        "Ninja",
        "-DSKBUILD_SABI_VERSION=3.12",
        *options,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if not component:
        assert done.returncode
        assert "stable ABI of Python 3.12" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert "_runtime.abi3.so" in (made := (tmp_path / "build.ninja").read_text())
    assert "_runtime.cpython" not in made
