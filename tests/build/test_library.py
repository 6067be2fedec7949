"""Libraries for every target: built, checked, and run as they are; what is out of date is compiled, and nothing else."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penlight.build import benchmark
from penlight.build import library as libraries
from penlight.build import toolchain as toolchains
from penlight.build import verify as verifying
from penlight.build.emulation import NotHere, runner
from penlight.build.formats import build_id_of
from penlight.build.library import build_library
from penlight.build.model_selection import selection_of_models
from penlight.build.report import sizes_of
from penlight.build.report_page import page
from penlight.build.selection import NOTHING, Selection
from penlight.build.targets import GROUPS, TARGETS, targets
from penlight.build.toolchain import toolchain
from penlight.build.verify import verify
from penlight.errors import BuildError

pytestmark = pytest.mark.slow  # it compiles

ELF = [name for name, target in TARGETS.items() if target.elf]
APPLE = [name for name, target in TARGETS.items() if target.system in ("macos", "ios")]


@pytest.mark.parametrize(
    "name", [n if n in ("host", "android-arm64") else pytest.param(n, marks=pytest.mark.slow) for n in ELF]
)
def test_built_checked_and_run(name: str, library: Any, models: dict[str, Path], cache: Path) -> None:
    made = library(name)
    assert made.path.name == "libpenlight.so"
    assert hashlib.sha256(made.path.read_bytes()).hexdigest() == made.sha256
    assert made.build_id == build_id_of(made.path) == build_id_of(made.symbols)
    assert made.symbols.name == f"libpenlight.so.{made.build_id}.sym"
    assert b"pen_session_run" in made.symbols.read_bytes()
    assert b"kKernels" not in made.path.read_bytes(), "stripped"
    if isinstance(runner(made.target, cache), NotHere):
        pytest.skip(runner(made.target, cache).why)  # type: ignore[union-attr]
    ran = verify(made, models["planned"], cache)
    assert ran.calls == 2
    assert ran.largest_error < 1
    if "qemu" in ran.how:
        assert set(ran.isas) == set(made.isas), "it emulates all of them"
    sizes = sizes_of(made)
    assert sizes.total == made.path.stat().st_size < 200_000 * len(made.target.isas)
    assert sum(sizes.parts.values()) == sizes.total
    assert sizes.parts["matmul/linear"] > 200
    assert sizes.parts["dynamic tables, merged strings"] < 0.25 * sizes.total, "the map was read"
    assert any(s.name == "pen::base::linear_f32" and s.part == "matmul/linear" for s in sizes.symbols)
    assert {s.isa for s in sizes.symbols} - {""} == set(made.isas)
    table = next(s for s in sizes.symbols if s.name == "pen_kernel_functions")
    assert 0 < table.size <= 4 * len(made.selection.keys) * len(made.target.isas), "distances, which nobody relocates"
    html = page("planned.pen", [(sizes, [ran])])
    assert "<svg" in html
    assert made.build_id in html
    assert "2 runs right" in html


@pytest.mark.slow
@pytest.mark.parametrize("name", APPLE)
def test_apple_libraries_are_built_and_not_run(name: str, models: dict[str, Path], cache: Path, tmp_path: Path) -> None:
    made = build_library(TARGETS[name], selection_of_models([models["planned"]]), tmp_path, cache=cache)
    head = made.path.read_bytes()[:8]
    processor = {"aarch64": b"\x0c", "x86_64": b"\x07"}[TARGETS[name].processor]
    assert head == (b"\xcf\xfa\xed\xfe" + processor + b"\x00\x00\x01" if name.startswith("macos") else b"!<arch>\n")
    ran = verify(made, models["planned"], cache)
    assert (ran.calls, ran.how[:12]) == (0, "not run here")


def test_only_what_is_out_of_date_is_compiled(library: Any, cache: Path, tmp_path: Path) -> None:
    first = library("android-arm64")
    again = build_library(first.target, first.selection, tmp_path, cache=Path(os.path.relpath(cache)))
    assert again.compiled == 0
    assert again.path.read_bytes() == first.path.read_bytes(), "the same on every run"
    held = again.path.stat().st_ino  # as of a program that has it loaded
    assert build_library(first.target, first.selection, tmp_path, cache=cache).path.stat().st_ino != held
    steps: list[tuple[int, int, str]] = []
    fewer = replace(first.selection, keys=first.selection.keys - {"sigmoid.f32"})
    build_library(first.target, fewer, tmp_path, cache=cache, progress=lambda *step: steps.append(step))
    assert all("generated" in what for _, _, what in steps), "tables alone"
    back = build_library(first.target, first.selection, tmp_path, cache=cache)
    assert back.compiled == 0, "tables of other libraries are kept"
    assert back.path.read_bytes() == first.path.read_bytes()


def test_a_program_is_compiled_where_it_changed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmark program, here of the runtime alone: like a library, by the same rules."""
    monkeypatch.setenv("PENLIGHT_CACHE", str(cache))
    monkeypatch.setattr(libraries, "EVERYTHING", NOTHING)
    monkeypatch.setattr(benchmark, "program_sources", functools.partial(benchmark.program_sources, with_vm=False))
    program = benchmark.benchmark_binary("x86_64")
    made, said = program.read_bytes(), subprocess.run([program], capture_output=True, text=True)
    assert "--model" in said.stdout + said.stderr
    for compiled in ([], ["flags.cc"]):
        steps: list[str] = []
        assert benchmark.benchmark_binary("x86_64", lambda done, total, what: steps.append(Path(what).name)) == program  # noqa: B023
        assert (steps, program.read_bytes() == made) == (compiled, True)
        (made_of,) = (program.parent / "objects").glob("once*/programs/speed_benchmark_torch/flags.o")
        made_of.unlink()


