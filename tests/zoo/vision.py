"""torchvision: the smallest member of every family of classifiers, segmentation, video and optical flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tests.zoo.entry import Entry, Inputs, Size, images


def _make(name: str, part: str = "", **options: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import torchvision

        module = getattr(torchvision.models, part) if part else torchvision.models
        model: nn.Module = getattr(module, name)(weights=None, **options)
        return model

    return make


def _classifier(name: str, size: int = 64, *others: Size, quick: bool = False, **options: Any) -> Entry:
    sizes = ((size, size), *(others or ((size + 17, size + 33),)))
    return Entry(name, "torchvision classification", _make(name, **options), images, sizes, quick)


def _fixed(name: str, size: int, **options: Any) -> Entry:
    """One size only: position embeddings, or windows that the code counts in Python."""
    return Entry(name, "torchvision classification", _make(name, **options), images, ((size, size),))


def _segmentation(name: str) -> Entry:
    make = _make(name, "segmentation", weights_backbone=None)
    return Entry(name, "torchvision segmentation", make, images, ((64, 64), (81, 97)))


def _clip(batch: int, size: Size, random: torch.Generator) -> Inputs:
    return (torch.randn(batch, 3, *size, generator=random),)


def _video(name: str, *sizes: Size, **options: Any) -> Entry:
    return Entry(name, "torchvision video", _make(name, "video", **options), _clip, sizes)


def _mvit() -> nn.Module:
    """MViT v2 with four of its blocks: the pretrained sizes want clips of 16 x 224 x 224."""
    from torchvision.models.video.mvit import MSBlockConfig, MViT

    blocks = [
        MSBlockConfig(1, 48, 96, [3, 3, 3], [3, 3, 3], [1, 1, 1], [1, 4, 4]),
        MSBlockConfig(2, 96, 96, [3, 3, 3], [3, 3, 3], [1, 2, 2], [1, 2, 2]),
        MSBlockConfig(2, 96, 192, [3, 3, 3], [3, 3, 3], [1, 1, 1], [1, 2, 2]),
        MSBlockConfig(4, 192, 192, [3, 3, 3], [3, 3, 3], [1, 2, 2], [1, 1, 1]),
    ]
    return MViT(
        spatial_size=(64, 64), temporal_size=4, block_setting=blocks, residual_pool=True, residual_with_cls_embed=False,
        rel_pos_embed=True, proj_after_attn=True,
    )  # fmt: skip


def _pair(batch: int, size: Size, random: torch.Generator) -> Inputs:
    return tuple(torch.rand(batch, 3, *size, generator=random) * 2 - 1 for _ in range(2))


def _eighths() -> tuple[Any, ...]:
    """RAFT asks for sizes that 8 divides, and the same for both. (torch.export itself fixes the batch.)"""
    h, w = torch.export.Dim("h8"), torch.export.Dim("w8")
    return ({2: 8 * h, 3: 8 * w},) * 2


class _Flow(nn.Module):
    """RAFT with few updates of its flow; the result is the last, not a list of all."""

    def __init__(self) -> None:
        super().__init__()
        self.model = _make("raft_small", "optical_flow")()

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        flow: torch.Tensor = self.model(first, second, num_flow_updates=2)[-1]
        return flow


ENTRIES = [
    _classifier("alexnet", 79),
    _classifier("convnext_tiny", 64),
    _classifier("densenet121", 64),
    _classifier("efficientnet_b0", 64),
    _classifier("efficientnet_v2_s", 64),
    _classifier("googlenet", 64, aux_logits=False, init_weights=False),
    _classifier("inception_v3", 96, aux_logits=False, init_weights=False),
    _fixed("maxvit_t", 224),
    _classifier("mnasnet0_5", 64),
    _classifier("mobilenet_v2", 64),
    _classifier("mobilenet_v3_small", 64, quick=True),
    _classifier("regnet_x_400mf", 64),
    _classifier("regnet_y_400mf", 64),
    _classifier("resnet18", 64),
    _classifier("resnext50_32x4d", 64),
    _classifier("wide_resnet50_2", 64),
    _classifier("shufflenet_v2_x0_5", 64),
    _classifier("squeezenet1_1", 64, quick=True),
    _fixed("swin_t", 64),
    _fixed("swin_v2_t", 64),
    _classifier("vgg11_bn", 32, (49, 65)),
    _fixed("vit_b_16", 224),
    _segmentation("deeplabv3_mobilenet_v3_large"),
    _segmentation("fcn_resnet50"),
    _segmentation("lraspp_mobilenet_v3_large"),
    _video("r3d_18", (9, 32, 32), (12, 40, 48)),
    _video("mc3_18", (9, 32, 32), (12, 40, 48)),
    _video("r2plus1d_18", (9, 32, 32), (12, 40, 48)),
    _video("s3d", (16, 224, 224)),
    Entry("mvit", "torchvision video", _mvit, _clip, ((4, 64, 64),)),
    _video("swin3d_t", (4, 32, 32)),
    Entry(
        "raft_small", "torchvision optical flow", _Flow, _pair, ((128, 128), (136, 144)), free=_eighths, batches=False
    ),
]
