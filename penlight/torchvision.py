"""torchvision where its C++ part does not load: the build on PyPI is for CUDA, and beside a CPU torch `import torchvision` ends with
"operator torchvision::nms does not exist". After `import penlight` it imports there too: its operators are declared, with shapes for
torch.export and slow values in Python (each beside our own operator, in ops/). A torchvision that loads is not touched, and torch
is not imported before torchvision does.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


class _Finder:
    """Looks on while Python imports torchvision."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name == "torchvision" else None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            extension: Any = importlib.import_module("torchvision.extension")  # loads the C++ part, if it can
            complete = _has("nms")
            if not complete:
                _declare()
            execute(module)
            if not complete:  # torchvision asks before each call; while it imports, "no" is the right answer
                extension._has_ops = _has_ops
                regions: Any = sys.modules["torchvision.ops.roi_align"]
                regions._roi_align = _in_parts(regions._roi_align)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def watch() -> None:
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


def declare_operators() -> None:
    """Makes sure that torch.ops.torchvision has what Penlight has of it, with or without torchvision."""
    try:
        importlib.import_module("torchvision")
    except ModuleNotFoundError as e:
        if e.name != "torchvision":
            raise
    _declare()


def _has_ops() -> bool:
    return True


def _in_parts(align: Any) -> Any:
    """torchvision's roi_align in Python, without torch.compile, which takes half a minute, and for some regions at a time: it makes
    every sample of every region at once, a gigabyte for a thousand."""
    plain = getattr(align, "__wrapped__", align)

    def in_parts(x: Any, rois: Any, *more: Any) -> Any:
        import torch

        return torch.cat([plain(x, some, *more) for some in rois.split(64)])

    return in_parts


def _has(name: str) -> bool:
    import torch

    return hasattr(torch.ops.torchvision, name)


_libraries: list[Any] = []  # a torch.library.Library takes its operators with it


def _declare() -> None:
    import torch

    from penlight.ops.dynamic.nms import STAND_INS as boxes
    from penlight.ops.vision.deform_conv2d import STAND_INS as deformable
    from penlight.ops.vision.roi_align import STAND_INS as regions

    missing = {name: parts for name, parts in {**boxes, **deformable, **regions}.items() if not _has(name)}
    if not missing:
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    _libraries.append(library)
    for name, (schema, values, shape) in missing.items():
        library.define(name + schema)
        if values:
            library.impl(name, values, "CPU")
        if shape:
            library._register_fake(name, shape)