def test_a_quantized_model(library: Any, models: dict[str, Path], cache: Path, tmp_path: Path) -> None:
    """Its library has the sets that only multiply bytes, and gives the same numbers by each; one for a model in floats has not."""
    target = TARGETS["android-arm64"]
    made = build_library(target, selection_of_models([models["quantized"]]), tmp_path, cache=cache)
    assert made.isas == target.isas
    assert library(target.name).isas == ("base",)
    if isinstance(runner(target, cache), NotHere):
        pytest.skip(runner(target, cache).why)  # type: ignore[union-attr]
    ran = verify(made, models["quantized"], cache)
    assert set(ran.isas) == set(target.isas)
    assert "lacks" not in ran.text


@pytest.mark.parametrize("target", ["android-arm64", pytest.param("android-x86", marks=pytest.mark.slow)])
def test_a_model_with_vm_code(target: str, models: dict[str, Path], cache: Path, tmp_path: Path) -> None:
    """Its library has the VM and the operators that it names; a library of planned models has not."""
    selection = selection_of_models([models["interpreted"]])
    assert selection.vm
    assert selection.operators is not None
    assert "aten::stack" in selection.operators
    made = build_library(TARGETS[target], selection, tmp_path, cache=cache)
    if isinstance(runner(made.target, cache), NotHere):
        pytest.skip(runner(made.target, cache).why)  # type: ignore[union-attr]
    assert verify(made, models["interpreted"], cache).calls == 2


def test_nothing_but_the_runtime(cache: Path, tmp_path: Path, models: dict[str, Path]) -> None:
    made = build_library(TARGETS["android-arm64"], NOTHING, tmp_path, cache=cache)
    if not isinstance(runner(made.target, cache), NotHere):
        command = "penlight build --model planned.pen --target android-arm64 "
        with pytest.raises(BuildError, match=rf"needs \d+ more: .*linear\.f32.*{command}"):
            verify(made, models["planned"], cache)


