"""Builds a library: a target and a Selection in, the stripped library out, with its symbol file beside it.

generate.py writes tables and lists sources; ninja compiles what is out of date, in parallel; the linker runs twice, with and without
symbols, under one build-id. Objects lie in a cache folder per target and flags, named by their source (generated ones by their
content): a second model's library compiles only what the first did not need.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import penlight
from penlight.build import wasm
from penlight.build.cache import alone, cache_folder, prune
from penlight.build.checks import JNI_EXPORTS, check_jni, check_library
from penlight.build.formats import build_id_of, without_definitions
from penlight.build.generate import BINDINGS, ROOT, Sources, generate, jni_sources
from penlight.build.package import HEADER
from penlight.build.pe import defined_symbols
from penlight.build.selection import EVERYTHING, NOTHING, Selection
from penlight.build.stubs import CHECK_STACK, assembly, definitions, stub_libraries, version_script
from penlight.build.targets import TARGETS, Target
from penlight.build.toolchain import Toolchain, find_ninja, toolchain
from penlight.errors import BuildError
from penlight.paths import replace_file

Progress = Callable[[int, int, str], None]  # how many of how many, and what was done last
_STATUS = re.compile(r"^\[(\d+)/(\d+)\] (.*)")


@dataclass(frozen=True)
class Library:
    target: Target
    selection: Selection
    path: Path  # as it is shipped
    symbols: Path  # the same code with names and lines, for crash reports
    build_id: str  # the same in both
    sha256: str
    toolchain: str
    compiled: int  # files, this time; the others were up to date
    seconds: float
    link_map: str = field(default="", repr=False)  # which part of which object went where, as the linker tells it
    objects: tuple[Path, ...] = field(default=(), repr=False)  # that it was linked from
    isas: tuple[str, ...] = ("base",)  # the target's instruction sets that some kernel in it is compiled for


def build_library(
    target: Target,
    selection: Selection,
    out: Path,
    *,
    cache: Path | None = None,
    jobs: int = 0,
    progress: Progress | None = None,
    traced: bool = False,
) -> Library:
    """Writes `out`/<target>/libpenlight.so (or .dylib, .a, .dll) and its symbol file. `traced`: it notes what it uses when asked to, as
    the Python extension asks (penlight_trace.h)."""
    start = time.perf_counter()
    tools = toolchain(target)
    work = _work_folder(target, tools, cache)
    folder = out / target.name
    folder.mkdir(parents=True, exist_ok=True)
    with alone(work):
        sources = _generate(target, selection, work)
        once = "traced" if traced else "once"
        objects, compiled = _compile(target, tools, selection, sources, work, jobs, progress, once)
        made, link_map = work / target.library, work / "link.map"
        link_map.write_text("")
        if target.system == "ios":
            _archive(tools, objects, work, made)
            build_id = hashlib.sha1(made.read_bytes()).hexdigest()
            symbols = folder / target.library  # an app's linker takes them off
        elif target.system == "wasm":
            _link(target, tools, objects, work, made, "")
            build_id = hashlib.sha256(made.read_bytes()).hexdigest()[:40]
            symbols = folder / target.library  # it has none
            _place(wasm.MODULE, folder / wasm.MODULE.name)
        elif target.system == "windows":
            _link(target, tools, objects, work, made, "", link_map)
            build_id = build_id_of(made)
            check_library(made, target)
            symbols = folder / "penlight.pdb"  # as debuggers look for it, by name and number
            for beside in (symbols, symbols.with_suffix(".lib")):
                _place(work / beside.name, beside)
        else:
            build_id = _link_twice(target, tools, objects, work, made, link_map)
            check_library(made, target)
            symbols = _place_symbols(made, folder, build_id)
        path = folder / target.library
        _place(made, path)
        placed = link_map.read_text(errors="replace")
    if compiled:
        prune(work.parent)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    seconds = time.perf_counter() - start
    return Library(
        target, selection, path, symbols, build_id, digest, tools.name, compiled, seconds, placed, tuple(objects), tuple(sources.per_isa)
    )  # fmt: skip


def build_jni(library: Library, natives: Collection[str], *, cache: Path | None = None, jobs: int = 0) -> Library:
    """Writes what Java loads beside a library that build_library made, and needs that one: libpenlight_jni.so and its symbol file.
    `natives`: what the classes look for in it."""
    start = time.perf_counter()
    target, folder = library.target, library.path.parent
    tools = toolchain(target)
    work = _work_folder(target, tools, cache)
    with alone(work):
        _generate(target, NOTHING, work)  # headers
        objects, compiled = _compile_sources(
            target, tools, jni_sources(list(target.isas)), work, "jni", [f"-I{BINDINGS.parent}"], jobs, None
        )
        made, link_map, exports = work / target.jni_library, work / "jni.map", work / "jni_exports.map"
        exports.write_text(f"{{ global: {'; '.join(JNI_EXPORTS)}; local: *; }};\n")
        build_id = _link_twice(target, tools, objects, work, made, link_map, exports, library.path)
        check_jni(made, target, natives)
        symbols, path = _place_symbols(made, folder, build_id), folder / made.name
        _place(made, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    seconds = time.perf_counter() - start
    return Library(target, NOTHING, path, symbols, build_id, digest, tools.name, compiled, seconds)


def build_program(target: Target, sources: Sequence[Path], *, progress: Progress | None = None) -> Path:
    """A program of these sources with everything there is (targets.PROGRAMS), brought up to date where it lies in the cache."""
    tools = toolchain(target)
    work = _work_folder(target, tools, None)
    with alone(work):
        all_of_it = _generate(target, EVERYTHING, work)
        with_program = Sources(all_of_it.per_isa, [*all_of_it.once, *sources])
        objects, compiled = _compile(target, tools, EVERYTHING, with_program, work, 0, progress, "once")
        _link(target, tools, objects, work, work / "linked", "")
        os.replace(work / "linked", work / target.library)  # whoever runs the old one keeps that
    if compiled:
        prune(work.parent)
    return work / target.library


def _work_folder(target: Target, tools: Toolchain, cache: Path | None) -> Path:
    """For all that is compiled with the same tools and flags from the same sources."""
    flags = [tools.compile_flags(target, isa) for isa in ("", *target.isas)]
    text = repr([tools, *flags, str(ROOT), penlight.__version__])
    return (cache or cache_folder()).resolve() / f"{target.name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _place_symbols(made: Path, folder: Path, build_id: str) -> Path:
    """The library as _link_twice left it with its symbols, where crash reports look for it."""
    for old in folder.glob(f"{made.name}.*.sym"):
        old.unlink()
    symbols = folder / f"{made.name}.{build_id}.sym"
    _place(_whole(made), symbols)
    return symbols


def _whole(made: Path) -> Path:
    return made.with_name(f"whole-{made.name}")


def _place(made: Path, path: Path) -> None:
    """As a new file: whoever has the old one loaded keeps that."""
    replace_file(path, lambda out: out.write(made.read_bytes()), 0o777 if os.access(made, os.X_OK) else 0o666)


# --- compile ---
def _compile(
    target: Target, tools: Toolchain, chosen: Selection, sources: Sources, work: Path, jobs: int, progress: Progress | None, once: str,
) -> tuple[dict[Path, Path], int]:  # fmt: skip
    """Objects and what each was compiled from; how many were out of date."""
    only_cpu = chosen.backends == ("cpu",)
    once += "" if only_cpu else "_devices"  # objects of their own: libraries of both kinds are built by turns
    defined = [*(["-DPEN_TRACE"] if once.startswith("traced") else []), *(["-DPEN_ONE_DEVICE"] if only_cpu else [])]
    if not chosen.state:
        once += "_stateless"
        defined.append("-DPEN_STATELESS")
    if not chosen.turns:
        once += "_one_image"
        defined.append("-DPEN_ONE_IMAGE")
    if not chosen.vm and chosen.keys is not None and not any(map(_is_recurrent, chosen.keys)):
        once += "_straight"
        defined.append("-DPEN_WITHOUT_STEPS")
    if not chosen.vm and not chosen.halves and chosen.keys is not None and not any(map(_is_of_bytes, chosen.keys)):
        once += FLOATS
    return _compile_sources(target, tools, sources, work, once, defined, jobs, progress)


FLOATS = "_floats"  # objects of a library for models that have f32 alone, neither quantized tensors nor weights in f16


def _is_of_bytes(key: str) -> bool:
    """Whether a kernel reads or makes quantized tensors."""
    op = key.partition(".")[0]
    return ".q8" in key or "quantize" in op or op.endswith("_dynamic")


def _is_recurrent(key: str) -> bool:
    """Whether a kernel may have a phase for every step."""
    return key.startswith(("lstm", "gru", "rnn"))


def _compile_sources(
    target: Target, tools: Toolchain, sources: Sources, work: Path, once: str, defined: Sequence[str], jobs: int, progress: Progress | None,
) -> tuple[dict[Path, Path], int]:  # fmt: skip
    """The same of sources that are all there. `once`: a name for the flags of those that are compiled once, which `defined` adds to."""
    kind = FLOATS if once.endswith(FLOATS) else ""
    rules = {once: sources.once, **{isa + kind: files for isa, files in sources.per_isa.items()}}
    lines = ["ninja_required_version = 1.5", "builddir = ."]
    objects = {}
    for rule, files in rules.items():
        flags = tools.compile_flags(target, "" if rule == once else rule.removesuffix(kind))
        fixed = [f'-DPEN_VERSION_STRING="{penlight.__version__}"', f"-I{ROOT.parent}", f"-I{work / 'generated'}",
                 f"-ffile-prefix-map={ROOT.parent}=.", f"-ffile-prefix-map={work}=."]  # fmt: skip
        fixed += [f'-DPEN_TARGET="{target.name}"'] if target.name in TARGETS else []
        fixed += defined if rule == once else []
        fixed += ["-DPEN_FLOATS_ONLY"] if kind else []
        command = _shell([*tools.compiler, *flags, *fixed]).replace("$", "$$")
        lines += [f"rule {rule}", f"  command = {command} -MMD -MF $out.d -c $in -o $out", "  depfile = $out.d", "  deps = gcc",
                  f"  description = {'' if rule == once else rule + ' '}$in"]  # fmt: skip
        for source in files:
            home = next(folder for folder in (ROOT, work, ROOT.parent) if source.is_relative_to(folder))
            made = Path("objects") / rule / source.relative_to(home).with_suffix(".o")
            objects[work / made] = source
            lines.append(f"build {_ninja_path(made)}: {rule} {_ninja_path(source)}")
    (work / "build.ninja").write_text("\n".join(lines) + "\n")
    return objects, _run_ninja(work, jobs, progress)


def _generate(target: Target, chosen: Selection, work: Path) -> Sources:
    """The tables, in files named by their content, so that libraries with other ones do not overwrite each other's."""
    into = work / "generated"
    with tempfile.TemporaryDirectory() as folder:
        made = generate(Path(folder), list(target.isas), chosen, work.parent / "shaders")
        placed = {}
        for path in sorted(Path(folder).iterdir()):
            text = path.read_bytes()
            there = into / path.name
            if path.suffix == ".cc":
                there = into / hashlib.sha256(text).hexdigest()[:12] / path.name
            elif path.suffix != ".h":
                continue
            placed[path] = there
            if not there.exists() or there.read_bytes() != text:
                there.parent.mkdir(parents=True, exist_ok=True)
                there.write_bytes(text)
    return Sources(
        {isa: [placed.get(p, p) for p in files] for isa, files in made.per_isa.items()},
        [placed.get(p, p) for p in made.once],
    )


