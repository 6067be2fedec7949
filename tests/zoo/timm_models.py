"""timm: the smallest member of many families, convolutional, attentive and in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from tests.zoo.entry import Entry, Size, images


def _make(name: str, **options: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import timm

        model: nn.Module = timm.create_model(name, pretrained=False, **options)
        return model

    return make


def _any(name: str, size: int = 64, *others: Size, quick: bool = False, **options: Any) -> Entry:
    sizes = ((size, size), *(others or ((size + 17, size + 33),)))
    return Entry(f"timm {name}", "timm", _make(name, **options), images, sizes, quick)


def _fixed(name: str, size: int = 64, **options: Any) -> Entry:
    return Entry(f"timm {name}", "timm", _make(name, **options), images, ((size, size),))


ENTRIES = [
    _any("mobilenetv4_conv_small_050"),
    _any("lcnet_050", quick=True),
    _any("ghostnet_100"),
    _any("repvgg_a0"),
    _any("mobileone_s0"),
    _any("dla46_c", 64, (96, 128)),
    _any("resnest14d"),
    _any("skresnet18"),
    _any("nf_regnet_b0"),
    _any("selecsls42", 128, (160, 192)),
    _any("hgnetv2_b0"),
    _any("hrnet_w18_small", 64, (96, 128)),
    _any("xception41"),
    _any("fasternet_t0"),
    _any("starnet_s050"),
    _any("inception_next_atto"),
    _any("convnextv2_atto"),
    _any("poolformerv2_s12"),
    _any("mambaout_femto"),
    _any("fastvit_t8"),
    _any("repvit_m0_9"),
    _any("shvit_s1", 128, (160, 192)),
    _any("edgenext_xx_small"),
    _any("efficientvit_b0"),
    _fixed("efficientvit_m0", 224),
    _fixed("levit_128s", 224),
    _fixed("deit_tiny_patch16_224", 224),
    _fixed("xcit_nano_12_p16_224", 64),
    _fixed("twins_svt_small", 64),
    _fixed("mixer_s32_224", 224),
    _fixed("resmlp_12_224", 224),
    _fixed("gmlp_ti16_224", 224),
    _fixed("pvt_v2_b0", 64),
    _fixed("focalnet_tiny_srf", 64),
    _fixed("davit_tiny", 64),
    _fixed("gcvit_xxtiny", 224),
    _fixed("volo_d1_224", 224),
]