# --- what may go wrong ---
def test_a_compile_that_fails_says_what_and_how(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchains, "SPEED", ("-O2", "-DRun=}"))
    with pytest.raises(BuildError) as raised:
        build_library(
            TARGETS["android-arm64"], Selection(frozenset({"linear.f32"}), frozenset(), False), tmp_path, cache=tmp_path
        )
    assert "does not compile" in str(raised.value)
    assert "--target=aarch64-linux-android21" in str(raised.value), "the command"
    assert "error: " in str(raised.value), "what the compiler said"
    assert not (tmp_path / "android-arm64/libpenlight.so").exists()


def test_another_file_in_its_place_is_noticed(
    library: Any, models: dict[str, Path], cache: Path, tmp_path: Path
) -> None:
    made = library("host")
    other = dataclasses.replace(made, path=Path(shutil.copy(made.symbols, tmp_path / "libpenlight.so")))
    with pytest.raises(BuildError, match="expected the file that was built"):
        verify(other, models["planned"], cache)


def test_a_wrong_result_is_found(library: Any, models: dict[str, Path], cache: Path, tmp_path: Path) -> None:
    """A weight changed after the expected results were noted."""
    import numpy as np

    from penlight.file import format as f
    from penlight.file.reader import read

    image = np.fromfile(models["planned"], np.uint8)
    weight = next(c for c in read(image).constants if c.layout.startswith("panel"))
    image[weight.offset : weight.offset + 4] = np.frombuffer(np.float32(3).tobytes(), np.uint8)
    image[f.HASH_OFFSET : f.HASH_OFFSET + 32] = 0
    image[f.HASH_OFFSET : f.HASH_OFFSET + 32] = np.frombuffer(hashlib.sha256(image).digest(), np.uint8)
    image.tofile(tmp_path / "wrong.pen")
    with pytest.raises(BuildError, match=r"wrong.pen on host, forward: result\['y'\]: expected within .* off"):
        verify(library("host"), tmp_path / "wrong.pen", cache)


