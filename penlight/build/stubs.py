"""Stand-ins for a system's libraries, to link against where the real ones are not at hand: the names that runtime/base/platform.h
declares, as empty functions in libraries of the right name. What the runtime takes from its platform is listed in that header alone.

glibc's names have versions. Taken is the oldest that works as declared, so that a library runs on every glibc since 2.17 (2012).
For Windows they are import libraries; what is taken from it besides, platform_windows.cc declares.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from penlight.build.targets import Target

_PLATFORM = Path(__file__).resolve().parents[1] / "runtime/base/platform.h"
_WINDOWS = _PLATFORM.with_name("platform_windows.cc")
_FUNCTION = re.compile(r"^(?!typedef|struct|static|constexpr|#|namespace|//|extern)[\w* ]+?\*?\b(\w+)\(", re.MULTILINE)
_SECTIONS = r"^// memory and strings$|^// math.*$|^// files$|^// threads$|^namespace pen::platform"
_GLIBC = {"x86_64": "GLIBC_2.2.5", "aarch64": "GLIBC_2.17", "arm": "GLIBC_2.4"}  # where each processor began
_LATER = {"clock_gettime": "GLIBC_2.17"}  # in librt before
_BINDINGS = ["realloc"]  # of penlight_spec.hpp, which libraries for other languages hold
_CONDITIONS = "GLIBC_2.3.2"  # pthread_cond_t as it is now, on processors that are older than that


def platform_functions() -> dict[str, list[str]]:
    """What the runtime may call, by library: "c", "m" and, of these apart, "pthread"."""
    text = _PLATFORM.read_text("utf-8")
    _, strings, math, files, threads, _ = re.split(_SECTIONS, text, flags=re.MULTILINE)
    found = {
        "c": _FUNCTION.findall(strings + files),
        "m": _FUNCTION.findall(math),
        "pthread": _FUNCTION.findall(threads),
    }
    found["c"] += ["sched_yield"]
    found["pthread"].remove("sched_yield")
    return found


def stub_libraries(target: Target) -> dict[str, Mapping[str, str]]:
    """Libraries to link against, by file name: the functions of each, with their versions ("": none)."""
    names = platform_functions()
    if target.system == "android":
        return {
            "libc.so": dict.fromkeys([*names["c"], *names["pthread"], *_BINDINGS], ""),
            "libm.so": dict.fromkeys(names["m"], ""),
            "libdl.so": dict.fromkeys(["dlopen", "dlsym", "dlclose", "dlerror"], ""),
            "liblog.so": dict.fromkeys(["__android_log_print", "__android_log_write"], ""),
        }
    if target.system == "windows":
        return windows_libraries(names)
    first = _GLIBC[target.processor]

    def version(name: str) -> str:
        if name.startswith("pthread_cond_") and target.processor == "x86_64":
            return _CONDITIONS
        return _LATER.get(name, first)

    names["c"] += _BINDINGS
    files = {"libc.so.6": "c", "libm.so.6": "m", "libpthread.so.0": "pthread"}
    made: dict[str, Mapping[str, str]] = {file: {n: version(n) for n in names[key]} for file, key in files.items()}
    return {**made, "libdl.so.2": {n: version(n) for n in ("dlopen", "dlsym", "dlclose", "dlerror")}}


# Of Windows' C library, which lies in parts: where its functions are that are not math.
_UCRT = {
    "heap": ("_aligned_malloc", "_aligned_free"),
    "private": ("memcpy", "memmove", "memcmp"),
    "string": ("memset", "strlen", "strcmp", "strncmp"),
    "stdio": ("__stdio_common_vsprintf", "_wopen", "_close", "_lseeki64", "_get_osfhandle"),
    "convert": ("strtod",),
    "environment": ("getenv",),
    "runtime": ("strerror", "_errno", "_set_thread_local_invalid_parameter_handler"),
}
# What the compiler calls where a function takes more than a page of stack (%rax bytes): the pages must be touched one by one.
CHECK_STACK = """.globl ___chkstk_ms
___chkstk_ms:
  push %rcx
  push %rax
  lea 24(%rsp), %rcx
1: cmp $0x1000, %rax
  jb 2f
  sub $0x1000, %rcx
  orl $0, (%rcx)
  sub $0x1000, %rax
  jmp 1b
2: sub %rax, %rcx
  orl $0, (%rcx)
  pop %rax
  pop %rcx
  ret
"""


def windows_libraries(names: Mapping[str, list[str]]) -> dict[str, Mapping[str, str]]:
    """By library what platform.h and platform_windows.cc declare and do not define themselves."""
    given = set(re.findall(r"^#pragma redefine_extname (\w+)", _PLATFORM.read_text("utf-8"), re.MULTILINE))
    given |= {"__error", "__errno", "sysctlbyname", "getauxval"}  # other systems'
    # of the cache of Vulkan's pipelines: that backend is not there on Windows
    given |= {"write", "rename", "unlink", "mkdir"}
    _, kernel, own, _ = re.split(
        r"^// kernel32$|^// the C library$|^int\* __errno_location", _WINDOWS.read_text("utf-8"), flags=re.MULTILINE
    )
    placed = {f"api-ms-win-crt-{part}-l1-1-0.dll": list(functions) for part, functions in _UCRT.items()}
    elsewhere = {name for functions in _UCRT.values() for name in functions}
    taken = [*_FUNCTION.findall(own), *(n for n in (*names["c"], *names["m"]) if n not in given)]
    placed["api-ms-win-crt-math-l1-1-0.dll"] = [n for n in taken if n not in elsewhere]
    placed["KERNEL32.dll"] = _FUNCTION.findall(kernel)
    return {library: dict.fromkeys(functions, "") for library, functions in placed.items()}


def definitions(library: str, functions: Iterable[str]) -> str:
    """A .def file: what a DLL exports, or is to be linked with for."""
    return "".join([f"LIBRARY {library}\nEXPORTS\n", *(f"  {name}\n" for name in functions)])


def assembly(functions: Mapping[str, str]) -> str:
    """A source with each of them, empty."""
    return "".join(f".globl {name}\n.type {name}, %function\n{name}:\n" for name in functions)


def version_script(functions: Mapping[str, str]) -> str:
    """Which version each has; "": none has any."""
    versions = sorted({v for v in functions.values() if v})
    return "".join(f"{v} {{ {' '.join(f'{n};' for n in functions if functions[n] == v)} }};\n" for v in versions)
