"""Hostile files, one by one: each ends in an error that says what is wrong, quickly, and under sanitizers too."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

import penlight
from penlight.ir.types import DTYPES
from tests.file.hostile import HOSTILE, write_hostile
from tests.runtime import native

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_hostile(tmp_path_factory.mktemp("hostile"))


def run(path: Path) -> None:
    model = penlight.load(path, threads=1)
    session = model._session("forward")
    rng = np.random.default_rng(1)
    arrays = []
    for info in model.inputs():
        limits = [(max(low, 8), high or 8) for low, high in info.limits]
        shape = tuple(
            min(least, most) if size is None else size for size, (least, most) in zip(info.shape, limits, strict=True)
        )
        arrays.append(
            (rng.integers(0, 2, shape) if info.dtype in ("i64", "bool") else rng.standard_normal(shape)).astype(
                DTYPES[info.dtype][1]
            )
        )
    problem = session.set_inputs(arrays) or session.prepare() or session.run([])
    if problem:
        raise penlight.RunError(**problem)
    session.steps()


@pytest.mark.parametrize("name", list(HOSTILE))
def test_refused_in_words(name: str, files: dict[str, Path]) -> None:
    start = time.monotonic()
    if HOSTILE[name].error == "":
        run(files[name])
    else:
        with pytest.raises((penlight.LoadError, penlight.RunError)) as caught:
            run(files[name])
        assert HOSTILE[name].error in str(caught.value)
    assert time.monotonic() - start < 5


@pytest.mark.slow
def test_under_sanitizers(files: dict[str, Path]) -> None:
    program = native.fuzzer(HERE / "fuzz_runner.cc")
    done = native.run([program, "--file", *files.values()], timeout=300, environment={"PENLIGHT_GUARD": "weights"})
    assert done.stdout.count("\n") == 8 * len(files)