def _run_ninja(work: Path, jobs: int, progress: Progress | None) -> int:
    """Brings all objects up to date; says how many were not."""
    command = [find_ninja(), "-C", str(work), *([f"-j{jobs}"] if jobs else [])]
    environment = {**os.environ, "NINJA_STATUS": "[%f/%t] ", "TERM": "dumb"}
    said: list[str] = []
    done = 0
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, errors="replace"
    ) as process:
        assert process.stdout
        for line in process.stdout:
            if found := _STATUS.match(line):
                done = int(found[1])
                if progress:
                    progress(done, int(found[2]), found[3])
            else:
                said.append(line.rstrip())
    if process.returncode == 0:
        return done
    first = next((i for i, line in enumerate(said) if line.startswith("FAILED")), 0)
    raise BuildError("a file does not compile; the command and what it said:\n" + "\n".join(said[first:][:60]))


# --- link ---
def _link_twice(
    target: Target, tools: Toolchain, objects: Mapping[Path, Path], work: Path, made: Path, link_map: Path, exports: Path | None = None,
    *more: Path,
) -> str:  # fmt: skip
    """`made`, stripped, and beside it the same code with its symbols, under one build-id, which is said."""
    _link(target, tools, objects, work, _whole(made), "sha1", link_map, exports, *more)
    build_id = build_id_of(_whole(made))
    _link(target, tools, objects, work, made, build_id, None, exports, *more)
    return build_id


