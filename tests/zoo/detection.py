"""torchvision's detectors, from the list of images to boxes, labels and scores: how many there are is known only in a run.

torchvision's own nms and roi_align do not load beside a CPU torch, so plain ones in Python stand in as the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from penlight.ops.dynamic.nms import declare_nms
from tests.models import define_torchvision_ops
from tests.zoo.entry import Entry, Inputs, Size

CLASSES = 4
CONTRAST = 30.0


def _batched_nms(boxes: torch.Tensor, scores: torch.Tensor, classes: torch.Tensor, threshold: float) -> torch.Tensor:
    """As torchvision has it, but without an `if` on how many boxes there are, which torch.export cannot take: classes lie a
    thousand pixels apart."""
    kept: torch.Tensor = torch.ops.torchvision.nms(boxes + 1000 * classes[:, None].to(boxes), scores, threshold)
    return kept


def _make(name: str, **options: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        define_torchvision_ops()
        import torchvision
        from torchvision.models import detection

        declare_nms()
        torchvision.extension._has_ops = lambda: True
        torchvision.ops.boxes.batched_nms = _batched_nms

        model: nn.Module = getattr(detection, name)(weights=None, weights_backbone=None, num_classes=CLASSES, **options)
        with torch.no_grad():  # as initialised, scores are the same in all places, up to rounding: their order is luck
            for parameter in model.head.classification_head.parameters():
                parameter.mul_(CONTRAST)
        return model

    return make


def _images(batch: int, size: Size, random: torch.Generator) -> Inputs:
    return ([torch.rand(3, *size, generator=random) for _ in range(batch)],)


def _detector(name: str, **options: Any) -> Entry:
    return Entry(name, "torchvision detection", _make(name, **options), _images, ((64, 64),), batches=False)


ENTRIES = [
    _detector("ssdlite320_mobilenet_v3_large", score_thresh=0.4, detections_per_img=20),
]
