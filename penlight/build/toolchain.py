"""Who compiles for a target: zig from PyPI, which has everything for every target; the NDK's clang for Android where ANDROID_NDK_HOME is
set; the system's own compiler for `host`. Comes out as commands; library.py runs them.

The runtime needs no headers of its platform (runtime/base/platform.h), so a bare clang and a linker are enough.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penlight.build.generate import ISAS
from penlight.build.targets import ANDROID_API, MACOS_VERSION, Target
from penlight.errors import BuildError

INSTALL = "pip install 'penlight[build]'"

# --- flags: all of them stand here -----------------------------------------------------------------------------------------
DIALECT = ("-std=c++17", "-fno-exceptions", "-fno-rtti", "-fno-math-errno", "-ffp-contract=off", "-fvisibility=hidden",
           "-fno-threadsafe-statics", "-ffunction-sections", "-fdata-sections", "-fno-ident")  # fmt: skip  # the runtime's, whatever it becomes
LANGUAGE = (*DIALECT, "-fPIC", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-g1")  # of libraries
FREESTANDING = ("-ffreestanding", "-nostdlibinc", "-faddrsig")
PLATFORM = {
    "host": (),
    "linux": (*FREESTANDING, "-D__GLIBC__=2"),  # which platform.h asks for, as headers of the platform would say
    "wasm": ("-nostdlibinc",),
    "musl": ("-fno-sanitize=all",),  # with its headers, which programs need
}
SPEED = ("-O2",)  # kernels, which are compiled per instruction set
SIZE = {"clang": ("-Oz",), "gcc": ("-Os",)}  # the runtime, rules, VM operators
# Of the linker. ICF folds functions of equal code into one, as nothing in the runtime tells two functions apart by their address, and
# equal tables whose address nobody compares: -faddrsig says which.
ELF_LINK = ("-z", "max-page-size=16384", "-z", "noexecstack", "-z", "now", "-z", "relro", "-z", "text", "--hash-style=gnu",
            "--no-undefined", "-Bsymbolic-functions", "--as-needed", "--gc-sections", "--exclude-libs=ALL")  # fmt: skip
LLD_LINK = ("--icf=all", "-O2")
# Without start files: no constructors are to be called. /lldmingw: else it would drop the unwind tables. /brepro: no clock in it.
WINDOWS_LINK = ("/dll", "/noentry", "/machine:x64", "/lldmingw", "/dynamicbase", "/highentropyva", "/nxcompat", "/opt:ref", "/brepro",
                "/debug", "/nologo")  # fmt: skip
# By zig, which brings a C library; of WASI itself the clock alone is imported.
WASM_LINK = ("-target", "wasm32-wasi", "-mexec-model=reactor", "-s", "-Wl,--gc-sections", "-Wl,-z,stack-size=1048576")
MUSL_LINK = ("-static", "-s", "-Wl,--gc-sections")


@dataclass(frozen=True)
class Toolchain:
    name: str  # for people, with its version
    family: str  # clang or gcc: they differ in a few flags
    compiler: tuple[str, ...]  # a command that compiles C++ for the target
    linker: tuple[str, ...]  # an ld, or a compiler that calls one
    archiver: tuple[str, ...] = ()
    libraries: tuple[str, ...] | None = None  # what to link with; None: stubs are made (stubs.py)
    zig: str = ""  # where it is zig

    def compile_flags(self, target: Target, isa: str = "") -> list[str]:
        """For a file of the kernels of an instruction set, or ("") one that is compiled once, for size."""
        flags = [*(DIALECT if target.system in ("wasm", "musl") else LANGUAGE), *target.flags]
        flags += [f"--target={target.triple}"] if target.triple else []
        flags += PLATFORM.get(target.system, FREESTANDING)
        if not isa and target.system != "musl":
            return [*flags, *SIZE[self.family]]
        own = [] if isa in ("", "base") else [f"-DPEN_ISA={isa}", *ISAS[isa].flags]
        return [*flags, *SPEED, *own]

    def link_flags(
        self, target: Target, build_id: str, link_map: Path | None = None, name: str = "", exports: Path | None = None
    ) -> list[str]:
        """For a shared library, a module or a program; `build_id` in hexadecimal, or "sha1". Stripped, unless a map is asked for. `name`
        is how others will need it; `exports` a version script, of what they see."""
        if target.system == "windows":
            return [*WINDOWS_LINK, *([f"/lldmap:{link_map}"] if link_map else [])]
        if target.system in ("wasm", "musl"):
            return [*WASM_LINK] if target.system == "wasm" else ["-target", target.triple, *target.flags, *MUSL_LINK]
        if not target.elf:  # Mach-O
            return [
                "-shared",
                f"-Wl,-install_name,@rpath/{name or target.library}",
                "-Wl,-dead_strip",
                *([] if link_map else ["-Wl,-s"]),
            ]
        given = build_id if build_id == "sha1" else f"0x{build_id}"
        flags = [
            "-soname",
            name or target.library,
            *ELF_LINK,
            f"--build-id={given}",
            f"-Map={link_map}" if link_map else "-s",
        ]
        flags += [f"--version-script={exports}"] if exports else []
        if (
            exports and target.system != "android"
        ):  # where no installer puts libraries side by side and tells the loader
            flags += ["-rpath", "$ORIGIN"]
        if target.system == "host":
            return ["-shared", "-nostartfiles", *(f"-Wl,{word}" for word in _pairs(flags))]
        return ["-m", target.emulation, "-shared", *LLD_LINK, *flags]


def _pairs(flags: Sequence[str]) -> list[str]:
    """Words for -Wl, where `-z now` is one."""
    joined: list[str] = []
    for flag in flags:
        if joined and joined[-1] in ("-z", "-soname", "-rpath"):
            joined[-1] += f",{flag}"
        else:
            joined.append(flag)
    return joined


@functools.cache
def find_zig() -> Path:
    spec = importlib.util.find_spec("ziglang")
    if spec is None or not spec.submodule_search_locations:
        raise BuildError(f"zig, which compiles for this target, is not installed: {INSTALL}")
    return Path(next(iter(spec.submodule_search_locations))) / ("zig.exe" if os.name == "nt" else "zig")


def find_ninja() -> str:
    """From PyPI, or the system's."""
    if importlib.util.find_spec("ninja") is not None:
        import ninja

        return str(Path(ninja.BIN_DIR) / "ninja")
    found = shutil.which("ninja")
    if not found:
        raise BuildError(f"ninja, which runs the compilers, is not installed: {INSTALL}")
    return found