def _link(
    target: Target,
    tools: Toolchain,
    objects: Mapping[Path, Path],
    work: Path,
    out: Path,
    build_id: str,
    link_map: Path | None = None,
    exports: Path | None = None,
    *more: Path,
) -> None:
    """With `link_map` the library keeps its symbols, and the map is written; without, it is stripped. `exports` names what others
    see of it where that is not as compiled; `more` are libraries that it needs."""
    written = ["-o", str(out)]
    if target.system == "windows":
        written = _dll_files(target, objects, work, out)
    elif target.system == "wasm":
        objects = wasm.in_order(objects)
        written += [f"-Wl,--export={name}" for name in wasm.exports(objects.values())]
    listed = _listed(objects, work)
    libraries = tools.libraries if tools.libraries is not None else _stubs(target, tools, work)
    flags = tools.link_flags(target, build_id, link_map, out.name.removeprefix("whole-"), exports)
    run_tool([*tools.linker, *flags, *written, f"@{listed}", *map(str, more), *libraries])


def _archive(tools: Toolchain, objects: Iterable[Path], work: Path, out: Path) -> None:
    out.unlink(missing_ok=True)  # ar adds to what is there
    run_tool([*tools.archiver, "rcs", str(out), f"@{_listed(objects, work)}"])


def _listed(objects: Iterable[Path], work: Path) -> Path:
    """A response file."""
    path = work / "objects.txt"
    path.write_text("".join(f'"{p.as_posix()}"\n' for p in objects))
    return path


