"""A small planned model and a small interpreted one, both with bundled inputs; one cache of objects for all tests of all sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penlight
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
    """By name: "planned" (a linear layer and what is around it, a dict out) and "interpreted" (a loop on data, lists, strings)."""
    torch = pytest.importorskip("torch")
    folder = shared_folder / "library-models"
    with locked(shared_folder / "library-models.lock"):
        if not folder.exists():
            folder.mkdir()
            torch.manual_seed(0)
            x = torch.randn(3, 40)
            _planned(torch, x).save(folder / "planned.pen")
            _interpreted(torch).save(folder / "interpreted.pen")
    return {path.stem: path for path in folder.iterdir()}


def _planned(torch: Any, x: Any) -> Any:
    class Planned(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(40, 50)

        def forward(self, x: Any) -> dict[str, Any]:
            return {"y": torch.sigmoid(self.layer(x)).transpose(0, 1), "large": self.layer(x) > 0}

    dims = {"x": {0: torch.export.Dim("n", min=1, max=64)}}
    return penlight.optimize(Planned().eval(), (x,), dynamic_shapes=dims, bundled_inputs={"forward": [(x,), (x[:1],)]})


def _interpreted(torch: Any) -> Any:
    class Interpreted(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: torch.Tensor, times: int):  # type: ignore[no-untyped-def, name-defined]
            kept = []
            for i in range(times):
                x = x * 0.5 + float(i)
                if float(x.sum()) > 20:
                    break
                kept.append(x)
            return {"all": torch.stack(kept)}, f"{len(kept)} kept", (1.5, None, [True])

    calls = [(torch.ones(2, 3), 3), (torch.ones(2, 3), 9)]
    return penlight.optimize(torch.jit.script(Interpreted().eval()), bundled_inputs={"forward": calls})


@pytest.fixture(scope="session")
def library(models: dict[str, Path], cache: Path, shared_folder: Path) -> Any:
    """The library of a target for the planned model."""
    selection = selection_of_models([models["planned"]])

    def made(target: str) -> Library:
        with locked(shared_folder / f"library-{target}.lock"):
            return build_library(TARGETS[target], selection, shared_folder / "dist", cache=cache, jobs=2)

    return made
