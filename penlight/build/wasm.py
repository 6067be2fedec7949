"""The WebAssembly module of the runtime: a Selection goes in, penlight.wasm and the ES module over it come out.

zig compiles (pip install penlight[build]) and brings a C library, WASI's; of WASI itself the module imports the clock alone, so that
any host runs it. It has one thread, and vectors of 128 bits, which every browser has had since 2023. Exported is what penlight.mjs calls.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import penlight
from penlight.build.generate import ROOT, generate
from penlight.build.library import Progress, ninja_path, run_ninja
from penlight.build.selection import Selection
from penlight.build.toolchain import DIALECT, SIZE, SPEED, find_zig

MODULE = ROOT / "web/penlight.mjs"
PROOF = ROOT / "build/proof/runner.mjs"
COMPILE = [
    "--target=wasm32-wasip1", "-msimd128", "-mbulk-memory", "-mnontrapping-fptoint", "-msign-ext", *DIALECT, "-nostdlibinc",
]  # fmt: skip
LINK = ["-target", "wasm32-wasi", "-mexec-model=reactor", "-s", "-Wl,--gc-sections", "-Wl,-z,stack-size=1048576"]
ALLOCATE = ["malloc", "free", "aligned_alloc"]  # for the caller's bytes


def build(folder: Path, chosen: Selection, jobs: int = 0, progress: Progress | None = None) -> tuple[Path, int]:
    """Brings folder/penlight.wasm up to date, and penlight.mjs beside it; says where it is and how many files were compiled."""
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    sources = generate(folder / "generated", ["base"], chosen)
    (folder / "build.ninja").write_text(_ninja(folder, sources.per_isa, sources.once))
    compiled = run_ninja(folder, jobs, progress)
    shutil.copyfile(MODULE, folder / MODULE.name)
    return folder / "penlight.wasm", compiled


def exports(sources: list[Path]) -> list[str]:
    """What penlight.mjs and the proof call, as far as these sources have it: without the VM some of it does not exist."""
    called = set(re.findall(r"\bpen_\w+", MODULE.read_text("utf-8") + PROOF.read_text("utf-8")))
    there = {name for source in sources for name in re.findall(r"\b(pen_\w+)\(", source.read_text("utf-8"))}
    return [*ALLOCATE, *sorted(called & there)]


def _ninja(folder: Path, kernels: list[Path], once: list[Path]) -> str:
    zig = find_zig()
    program = shlex.quote(str(zig)).replace("$", "$$")
    about = [f'-DPEN_VERSION_STRING="{penlight.__version__}"', '-DPEN_TARGET="wasm"']
    where = ["-isystem", str(zig.parent / "lib/include"), f"-I{ROOT.parent}", f"-I{folder / 'generated'}"]
    lines = [
        f"compile = {program} clang {shlex.join([*COMPILE, *about, *where]).replace('$', '$$')}",
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
        name = source.relative_to(ROOT if source.is_relative_to(ROOT) else folder)
        objects.append(f"objects/{name}.o")
        how = SPEED if source in kernels else SIZE["clang"]
        lines += [f"build {objects[-1]}: cc {ninja_path(source)}", f"  how = {shlex.join(how)}"]
    lines += [
        f"build penlight.wasm: link {' '.join(objects)}",
        f"  exports = {' '.join(f'-Wl,--export={name}' for name in exports([*kernels, *once]))}",
        "default penlight.wasm",
    ]
    return "\n".join(lines) + "\n"