def toolchain(target: Target) -> Toolchain:
    """Who compiles for it here."""
    if target.system == "host" and (own := _system_compiler()):
        return own
    if target.system == "android" and (ndk := os.environ.get("ANDROID_NDK_HOME")):
        return _ndk(Path(ndk), target)
    return _zig(target)


@functools.cache
def _zig(target: Target) -> Toolchain:
    zig = find_zig()
    name = f"zig {_output([str(zig), 'version'])}"
    compiler: tuple[str, ...] = (str(zig), "clang", "-isystem", str(zig.parent / "lib/include"))
    linker: tuple[str, ...] = (str(zig), "ld.lld")
    if target.system == "host":
        compiler, linker = (str(zig), "c++"), (str(zig), "cc")
    elif target.system == "musl":
        compiler = linker = (str(zig), "cc")
    elif target.system == "wasm":
        linker = (str(zig), "cc")
    elif target.system == "windows":
        linker = (str(zig), "lld-link")
    elif target.system == "macos":
        linker = (str(zig), "cc", "-target", f"{target.processor}-macos.{MACOS_VERSION}")
    return Toolchain(
        name,
        "clang",
        compiler,
        linker,
        (str(zig), "ar"),
        None if target.elf or target.system == "windows" else (),
        str(zig),
    )


def _system_compiler() -> Toolchain | None:
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        command = name.split() if name else []
        if command and shutil.which(command[0]):
            says = _output([*command, "--version"])
            family = "clang" if "clang" in says else "gcc"
            return Toolchain(
                says.splitlines()[0], family, (*command,), (*command,), ("ar",), ("-lm", "-lpthread", "-ldl")
            )
        if command and name == os.environ.get("CXX"):
            raise BuildError(f"CXX={name}: no such compiler")
    return None


def _ndk(root: Path, target: Target) -> Toolchain:
    """The same commands with the NDK's clang and lld, and Android's own libraries to link with."""
    found = sorted(root.glob("toolchains/llvm/prebuilt/*/bin/clang*"))
    if not found:
        raise BuildError(
            f"ANDROID_NDK_HOME={root}: expected an NDK with toolchains/llvm/prebuilt/*/bin/clang, found none."
            " Correct it, or unset it to build with zig"
        )
    tools = found[0].parent
    triple = {"arm": "arm-linux-androideabi", "i386": "i686-linux-android"}.get(
        target.processor, f"{target.processor}-linux-android"
    )
    libraries = tools.parent / "sysroot/usr/lib" / triple / str(ANDROID_API)
    processor = {"i386": "i686"}.get(target.processor, target.processor)
    builtins = sorted(tools.parent.glob(f"lib*/clang/*/lib/linux/libclang_rt.builtins-{processor}-android.a"))
    missing = [str(p) for p in (libraries / f"lib{n}.so" for n in ("c", "m", "dl", "log")) if not p.exists()]
    if missing or not builtins:
        raise BuildError(
            f"ANDROID_NDK_HOME={root}: this NDK lacks {(missing or ['libclang_rt.builtins'])[0]}: use r23 or later"
        )
    says = _output([str(tools / "clang"), "--version"]).splitlines()[0]
    linked = (f"-L{libraries}", "-lc", "-lm", "-ldl", "-llog", str(builtins[-1]))
    return Toolchain(f"NDK: {says}", "clang", (str(tools / "clang"),), (str(tools / "ld.lld"),),
                     (str(tools / "llvm-ar"),), linked)  # fmt: skip


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode or not done.stdout.strip():
        said = done.stderr.strip()[:200] or f"exit status {done.returncode}"
        raise BuildError(f"{shlex.join(command)}: expected a compiler that says its version, got {said}")
    return done.stdout.strip()
