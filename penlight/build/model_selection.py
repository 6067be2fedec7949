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

from penlight.build.reach import all_keys, kernels_of
from penlight.build.selection import COPIES, NOTHING, Selection
from penlight.errors import BuildError
from penlight.file.contents import PenFile, Port
from penlight.file.reader import read
from penlight.file_kinds import file_kind
from penlight.ir.graph import HALVES
from penlight.ir.types import DTYPES
from penlight.ops.vm_operators import operators

_SHOWN = 8  # names in an error


def selection_of_models(paths: Iterable[str | os.PathLike[str]]) -> Selection:
    """What all these files need together."""
    return reduce(or_, (selection_of_file(read(pen_image(path))) for path in paths), NOTHING)


def pen_image(path: str | os.PathLike[str]) -> str | os.PathLike[str] | bytes:
    """A .pen file as it stands; any other model file as penlight.optimize compiles it, in memory."""
    if file_kind(path) == "pen":
        return path
    import penlight

    return penlight.optimize(path).to_bytes()


def selection_of_file(pen: PenFile) -> Selection:
    """Kernels that its nodes name, copies that the runtime may put before them, and with VM code what the operators need that it names."""
    if unknown := sorted(set(pen.keys) - all_keys()):
        more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
        raise BuildError(
            f"{pen.name}: expected kernels that this version of Penlight has, got {', '.join(unknown[:_SHOWN])}{more}."
            " Update Penlight, or compile the model anew"
        )
    halves = any(constant.layout.startswith(HALVES) for constant in pen.constants)
    state = any(method.states for method in pen.methods)
    turns = any(_may_be_batch(port) for method in pen.methods for port in method.inputs)
    planned = Selection(
        frozenset({*pen.keys, *_copies(pen)}), frozenset(), vm=False, halves=halves, state=state, turns=turns
    )
    return planned | selection_of_calls(pen.script_operators) if pen.functions else planned


def _may_be_batch(port: Port) -> bool:
    """Whether it may hold more than one image."""
    return len(port.limits) > 1 and (port.limits[0][1] is None or port.limits[0][1] > 1)


def lacking(pen: PenFile, chosen: Selection) -> list[str]:
    """Kernels and operators that a file names and a library of these has not: it would not load. What runs may need beyond that, such as
    copies, is left to traces."""
    kernels = {key for key in pen.keys if not chosen.has_key(key)}
    calls = {name for name in pen.script_operators if name in operators()} if pen.functions else set()
    return sorted(kernels | {name for name in calls if not chosen.has_operator(name)})


def selection_of_calls(names: Iterable[str]) -> Selection:
    """The VM with these operators, those that they call in turn, and the kernels that any of them may use. A name that no library has
    is none to build: a model loads without it, and fails where it calls it."""
    return Selection(*kernels_of(name for name in names if name in operators()), vm=True, state=False, turns=False)


def _copies(pen: PenFile) -> set[str]:
    """By the sizes of what nodes read: an input may have to lie otherwise."""
    read_by_nodes = (v for node in pen.nodes for v in node.inputs if v is not None)
    return {COPIES[np.dtype(DTYPES[v.dtype][1]).itemsize] for v in read_by_nodes}
