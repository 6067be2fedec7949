"""`penlight inspect` on TorchScript and .ptl files."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

from penlight.capture.lite.program import Function, Instruction, LiteProgram, Operator
from penlight.ir.values import ScriptObject
from penlight.tools.inspect_lite import listing
from tests.tools.call import Penlight


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.calls = 0

    def forward(self, x: torch.Tensor, times: int = 2) -> torch.Tensor:
        self.calls += 1
        for _ in range(times):
            x = torch.relu(self.layer(x)[:, :1].repeat(1, 3))
        return x

    @torch.jit.export
    def names(self, prefix: str) -> list[str]:
        return [prefix, "b"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inspect")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script = torch.jit.script(Counter().eval())
        script.save(folder / "m.pt")
        script._save_for_lite_interpreter(
            str(folder / "zip.ptl"), _extra_files={"about.txt": "hello"}, _save_mobile_debug_info=True
        )
        script._save_for_lite_interpreter(str(folder / "flat.ptl"), _use_flatbuffer=True)
    return folder


@pytest.mark.parametrize("name", ["m.pt", "zip.ptl", "flat.ptl"])
def test_shows_everything(penlight_command: Penlight, models: Path, name: str) -> None:
    told = penlight_command("inspect", models / name)
    assert (told.code, told.err) == (0, "")
    for text in (
        "forward(Tensor x, int times=2) -> Tensor", "names(str prefix) -> List[str]", "calls = 0", "aten::linear", "layer.weight", "[2, 3]",
        {"m.pt": "TorchScript,", "zip.ptl": "(zip), bytecode version 8,", "flat.ptl": "(flatbuffer), bytecode version 9,"}[name],
    ):  # fmt: skip
        assert text in told.out, text
    assert ("extra file about.txt: 5 B" in told.out) == (name == "zip.ptl")


def test_json_and_code(penlight_command: Penlight, models: Path) -> None:
    facts = json.loads(penlight_command("inspect", models / "zip.ptl", "--json", "--graph").out)
    assert facts["methods"]["forward"]["arguments"] == [
        {"name": "x", "type": "Tensor"}, {"name": "times", "type": "int", "default": "2"},
    ]  # fmt: skip
    assert facts["weight_bytes"] == 4 * (6 + 2)
    assert facts["state"]["calls"] == "0"
    assert facts["extra_files"] == {"about.txt": 5}
    code = facts["graph"]
    assert ".calls = r" in code  # attributes by name, in modules inside too
    assert ".layer" in code
    assert ".weight" in code
    assert "aten::linear(r" in code
    assert "loop over" in code
    assert "# test_inspect_lite.py:" in code
    assert "x = torch.relu(self.layer(x)[:, :1].repeat(1, 3))" in code


def test_bad_files(penlight_command: Penlight, models: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.ptl"
    data = bytearray((models / "flat.ptl").read_bytes())
    broken.write_bytes(data[: len(data) // 2])
    told = penlight_command("inspect", broken)
    assert told.code == 1
    assert "broken.ptl" in told.err
    assert "fault of Penlight" not in told.err
    assert penlight_command("inspect", models / "flat.ptl", "--verify").code == 2


def test_code_that_cannot_be_registers_is_shown_as_it_stands() -> None:
    code = [Instruction("LOADC", 0, 0), Instruction("OP", 0, 0), Instruction("JMP", 1, 0), Instruction("LOADC", 7, 0)]
    function = Function("__torch__.M.forward", code, [Operator("aten::nothing", "", None)], ["text"], [], 1)
    program = LiteProgram("zip", 4, 3, {function.name: function}, ScriptObject("__torch__.M"))
    shown = listing(program)
    assert "LOADC 0 0  'text'" in shown
    assert "OP 0 0  aten::nothing" in shown
