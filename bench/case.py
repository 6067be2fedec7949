"""One model at one input shape: where its files are, and how it is built. Files are kept from run to run.

build/bench-models/resnet18-1x224/reference   input, torch's output, multiply-adds
build/bench-models/resnet18-1x224/onnx        a source that several engines share
build/bench-models/resnet18-1x224/openvino    what an engine runs
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

ROOT = Path(__file__).resolve().parent.parent
MODELS_FOLDER = ROOT / "build" / "bench-models"
MODELS = (
    "mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0", "squeezenet1_1", "resnet18", "resnet50", "deeplabv3_resnet50", "vit_b_16",
)  # fmt: skip
FIXED_SIZE = {"vit_b_16": 224}


class Convertible(Protocol):
    """What the preparation needs to know of a model, or of a single layer (layers.py)."""

    @property
    def folder(self) -> Path: ...
    def module(self) -> torch.nn.Module: ...
    def inputs(self) -> tuple[torch.Tensor, ...]: ...


@dataclass(frozen=True)
class Case:
    model: str
    batch: int = 1
    size: int = 224

    @staticmethod
    def of(model: str, batch: int, size: int) -> Case:
        return Case(model, batch, FIXED_SIZE.get(model, size))

    @property
    def key(self) -> str:
        return f"{self.model}-{self.batch}x{self.size}"

    @property
    def folder(self) -> Path:
        return MODELS_FOLDER / self.key

    def module(self) -> torch.nn.Module:
        from tests.models import build

        return build(self.model)

    def inputs(self) -> tuple[torch.Tensor, ...]:
        from tests.models import example

        return example(self.model, self.batch, self.size)


def flat(result: Any) -> list[Any]:
    """The tensors of a model's result, in order."""
    if isinstance(result, dict):
        result = tuple(result.values())
    return [leaf for part in result for leaf in flat(part)] if isinstance(result, (tuple, list)) else [result]
