"""What apps take libraries in: an Android archive (aar.py), an XCFramework for iOS (xcframework.py) with sources around it (apple.py)."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import IO

from penlight.build.generate import BINDINGS, ROOT
from penlight.paths import replace_file

HEADER = (
    ROOT / "runtime/include/penlight.h"
)  # penlight_trace.h is for the Python extension, penlight_image.h for Java: no library has their functions


def cpp_headers() -> dict[str, Path]:
    """By the names under which C++ code includes them: the C interface and penlight.hpp with what it needs."""
    folder = BINDINGS / "cpp/include"
    found = {str(p.relative_to(folder)): p for p in sorted(folder.rglob("*.h*"))}
    return {HEADER.name: HEADER, **{p.name: p for p in sorted(HEADER.parent.glob("*.hpp"))}, **found}


def torch_headers() -> dict[str, Path]:
    """PyTorch's names (torch/script.h) over penlight.hpp."""
    folder = BINDINGS / "cpp/compat"
    return {str(p.relative_to(folder)): p for p in sorted(folder.rglob("*.h"))}


def copy_headers(headers: Mapping[str, Path], folder: Path) -> None:
    for name, header in headers.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        replace_file(folder / name, partial(_copy, header))


def _copy(header: Path, out: IO[bytes]) -> int:
    return out.write(header.read_bytes())
