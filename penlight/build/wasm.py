"""The WebAssembly module of the runtime: a Selection goes in, penlight.wasm and the ES module over it come out.

zig compiles (pip install penlight[build]) and brings a C library, WASI's; of WASI itself the module imports the clock alone, so that
any host runs it. It has one thread, and vectors of 128 bits, which every browser has had since 2023. Exported is what penlight.mjs calls.
"""

from __future__ import annotations

import importlib.util
import re
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
    "-ffunction-sections", "-fdata-sections", '-DPEN_VERSION_STRING=\\"0.1.0\\"',
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
    kernels, called = kernels_of(
        set(model.script_operators) & set(operators())
    )  # an operator that nobody has fails when it is met
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
    return [
        *ALLOCATE,
        *sorted(called & {name for source in sources for name in re.findall(r"\b(pen_\w+)\(", source.read_text())}),
    ]


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
        f"  command = {zig} cc {' '.join(LINK)} $exports $in -o $out",
        "  description = $out",
    ]
    objects = []
    own = (
        ROOT / "runtime/base/platform_wasm.cc"
    )  # first: zig puts the C library before all, and what is defined twice is an error
    for source in sorted([*kernels, *once], key=lambda p: p != own):
        from_package = source.is_relative_to(ROOT)
        name = source.relative_to(ROOT) if from_package else Path("generated") / source.name
        objects.append(f"objects/{name}.o")
        how = "-Os" if from_package and source in once and name.parts[0] == "runtime" else "-O2"
        lines += [f"build {objects[-1]}: cc {source}", f"  how = {how}"]
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
