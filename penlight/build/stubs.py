"""Stand-ins for a system's libraries, to link against where the real ones are not at hand: the names that runtime/base/platform.h
declares, as empty functions in libraries of the right name. What the runtime takes from its platform is listed in that header alone.

glibc's names have versions. Taken is the oldest that works as declared, so that a library runs on every glibc since 2.17 (2012).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from penlight.build.targets import Target

_PLATFORM = Path(__file__).resolve().parents[1] / "runtime/base/platform.h"
_FUNCTION = re.compile(r"^(?!typedef|struct|static|constexpr|#|namespace|//|extern)[\w* ]+?\*?\b(\w+)\(", re.MULTILINE)
_SECTIONS = r"^// memory and strings$|^// math.*$|^// files$|^// threads$|^namespace pen::platform"
_GLIBC = {"x86_64": "GLIBC_2.2.5", "aarch64": "GLIBC_2.17", "arm": "GLIBC_2.4"}  # where each processor began
_LATER = {"clock_gettime": "GLIBC_2.17"}  # in librt before
_CONDITIONS = "GLIBC_2.3.2"  # pthread_cond_t as it is now, on processors that are older than that


def platform_functions() -> dict[str, list[str]]:
    """What the runtime may call, by library: "c", "m" and, of these apart, "pthread"."""
    text = _PLATFORM.read_text()
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
            "libc.so": dict.fromkeys([*names["c"], *names["pthread"]], ""),
            "libm.so": dict.fromkeys(names["m"], ""),
            "libdl.so": dict.fromkeys(["dlopen", "dlsym", "dlclose", "dlerror"], ""),
            "liblog.so": dict.fromkeys(["__android_log_print", "__android_log_write"], ""),
        }
    first = _GLIBC[target.processor]

    def version(name: str) -> str:
        if name.startswith("pthread_cond_") and target.processor == "x86_64":
            return _CONDITIONS
        return _LATER.get(name, first)

    files = {"libc.so.6": "c", "libm.so.6": "m", "libpthread.so.0": "pthread"}
    made: dict[str, Mapping[str, str]] = {file: {n: version(n) for n in names[key]} for file, key in files.items()}
    return {**made, "libdl.so.2": {n: version(n) for n in ("dlopen", "dlsym", "dlclose", "dlerror")}}


def assembly(functions: Mapping[str, str]) -> str:
    """A source with each of them, empty."""
    return "".join(f".globl {name}\n.type {name}, %function\n{name}:\n" for name in functions)


def version_script(functions: Mapping[str, str]) -> str:
    """Which version each has; "": none has any."""
    versions = sorted({v for v in functions.values() if v})
    return "".join(f"{v} {{ {' '.join(f'{n};' for n in functions if functions[n] == v)} }};\n" for v in versions)
