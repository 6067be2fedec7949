"""torchvision's detectors while torch.export traces them: a few lines of torchvision look at how many boxes there are, which torch.export
refuses, since that is known only in a run. Here they are without that; what they compute is the same."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_ABSENT = object()


@contextmanager
def exportable_detectors() -> Iterator[None]:
    """While this lasts, torchvision's detectors ask no tensor for its size."""
    if "torchvision.models.detection" not in sys.modules:  # then there is none to trace
        yield
        return
    places = _places()
    before = [(place, name, vars(place).get(name, _ABSENT)) for place, name, _ in places]
    try:
        for place, name, value in places:
            setattr(place, name, value)
        yield
    finally:
        for place, name, value in before:
            if value is _ABSENT:
                delattr(place, name)
            else:
                setattr(place, name, value)


def _places() -> list[tuple[Any, str, Any]]:
    import torchvision
    from torchvision.models.detection._utils import BoxCoder

    return [
        (torchvision.ops.boxes, "batched_nms", _batched_nms),
        (BoxCoder, "decode", _decode),
        (torchvision.ops.poolers, "len", _len),
        (sys.modules["torchvision.ops.roi_align"], "_has_ops", lambda: True),  # one call, not its Python version
    ]


def _batched_nms(boxes: torch.Tensor, scores: torch.Tensor, classes: torch.Tensor, threshold: float) -> torch.Tensor:
    """Without an `if` on how many boxes there are, and with a largest coordinate of no boxes: 0."""
    largest = torch.cat([boxes.flatten(), boxes.new_zeros(1)]).max()
    kept: torch.Tensor = torch.ops.torchvision.nms(
        boxes + (classes.to(boxes) * (largest + 1))[:, None], scores, threshold
    )
    return kept


def _decode(coder: Any, codes: torch.Tensor, boxes: list[torch.Tensor]) -> torch.Tensor:
    """Without an `if` on how many boxes there are."""
    decoded: torch.Tensor = coder.decode_single(codes.reshape(-1, codes.shape[-1]), torch.cat(boxes))
    return decoded.reshape(-1, codes.shape[-1] // 4, 4)


def _len(x: Any) -> Any:
    """Python's own makes an int of a symbolic size."""
    return x.shape[0] if isinstance(x, torch.Tensor) else len(x)