def _stubs(target: Target, tools: Toolchain, work: Path) -> list[str]:
    """Libraries to link with, where the system's are not at hand; with them what 32-bit processors need."""
    folder, zig, libraries = work / "stubs", Path(tools.zig), stub_libraries(target)
    if target.system == "windows":
        return [
            *(str(import_library(zig, name, functions, folder)) for name, functions in libraries.items()),
            str(check_stack(zig, target.triple, folder)),
        ]
    found = [
        str(stub_library(zig, target.triple, target.flags, target.emulation, name, functions, folder))
        for name, functions in libraries.items()
    ]
    if target.needs_builtins:
        found.append(str(_builtins(target, zig, folder, {n for names in libraries.values() for n in names})))
    return found


def _dll_files(target: Target, objects: Iterable[Path], work: Path, out: Path) -> list[str]:
    """What is written for Windows: the DLL, which exports the header's functions, the library to link programs with, symbols."""
    declared = set(re.findall(r"^PEN_API [^(]*?\b(pen_\w+)\(", HEADER.read_text("utf-8"), re.MULTILINE))
    exports = sorted(declared & {name for path in objects for name in defined_symbols(path.read_bytes())})
    (work / "penlight.def").write_text(definitions(target.library, exports))
    return [f"/out:{out}", *(f"/{kind}:{work / f'penlight.{end}'}" for kind, end in (("def", "def"), ("implib", "lib"), ("pdb", "pdb"))),
            "/pdbaltpath:penlight.pdb"]  # fmt: skip


