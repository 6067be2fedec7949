"""What an extension for Python on Windows is compiled and linked with, where no such Python is at hand: its pyconfig.h and an import library
of python3.dll, both for the stable ABI alone, whose functions and structures are the same in every Python since 3.12.
"""

from __future__ import annotations

from pathlib import Path

from penlight.build.library import import_library
from penlight.build.toolchain import find_zig
from penlight.build.wheel_checks import STABLE

# What the other headers ask for, as CPython's own PC/pyconfig.h answers it on x86-64: sizes of C's types, and that Python is a DLL.
PYCONFIG = """\
#define MS_WINDOWS 1
#define MS_WIN32 1
#define MS_WIN64 1
#define Py_ENABLE_SHARED 1
#define HAVE_DECLSPEC_DLL 1
#define HAVE_STDDEF_H 1
#define HAVE_SYS_STAT_H 1
#define HAVE_WCHAR_H 1
#define HAVE_LONG_LONG 1
#define WITH_DOC_STRINGS 1
#define SIZEOF_SHORT 2
#define SIZEOF_INT 4
#define SIZEOF_LONG 4
#define SIZEOF_LONG_LONG 8
#define SIZEOF_FLOAT 4
#define SIZEOF_DOUBLE 8
#define SIZEOF_VOID_P 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_TIME_T 8
#define SIZEOF_PID_T 4
#define SIZEOF_WCHAR_T 2
"""


def python_library(folder: Path) -> Path:
    """python3.dll as of the first stable ABI that is enough: a name that came later does not link."""
    import abi3info
    from abi3info.models import PyVersion

    names = []
    for listed, kind in ((abi3info.FUNCTIONS, ""), (abi3info.DATAS, " DATA")):
        for symbol, entry in listed.items():
            if entry.added <= PyVersion(*STABLE) and (entry.ifdef is None or entry.ifdef.windows is True):
                names.append(f"{symbol.name}{kind}")
    return import_library(find_zig(), "python3.dll", sorted(names), folder)
