"""torchvision's detectors through torch.jit.script: loops over images, classes, nms. torchvision's operators are not there beside a
CPU torch, so what scripting asks for is declared here; ours stand in for those that run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch
from torch import nn

_declared: list[torch.library.Library] = []


def has_ops() -> bool:
    return True


@contextmanager
def scriptable() -> Iterator[None]:
    import torchvision

    if not _declared and not hasattr(torch.ops.torchvision, "box_iou_rotated"):
        library = torch.library.Library("torchvision", "FRAGMENT")
        library.define("box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor")  # of a branch that is never taken
        _declared.append(library)
    with patch.object(torchvision.extension, "_has_ops", has_ops):
        yield


def script(model: nn.Module) -> torch.jit.ScriptModule:
    with scriptable():
        return torch.jit.script(model)
