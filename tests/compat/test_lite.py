"""torch.jit.mobile's functions on every kind of file, against torch's own."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.jit.mobile as original

from penlight.compat import lite
from penlight.compat.bundled_inputs import bundle_inputs, bundle_large_tensor
from penlight.compat.mobile_optimizer import optimize_for_mobile
from penlight.file_kinds import file_kind
from tests.compat.models import MODELS

NAMES = ["words", "conv_bn_relu6", "branch"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lite")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in NAMES:
            script = torch.jit.script(MODELS[name]()[0].eval())
            script._save_for_lite_interpreter(str(folder / f"{name}.ptl"))
            script._save_for_lite_interpreter(str(folder / f"{name}.flat.ptl"), _use_flatbuffer=True)
            script.save(folder / f"{name}.pt")
    optimize_for_mobile(torch.jit.load(folder / "conv_bn_relu6.pt")).save(folder / "conv_bn_relu6.pen")
    return folder


def test_kinds(files: Path) -> None:
    kinds = {path.name.partition(".")[2]: file_kind(path) for path in sorted(files.iterdir())}
    assert kinds == {"ptl": "zip", "flat.ptl": "flatbuffer", "pt": "torchscript", "pen": "pen"}
    assert file_kind((files / "words.pt").read_bytes()) == "torchscript"
    assert file_kind(b"PK\x03\x04 and no more") == "other"
    assert file_kind(b"") == "other"


@pytest.mark.parametrize("name", NAMES)
def test_operators_as_torch(files: Path, name: str) -> None:
    path = files / f"{name}.ptl"
    expected = original._get_model_ops_and_info(str(path))
    for source in (path, str(path), io.BytesIO(path.read_bytes())):
        found = lite._get_model_ops_and_info(source)
        assert {k: v.num_schema_args for k, v in found.items()} == {k: v.num_schema_args for k, v in expected.items()}
    assert set(lite._get_model_ops_and_info(files / f"{name}.flat.ptl")) == set(expected)
    assert set(lite._get_model_ops_and_info(files / f"{name}.pt")) == set(expected)


def test_versions_as_torch(files: Path) -> None:
    for path in sorted(files.glob("*.ptl")):
        assert lite._get_model_bytecode_version(path) == original._get_model_bytecode_version(path)
    assert lite._get_model_bytecode_version(io.BytesIO((files / "words.ptl").read_bytes())) == 8
    assert lite._get_model_bytecode_version(files / "words.pt") == -1
    assert lite._get_model_bytecode_version(files / "conv_bn_relu6.pen") == -1


def test_types(files: Path) -> None:
    assert lite._get_mobile_model_contained_types(files / "words.ptl") == {"List", "Tensor", "int"}
    assert lite._get_mobile_model_contained_types(files / "words.flat.ptl") == {"List", "Tensor", "int"}


def test_missing_files(tmp_path: Path) -> None:
    for function in (lite._load_for_lite_interpreter, lite._get_model_bytecode_version, lite._get_model_ops_and_info):
        with pytest.raises(ValueError, match=f"^The provided filename {tmp_path}/no.ptl does not exist$"):
            function(tmp_path / "no.ptl")
        with pytest.raises(ValueError, match=f"^The provided filename {tmp_path} is a directory$"):
            function(tmp_path)
    with pytest.raises(ValueError, match="map_location: expected 'cpu'"):
        (tmp_path / "x").write_bytes(b"x")
        lite._load_for_lite_interpreter(tmp_path / "x", map_location="cuda:0")


class Gives:
    def __init__(self, what: Any) -> None:
        self.read = lambda: what


FUNCTIONS = [
    lite._load_for_lite_interpreter, lite._get_model_bytecode_version, lite._get_model_ops_and_info, lite._get_mobile_model_contained_types,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_is_no_file(function: Any) -> None:
    for source, kind in (
        (None, "NoneType"),
        (7, "int"),
        (Gives("text"), "str"),
        (Gives(1 << 50), "int"),
        (Gives(None), "NoneType"),
    ):
        with pytest.raises(TypeError, match=f"a path, or a file opened for reading in binary, got {kind}$"):
            function(source)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="NUL"):
        function("m.ptl\0")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_paths_in_bytes(files: Path, function: Any) -> None:
    """They are no files' contents."""

    class Path:
        def __fspath__(self) -> bytes:
            return os.fsencode(files / "words.ptl")

    told = function(Path())
    assert isinstance(told, lite.LiteScriptModule) or told == function(files / "words.ptl")