def test_every_instruction_set_is_tried(
    library: Any, models: dict[str, Path], cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last of them computes something else here: it is found, and named."""
    made, ran = library("host"), runner(TARGETS["host"], cache)
    isas = verify(made, models["planned"], cache).isas
    if isinstance(ran, NotHere) or len(isas) == 1:
        pytest.skip("this machine has one instruction set")
    script = tmp_path / "runner"
    first = 28  # of the results: after the count, dtype, rank and two dims
    script.write_text(
        f'#!/bin/sh\n{ran.command[0]} "$@" && case "$5" in {isas[-1]}) printf "\\0\\0\\0\\100" |'
        f' dd of="$4" bs=1 seek={first} conv=notrunc 2>{os.devnull} ;; esac\n'
    )
    script.chmod(0o755)
    monkeypatch.setattr(verifying, "runner", lambda *_: dataclasses.replace(ran, command=(str(script),)))
    with pytest.raises(
        BuildError, match=rf"planned.pen on host by {isas[-1]}, forward: result\['y'\]: expected within .* off"
    ):
        verify(made, models["planned"], cache)


def test_names_of_targets() -> None:
    assert [t.abi for t in targets(["android", "android-x86"])] == ["arm64-v8a", "armeabi-v7a", "x86", "x86_64"]
    assert set(GROUPS) == {"android", "ios"}
    with pytest.raises(BuildError, match="expected one of android, ios, host, .* got 'windows'"):
        targets(["windows"])


def test_missing_tools_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    toolchains.find_zig.cache_clear()
    monkeypatch.setattr(toolchains.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BuildError, match=r"zig, .*pip install 'penlight\[build\]'"):
        toolchains.find_zig()
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(BuildError, match=r"ninja, .*pip install 'penlight\[build\]'"):
        toolchains.find_ninja()


@pytest.mark.parametrize("name", ["android-arm64", "android-armv7", "android-x86", "linux-armv7"])
def test_an_emulated_program_has_its_own_c_library(name: str, cache: Path) -> None:
    """Not one of this machine's, such as libc6-i386's in /lib32: with another's loader that hangs where threads begin."""
    found = runner(TARGETS[name], cache)
    if isinstance(found, NotHere) or "-L" not in found.command:
        pytest.skip(found.why if isinstance(found, NotHere) else "not emulated here")
    asked = [*found.command[:-1], "-E", "LD_TRACE_LOADED_OBJECTS=1", found.command[-1]]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    (path,) = (line.split()[2] for line in said.splitlines() if "libc.so.6 =>" in line)
    assert path.startswith(found.command[found.command.index("-L") + 1]), said


def test_missing_emulator_is_named(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    found = runner(TARGETS["android-armv7"], cache)
    assert isinstance(found, NotHere)
    assert found.why.startswith("not run here: it needs an emulator; on Debian: apt-get install qemu-user-static")


# --- an NDK ---
@pytest.fixture
def ndk(tmp_path: Path, cache: Path, library: Any) -> Path:
    """A stand-in for an NDK: its folders, zig's clang and lld under its names, noting how they are called."""
    library("android-arm64")
    stubs = next(cache.glob("android-arm64-*/stubs"))
    root = tmp_path / "ndk"
    prebuilt = root / "toolchains/llvm/prebuilt/linux-x86_64"
    libraries = prebuilt / "sysroot/usr/lib/aarch64-linux-android/21"
    builtins = prebuilt / "lib/clang/18/lib/linux/libclang_rt.builtins-aarch64-android.a"
    for folder in (prebuilt / "bin", libraries, builtins.parent):
        folder.mkdir(parents=True)
    for name in ("libc.so", "libm.so", "libdl.so", "liblog.so"):
        shutil.copy(stubs / name, libraries)
    builtins.write_bytes(b"!<arch>\n")
    zig = toolchains.find_zig()
    commands = {"clang": f"clang -isystem {zig.parent / 'lib/include'}", "ld.lld": "ld.lld", "llvm-ar": "ar"}
    for name, command in commands.items():
        script = prebuilt / "bin" / name
        script.write_text(f'#!/bin/sh\necho "{name} $*" >>{tmp_path}/called\nexec {zig} {command} "$@"\n')
        script.chmod(0o755)
    return root


def test_an_ndk_is_used_where_it_is_set(
    ndk: Path, library: Any, models: dict[str, Path], cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANDROID_NDK_HOME", str(ndk))
    target = TARGETS["android-arm64"]
    made = build_library(target, NOTHING, tmp_path / "dist", cache=tmp_path / "cache")
    assert made.toolchain.startswith("NDK: ")
    called = (tmp_path / "called").read_text().splitlines()
    compiled = [c for c in called if " -c " in c]
    assert all("--target=aarch64-linux-android21" in c and "-nostdlibinc" in c for c in compiled)
    (link,) = [c for c in called if c.startswith("ld.lld") and "--build-id=0x" in c]
    for words in ("-z max-page-size=16384", "--gc-sections", f"-L{ndk}", "-lc -lm -ldl -llog", "builtins-aarch64"):
        assert words in link
    monkeypatch.setenv("ANDROID_NDK_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(BuildError, match=r"ANDROID_NDK_HOME=.*nowhere: expected an NDK"):
        toolchain(target)


def test_a_compiler_that_is_named_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "own-c++"
    script.write_text(f'#!/bin/sh\nexec {shutil.which("g++") or "c++"} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    assert toolchain(TARGETS["host"]).compiler == (str(script),)
    monkeypatch.setenv("CXX", os.devnull)
    with pytest.raises(BuildError, match="no such compiler"):
        toolchain(TARGETS["host"])
    monkeypatch.setenv("CXX", str(script))
    for says in ("exit 1", ""):
        script.write_text(f"#!/bin/sh\n{says}\n")
        with pytest.raises(BuildError, match=r"own-c\+\+ --version: expected a compiler that says its version"):
            toolchain(TARGETS["host"])
