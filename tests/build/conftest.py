"""Two small models, libraries for them, and one cache of objects for all tests of all sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penlight.build.library import Library, build_library
from penlight.build.model_selection import selection_of_models
from penlight.build.targets import TARGETS
from tests.runtime.native import locked

CACHE = Path(__file__).resolve().parents[2] / "build/libraries"


@pytest.fixture(scope="session")
def cache() -> Path:
    pytest.importorskip("ziglang")
    pytest.importorskip("elftools")
    return CACHE


@pytest.fixture(scope="session")
def models(shared_folder: Path) -> dict[str, Path]:
    """By name: "planned", "quantized" and "interpreted"."""
    pytest.importorskip("torch")
    from tests.build import small_models

    folder = shared_folder / "library-models"
    with locked(shared_folder / "library-models.lock"):
        if not folder.exists():
            folder.mkdir()
            small_models.planned().save(folder / "planned.pen")
            small_models.quantized().save(folder / "quantized.pen")
            small_models.interpreted().save(folder / "interpreted.pen")
    return {path.stem: path for path in folder.glob("*.pen")}


@pytest.fixture(scope="session")
def library(models: dict[str, Path], cache: Path, shared_folder: Path) -> Any:
    """The library of a target for the planned model."""
    selection = selection_of_models([models["planned"]])

    def made(target: str) -> Library:
        with locked(shared_folder / f"library-{target}.lock"):
            return build_library(TARGETS[target], selection, shared_folder / "dist", cache=cache, jobs=2)

    return made
