"""Libraries and models that keep state: one for others leaves the code out, and says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import penlight
from penlight.build.library import build_library
from penlight.build.model_selection import selection_of_models
from penlight.build.targets import TARGETS
from penlight.build.verify import verify
from penlight.file import format as f
from tests.build.test_model_check import VERSION, check


@pytest.fixture
def counter(tmp_path: Path) -> Path:
    from tests.capture.test_state import Counter

    x = torch.ones(2, 3)
    made = penlight.optimize(Counter(), (x,), bundled_inputs={"forward": [(x,), (2 * x,)]})
    made.save(tmp_path / "counter.pen")
    return tmp_path / "counter.pen"


def test_a_library_for_other_models_says_so(library: Any, counter: Path) -> None:
    for status, needs, message in check(library("host").path, counter):
        assert (status, needs.version, needs.newest_version) == (
            VERSION,
            f.VERSION_WITH_STATE,
            f.VERSION_WITH_STATE - 1,
        )
        assert (
            "expected format version 3 or older, got version 4. Use a library built with it: penlight build --model"
            in message
        )


@pytest.mark.slow
def test_a_library_for_it_runs_it(counter: Path, models: dict[str, Path], cache: Path, tmp_path: Path) -> None:
    """Each bundled call starts from the file's state."""
    assert not selection_of_models([models["planned"]]).state
    selection = selection_of_models([counter, models["planned"]])
    assert selection.state
    made = build_library(TARGETS["host"], selection, tmp_path, cache=cache, jobs=2)
    assert verify(made, counter, cache).calls == 2
