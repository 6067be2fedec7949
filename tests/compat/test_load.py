"""What a compiled model's file carries comes back from every loader: torch.jit.load, the lite interpreter's, penlight.load."""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.jit.mobile import _load_for_lite_interpreter as imported_before
from torch.utils.bundled_inputs import bundle_inputs

import penlight
from penlight import compat
from penlight.compat.bundled_inputs import augment_model_with_bundled_inputs
from penlight.compat.mobile_optimizer import MobileOptimizerType, optimize_for_mobile

pytestmark = pytest.mark.filterwarnings("ignore")
FILES = {"labels.txt": "cat\ndog", "noise": b"\xff\x00\x01"}
BYTES = {"labels.txt": b"cat\ndog", "noise": b"\xff\x00\x01"}


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x: torch.Tensor, gain: float = 1.0) -> torch.Tensor:
        return self.conv(x) * gain

    @torch.jit.export
    def twice(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


def scripted() -> Any:
    torch.manual_seed(0)
    return torch.jit.script(Network().eval())


@pytest.fixture
def installed() -> Iterator[None]:
    compat.install()
    yield
    compat.uninstall()


X = torch.rand(2, 3, 8, 8)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("load", [torch.jit.load, imported_before], ids=["torch.jit.load", "imported before"])
@pytest.mark.parametrize("kind", ["path", "str", "file"])
def test_torch_loads_what_torch_saved(tmp_path: Path, load: Any, kind: str) -> None:
    script = scripted()
    optimized = optimize_for_mobile(script, preserved_methods=["twice"])
    path, buffer = tmp_path / "model.pt", io.BytesIO()
    torch.jit.save(optimized, str(path), _extra_files=FILES)
    torch.jit.save(optimized, buffer, _extra_files=FILES)
    buffer.seek(0)
    loaded = load({"path": path, "str": str(path), "file": buffer}[kind], map_location="cpu")
    torch.testing.assert_close(loaded(X), script(X))
    torch.testing.assert_close(loaded.twice(X), X * 2)
    assert loaded.eval().to("cpu") is loaded


@pytest.mark.usefixtures("installed")
def test_torchscript_stays_torchs_affair(tmp_path: Path) -> None:
    torch.jit.save(scripted(), tmp_path / "model.pt", _extra_files=FILES)
    wanted = dict.fromkeys(FILES, "")
    loaded = torch.jit.load(tmp_path / "model.pt", _extra_files=wanted)
    assert isinstance(loaded, torch.jit.ScriptModule)
    assert wanted == BYTES


def sources(folder: Path) -> dict[str, Path]:
    """One model with two bundled calls and two extra files, in all files that can hold it."""
    plain = scripted()
    script = bundle_inputs(
        plain,
        {plain.forward: [(torch.zeros(1, 3, 8, 8), 1.0)], plain.twice: [(torch.ones(2),), (torch.ones(1),)]},
        {plain.forward: ["zeros"], plain.twice: ["two", "one"]},
    )
    paths = {name: folder / f"model.{name}" for name in ("pt", "ptl", "flat", "pen")}
    torch.jit.save(script, paths["pt"], _extra_files=FILES)
    script._save_for_lite_interpreter(str(paths["ptl"]), _extra_files=FILES)
    script._save_for_lite_interpreter(str(paths["flat"]), _extra_files=FILES, _use_flatbuffer=True)
    optimize_for_mobile(script).save(paths["pen"], _extra_files=FILES)
    return paths


@pytest.fixture(scope="module")
def carrying(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sources(tmp_path_factory.mktemp("carrying"))


@pytest.mark.parametrize("name", ["pt", "ptl", "flat", "pen"])
def test_what_a_file_carries_survives(carrying: dict[str, Path], tmp_path: Path, name: str) -> None:
    source = carrying[name]
    wanted: dict[str, Any] = {**dict.fromkeys(FILES, ""), "nothing": "x"}
    loaded = compat._load_for_lite_interpreter(source, _extra_files=wanted)
    assert wanted == {**BYTES, "nothing": b""}
    loaded.save(tmp_path / "again.pen", _extra_files={"more": "m"})
    again = penlight.load(tmp_path / "again.pen")
    assert again.extra_files == {**BYTES, "more": b"m"}
    models = [loaded.model, again]
    if name != "pen":
        models.append(penlight.optimize(source))
        assert models[-1].extra_files == BYTES
    for model in models:
        assert [b.info for b in model.bundled_inputs()] == ["zeros"]
        assert [b.info for b in model.bundled_inputs("twice")] == ["two", "one"]
        for b in model.bundled_inputs("twice"):
            assert not b.has_outputs or np.array_equal(model.twice(*b.args), b.outputs)
    assert again.metadata == {**loaded.model.metadata, "extra_files": again.metadata["extra_files"]}


def test_info_of_other_methods_and_two_of_one_class() -> None:
    first, second = scripted(), scripted()
    for i, module in enumerate((first, second)):  # which share a type
        augment_model_with_bundled_inputs(module, [(torch.full((1, 3, 8, 8), float(i)), 1.0)], skip_size_check=True)
        assert float(module.get_all_bundled_inputs()[0][0].mean()) == i
        torch.testing.assert_close(module(X), scripted()(X))
    made = optimize_for_mobile(scripted(), preserved_methods=["twice"])
    info = {made.forward: ["f"], made.twice: ["d"]}
    calls = {made.forward: [(torch.zeros(1, 3, 8, 8),)], made.twice: [(torch.ones(2),)]}
    told = compat.bundle_inputs(made, calls, info).get_bundled_inputs_functions_and_info()
    assert {name: about["info"] for name, about in told.items()} == {"forward": ["f"], "twice": ["d"]}


def test_as_a_module(tmp_path: Path) -> None:
    script = scripted()
    made = optimize_for_mobile(script, {"CONV_BN_FUSION", MobileOptimizerType.REMOVE_DROPOUT}, ["twice"])
    buffer = io.BytesIO()
    made.save(buffer)
    loaded = compat._load_for_lite_interpreter(io.BytesIO(buffer.getvalue()))
    for module in (made, loaded, copy.deepcopy(loaded)):  # as PyTorch's, whose parameters freezing makes constants
        assert module.to("cpu").to(torch.float32).cpu().eval() is module
        assert dict(module.state_dict()) == {}
        assert list(module.parameters()) == list(module.buffers()) == list(module.named_children()) == []
        assert [name for name, _ in module.named_modules()] == [""]
        torch.testing.assert_close(module(X, gain=2.0), script(X, 2.0))
        with pytest.raises(RuntimeError, match="stays on the CPU"):
            module.to("cuda")
    with pytest.raises(penlight.InputError, match="'x' is missing"):
        made()
    with pytest.raises(ValueError, match="expected members of MobileOptimizerType or their names, CONV_BN_FUSION"):
        optimize_for_mobile(script, {"FASTER"})
