"""What model files need of a library, read off the files without running them: a .pen (or what penlight.optimize makes of a .pt, .ptl or
.pt2) comes in, a Selection goes out. It holds whatever inputs may lead the model to; `penlight trace` finds the part that some inputs
did lead to.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import reduce
from operator import or_

import numpy as np

from penlight.build.reach import kernels_of
from penlight.build.selection import COPIES, NOTHING, Selection
from penlight.file.contents import PenFile
from penlight.file.reader import read
from penlight.file_kinds import file_kind
from penlight.ir.types import DTYPES
from penlight.ops.vm_operators import operators


def selection_of_models(paths: Iterable[str | os.PathLike[str]]) -> Selection:
    """What all these files need together."""
    return reduce(or_, (selection_of_file(pen_file(path)) for path in paths), NOTHING)


def pen_file(path: str | os.PathLike[str]) -> PenFile:
    """A .pen file as it stands; any other model file as penlight.optimize compiles it."""
    if file_kind(path) == "pen":
        return read(path)
    import penlight

    return read(penlight.optimize(path).to_bytes())


def selection_of_file(pen: PenFile) -> Selection:
    """Kernels that its nodes name, copies that the runtime may put before them, and with VM code the operators that it names."""
    keys = {*pen.keys, *_copies(pen)}
    if not pen.functions:
        return Selection(frozenset(keys), frozenset(), vm=False)
    # A name that no library has is none to build: the model loads without it, and fails where it calls it.
    called = frozenset(pen.script_operators) & operators().keys()
    reached, called = kernels_of(called)
    return Selection(reached | keys, called, vm=True)


def _copies(pen: PenFile) -> set[str]:
    """By the sizes of what nodes read: an input may have to lie otherwise."""
    read_by_nodes = (v for node in pen.nodes for v in node.inputs if v is not None)
    return {COPIES[np.dtype(DTYPES[v.dtype][1]).itemsize] for v in read_by_nodes}
