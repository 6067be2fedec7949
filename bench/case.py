"""One model at one input shape: where its files are, and how it is built. Files are kept from run to run.

build/bench-models/resnet18-1x224/reference          inputs, torch's outputs, multiply-adds
build/bench-models/resnet18-1x224/onnx               a source that several engines share
build/bench-models/resnet18-1x224/openvino           what an engine runs
build/bench-models/resnet18-1x224-int8/calibration   with precision "int8": what every engine may see of its input beforehand
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

ROOT = Path(__file__).resolve().parent.parent
MODELS_FOLDER = ROOT / "build" / "bench-models"
MODELS = (
    "mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0", "squeezenet1_1", "resnet18", "resnet50", "deeplabv3_resnet50", "vit_b_16",
)  # fmt: skip
FIXED_SIZE = {"vit_b_16": 224}
CALIBRATION_BATCHES = 8


class Convertible:
    """What the preparation needs to know of a model, of a single layer (layers.py), of a sequence (sequence_list.py)."""

    code: tuple[str, ...] = ("tests/models.py", "bench/settled.py")  # that builds it
    sequence: bool = False  # of the sequence benchmark

    @property
    def folder(self) -> Path:
        raise NotImplementedError

    def module(self) -> torch.nn.Module:
        raise NotImplementedError

    def inputs(self) -> tuple[torch.Tensor, ...]:
        raise NotImplementedError

    def transformer(self) -> tuple[str, int, int] | None:
        """As what ONNX Runtime's optimizer of transformers takes it, its heads and width; None: it is none."""
        return None

    def memory(self) -> Memory | None:
        """What a model remembers from run to run; None: nothing."""
        return None

    def moved_bytes(self) -> int:
        """That a run cannot do without, where their number and not the arithmetic sets the time; 0 elsewhere."""
        return 0


@dataclass(frozen=True)
class Memory:
    """Keys and values that a decoder keeps, for engines that cannot: there they come in and go out."""

    past: tuple[torch.Tensor, ...]  # what it begins with, each [1, heads, words, features]
    room: int  # words that they have room for
    runs: int  # before the beginning is put back
    growing: torch.nn.Module  # (inputs, past) -> scores, past that is longer by one
    shared: torch.nn.Module  # (inputs, position, past with all its room) -> scores, the same memory; ONNX Runtime only


@dataclass(frozen=True)
class Case(Convertible):
    model: str
    batch: int = 1
    size: int = 224
    precision: str = "f32"  # or "int8": the network is settled.py's, and there are batches to calibrate with

    @staticmethod
    def of(model: str, batch: int, size: int, precision: str = "f32") -> Case:
        return Case(model, batch, FIXED_SIZE.get(model, size), precision)

    @property
    def about(self) -> dict[str, Any]:
        """For the rows of the results."""
        return {"model": self.model, "batch": self.batch, "size": self.size}

    @property
    def words(self) -> list[str]:
        """For the command line of prepare.py."""
        return [self.model, str(self.batch), str(self.size), self.precision]

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
