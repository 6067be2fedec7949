"""What libraries are built for: one row a target, by the name that `--target` takes. A row says how compilers call the target, what its
processors promise, which instruction sets kernels are compiled for on top of that, and what kind of library comes out.

A new target is a new row. A group stands for several: `android` are its four ABIs, `ios` the device and the simulator's processors.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass

from penlight.build.generate import ISAS
from penlight.errors import BuildError

ANDROID_API = 21  # the oldest Android that 64-bit processors came with
IOS_VERSION = "13.0"
MACOS_VERSION = "11.0"  # the first for arm64


@dataclass(frozen=True)
class Target:
    name: str
    system: (
        str  # host, android, linux, windows, macos, ios, wasm, or musl of a static program: who links and who runs it
    )
    processor: str  # as qemu and Debian call it
    triple: str = ""  # as clang calls it; "": whatever the host's compiler makes
    flags: tuple[str, ...] = ()  # what every processor of this target has, and how it is called
    isas: tuple[str, ...] = ("base",)  # that kernels are compiled for, base first
    emulation: str = ""  # as lld calls its format
    abi: str = ""  # the folder of an Android package

    @property
    def library(self) -> str:
        """The file name of a library, or of the one program."""
        if other := {"wasm": "penlight.wasm", "windows": "penlight.dll", "musl": "speed_benchmark_torch"}.get(
            self.system
        ):
            return other
        suffix = {"ios": ".a", "macos": ".dylib"}.get(self.system, ".so")
        if self.system == "host" and platform.system() == "Darwin":
            suffix = ".dylib"
        return f"libpenlight{suffix}"

    @property
    def jni_library(self) -> str:
        """What Java loads, which needs the other."""
        return self.library.replace("penlight", "penlight_jni")

    @property
    def elf(self) -> bool:
        return self.system in ("android", "linux") or (self.system == "host" and platform.system() == "Linux")

    @property
    def needs_builtins(self) -> bool:
        """32-bit processors divide 64-bit numbers by a function that the compiler brings."""
        return self.processor in ("arm", "i386")


def _isas(processor: str) -> tuple[str, ...]:
    """All that this processor may have, as runtime/exec/isas.h lists them."""
    return tuple(name for name, isa in ISAS.items() if isa.processors in ("any", processor))


_HOST = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
_ARMV7 = ("-march=armv7-a", "-mfpu=neon", "-mthumb")
# Windows' calling convention wants unwind tables of every function; its debuggers read CodeView.
_WINDOWS = ("-fasynchronous-unwind-tables", "-gcodeview")
# Android's x86 promises SSSE3 only, for which there are no vectors; what runs it today is an emulator on a processor with AVX2.
# Its arm64 libraries run from the first 64-bit phones on: without the atomics of later ones, which would be calls otherwise.
_ROWS = (
    Target("host", "host", _HOST, isas=_isas(_HOST)),
    Target("android-arm64", "android", "aarch64", f"aarch64-linux-android{ANDROID_API}", ("-mno-outline-atomics",),
           _isas("aarch64"), "aarch64linux", "arm64-v8a"),
    Target("android-armv7", "android", "arm", f"armv7a-linux-androideabi{ANDROID_API}", (*_ARMV7, "-mfloat-abi=softfp"),
           emulation="armelf_linux_eabi", abi="armeabi-v7a"),
    Target("android-x86", "android", "i386", f"i686-linux-android{ANDROID_API}", ("-mssse3", "-mstackrealign"), ("base", "avx2"),
           "elf_i386", "x86"),
    Target("android-x86_64", "android", "x86_64", f"x86_64-linux-android{ANDROID_API}", ("-msse4.2", "-mpopcnt"), ("base", "avx2"),
           "elf_x86_64", "x86_64"),
    Target("linux-x86_64", "linux", "x86_64", "x86_64-linux-gnu", (), _isas("x86_64"), "elf_x86_64"),
    Target("linux-arm64", "linux", "aarch64", "aarch64-linux-gnu", ("-mno-outline-atomics",), _isas("aarch64"), "aarch64linux"),
    Target("linux-armv7", "linux", "arm", "armv7a-linux-gnueabihf", (*_ARMV7, "-mfloat-abi=hard"), emulation="armelf_linux_eabi"),
    Target("windows-x86_64", "windows", "x86_64", "x86_64-windows-gnu", _WINDOWS, _isas("x86_64")),
    Target("macos-arm64", "macos", "aarch64", f"arm64-apple-macos{MACOS_VERSION}", (), _isas("aarch64")),
    Target("macos-x86_64", "macos", "x86_64", f"x86_64-apple-macos{MACOS_VERSION}", ("-msse4.2",), ("base", "avx2")),
    Target("ios-arm64", "ios", "aarch64", f"arm64-apple-ios{IOS_VERSION}", (), _isas("aarch64")),
    Target("ios-simulator-arm64", "ios", "aarch64", f"arm64-apple-ios{IOS_VERSION}-simulator", (), _isas("aarch64")),
    Target("ios-simulator-x86_64", "ios", "x86_64", f"x86_64-apple-ios{IOS_VERSION}-simulator", ("-msse4.2",), ("base", "avx2")),
    Target("wasm", "wasm", "wasm32", "wasm32-wasip1", ("-msimd128", "-mbulk-memory", "-mnontrapping-fptoint", "-msign-ext")),
)  # fmt: skip
_PROGRAMS = (  # programs for `adb shell`, linked statically with musl, so that they ask nothing of the phone but its kernel
    Target("benchmark-arm64", "musl", "aarch64", "aarch64-linux-musl", (), _isas("aarch64"), abi="arm64-v8a"),
    Target("benchmark-armv7", "musl", "arm", "arm-linux-musleabihf", ("-mcpu=generic+v7a+neon",), abi="armeabi-v7a"),
    Target("benchmark-x86_64", "musl", "x86_64", "x86_64-linux-musl", (), _isas("x86_64"), abi="x86_64"),
    Target("benchmark-x86", "musl", "i386", "x86-linux-musl", ("-mcpu=i686+sse2",), abi="x86"),
)  # fmt: skip
TARGETS = {target.name: target for target in _ROWS}
PROGRAMS = {target.abi: target for target in _PROGRAMS}
GROUPS = {
    system: tuple(t.name for t in _ROWS if t.system == system) for system in ("android", "ios")
}  # what one name stands for


def targets(names: tuple[str, ...] | list[str]) -> list[Target]:
    """The rows that some names stand for, each once.

    >>> [t.abi for t in targets(["android"])]
    ['arm64-v8a', 'armeabi-v7a', 'x86', 'x86_64']
    """
    found: dict[str, Target] = {}
    for name in names:
        if name not in TARGETS and name not in GROUPS:
            known = ", ".join([*GROUPS, *TARGETS])
            raise BuildError(f"target: expected one of {known}, got {name!r}")
        for each in GROUPS.get(name, (name,)):
            found[each] = TARGETS[each]
    return list(found.values())
