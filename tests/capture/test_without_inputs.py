"""Models that come without example inputs: what is guessed of them, what is planned, and that nothing hangs on the guess."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import penlight
from penlight.capture.script.freeze import freeze
from penlight.capture.script.guess import guess_inputs, patterns_of
from penlight.capture.script.torchscript import script_of
from tests.compat.models import MODELS


def scripted(module: nn.Module) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(module.eval())


def guessed(module: nn.Module) -> Any:
    """The inputs, and what is known of them."""
    script = script_of(scripted(module), ["forward"])
    freeze(script)
    forward = script.method("forward")
    assert forward is not None
    seen = guess_inputs(script, forward)
    return seen and seen.inputs, patterns_of(script, forward)


@pytest.mark.parametrize(
    ("module", "shape", "certain"),
    [
        (nn.Conv2d(3, 4, 3), (2, 3, 224, 224), True),
        (nn.Conv2d(6, 4, 3, groups=2), (2, 6, 224, 224), True),
        (nn.Sequential(nn.ConvTranspose2d(5, 4, 2)), (2, 5, 224, 224), True),
        (nn.Conv1d(7, 4, 3), (2, 7, 128), True),
        (nn.Conv3d(2, 4, 1), (2, 2, 224, 224, 224), True),
        (nn.Linear(9, 4), (2, 9), False),
        (nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 4, 1)), (2, 3, 224, 224), True),
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 26 * 26, 2)), (2, 3, 28, 28), True),
    ],
)  # fmt: skip
def test_guesses(module: nn.Module, shape: tuple[int, ...], certain: bool) -> None:
    if isinstance(module, nn.Conv3d):
        module = nn.Sequential(nn.MaxPool3d(32), module)  # which says nothing: no guess, and no 45 MB of input
        assert guessed(module) == (None, None)
        return
    args, patterns = guessed(module)
    assert tuple(args[0].shape) == shape
    assert patterns[0].certain == certain


def test_indices_are_inside_the_table() -> None:
    args, patterns = guessed(nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 2)))
    assert args[0].dtype == torch.int64
    assert int(args[0].max()) < 5
    assert not patterns[0].certain


def test_no_guess() -> None:
    class Sum(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sum(-1)

    class Number(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.c = nn.Conv2d(3, 3, 1)

        def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
            return self.c(x) * n

    class Disagree(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.c, self.l = nn.Conv2d(3, 3, 1), nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.c(x) + self.l(x)

    for module in (Sum(), Number(), Disagree()):
        assert guessed(module)[0] is None


def test_defaults_need_no_guess() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.c = nn.Conv2d(3, 3, 1)

        def forward(self, x: torch.Tensor, n: int = 2) -> torch.Tensor:
            return self.c(x) * n

    script = scripted(Scaled())
    model = penlight.optimize(script)
    x = torch.rand(1, 3, 5, 5)
    with torch.no_grad():
        torch.testing.assert_close(model(x), script(x))
        torch.testing.assert_close(model(x, 5), script(x, 5))


def same(model: Any, script: Any, *shapes: tuple[int, ...]) -> None:
    for shape in shapes:
        x = torch.rand(shape)
        z = x.clone()
        with torch.no_grad():
            expected = script(z)
        torch.testing.assert_close(model(x), expected)
        torch.testing.assert_close(x, z)  # what is written in place is written


def test_a_plan_in_front_of_code_takes_what_fits() -> None:
    """Rank 2 was guessed; the others are interpreted. Containers come back as they are."""

    class Nested(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> tuple[dict[str, torch.Tensor], list[torch.Tensor]]:
            y = self.a(x)
            return {"a": y, "b": torch.relu(y)}, [y * 2]

    script = scripted(Nested())
    model = penlight.optimize(script)
    assert model.methods == ["forward"]
    assert list(model._handle.methods) == ["~forward"]
    same(model, script, (2, 4), (7, 4), (4,), (1, 5, 6, 4), (0, 4))


def test_state_and_inputs_that_are_written() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Conv2d(4, 4, 1)
            self.n = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.n += 1
            return self.a(x) * self.n

    class Writes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Conv2d(4, 4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.a(x)
            x.mul_(2.0)
            return y

    for module in (Counts(), Writes()):
        script = scripted(module)
        same(penlight.optimize(script), script, (1, 4, 3, 3), (2, 4, 5, 5), (4, 5, 5))


def test_a_size_that_code_fixes_leaves_a_way_for_others() -> None:
    class Picky(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.c = nn.Conv2d(3, 4, 3, padding=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.c(x)
            if x.size(2) == 224:
                y = y * 2
            return y

    class Large(Picky):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.c(x)
            if x.size(2) > 100:
                y = y * 2
            return y

    for module in (Picky(), Large()):
        script = scripted(module)
        same(penlight.optimize(script), script, (1, 3, 224, 32), (1, 3, 16, 16), (3, 3, 101, 7))


@pytest.mark.slow
@pytest.mark.parametrize("flat", [False, True])
def test_bytecode_is_planned_too(tmp_path: Path, flat: bool) -> None:
    script = scripted(MODELS["mobilenet"]()[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script._save_for_lite_interpreter(str(tmp_path / "m.ptl"), _use_flatbuffer=flat)
    model = penlight.optimize(tmp_path / "m.ptl")
    assert model.planned_methods == ["forward"]
    assert "(guessed)" in model.metadata["planned_for"]
    same(model, script, (1, 3, 32, 32), (2, 3, 64, 48))
