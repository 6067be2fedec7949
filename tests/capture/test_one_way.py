"""One way in: a script gives the same graph from memory and from either kind of file, and the same bytes from every caller."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision
from click.testing import CliRunner
from torch import nn

import penlight
from penlight.capture import capture
from penlight.compat.mobile_optimizer import optimize_for_mobile
from penlight.file.writer import to_array
from penlight.ir.graph import Program
from penlight.ir.text import print_program
from penlight.tools.optimize import optimize_command
from tests.compat.models import MODELS
from tests.models import randomise

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
IMAGE = (torch.rand(2, 3, 64, 64),)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(self.attention(x, x, x)[0])


def torchvision_model(name: str) -> Callable[[], tuple[nn.Module, tuple[Any, ...]]]:
    def make() -> tuple[nn.Module, tuple[Any, ...]]:
        module = getattr(torchvision.models, name)(weights=None)
        randomise(module)
        return module, IMAGE

    return make


SMALL = {**MODELS, "attention": lambda: (Attention().eval(), (torch.rand(2, 5, 8),))}
LARGE = {
    name: torchvision_model(name)
    for name in (
        "mobilenet_v2",
        "mobilenet_v3_small",
        "resnet18",
        "squeezenet1_1",
        "shufflenet_v2_x0_5",
        "googlenet",
        "mnasnet0_5",
    )
}


def scripted(name: str) -> tuple[Any, tuple[Any, ...]]:
    module, inputs = {**SMALL, **LARGE}[name]()
    return torch.jit.script(module.eval()), inputs


def saved(script: Any, folder: Path) -> tuple[Path, Path]:
    script.save(folder / "m.pt")
    script._save_for_lite_interpreter(str(folder / "m.ptl"))
    return folder / "m.pt", folder / "m.ptl"


def text_of(source: Any, inputs: tuple[Any, ...]) -> str:
    """Without source lines, which not every file has."""
    text = print_program(Program(capture(source, inputs, methods=["forward"]).methods))
    return re.sub(r"\s+# .*$", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("name", [*SMALL, *(pytest.param(n, marks=pytest.mark.slow) for n in LARGE)])
def test_the_same_graph_from_memory_and_from_files(name: str, tmp_path: Path) -> None:
    script, inputs = scripted(name)
    pt, ptl = saved(script, tmp_path)
    expected = text_of(script, inputs)
    assert "return" in expected
    assert text_of(pt, inputs) == expected
    assert text_of(ptl, inputs) == expected


@pytest.mark.parametrize("name", ["mobilenet", "branch", "words", "attention"])
def test_the_same_bytes_from_every_caller(name: str, tmp_path: Path) -> None:
    script, _ = scripted(name)
    path, _ = saved(script, tmp_path)
    by_api = penlight.optimize(path, metadata={"name": "m"}).to_bytes()
    done = CliRunner().invoke(optimize_command, [str(path), "-o", str(tmp_path / "m.pen")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "m.pen").read_bytes() == by_api
    loaded = torch.jit.load(path)
    assert penlight.optimize(loaded, metadata={"name": "m"}).to_bytes() == by_api
    program = optimize_for_mobile(loaded)._program
    program.metadata["name"] = "m"  # by default that of the class
    assert to_array(program).tobytes() == by_api
