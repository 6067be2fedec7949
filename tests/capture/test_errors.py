"""What cannot be captured: one error that names everything, with lines of the user's code, and says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from penlight.capture import capture
from penlight.errors import CaptureError, PenlightError, UnsupportedError

X = torch.randn(4, 4)


@torch.library.custom_op("exotic::cube", mutates_args=())
def cube(x: torch.Tensor) -> torch.Tensor:
    return x**3


@torch.library.custom_op("exotic::soft_max", mutates_args=())
def soft_max(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, 0)


@cube.register_fake
@soft_max.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Exotic(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        a = torch.ops.exotic.cube(x)
        b = torch.ops.exotic.cube(x * 2)
        c = torch.ops.exotic.soft_max(x)
        return a, b, torch.relu(c), x.to_sparse().to_dense()


def line_of(text: str) -> int:
    return next(i for i, line in enumerate(Path(__file__).read_text().splitlines(), 1) if text in line)


def test_every_unsupported_operator_is_named_at_once() -> None:
    with pytest.raises(UnsupportedError) as caught:
        capture(Exotic(), (X,))
    text = str(caught.value)
    calls = {c.op: c for c in caught.value.calls}
    assert {"exotic::cube", "exotic::soft_max", "aten::to_sparse"} <= set(calls)
    assert "aten::relu" not in calls
    assert calls["exotic::cube"].count == 2
    assert "2 calls" in text
    assert "f32[4, 4]" in text
    for code in (
        "a = torch.ops.exotic.cube(x)",
        "b = torch.ops.exotic.cube(x * 2)",
        "c = torch.ops.exotic.soft_max(x)",
    ):
        assert f"test_errors.py:{line_of(code)}, in forward: {code}" in text
    assert "The whole model was looked at" in text
    assert isinstance(caught.value, PenlightError)


def test_what_to_use_instead() -> None:
    """What is left out on purpose says why, and what to write; what is unknown gets the nearest name that runs."""
    with pytest.raises(UnsupportedError) as caught:
        capture(Exotic(), (X,))
    calls = {c.op: c for c in caught.value.calls}
    assert "sparse" in calls["aten::to_sparse"].reason
    assert "dense tensors" in calls["aten::to_sparse"].instead
    assert "aten::softmax" in calls["exotic::soft_max"].instead
    assert "instead: perhaps aten::softmax" in str(caught.value)


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x
        return -x


class BranchesOnSizes(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = torch.nonzero(x)
        return found if found.shape[0] > 2 else x


class FixedSize(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(4, 4)


class Complains(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("the model's own words")


@pytest.mark.parametrize(
    ("module", "options", "words"),
    [
        (Branches(), {}, ["depends on the values of a tensor", "torch.where", "test_errors.py", "if x.sum() > 0"]),
        (BranchesOnSizes(), {}, ["depends on the values of a tensor", "u0 > 2"]),
        (FixedSize(), {"dynamic_shapes": ({0: Dim("n")},)}, ['dynamic_shapes="auto"', "n = 4"]),
        (
            FixedSize(),
            {"dynamic_shapes": {"y": {0: Dim("n")}}},
            ["must have the structure of the example inputs", "['x']"],
        ),
        (FixedSize(), {"dynamic_shapes": {"x": {9: Dim("n")}}}, ["dim 9 of input 'x'", "2 dims"]),
        (Complains(), {}, ["Does it run on these example inputs?", "the model's own words"]),
        (nn.Linear(3, 3), {}, ["Does it run on these example inputs?"]),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, nn.Module) else "",
)
def test_failures_of_the_export_are_explained(module: nn.Module, options: Any, words: list[str], capfd: Any) -> None:
    with pytest.raises(CaptureError) as caught:
        capture(module, (X,), **options)
    for word in words:
        assert word in str(caught.value)
    assert capfd.readouterr() == ("", "")  # torch's own logs do not get through


def test_wrong_arguments() -> None:
    with pytest.raises(CaptureError, match=r"do not fit Linear\.forward"):
        capture(nn.Linear(4, 4), (X, X))
    with pytest.raises(CaptureError, match="needs example inputs"):
        capture(nn.Linear(4, 4))
    with pytest.raises(TypeError, match=r"cannot capture a dict; expected an nn\.Module"):
        capture({"weight": X})


def test_wrong_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        capture(tmp_path / "nowhere.pt")
    (tmp_path / "text.pt").write_text("hello")
    with pytest.raises(CaptureError, match="got something else"):
        capture(tmp_path / "text.pt")
    for zipped in (True, False):  # as torch before 1.6 wrote it
        torch.save({"weight": X}, tmp_path / "weights.pt", _use_new_zipfile_serialization=zipped)
        with pytest.raises(CaptureError, match=r"holds no graph: load it into its nn\.Module"):
            capture(tmp_path / "weights.pt")


def test_weights_that_are_not_there() -> None:
    with torch.device("meta"):
        module = nn.Linear(4, 4)
    with pytest.raises(CaptureError, match="meta"):
        capture(module, (torch.ones(2, 4, device="meta"),))


def test_double_complex_numbers_are_refused_in_words() -> None:
    with pytest.raises(CaptureError, match="complex128"):
        capture(nn.Identity(), (torch.ones(2, dtype=torch.complex128),))
