"""What is special about linking the WebAssembly module of the runtime (library.py): objects come in, in their order and with the names to
export out.

zig brings a C library, WASI's; of WASI itself the module imports the clock alone, so that any host runs it. It has one thread, and vectors
of 128 bits, which every browser has had since 2023. Exported is what penlight.mjs, which is shipped with it, and the proof call.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from penlight.build.generate import ROOT

MODULE = ROOT / "web/penlight.mjs"
_PROOF = ROOT / "build/proof/runner.mjs"
_PLATFORM = ROOT / "runtime/base/platform_wasm.cc"
_ALLOCATE = ["malloc", "free", "aligned_alloc"]  # for the caller's bytes


def exports(sources: Iterable[Path]) -> list[str]:
    """As far as these sources have it: without the VM some of it does not exist."""
    called = set(re.findall(r"\bpen_\w+", MODULE.read_text("utf-8") + _PROOF.read_text("utf-8")))
    there = {name for source in sources for name in re.findall(r"\b(pen_\w+)\(", source.read_text("utf-8"))}
    return [*_ALLOCATE, *sorted(called & there)]


def in_order(objects: Mapping[Path, Path]) -> dict[Path, Path]:
    """The platform first, since zig puts the C library before all: what is asked for before it is defined here would come from there too."""
    return dict(sorted(objects.items(), key=lambda pair: pair[1] != _PLATFORM))
