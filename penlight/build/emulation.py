"""How a library that was built here is run here: the program that loads it (proof/runner.c), compiled for the same processor, and what
stands between it and this machine: nothing, or qemu with Debian's C library for that processor. An Android library finds libc.so,
libm.so, libdl.so and liblog.so as small stand-ins over glibc (proof/android_libc.c); the library itself is taken as it is.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

from penlight.build.generate import ROOT
from penlight.build.library import alone, cache_folder, run_tool, stub_library
from penlight.build.targets import Target
from penlight.build.toolchain import find_zig, toolchain

_PROOF = Path(__file__).parent / "proof"
_HEADERS = ROOT / "runtime/include"
_DLOPEN = "-DPEN_DLOPEN=10"  # RTLD_NOW, and RTLD_DEEPBIND: the stand-ins come before the C library of the program
_RUNNER_CALLS = (
    "fopen",
    "fread",
    "fwrite",
    "fclose",
    "printf",
    "malloc",
    "free",
    "exit",
    "dlopen",
    "dlsym",
    "dlerror",
    "__libc_start_main",
)
_SHIM_CALLS = ("dlopen", "dlsym", "abort", "__errno_location", "dprintf", "vdprintf")


@dataclass(frozen=True)
class Machine:
    """A processor with Debian's C library for it."""

    triple: str  # of programs there
    folder: str  # where its libraries lie
    package: str  # that has them
    loader: str
    emulation: str  # as lld calls its format
    flags: tuple[str, ...] = ()
    qemu: str = ""


_ELSEWHERE = {"macos": "a Mac", "ios": "Xcode's simulator or a phone"}
_SOFT = ("-mfloat-abi=softfp", "-march=armv7-a", "-mfpu=neon")
_MACHINES = {
    "x86_64": Machine("x86_64-linux-gnu", "/usr/x86_64-linux-gnu", "libc6-amd64-cross", "/lib64/ld-linux-x86-64.so.2", "elf_x86_64", (), "qemu-x86_64"),
    "aarch64": Machine("aarch64-linux-gnu", "/usr/aarch64-linux-gnu", "libc6-arm64-cross", "/lib/ld-linux-aarch64.so.1", "aarch64linux",
                       ("-mno-outline-atomics",), "qemu-aarch64"),
    "i386": Machine("i686-linux-gnu", "/usr/i686-linux-gnu", "libc6-i386-cross", "/lib/ld-linux.so.2", "elf_i386", (), "qemu-i386"),
    # Android passes floats in integer registers, as Debian's armel does; its armhf does not.
    "arm-android": Machine("armv7a-linux-gnueabi", "/usr/arm-linux-gnueabi", "libc6-armel-cross", "/lib/ld-linux.so.3", "armelf_linux_eabi",
                           _SOFT, "qemu-arm"),
    "arm-linux": Machine("armv7a-linux-gnueabihf", "/usr/arm-linux-gnueabihf", "libc6-armhf-cross", "/lib/ld-linux-armhf.so.3",
                         "armelf_linux_eabi", ("-mfloat-abi=hard", "-march=armv7-a", "-mfpu=neon"), "qemu-arm"),
}  # fmt: skip


@dataclass(frozen=True)
class Runner:
    command: tuple[str, ...]  # followed by LIBRARY MODEL CALLS RESULTS
    how: str  # in words: "natively", "under qemu-aarch64"


@dataclass(frozen=True)
class NotHere:
    why: str  # what would have to be there


def runner(target: Target, cache: Path | None = None) -> Runner | NotHere:
    """The program that runs a library of this target on this machine."""
    if target.system in _ELSEWHERE:
        return NotHere(f"not run here: it needs {_ELSEWHERE[target.system]}")
    if target.system == "wasm":
        node = shutil.which("node")
        return Runner((node, str(_PROOF / "runner.mjs")), "in Node") if node else NotHere("not run here: it needs Node")
    folder = (cache or cache_folder()).resolve() / f"proof-{target.name}-{_version(target)}"
    if target.system == "host":
        with alone(folder):
            return Runner((str(_host_program(target, folder)),), "natively")
    if platform.system() != "Linux":
        return NotHere("not run here: it needs Linux")
    own = {"AMD64": "x86_64"}.get(platform.machine(), platform.machine()) == target.processor
    machine = _MACHINES.get(target.processor) or _MACHINES[f"arm-{target.system}"]
    start: list[str] = []
    if own and not Path(machine.loader).exists():
        return NotHere(f"not run here: it needs glibc, whose {machine.loader} is missing")
    if not own:
        emulator = shutil.which(f"{machine.qemu}-static") or shutil.which(machine.qemu)
        missing = [] if emulator else ["qemu-user-static"]
        if not (Path(machine.folder) / machine.loader.lstrip("/")).exists():
            missing.append(machine.package)
        if missing or emulator is None:
            return NotHere(f"not run here: it needs an emulator; on Debian: apt-get install {' '.join(missing)}")
        start = [emulator, "-L", machine.folder]
    with alone(folder):
        program = _program(machine, folder)
        shims = _shims(machine, folder) if target.system == "android" else None
    how = "natively" if own else f"under {machine.qemu}"
    if shims:
        search = f"LD_LIBRARY_PATH={shims}"
        start = [*start, "-E", search] if start else ["env", search]
        how += ", libc.so by a shim"
    return Runner((*start, str(program)), how)


