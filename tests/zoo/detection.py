"""torchvision's detectors, from the list of images to boxes, labels and scores: how many there are is known only in a run.

torchvision's own nms does not load beside a CPU torch, so the plain one of penlight/torchvision.py is the reference; for roi_align
torchvision has one itself.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

from tests.zoo.entry import SEED, Entry, Inputs, Size

CLASSES = 4
TIE = 1e-5  # scores that are closer than this to where results are cut off may be on either side


def _make(name: str, **options: Any) -> nn.Module:
    from torchvision.models import detection

    model: nn.Module = getattr(detection, name)(weights=None, weights_backbone=None, num_classes=CLASSES, **options)
    return model


def _settle(size: Size, model: nn.Module) -> None:
    """As initialised, a detector's scores are the same in all places, up to rounding, and their order is luck. One pass over a
    few images gives outputs of layers with a bias a deviation that means something, and the batch norms what they see."""
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    usual = [m.momentum for m in norms]
    with torch.no_grad():
        for name, norm in model.named_modules():
            if name.endswith(
                "bn3"
            ):  # of residual branches, which at full strength make rounding errors grow from block to block
                norm.weight.mul_(0.2)
    for norm in norms:
        norm.momentum = None  # the mean of what it saw
        norm.reset_running_stats()
    hooks = [
        module.register_forward_hook(partial(_spread, name, set()))
        for name, module in model.named_modules()
        if isinstance(module, (nn.Conv2d, nn.Linear)) and module.bias is not None
    ]
    model.eval()
    for norm in norms:
        norm.train()
    with (
        torch.no_grad(),
        patch("torchvision.ops.boxes.batched_nms", lambda boxes, scores, *_: scores.topk(min(len(scores), 3))[1]),
    ):
        model(*_images(16 if norms else 4, size, torch.Generator().manual_seed(7)))
    for hook in hooks:
        hook.remove()
    for norm, momentum in zip(norms, usual, strict=True):
        norm.momentum = momentum


def _spread(name: str, done: set[nn.Module], layer: Any, _: Any, y: torch.Tensor) -> torch.Tensor:
    """Changes the layer such that it gives what is returned. A layer that is called for each level learns from the first."""
    if layer in done:
        return y
    done.add(layer)
    deviation = (
        2.0
        if any(part in name for part in ("cls", "ctrness", "classification_head.module_list"))
        else 0.3
        if "bbox" in name
        else 1.0
    )
    middle = 2.0 if name.endswith("bbox_reg") else 0.0  # distances to the four sides
    over = [d for d in range(y.dim()) if d != 1]
    mean = y.mean(over)
    y = y - mean.reshape([-1 if d == 1 else 1 for d in range(y.dim())])
    factor = deviation / y.std()
    layer.weight.mul_(factor)
    layer.bias.sub_(mean).mul_(factor).add_(middle)
    return y * factor + middle


def _images(batch: int, size: Size, random: torch.Generator) -> Inputs:
    """Smooth, as photographs are, with some noise."""
    coarse = torch.rand(batch, 3, 6, 6, generator=random)
    smooth = nn.functional.interpolate(coarse, size, mode="bicubic")
    return (list((smooth + 0.05 * torch.randn(smooth.shape, generator=random)).clamp(0, 1)),)


def _empty(batch: int, size: Size) -> list[Inputs]:
    """Nothing to be found in the first image, and in none: no score of NaN is above a threshold."""
    nothing = [torch.full((3, *size), float("nan")) for _ in range(batch)]
    (images,) = _images(batch, size, torch.Generator().manual_seed(SEED + batch))  # as Entry.example
    return [(nothing,)] + ([(nothing[:1] + images[1:],)] if batch > 1 else [])


def _worth(inputs: Inputs, expected: Any) -> None:
    for image, found in zip(inputs[0], expected, strict=True):
        count = len(found["scores"])
        assert count >= 5 if bool(image.isfinite().all()) else count == 0, f"{count} detections of an image"


def assert_same_detections(
    got: Any, expected: Any, tolerance: float, what: str = "", least: float = 0.0, most: int = 10**9
) -> float:
    """The same detections: as many, in order of their scores, each with a partner of the same label, in the same place and with the
    same score, up to `tolerance`. Two whose scores are equal up to rounding may come in either order; one whose score is where
    results end (`least`, or the last of `most`) up to TIE may be missing. Returns the largest error."""
    worst = 0.0
    assert len(got) == len(expected), f"{what}: {len(got)} images instead of {len(expected)}"
    for i, (g, e) in enumerate(zip(got, expected, strict=True)):
        where = f"{what}, image {i}"
        assert list(g) == list(e), f"{where}: {list(g)} instead of {list(e)}"
        g = {k: torch.as_tensor(v) for k, v in g.items()}
        for k in e:
            assert g[k].dtype == e[k].dtype, f"{where}: {k} are {g[k].dtype}"
            assert g[k].shape[1:] == e[k].shape[1:], f"{where}: {k} of shape {tuple(g[k].shape)}"
            assert g[k].shape[0] == g["scores"].shape[0], f"{where}: {g[k].shape[0]} {k}, {g['scores'].shape[0]} scores"
        assert bool((g["scores"].diff() <= 0).all()), f"{where}: not in order of scores"
        ends = [least] + [float(side["scores"][-1]) for side in (g, e) if len(side["scores"]) == most]
        scale = max(float(e["boxes"].abs().max()), 1.0) if len(e["boxes"]) else 1.0
        apart = torch.maximum(
            torch.cdist(g["boxes"] / scale, e["boxes"] / scale, p=float("inf")),
            (g["scores"][:, None] - e["scores"]).abs(),
        )
        apart[g["labels"][:, None] != e["labels"]] = float("inf")
        free = torch.ones(len(e["scores"]), dtype=torch.bool)
        alone = []
        for row, score in zip(apart, g["scores"].tolist(), strict=True):
            near = row.masked_fill(~free, float("inf"))
            if len(near) and float(near.min()) <= tolerance:
                free[near.argmin()] = False
                worst = max(worst, float(near.min()))
            else:
                alone.append((score, "too much"))
        alone += [(score, "missing") for score in e["scores"][free].tolist()]
        alone = [a for a in alone if min(abs(a[0] - end) for end in ends) > TIE]
        assert not alone, f"{where}: of {len(e['scores'])} detections {len(alone)} without partner: {alone[:6]}"
    return worst


def _detector(name: str, size: Size, least: float, most: int, threshold: str = "score_thresh", **options: Any) -> Entry:
    limits = {threshold: least, threshold.replace("score_thresh", "detections_per_img"): most}
    return Entry(
        name,
        "torchvision detection",
        partial(_make, name, **limits, **options),
        _images,
        (size,),
        batches=False,
        settle=partial(_settle, size),
        compare=partial(assert_same_detections, least=least, most=most),
        others=_empty,
        worth=_worth,
    )


ENTRIES = [
    _detector("ssdlite320_mobilenet_v3_large", (64, 64), 0.9, 100),
    _detector("ssd300_vgg16", (64, 64), 0.95, 100),
    _detector("retinanet_resnet50_fpn", (64, 64), 0.95, 100, min_size=128, max_size=160),
    _detector("fcos_resnet50_fpn", (64, 64), 0.8, 100, min_size=96, max_size=160),
    _detector(
        "fasterrcnn_mobilenet_v3_large_320_fpn",
        (64, 64),
        0.35,
        100,
        "box_score_thresh",
        min_size=128,
        max_size=160,
        rpn_post_nms_top_n_test=30,
    ),
]
