"""The runtime on Windows: a DLL that is refused unless it is all that it must be, and the C programs and models of other tests run with it
under wine, where that is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penlight.build.checks import check_library
from penlight.build.emulation import NotHere, Runner, runner
from penlight.build.library import Library, build_library, import_library, run_tool
from penlight.build.model_selection import selection_of_models
from penlight.build.package import HEADER
from penlight.build.pe import read_pe
from penlight.build.report import sizes_of
from penlight.build.stubs import definitions, stub_libraries
from penlight.build.targets import TARGETS
from penlight.build.toolchain import WINDOWS_LINK, find_zig
from penlight.build.verify import verify
from penlight.errors import BuildError
from tests.runtime import networks

pytestmark = pytest.mark.slow  # it compiles

TARGET = TARGETS["windows-x86_64"]
ROOT = Path(__file__).resolve().parents[2]


# --- what a DLL must be ---
SOURCE = """extern "C" const char* pen_version() { return "1"; }
extern "C" int other(const char** x);
const char* (*kept)() = pen_version;
extern "C" int pen_more() { const char* x = kept(); return CALLED; }
"""
# what is wrong: (linker flags in place of the good ones, exports, what it calls: of which library)
CASES: dict[str, tuple[dict[str, str], list[str], str]] = {
    "flags: .* got one without NX_COMPAT": ({"/nxcompat": "/nxcompat:no"}, [], ""),
    "flags: .* got one without HIGH_ENTROPY_VA": ({"/highentropyva": "/highentropyva:no"}, [], ""),
    "flags: .* got one without DYNAMIC_BASE, relocations": ({"/dynamicbase": "/fixed"}, [], ""),
    "unwind tables: expected some": ({"/lldmingw": "/nologo"}, [], "KERNEL32.dll"),
    "sections: expected none that is both written and executed, got .text": ({"/nologo": "/section:.text,ERW"}, [], ""),
    "needed libraries: expected those of every Windows 10, got MSVCP140.dll too": ({}, [], "MSVCP140.dll"),
    "exported symbols: expected pen_.* got kept too": ({}, ["kept"], ""),
    "exported symbols: expected pen_version": ({}, ["-pen_version"], ""),
}


def _dll(folder: Path, instead: dict[str, str], exports: list[str], called: str) -> Path:
    zig, out = find_zig(), folder / "penlight.dll"
    (folder / "x.cc").write_text(SOURCE.replace("CALLED", "other(&x)" if called else "*x"))
    run_tool([str(zig), "clang", f"--target={TARGET.triple}", "-ffreestanding", "-fno-exceptions", "-fasynchronous-unwind-tables",
              "-ffunction-sections", "-c", str(folder / "x.cc"), "-o", str(folder / "x.o")])  # fmt: skip
    names = {"pen_version", "pen_more", *exports} - {e.removeprefix("-") for e in exports if e.startswith("-")}
    (folder / "x.def").write_text(definitions("penlight.dll", sorted(n for n in names if not n.startswith("-"))))
    library = import_library(zig, called or "KERNEL32.dll", ["other"], folder)
    link = [instead.get(word, word) for word in WINDOWS_LINK]
    run_tool(
        [str(zig), "lld-link", *link, f"/out:{out}", f"/def:{folder / 'x.def'}", str(folder / "x.o"), str(library)]
    )
    return out


@pytest.mark.parametrize("wrong", CASES)
def test_a_dll_that_is_not_fit_is_refused(wrong: str, tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    with pytest.raises(BuildError, match=wrong) as raised:
        check_library(_dll(tmp_path, *CASES[wrong]), TARGET)
    assert str(raised.value).count("expected") == 1, "nothing else is wrong with it"


def test_a_fit_dll_passes_and_others_are_told_apart(tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    made = _dll(tmp_path, {}, [], "")
    check_library(made, TARGET)
    data = bytearray(made.read_bytes())
    start = int.from_bytes(data[60:64], "little")
    data[start + 4 : start + 6] = b"\x64\xaa"  # arm64
    made.write_bytes(data)
    with pytest.raises(BuildError, match="processor: expected x86-64 .*0xaa64"):
        check_library(made, TARGET)
    for other in (b"\x7fELF" + bytes(99), b"MZ", b""):
        with pytest.raises(BuildError, match="expected a 64-bit file for Windows"):
            read_pe(other)


def test_functions_are_where_they_are_looked_for() -> None:
    """Every function that the DLL may take stands in mingw's list of what that library of Windows has."""
    pytest.importorskip("ziglang")
    lists = find_zig().parent / "lib/libc/mingw"
    found = stub_libraries(TARGET)
    assert {"CreateFileMappingW", "CreateThread"} <= set(found["KERNEL32.dll"])
    assert {"erff", "lgamma", "_j0", "floor"} <= set(found["api-ms-win-crt-math-l1-1-0.dll"])
    assert not {"malloc", "open", "lgamma_r"} & {name for names in found.values() for name in names}
    for library, names in found.items():
        text = "".join(p.read_text() for p in lists.glob(f"lib-common/{library.removesuffix('.dll').lower()}.def*"))
        assert not [n for n in names if not re.search(rf"^(F_NON_I386\(|F_X64\()?{n}\b", text, re.MULTILINE)], library


# --- it runs ---
@pytest.fixture(scope="session")
def wine(cache: Path) -> Runner:
    found = runner(TARGET, cache)
    if isinstance(found, NotHere):
        pytest.skip(found.why)
    return found