def import_library(zig: Path, name: str, functions: Iterable[str], folder: Path) -> Path:
    """To link with a DLL of Windows."""
    folder.mkdir(parents=True, exist_ok=True)
    listed, made, text = folder / f"{name}.def", folder / f"{name}.lib", definitions(name, functions)
    if not made.exists() or listed.read_text() != text:
        made.unlink(missing_ok=True)  # who is stopped here leaves none of another text
        listed.write_text(text)
        run_tool([str(zig), "dlltool", "-m", "i386:x86-64", "-d", str(listed), "-l", str(made)])
    return made


def check_stack(zig: Path, triple: str, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "check_stack.s"
    source.write_text(CHECK_STACK)
    run_tool([str(zig), "clang", f"--target={triple}", "-c", str(source), "-o", f"{source}.o"])
    return Path(f"{source}.o")


def stub_library(
    zig: Path, triple: str, flags: Sequence[str], emulation: str, name: str, functions: Mapping[str, str], folder: Path
) -> Path:
    """A shared library of this name with these functions, all empty, to link with."""
    folder.mkdir(parents=True, exist_ok=True)
    source, made, versions = folder / f"{name}.s", folder / name, folder / f"{name}.map"
    text, script = assembly(functions), version_script(functions)
    if made.exists() and source.read_text() == text and versions.read_text() == script:
        return made
    made.unlink(missing_ok=True)  # who is stopped here leaves none of another text
    versions.write_text(script)
    source.write_text(text)
    run_tool([str(zig), "clang", f"--target={triple}", *flags, "-c", str(source), "-o", f"{source}.o"])
    options = ["-m", emulation, "-shared", "-soname", name, *(["--version-script", str(versions)] if script else [])]
    run_tool([str(zig), "ld.lld", *options, f"{source}.o", "-o", str(made)])
    return made


def _builtins(target: Target, zig: Path, folder: Path, taken: set[str]) -> Path:
    """The compiler's own functions, such as a 64-bit division. They come in one object with a memcpy and an expf of their own: names
    that the system has (`taken`) are made undefined in it, and what is then unused goes with --gc-sections."""
    made = folder / "builtins.o"
    if not made.exists():
        source = zig.parent / "lib/compiler_rt.zig"
        kind = {"arm": "arm-linux-androideabi", "i386": "x86-linux-android"}[target.processor]
        if target.system == "linux":
            kind = "arm-linux-gnueabihf"
        whole = folder / "whole-builtins.o"
        run_tool([str(zig), "build-obj", str(source), "-target", kind, "-O", "ReleaseSmall", "-fPIC", "-ffunction-sections",
              "-fdata-sections", "-fstrip", f"-femit-bin={whole}"])  # fmt: skip
        content = without_definitions(whole.read_bytes(), taken)
        replace_file(made, lambda out: out.write(content))
    return made


def run_tool(command: Sequence[str]) -> None:
    """A linker, a compiler, an archiver; what it says is in the error, should it fail."""
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode:
        raise BuildError(f"this command failed: {_shell(command)}\n{done.stdout}{done.stderr}".rstrip())


def _shell(words: Sequence[str]) -> str:
    import shlex

    return subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)


def _ninja_path(path: Path) -> str:
    """As ninja reads it."""
    return re.sub(r"([$ :])", r"$\1", str(path))
