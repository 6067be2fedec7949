"""torchvision's families as PyTorch Mobile shipped them: optimize_for_mobile of torch 1.13, three bytecode versions each."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penlight
from penlight.capture.lite import read
from penlight.capture.lite.program import Function
from penlight.ir.values import ScriptObject, ScriptTensor
from tests.capture.lite import legacy
from tests.capture.lite.test_run import compare
from tests.runtime.native import locked

NAMES = (
    "convnext_tiny", "deeplabv3_mobilenet_v3_large", "densenet121", "efficientnet_b0", "googlenet", "lraspp_mobilenet_v3_large",
    "mnasnet0_5", "mobilenet_v2", "mobilenet_v3_small", "regnet_y_400mf", "resnet18", "shufflenet_v2_x0_5", "squeezenet1_1", "swin_t",
    "quantized_googlenet", "quantized_mobilenet_v2", "quantized_mobilenet_v3_large", "quantized_resnet18", "quantized_shufflenet_v2_x0_5",
)  # fmt: skip


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr[-3000:]


@pytest.fixture(scope="session")
def families(shared_folder: Path) -> Path:
    """The files of all families, made at once: two PyTorches start twice, not once for each name."""
    folder = shared_folder / "families"
    with locked(shared_folder / "families.lock"):
        if not folder.exists():
            script, own = str(legacy.HERE / "make_zoo.py"), folder.with_suffix(".part")
            own.mkdir(exist_ok=True)
            _run(sys.executable, script, "models", str(own), *NAMES)
            _run(legacy.ORIGINAL_PYTHON, script, "files", str(own))
            own.rename(folder)
    return folder


@pytest.mark.slow
@pytest.mark.skipif(bool(legacy.original_missing()), reason=legacy.original_missing())
@pytest.mark.parametrize("name", NAMES)
def test_family(name: str, families: Path) -> None:
    cases = list(legacy.cases(families, f"{name}."))
    assert [c.version for c in cases] == [4, 8, 9]
    programs = [read(case.path) for case in cases]
    for case, program in zip(cases, programs, strict=True):
        assert program.bytecode_version == case.version
        assert program.methods == ["forward"]
    _, old, new = programs  # the same program, as pickles and as a flatbuffer: then compiling one is compiling both
    _assert_same(*([p.module, *map(_parts, p.functions.values())] for p in (old, new)))
    compare(cases[2], penlight.optimize(str(cases[2].path)))


def _parts(function: Function) -> dict[str, Any]:
    """All but source lines, which flatbuffers leave out."""
    return {name: part for name, part in vars(function).items() if name != "sources"}


def _assert_same(a: Any, b: Any) -> None:
    if isinstance(a, ScriptTensor):
        assert (a.dtype, a.shape, a.strides) == (b.dtype, b.shape, b.strides)
        assert a.quantizer == b.quantizer
        np.testing.assert_array_equal(a.array(), b.array())
    elif isinstance(a, ScriptObject):
        assert (a.type_name, a.has_state) == (b.type_name, b.has_state)
        _assert_same((a.attributes, a.state), (b.attributes, b.state))
    elif isinstance(a, dict):
        assert list(a) == list(b)
        _assert_same(list(a.values()), list(b.values()))
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            _assert_same(x, y)
    else:
        assert a == b
