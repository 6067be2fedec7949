"""penlight lint: what it finds in .pt, .ptl and .pen files, where, and what it does not cry about."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

from penlight.capture.script import dataflow
from penlight.compat.bundled_inputs import bundle_inputs
from penlight.compat.mobile_optimizer import optimize_for_mobile
from penlight.ir.script import Action, ScriptFunction
from penlight.lint.lints import Lint, lint_file
from penlight.lint.torch_backends import is_host, runs_on
from tests.tools.call import Penlight


class Bad(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c = nn.Conv2d(3, 4, 1)
        self.b = nn.BatchNorm2d(4)
        self.d = nn.Dropout(0.5)
        self.register_buffer("w", torch.rand(4, dtype=torch.float64))
        self.n = 0

    def forward(self, x: torch.Tensor, k: int):
        x[:, 0] = 0.0
        y = self.d(self.b(self.c(x)))
        if y.sum() > 0:
            y = y * 2
        for _ in range(k):
            y = torch.cumsum(y, 1) + self.w.float()[0]
        self.n += 1
        z = torch.nonzero(y[0, 0])
        assert z.dim() == 2
        y.add_(1.0)
        return y, z, torch.rand(3), torch.geqrf(y[0, 0])[0]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lints")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bad = torch.jit.script(Bad())
        bad.save(folder / "bad.pt")
        bad._save_for_lite_interpreter(str(folder / "bad.ptl"), _save_mobile_debug_info=True)
        bad._save_for_lite_interpreter(str(folder / "bad.flat.ptl"), _use_flatbuffer=True)
        good = torch.jit.script(nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU()).eval().requires_grad_(False))
        good = bundle_inputs(good, [(torch.zeros(1, 3, 8, 8),)])
        good.save(folder / "good.pt")
        optimize_for_mobile(good, backend="metal").save(folder / "good.pen")
        plain = torch.jit.script(nn.Sequential(nn.Conv2d(3, 4, 1), nn.GELU(), nn.BatchNorm2d(4)).eval())
        optimize_for_mobile(plain, backend="metal").save(folder / "plain.pen")
    return folder


def codes(lints: list[Lint]) -> set[tuple[str, str]]:
    return {(lint.level, lint.code) for lint in lints}


def only(lints: list[Lint], code: str) -> Lint:
    (found,) = [lint for lint in lints if lint.code == code]
    return found


EXPECTED = {
    ("warning", "BRANCH"), ("warning", "BUNDLED_INPUT"), ("warning", "F64_WEIGHTS"), ("warning", "INPUT_WRITTEN"), ("warning", "TRAINING"),
    ("note", "BATCHNORM"), ("note", "DATA_SIZES"), ("note", "DROPOUT"), ("note", "LOOP"), ("note", "RANDOM"), ("note", "REQUIRES_GRAD"),
    ("note", "STATE"),
}  # fmt: skip


@pytest.mark.parametrize("name", ["bad.pt", "bad.ptl", "bad.flat.ptl"])
def test_finds_everything(files: Path, name: str) -> None:
    lints = lint_file(files / name, [])
    assert codes(lints) >= EXPECTED
    assert "w is f64" in only(lints, "F64_WEIGHTS").message
    written = only(lints, "INPUT_WRITTEN")
    assert written.message == "aten::copy_ writes into the input x of forward."  # y.add_ writes into no input
    if name == "bad.flat.ptl":
        assert ("note", "NO_SOURCE_LINES") in codes(lints)
    else:
        assert written.sources == [s for s in written.sources if s.endswith("x[:, 0] = 0.0")]
        assert "test_lints.py:" in written.sources[0]
        branch = next(lint for lint in lints if lint.code == "BRANCH" and lint.level == "warning")
        assert [s.rpartition(": ")[2] for s in branch.sources] == ["if y.sum() > 0:"]  # and not the assert


def test_unsupported_by_backend(files: Path) -> None:
    for backend, missing, there in (
        ("metal", "aten::cumsum", "aten::conv2d"),
        ("vulkan", "aten::geqrf", "aten::cumsum"),
    ):
        lints = [
            lint for lint in lint_file(files / "bad.pt", [backend]) if lint.code == f"UNSUPPORTED_{backend.upper()}"
        ]
        named = {lint.message.partition(": ")[0] for lint in lints}
        assert missing in named
        assert there not in named
        assert "aten::batch_norm" not in named  # which is folded
        assert all(lint.level == "error" and lint.sources for lint in lints)


def test_nothing_to_mend(files: Path) -> None:
    assert lint_file(files / "good.pt", ["cpu", "vulkan", "metal"]) == []
    assert lint_file(files / "good.pen", ["cpu", "vulkan", "metal"]) == []


def test_pen(files: Path) -> None:
    lints = lint_file(files / "plain.pen", ["cpu", "metal"])
    assert codes(lints) == {("error", "UNSUPPORTED_METAL"), ("warning", "BUNDLED_INPUT")}
    assert {lint.message.partition(":")[0] + "::" + lint.message.split("::")[1].partition(":")[0] for lint in lints if lint.level == "error"} == {
        "aten::gelu", "aten::batch_norm",
    }  # fmt: skip


def test_command(penlight_command: Penlight, files: Path) -> None:
    told = penlight_command("lint", files / "bad.pt", "--backend", "metal")
    assert told.code == 1
    for text in (
        "error UNSUPPORTED_METAL  aten::cumsum",
        "warning BRANCH",
        "test_lints.py:",
        "→ model.float()",
        "in forward: x[:, 0] = 0.0",
    ):
        assert text in told.out, text
    assert penlight_command("lint", files / "good.pt").out.strip().endswith("nothing to mend")
    told = penlight_command("lint", files / "plain.pen", "--json")
    assert told.code == 0
    assert [lint["code"] for lint in json.loads(told.out)["lints"]] == ["BUNDLED_INPUT"]
    assert penlight_command("lint", files / "plain.pen", "--strict").code == 1


def test_other_files(penlight_command: Penlight, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("no model")
    told = penlight_command("lint", tmp_path / "x.txt")
    assert told.code == 1
    assert "expected TorchScript, .ptl or .pen, got something else" in told.err


def test_operators_without_a_device() -> None:
    for name in (
        "aten::len.t",
        "aten::add.int",
        "aten::size",
        "aten::__getitem__.str",
        "prim::TupleUnpack",
        "aten::Bool.Tensor",
        "aten::format",
    ):
        assert is_host(name), name
        assert runs_on("metal", name)
    for name in ("aten::add.Tensor", "aten::relu", "aten::any.dim", "aten::floor", "quantized::linear"):
        assert not is_host(name) or name == "aten::floor", name


def test_walk_ends_where_it_must() -> None:
    """Whatever the code: each instruction is seen once."""
    for code in (
        [Action("jump", target=0)], [Action("jump", target=99)], [Action("branch", [1], target=0), Action("jump", target=0)],
        [Action("loop", [1, 2, 3, 4], target=-5)], [Action("op", [9], [1], "aten::add_"), Action("return", [1])],
    ):  # fmt: skip
        function = ScriptFunction("f", [{"name": "self", "type": ""}, {"name": "x", "type": ""}], "", code, 9, 9)
        assert len(list(dataflow.steps(function))) <= len(code)


class Reused(nn.Module):
    """forward calls a method that is compiled, and saved, for itself too."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.BatchNorm2d(4))

    @torch.jit.export
    def features(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.features(x).mean()


class Half(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 0.5


@pytest.mark.parametrize("ending", ["pt", "ptl"])
def test_no_layer_counts_twice_and_no_number_is_a_weight(tmp_path: Path, ending: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script = torch.jit.script(Reused().eval())
        half = torch.jit.trace(Half(), torch.rand(3))
        for module, name in ((script, "reused"), (half, "half")):
            path = str(tmp_path / f"{name}.{ending}")
            module.save(path) if ending == "pt" else module._save_for_lite_interpreter(path)
    found = {lint.code: lint for lint in lint_file(tmp_path / f"reused.{ending}")}
    assert found["BATCHNORM"].count == 2
    assert "F64_WEIGHTS" not in [lint.code for lint in lint_file(tmp_path / f"half.{ending}")]
