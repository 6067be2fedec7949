"""The WebAssembly module of the runtime: a Selection goes in, penlight.wasm and the ES module over it come out.

zig compiles (pip install penlight[build]) and brings a C library, WASI's; of WASI itself the module imports the clock alone, so that
any host runs it. It has one thread, and vectors of 128 bits, which every browser has had since 2023. Exported is what penlight.mjs calls.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from penlight.build.generate import ROOT, generate
from penlight.build.selection import COPIES, Selection
from penlight.errors import PenlightError
from penlight.file.contents import PenFile

MODULE = ROOT / "web/penlight.mjs"
# Speed of kernels is what counts; all else is size.
COMPILE = [
    "--target=wasm32-wasip1", "-msimd128", "-mbulk-memory", "-mnontrapping-fptoint", "-msign-ext", "-std=c++17", "-nostdlibinc",
    "-fno-exceptions", "-fno-rtti", "-fno-math-errno", "-ffp-contract=off", "-fvisibility=hidden", "-fno-threadsafe-statics",
    "-ffunction-sections", "-fdata-sections", '-DPEN_VERSION_STRING=\\"0.1.0\\"',
]  # fmt: skip
LINK = ["--no-entry", "--gc-sections", "--strip-all", "--stack-first", "-z", "stack-size=1048576", "--max-memory=4294967296"]
ALLOCATE = ["malloc", "free", "aligned_alloc"]  # for the caller's bytes


class BuildError(PenlightError):
    """A tool that is missing, or one that failed; the message has what it said."""


def selection(model: PenFile) -> Selection:
    """What a module needs to run this file."""
    if model.functions:
        return Selection()
    return Selection(frozenset(model.keys) | set(COPIES.values()), frozenset(), vm=False)


def build(folder: Path, chosen: Selection, show: bool = False) -> Path:
    """Brings folder/penlight.wasm up to date, and penlight.mjs beside it. `show`: ninja's progress goes to the terminal."""
    folder.mkdir(parents=True, exist_ok=True)
    sources = generate(folder.resolve() / "generated", ["base"], chosen)
    ninja = folder / "build.ninja"
    text = _ninja(folder.resolve(), sources.per_isa, sources.once)
    if not ninja.exists() or ninja.read_text() != text:
        ninja.write_text(text)
    done = subprocess.run([_ninja_program(), "-C", str(folder)], capture_output=not show, text=True)
    if done.returncode != 0:
        raise BuildError(f"the WebAssembly module was not built\n{(done.stdout or '')[-4000:]}{done.stderr or ''}".rstrip())
    shutil.copyfile(MODULE, folder / MODULE.name)
    return folder / "penlight.wasm"


def exports() -> list[str]:
    return [*ALLOCATE, *sorted(set(re.findall(r"\bpen_\w+", MODULE.read_text())))]


def _ninja(folder: Path, kernels: list[Path], once: list[Path]) -> str:
    zig = _zig()
    common = [*COMPILE, "-isystem", str(zig.parent / "lib/include"), f"-I{ROOT.parent}", f"-I{folder / 'generated'}"]
    lines = [
        f"compile = {zig} clang {' '.join(common)}",
        "rule cc",
        "  command = $compile $how -MMD -MF $out.d -c $in -o $out",
        "  depfile = $out.d",
        "  deps = gcc",
        "  description = $in",
        "rule link",
        f"  command = {zig} wasm-ld {' '.join(LINK)} $exports $in $libraries -o $out",
        "  description = $out",
    ]
    objects = []
    for source in [*kernels, *once]:
        from_package = source.is_relative_to(ROOT)
        name = source.relative_to(ROOT) if from_package else Path("generated") / source.name
        objects.append(f"objects/{name}.o")
        how = "-Os" if from_package and source in once and name.parts[0] == "runtime" else "-O2"
        lines += [f"build {objects[-1]}: cc {source}", f"  how = {how}"]
    lines += [
        f"build penlight.wasm: link {' '.join(objects)}",
        f"  exports = {' '.join(f'--export-if-defined={name}' for name in exports())}",
        f"  libraries = {' '.join(_libraries(zig))}",
        "default penlight.wasm",
    ]
    return "\n".join(lines) + "\n"


def _libraries(zig: Path) -> list[str]:
    """zig's C library for WASI, which it compiles the first time (a minute). It tells where that lies only in the command by which it
    links; and it links itself only with the archives first, where their threads come before ours."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "empty.c"
        program.write_text("int main(void) { return 0; }\n")
        command = [str(zig), "cc", "-target", "wasm32-wasi", "-O2", "-fno-sanitize=all", str(program), "-o", f"{folder}/empty.wasm"]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "ZIG_VERBOSE_LINK": "1"})
    found = re.findall(r"\S+/lib(?:c|zigc|compiler_rt)\.a", done.stderr)
    if done.returncode != 0 or not found:
        raise BuildError(f"zig: expected its C library for wasm32-wasi, got\n{done.stderr[-4000:]}")
    return found


def _zig() -> Path:
    found = importlib.util.find_spec("ziglang")
    if found is None or found.origin is None:
        raise BuildError("building for WebAssembly needs the zig compiler: pip install penlight[build]")
    return Path(found.origin).parent / "zig"


def _ninja_program() -> str:
    found = importlib.util.find_spec("ninja")
    if found is not None:
        import ninja

        return str(Path(ninja.BIN_DIR) / "ninja")
    program = shutil.which("ninja")
    if program is None:
        raise BuildError("building for WebAssembly needs ninja: pip install penlight[build]")
    return program
