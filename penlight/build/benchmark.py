"""The benchmark program speed_benchmark_torch for a phone: its sources, and a binary for each of Android's ABIs.

The binary holds every kernel and the VM, and is linked statically with musl, so that it asks nothing of the phone but its kernel and runs
in `adb shell`. Zig compiles it (from PyPI, no NDK): minutes for the first of an ABI, then it lies in the cache until a source changes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import penlight
from penlight.build.generate import ISAS, ROOT, generate
from penlight.build.library import cache_folder, run_tool
from penlight.build.toolchain import DIALECT, SPEED, find_zig
from penlight.errors import BuildError

PROGRAM = ROOT / "programs/speed_benchmark_torch"
# By ABI as Android names it: the processor as generate.py does, and what zig compiles for.
ABIS = {
    "arm64-v8a": ("aarch64", ["-target", "aarch64-linux-musl"]),
    "armeabi-v7a": ("armv7", ["-target", "arm-linux-musleabihf", "-mcpu=generic+v7a+neon"]),
    "x86_64": ("x86_64", ["-target", "x86_64-linux-musl"]),
    "x86": ("x86", ["-target", "x86-linux-musl", "-mcpu=i686+sse2"]),
}
_FLAGS = [*DIALECT, *SPEED, "-fno-sanitize=all"]


def program_sources(with_vm: bool = True) -> list[Path]:
    """What is compiled and linked with the runtime; for a library without VM, without what calls it."""
    left_out = "no_interpreter.cc" if with_vm else "interpreted.cc"
    return [path for path in sorted(PROGRAM.glob("*.cc")) if path.name != left_out]


def benchmark_binary(abi: str) -> Path:
    """A binary for an ABI, such as "arm64-v8a": the one in the cache, or made now. All that calls it knows is the path."""
    if abi not in ABIS:
        raise BuildError(
            f"there is no benchmark program for {abi!r}, only for {', '.join(ABIS)}: give one with --binary"
        )
    folder = cache_folder() / f"speed_benchmark_torch-{abi}-{_digest(abi)}"
    binary = folder / "speed_benchmark_torch"
    if not binary.exists():
        _compile(abi, folder, binary)
    return binary


def _digest(abi: str) -> str:
    """Of all that the binary is made from."""
    found = hashlib.sha256(repr((ABIS[abi], _FLAGS)).encode())
    for folder in ("runtime", "programs", "ops", "build", "file", "ir"):
        for path in sorted(p for p in (ROOT / folder).rglob("*") if p.suffix in (".cc", ".h", ".py")):
            found.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


def _compile(abi: str, folder: Path, binary: Path) -> None:
    """Every source into an object, all cores at it, then one link. Objects stay until that is done: an interrupted build goes on."""
    processor, target = ABIS[abi]
    isas = [name for name, (processors, _) in ISAS.items() if processors in ("any", processor)]
    parts = folder / "parts"
    generated = parts / "generated"
    sources = generate(generated, isas)
    flags = [*target, *_FLAGS, f'-DPEN_VERSION_STRING="{penlight.__version__}"', f"-I{ROOT.parent}", f"-I{generated}"]
    jobs = [(path, flags) for path in [*sources.once, *program_sources()]]
    for isa in isas:
        of_isa = [f"-DPEN_ISA={isa}", *ISAS[isa][1]] if isa != "base" else []
        jobs += [(path, [*flags, *of_isa]) for path in sources.per_isa]
    zig = str(find_zig())
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(partial(_object, zig, parts), range(len(jobs)), jobs))
    made = binary.with_suffix(".new")
    listed = parts / "objects.txt"
    listed.write_text("\n".join(map(str, objects)))
    run_tool([zig, "cc", *target, "-static", "-s", "-Wl,--gc-sections", f"@{listed}", "-o", str(made)])
    made.replace(binary)
    shutil.rmtree(parts)


def _object(zig: str, folder: Path, number: int, job: tuple[Path, list[str]]) -> Path:
    source, flags = job
    path = folder / f"{number}-{source.stem}.o"
    if not path.exists():
        new = path.with_suffix(".new.o")
        run_tool([zig, "cc", *flags, "-c", str(source), "-o", str(new)])
        new.replace(path)
    return path
