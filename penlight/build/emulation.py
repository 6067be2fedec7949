"""How a library that was built here is run here: the program that loads it (proof/runner.c), compiled for the same processor, and what
stands between it and this machine: nothing, or qemu with Debian's C library for that processor. An Android library finds libc.so,
libm.so, libdl.so and liblog.so as small stand-ins over glibc (proof/android_libc.c); the library itself is taken as it is. A DLL runs
under wine.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

from penlight.build.cache import alone, cache_folder
from penlight.build.generate import ROOT
from penlight.build.library import check_stack, import_library, run_tool, stub_library
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
_WINDOWS_CALLS = {  # of runner.c and windows.c, by library
    "KERNEL32": ("MultiByteToWideChar", "WideCharToMultiByte", "LoadLibraryW", "GetProcAddress", "GetLastError"),
    "api-ms-win-crt-heap-l1-1-0": ("malloc", "free"),
    "api-ms-win-crt-runtime-l1-1-0": ("exit", "_configure_wide_argv", "__p___argc", "__p___wargv"),
    "api-ms-win-crt-stdio-l1-1-0": ("_wfopen", "fread", "fwrite", "fclose", "__acrt_iob_func", "__stdio_common_vfprintf",
                                    "__stdio_common_vsprintf"),
}  # fmt: skip
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
_OLDEST = {"i386": "Conroe", "x86_64": "Nehalem"}  # SSSE3, and SSE4.2
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
    command: tuple[str, ...]  # followed by LIBRARY MODEL CALLS RESULTS [ISA]
    how: str  # in words: "natively", "under qemu-aarch64"
    root: str = ""  # what paths from the root begin with there
    oldest: str = (
        ""  # as qemu calls it: a processor with no more than the target promises, for what is compiled for all
    )


@dataclass(frozen=True)
class NotHere:
    why: str  # what would have to be there


def runner(target: Target, cache: Path | None = None) -> Runner | NotHere:
    """The program that runs a library of this target on this machine."""
    if target.system in _ELSEWHERE:
        return NotHere(f"not run here: it needs {_ELSEWHERE[target.system]}")
    if target.system == "wasm":
        node = shutil.which("node")
        return (
            Runner((node, str(_PROOF / "runner.mjs")), "in Node, with 128-bit SIMD")
            if node
            else NotHere("not run here: it needs Node")
        )
    folder = (cache or cache_folder()).resolve() / f"proof-{target.name}-{_version(target)}"
    if target.system == "host":
        with alone(folder):
            return Runner((str(_host_program(target, folder)),), "natively")
    if target.system == "windows":
        return _windows(target, folder)
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
    # An emulated loader reads this machine's ld.so.cache, which may name a C library for its processor of another build than its own
    # (Debian's libc6-i386, which clang brings): such a pair hangs.
    folders = [*([str(shims)] if shims else []), *([] if own else [machine.folder + str(Path(machine.loader).parent)])]
    if folders:
        search = f"LD_LIBRARY_PATH={':'.join(folders)}"
        start = [*start, "-E", search] if start else ["env", search]
    if shims:
        how += ", libc.so by a shim"
    return Runner((*start, str(program)), how, oldest="" if own else _OLDEST.get(target.processor, ""))


def _windows(target: Target, folder: Path) -> Runner | NotHere:
    """Elsewhere under wine, with a Windows of its own, about 700 MB, made in some seconds. It lies in the user's cache, whichever `folder`
    is: its drive Z: is a link to the root, and who packs a project's folder may follow links."""
    if platform.system() == "Windows":
        with alone(folder):
            return Runner((str(_windows_program(target, folder)),), "natively")
    names = ("wine64", "/usr/lib/wine/wine64", "wine")  # Debian's 64-bit one is on no PATH
    wine = next((found for name in names if (found := shutil.which(name))), None)
    if not wine:
        return NotHere(
            "not run here: it needs Windows or wine; on Debian: apt-get install --no-install-recommends wine64 wine"
        )
    prefix = cache_folder().resolve() / "wine"
    # Nothing is to be asked for or shown: no .NET, no browser.
    start = ("env", f"WINEPREFIX={prefix}", "WINEDEBUG=-all", "WINEDLLOVERRIDES=mscoree,mshtml=", wine)
    with alone(prefix):
        if not (prefix / "system.reg").exists():
            run_tool([*start, "wineboot", "--init"])
    with alone(folder):
        program = _windows_program(target, folder)
    return Runner((*start, str(program)), "under wine", "Z:")


def _windows_program(target: Target, folder: Path) -> Path:
    out, zig = folder / "runner.exe", find_zig()
    if not out.exists():
        machine = Machine(target.triple, "", "", "", "")
        made = [_compiled(machine, folder, _PROOF / name, "-DPEN_DLOPEN=0") for name in ("runner.c", "windows.c")]
        stubs = [import_library(zig, f"{name}.dll", calls, folder / "stubs") for name, calls in _WINDOWS_CALLS.items()]
        stubs.append(check_stack(zig, target.triple, folder / "stubs"))
        link = ["lld-link", f"/out:{out}", "/entry:start", "/subsystem:console", "/nologo"]
        run_tool([str(zig), *link, *map(str, [*made, *stubs])])
    return out


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
        run_tool([*tools.compiler, *language, str(_PROOF / "runner.c"), "-o", str(folder / "linked"), "-ldl"])
        os.replace(folder / "linked", out)  # a linker that is stopped leaves a part of it
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
