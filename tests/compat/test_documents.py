"""The Python blocks of PyTorch Mobile's tutorials run as they stand on today's torch, after penlight.compat.install()."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import penlight
from penlight import compat
from tests.compat import extract, prelude

DOCUMENTS = sorted({path.name.split(".")[0] for path in extract.FOLDER.glob("*.py.txt")})
SEEDS = Path(os.environ.get("PENLIGHT_DOCUMENTS", "/nowhere"))  # a folder with the documents whole


def blocks(document: str) -> list[Path]:
    return sorted(extract.FOLDER.glob(f"{document}.*.py.txt"))


@pytest.fixture
def installed() -> Iterator[None]:
    compat.install()
    yield
    compat.uninstall()


def run(document: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Executes the blocks of a document in order, in one namespace. From files: torch.jit.script reads the source."""
    pytest.importorskip("torchvision")
    names = prelude.prepare(monkeypatch, folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, about TorchScript and quantization
        for block in blocks(document):
            path = folder / block.name.replace(".txt", "")
            path.write_text(block.read_text(encoding="utf-8"), encoding="utf-8")
            exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    return names


def test_there_are_five_documents() -> None:
    assert len(DOCUMENTS) == 5


@pytest.mark.skipif(
    not SEEDS.is_dir(),
    reason="PENLIGHT_DOCUMENTS does not name the folder of the documents: only their blocks are here",
)
def test_blocks_are_the_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extract, "FOLDER", tmp_path)
    extract.write(SEEDS)
    here = {
        path.name: path.read_bytes()
        for kind in extract.KINDS
        for path in Path(__file__).parent.glob(f"documents/*.{kind}.txt")
    }
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == here


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_metal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    names = run(DOCUMENTS[0], tmp_path, monkeypatch)
    printed = capsys.readouterr().out
    assert "'metal_prepack::conv2d_run'" in printed
    assert "'metal::copy_to_host'" in printed
    assert names["model"].training  # which the block leaves it in; optimizing has not changed that
    model = penlight.load(tmp_path / "mobilenetv2_metal.pt")
    assert model.metadata["backend"] == "metal"
    same(model, names["model"], torch.rand(1, 3, 224, 224))


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_vulkan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run(DOCUMENTS[1], tmp_path, monkeypatch)
    assert names["script_model_vulkan"].optimized_for_vulkan
    model = penlight.load(tmp_path / "mobilenet2-vulkan.pt")
    assert model.metadata["backend"] == "vulkan"
    same(model, names["model"], torch.rand(2, 3, 160, 128))


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_lite_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run(DOCUMENTS[2], tmp_path, monkeypatch)
    loaded = torch.jit.mobile._load_for_lite_interpreter("deeplabv3_scripted.ptl")
    image = torch.rand(1, 3, 64, 96)
    with torch.no_grad():
        expected = names["model"](image)
    for key, value in loaded(image).items():
        torch.testing.assert_close(value, expected[key], rtol=1e-3, atol=1e-4 * float(expected[key].abs().max()))


@pytest.mark.usefixtures("installed")
def test_performance_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run(DOCUMENTS[3], tmp_path, monkeypatch)
    same(penlight.load(tmp_path / "model.pt"), names["model"], names["example"])  # of the last block


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_selective_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run(DOCUMENTS[4], tmp_path, monkeypatch)
    file = tmp_path / f"${prelude.PATH}" / "deeplabv3_scripted_with_bundled_input.ptl"
    loaded = torch.jit.mobile._load_for_lite_interpreter(file)
    bundled = loaded.run_method("get_all_bundled_inputs")
    assert [args[0].shape for args in bundled] == [(1, 3, 96, 64), (1, 3, 64, 80)]
    torch.testing.assert_close(bundled[0][0], names["input_batch_1"])
    expected = names["scripted_module"](*bundled[1])["out"]
    torch.testing.assert_close(
        loaded(*bundled[1])["out"], expected, rtol=1e-3, atol=1e-4 * float(expected.detach().abs().max())
    )


def same(model: penlight.Model, module: torch.nn.Module, x: torch.Tensor) -> None:
    with torch.no_grad():
        expected = module.eval()(x)
    torch.testing.assert_close(model(x), expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()))
