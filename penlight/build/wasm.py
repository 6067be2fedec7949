"""The WebAssembly module of the runtime: a Selection goes in, penlight.wasm and the ES module over it come out.

zig compiles (pip install penlight[build]) and brings a C library, WASI's; of WASI itself the module imports the clock alone, so that
any host runs it. It has one thread, and vectors of 128 bits, which every browser has had since 2023. Exported is what penlight.mjs calls.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from penlight.build.generate import ROOT, generate
from penlight.build.reach import kernels_of
from penlight.build.selection import COPIES, Selection
from penlight.errors import PenlightError
from penlight.file.contents import PenFile
from penlight.ops.vm_operators import operators

MODULE = ROOT / "web/penlight.mjs"
# Speed of kernels is what counts; all else is size.
COMPILE = [
    "--target=wasm32-wasip1", "-msimd128", "-mbulk-memory", "-mnontrapping-fptoint", "-msign-ext", "-std=c++17", "-nostdlibinc",
    "-fno-exceptions", "-fno-rtti", "-fno-math-errno", "-ffp-contract=off", "-fvisibility=hidden", "-fno-threadsafe-statics",
    "-ffunction-sections", "-fdata-sections", '-DPEN_VERSION_STRING="0.1.0"',
]  # fmt: skip
LINK = ["-target", "wasm32-wasi", "-mexec-model=reactor", "-s", "-Wl,--gc-sections", "-Wl,-z,stack-size=1048576"]
ALLOCATE = ["malloc", "free", "aligned_alloc"]  # for the caller's bytes


class BuildError(PenlightError):
    """A tool that is missing, or one that failed; the message has what it said."""


def selection(model: PenFile) -> Selection:
    """What a module needs to run this file."""
    keys = frozenset(model.keys) | set(COPIES.values())
    if not model.functions:
        return Selection(keys, frozenset(), vm=False)
    there = set(model.script_operators) & set(operators())  # one that is not fails where it is met
    kernels, called = kernels_of(there)
    return Selection(keys | kernels, called)


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
        raise BuildError(
            f"the WebAssembly module was not built\n{(done.stdout or '')[-4000:]}{done.stderr or ''}".rstrip()
        )
    shutil.copyfile(MODULE, folder / MODULE.name)
    return folder / "penlight.wasm"


def exports(sources: list[Path]) -> list[str]:
    """What penlight.mjs calls, as far as these sources have it: without the VM some of it does not exist."""
    called = set(re.findall(r"\bpen_\w+", MODULE.read_text()))
    there = {name for source in sources for name in re.findall(r"\b(pen_\w+)\(", source.read_text())}
    return [*ALLOCATE, *sorted(called & there)]


def _ninja(folder: Path, kernels: list[Path], once: list[Path]) -> str:
    zig = _zig()
    program = shlex.quote(str(zig)).replace("$", "$$")
    common = [*COMPILE, "-isystem", str(zig.parent / "lib/include"), f"-I{ROOT.parent}", f"-I{folder / 'generated'}"]
    lines = [
        f"compile = {program} clang {shlex.join(common).replace('$', '$$')}",
        "rule cc",
        "  command = $compile $how -MMD -MF $out.d -c $in -o $out",
        "  depfile = $out.d",
        "  deps = gcc",
        "  description = $in",
        "rule link",
        f"  command = {program} cc {shlex.join(LINK)} $exports $in -o $out",
        "  description = $out",
    ]
    objects = []
    # First, since zig puts the C library before all: what is asked for before it is defined here would come from there too.
    own = ROOT / "runtime/base/platform_wasm.cc"
    for source in sorted([*kernels, *once], key=lambda p: p != own):
        from_package = source.is_relative_to(ROOT)
        name = source.relative_to(ROOT) if from_package else Path("generated") / source.name
        objects.append(f"objects/{name}.o")
        how = "-Os" if from_package and source in once and name.parts[0] == "runtime" else "-O2"
        path = re.sub(r"([$ :])", r"$\1", str(source))  # as ninja wants it
        lines += [f"build {objects[-1]}: cc {path}", f"  how = {how}"]
    lines += [
        f"build penlight.wasm: link {' '.join(objects)}",
        f"  exports = {' '.join(f'-Wl,--export={name}' for name in exports([*kernels, *once]))}",
        "default penlight.wasm",
    ]
    return "\n".join(lines) + "\n"


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
