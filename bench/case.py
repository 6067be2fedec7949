"""One model at one input shape: where its files are, and how it is built. Files are kept from run to run.

build/bench-models/resnet18-1x224/reference          input, torch's output, multiply-adds
build/bench-models/resnet18-1x224/onnx               a source that several engines share
build/bench-models/resnet18-1x224/openvino           what an engine runs
build/bench-models/resnet18-1x224-int8/calibration   with precision "int8": what every engine may see of its input beforehand
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
CALIBRATION_BATCHES = 8


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
    precision: str = "f32"  # or "int8": the network is settled.py's, and there are batches to calibrate with

    @staticmethod
    def of(model: str, batch: int, size: int, precision: str = "f32") -> Case:
        return Case(model, batch, FIXED_SIZE.get(model, size), precision)

    @property
    def key(self) -> str:
        return f"{self.model}-{self.batch}x{self.size}" + (f"-{self.precision}" if self.precision != "f32" else "")

    @property
    def folder(self) -> Path:
        return MODELS_FOLDER / self.key

    def module(self) -> torch.nn.Module:
        from tests.models import build

        if self.precision == "f32":
            return build(self.model)
        import torch

        from bench.settled import settle

        return settle(build(self.model), torch.cat(self.calibration()))

    def inputs(self) -> tuple[torch.Tensor, ...]:
        if self.precision == "f32":
            from tests.models import example

            return example(self.model, self.batch, self.size)
        from bench.settled import photographs

        return (photographs(self.batch, self.size),)

    def calibration(self) -> list[torch.Tensor]:
        """Batches of the same shape; the images of `inputs` are not among them."""
        from bench.settled import photographs

        return list(photographs(CALIBRATION_BATCHES * self.batch, self.size).split(self.batch))


def flat(result: Any) -> list[Any]:
    """The tensors of a model's result, in order."""
    if isinstance(result, dict):
        result = tuple(result.values())
    return [leaf for part in result for leaf in flat(part)] if isinstance(result, (tuple, list)) else [result]