def _version(target: Target) -> str:
    """Of the sources and tools that the program is made of."""
    texts = [p.read_bytes() for p in sorted([*_PROOF.iterdir(), _HEADERS / "penlight.h"]) if p.is_file()]
    return hashlib.sha256(
        b"".join([*texts, repr(toolchain(target)).encode(), Path(__file__).read_bytes()])
    ).hexdigest()[:12]


def _host_program(target: Target, folder: Path) -> Path:
    out, tools = folder / "runner", toolchain(target)
    if not out.exists():
        language = ["-x", "c", "-fno-builtin", f"-I{_HEADERS}", "-O1", _DLOPEN if target.elf else "-DPEN_DLOPEN=2"]
        run_tool([*tools.compiler, *language, str(_PROOF / "runner.c"), "-o", str(out), "-ldl"])
    return out


def _program(machine: Machine, folder: Path) -> Path:
    out = folder / "runner"
    if not out.exists():
        libc = _libc(machine, folder, _RUNNER_CALLS)
        made = _compiled(machine, folder, _PROOF / "runner.c", "-DPEN_START", _DLOPEN, "-fPIE")
        run_tool([str(find_zig()), "ld.lld", "-m", machine.emulation, "-pie", "--dynamic-linker", machine.loader, "-z", "now", "-o", str(out),
                  str(made), *libc])  # fmt: skip
    return out


def _shims(machine: Machine, folder: Path) -> Path:
    """A folder with Android's libraries."""
    out = folder / "android"
    if not (out / "libc.so").exists():
        out.mkdir(parents=True, exist_ok=True)
        libc = _libc(machine, folder, _SHIM_CALLS)
        made = _compiled(machine, folder, _PROOF / "android_libc.c", "-fPIC", "-fvisibility=hidden")
        link = [str(find_zig()), "ld.lld", "-m", machine.emulation, "-shared", "--no-undefined", "-soname"]
        libm = stub_library(
            find_zig(), machine.triple, machine.flags, machine.emulation, "libm.so.6", {"sin": ""}, folder
        )
        for name, real in (("libm.so", [str(libm)]), ("libdl.so", libc), ("liblog.so", libc)):
            run_tool([*link, name, "-o", str(out / name), *real])
        run_tool([*link, "libc.so", "-o", str(out / "libc.so"), str(made), *libc])  # last: it says that all are there
    return out


def _compiled(machine: Machine, folder: Path, source: Path, *flags: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    zig, out = find_zig(), folder / f"{source.stem}.o"
    run_tool([str(zig), "clang", f"--target={machine.triple}", *machine.flags, "-ffreestanding", "-fno-builtin", "-nostdlibinc", "-isystem",
              str(zig.parent / "lib/include"), f"-I{_HEADERS}", "-O1", "-fno-stack-protector", *flags, "-c", str(source), "-o", str(out)])  # fmt: skip
    return out


def _libc(machine: Machine, folder: Path, names: tuple[str, ...]) -> list[str]:
    """Stubs to link with. Names without versions: a program that is made for this one C library takes what it has."""
    libdl = ("dlopen", "dlsym", "dlerror")
    parts = {"libc.so.6": [n for n in names if n not in libdl], "libdl.so.2": [n for n in names if n in libdl]}
    return [
        str(
            stub_library(
                find_zig(),
                machine.triple,
                machine.flags,
                machine.emulation,
                file,
                dict.fromkeys(part, ""),
                folder / "stubs",
            )
        )
        for file, part in parts.items()
    ]