def test_without_wine_it_is_said(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert runner(TARGET, cache) == NotHere(
        "not run here: it needs Windows or wine; on Debian: apt-get install --no-install-recommends wine64 wine"
    )


@pytest.mark.slow
def test_built_and_checked(library: Any, cache: Path, tmp_path: Path) -> None:
    made: Library = library(TARGET.name)
    assert made.path.name == "penlight.dll"
    assert made.symbols == made.path.with_suffix(".pdb")
    assert bytes.fromhex(made.build_id) in made.path.read_bytes()
    assert bytes.fromhex(made.build_id) in made.symbols.read_bytes(), "debuggers find it by this number"
    assert b"kKernels" in made.symbols.read_bytes()
    assert b"kKernels" not in made.path.read_bytes(), "stripped"
    assert b"penlight.dll" in made.path.with_suffix(".lib").read_bytes()
    exports = read_pe(made.path.read_bytes()).exports
    declared = set(re.findall(r"\b(pen_\w+)\(", HEADER.read_text()))
    assert {"pen_session_run", "pen_model_open_fd"} <= exports < declared, "without the VM"
    again = build_library(TARGET, made.selection, tmp_path, cache=cache)
    assert again.compiled == 0
    assert again.path.read_bytes() == made.path.read_bytes(), "the same on every run"
    sizes = sizes_of(made)
    assert sum(sizes.parts.values()) == sizes.total == made.path.stat().st_size
    assert any(s.name == "pen::base::linear_f32" and s.part == "matmul/linear" for s in sizes.symbols)
    assert sizes.parts["dynamic tables, merged strings"] < 0.25 * sizes.total, "the map was read"


@pytest.mark.slow
def test_models_run(models: dict[str, Path], cache: Path, tmp_path: Path, wine: Runner) -> None:
    """A planned model and an interpreted one, from a path that is not plain ASCII; and what the C library's math gives."""
    torch = pytest.importorskip("torch")
    import penlight

    class Math(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            s = torch.special
            of_one = (torch.lgamma, torch.digamma, s.bessel_j0, s.bessel_j1, s.bessel_y0, s.bessel_y1, torch.erf, torch.expm1,
                      torch.log1p, torch.sinh, torch.tan, s.erfcx, torch.asinh)  # fmt: skip
            return [f(x) for f in of_one] + [f(x.double()) for f in of_one] + [torch.pow(x, 1.7), torch.fmod(x, 0.3)]

    x = torch.linspace(-7.93, 8.11, 331)
    penlight.optimize(Math(), (x,), bundled_inputs={"forward": [(x,)]}).save(tmp_path / "math.pen")
    files = [Path(shutil.copy(path, tmp_path / f"Modèle 模型 {name}.pen")) for name, path in models.items()]
    files.append(tmp_path / "math.pen")
    made = build_library(TARGET, selection_of_models(files), tmp_path, cache=cache)
    for file in files:
        ran = verify(made, file, cache)
        assert ran.calls, ran.how
        assert ran.how == "under wine"
        assert ran.largest_error < 1


@pytest.fixture(scope="session")
def programs(cache: Path, shared_folder: Path) -> Any:
    """The C programs of tests/runtime, compiled for Windows with zig's C library for it, linked with the DLL's import library."""

    def made(name: str, library: Library) -> Path:
        out = library.path.parent / f"{name}.exe"
        flags = [
            "-target",
            "x86_64-windows-gnu",
            "-O1",
            "-include",
            str(ROOT / "tests/build/posix_on_windows.h"),
            f"-I{HEADER.parent}",
        ]
        source = ROOT / f"tests/runtime/{name}.c"
        if not out.exists():
            run_tool(
                [str(find_zig()), "cc", *flags, str(source), str(library.path.with_suffix(".lib")), "-o", str(out)]
            )
        return out

    return made


@pytest.mark.slow
def test_c_programs(cache: Path, shared_folder: Path, tmp_path: Path, wine: Runner, programs: Any) -> None:
    """Every function of penlight.h and its refusals; all ways of loading, each instruction set, 1 to 3 threads; values of the VM."""
    cases = networks.cases(shared_folder / "networks")
    golden = ROOT / "tests/file/golden/v2.pen"
    library = build_library(
        TARGET, selection_of_models([golden, *(file for file, _ in cases.values())]), tmp_path, cache=cache
    )
    file, paths = cases["classifier"]
    runs = [("c_api", [file, paths[0], paths[2], tmp_path], "all well"), ("module", [golden], "all well")]
    runs += [("replay", [file, *paths], "replayed") for file, paths in cases.values()]
    for name, arguments, said in runs:
        command = [*wine.command[:-1], str(programs(name, library)), *(f"Z:{a}" for a in arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert (done.stdout.strip(), done.returncode) == (said, 0), done.stderr


# --- the Python package there ---
_IMPORTS = """
import builtins, importlib, os, pkgutil, sys
import numpy, click, rich.progress, torch._dynamo, torch.export  # of others, which may do as they like here
posix = {"fcntl", "grp", "posix", "pwd", "pty", "readline", "resource", "syslog", "termios", "tty"}
real = builtins.__import__
def without(name, globals=None, *rest, **named):
    if name.partition(".")[0] in posix and (globals or {}).get("__name__", "").startswith("penlight"):
        raise ModuleNotFoundError(f"No module named {name!r}, as on Windows: {globals['__name__']}")
    return real(name, globals, *rest, **named)
builtins.__import__ = without
for name in ("fork", "geteuid", "getloadavg", "getuid", "killpg", "mkfifo", "sched_getaffinity", "setsid", "sysconf", "uname"):
    delattr(os, name)
import penlight
for module in pkgutil.walk_packages(penlight.__path__, "penlight."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(len([m for m in sys.modules if m.startswith("penlight")]))
"""


def test_the_package_is_imported_without_posix() -> None:
    pytest.importorskip("torch")
    done = subprocess.run([sys.executable, "-c", _IMPORTS], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100