def test_other_files(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("no model")
    with pytest.raises(Exception, match="expected a .pen, .ptl or TorchScript file, got something else"):
        lite._load_for_lite_interpreter(tmp_path / "x")


@pytest.mark.parametrize("ending", ["ptl", "flat.ptl", "pt", "pen"])
def test_loads_and_runs(files: Path, ending: str) -> None:
    path = files / f"conv_bn_relu6.{ending}"
    loaded = lite._load_for_lite_interpreter(path)
    x = torch.randn(2, 4, 5, 6)
    with torch.no_grad():
        expected = torch.jit.load(files / "conv_bn_relu6.pt")(x)
    for found in (loaded(x), loaded.forward(x), loaded.run_method("forward", x)):
        torch.testing.assert_close(found, expected)
    assert loaded.find_method("forward")
    assert not loaded.find_method("nothing")
    with pytest.raises(RuntimeError, match=r"^Method 'nothing' is not defined\.$"):
        loaded.run_method("nothing")
    if ending != "pen":  # there they are those of the code that was compiled
        assert lite._export_operator_list(loaded) == original._export_operator_list(
            original._load_for_lite_interpreter(str(files / "conv_bn_relu6.ptl"))
        )
    else:
        assert lite._export_operator_list(loaded) >= {"aten::conv2d", "aten::batch_norm"}
    with open(path, "rb") as file:
        torch.testing.assert_close(lite._load_for_lite_interpreter(file)(x), expected)


@pytest.mark.parametrize("ending", ["ptl", "flat.ptl", "pt"])
def test_control_flow_and_methods(files: Path, ending: str) -> None:
    loaded = lite._load_for_lite_interpreter(files / f"branch.{ending}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script = torch.jit.load(files / "branch.pt")
    for sign in (1, -1):
        x = sign * torch.rand(3, 4, 4, 4)
        with torch.no_grad():
            torch.testing.assert_close(loaded(x), script(x))
            torch.testing.assert_close(loaded.run_method("other", x, 3), script.other(x, 3))
            torch.testing.assert_close(loaded.other(x, -2), script.other(x, -2))


def test_words(files: Path) -> None:
    ids = torch.tensor([[1, 5, 2], [0, 9, 9]])
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        expected = torch.jit.load(files / "words.pt")(ids)
    for ending in ("ptl", "flat.ptl", "pt"):
        torch.testing.assert_close(lite._load_for_lite_interpreter(files / f"words.{ending}")(ids), expected)


def test_bundled_inputs_of_a_file(files: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script = bundle_inputs(
            torch.jit.load(files / "conv_bn_relu6.pt"), [(bundle_large_tensor(torch.rand(1, 4, 5, 6)),)]
        )
        script._save_for_lite_interpreter(str(tmp_path / "b.ptl"))
    loaded = lite._load_for_lite_interpreter(tmp_path / "b.ptl")
    (args,) = loaded.run_method("get_all_bundled_inputs")
    torch.testing.assert_close(args[0], script.get_all_bundled_inputs()[0][0], rtol=0, atol=0)
    assert loaded.get_num_bundled_inputs() == 1
    (kept,) = loaded.model.bundled_inputs()  # in the table of the .pen too
    assert kept.args[0].shape == (1, 4, 5, 6)
    assert not kept.has_outputs
    assert loaded.get_bundled_inputs_functions_and_info() == script.get_bundled_inputs_functions_and_info()


def test_without_torch(files: Path) -> None:
    """A .ptl loads and runs where there is no torch."""
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy as np; from penlight.compat import lite\n"
        f"m = lite._load_for_lite_interpreter({str(files / 'branch.ptl')!r})\n"
        "print(m.run_method('other', np.ones((2, 4), np.float32), 2).shape, lite._get_model_bytecode_version(sys.argv[1]))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, str(files / "branch.ptl")], check=True, capture_output=True, text=True
    )
    assert told.stdout.strip() == "(2, 4) 8"
