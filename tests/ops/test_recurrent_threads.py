"""Recurrent layers whose steps are cut over threads: torch's numbers, and the same bits for any number of threads, planned and in the VM,
with weights of floats and of integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import penlight
from penlight import _runtime
from tests.vm.quantized import engine

pytestmark = pytest.mark.filterwarnings("ignore")
KINDS: dict[str, Any] = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}
# A step is cut from 2^17 multiply-adds on; sizes beside those of a panel (16 columns) and a tile (64), rows of one task and of several.
CASES: list[tuple[str, int, int, dict[str, Any]]] = [  # kind, steps, batch, options
    ("lstm", 5, 1, {"hidden_size": 257}),
    ("lstm", 6, 3, {"hidden_size": 200, "bidirectional": True, "num_layers": 2}),
    ("lstm", 4, 2, {"hidden_size": 300, "proj_size": 77, "bidirectional": True}),
    ("lstm", 3, 2, {"hidden_size": 330, "proj_size": 9}),
    ("lstm", 1, 40, {"hidden_size": 130}),
    ("lstm", 3, 150, {"hidden_size": 70}),
    ("gru", 5, 1, {"hidden_size": 321}),
    ("gru", 4, 31, {"hidden_size": 193, "bidirectional": True, "bias": False}),
    ("rnn", 7, 1, {"hidden_size": 529}),
    ("rnn", 2, 5, {"hidden_size": 258, "nonlinearity": "relu", "bidirectional": True}),
]


def flat(results: Any) -> list[np.ndarray]:
    if isinstance(results, tuple | list):
        return [array for r in results for array in flat(r)]
    return [results.detach().numpy() if isinstance(results, torch.Tensor) else np.asarray(results)]


def layer(kind: str, options: dict[str, Any]) -> Any:
    torch.manual_seed(3)
    return KINDS[kind](19, **options).eval()


def same_for_all(file: Path, given: Any, isa: str | None = None) -> list[np.ndarray]:
    expected: list[np.ndarray] = []
    for threads in (1, 2, 3, 7):
        model = penlight.load(file, threads=threads, isa=isa)
        for _ in range(3):
            got = flat(model(*given))
            expected = expected or got
            assert [a.tobytes() for a in got] == [a.tobytes() for a in expected], f"{threads} threads"
    return expected


@pytest.mark.parametrize("case", CASES, ids=str)
def test_planned(case: Any, tmp_path: Path) -> None:
    kind, steps, batch, options = case
    module, x = layer(kind, options), torch.randn(steps, batch, 19)
    penlight.optimize(module, (x,)).save(tmp_path / "m.pen")
    for isa in {str(_runtime.isas()[-1]), "base"}:
        got = same_for_all(tmp_path / "m.pen", (x,), isa)
        for a, b in zip(got, flat(module(x)), strict=True):
            assert a.shape == b.shape
            assert np.abs(a - b).max() < 3e-6


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_no_steps_and_no_rows(kind: str, tmp_path: Path) -> None:
    """Sizes that only a run tells: without steps the state comes out as it went in."""
    module, dims = layer(kind, {"hidden_size": 257}), {0: torch.export.Dim("steps"), 1: torch.export.Dim("batch")}
    state: Any = torch.randn(1, 2, 257)
    shapes: Any = {1: dims[1]}
    if kind == "lstm":
        state, shapes = (state, torch.randn(1, 2, 257)), (shapes, shapes)
    model = penlight.optimize(module, (torch.randn(4, 2, 19), state), dynamic_shapes=(dims, shapes))
    model.save(tmp_path / "m.pen")
    for threads in (1, 2):
        held = penlight.load(tmp_path / "m.pen", threads=threads)
        y, *states = flat(held(torch.zeros(0, 2, 19), state))
        assert y.shape == (0, 2, 257)
        assert all(np.array_equal(a, b) for a, b in zip(states, flat(state), strict=True))
        empty = (state[0][:, :0], state[1][:, :0]) if kind == "lstm" else state[:, :0]
        assert [a.shape for a in flat(held(torch.zeros(4, 0, 19), empty))][:2] == [(4, 0, 257), (1, 0, 257)]


@pytest.mark.parametrize("kind", KINDS)
def test_interpreted(kind: str, tmp_path: Path) -> None:
    module, x = nn.Sequential(layer(kind, {"hidden_size": 270, "bidirectional": True})), torch.randn(4, 3, 19)
    penlight.optimize(torch.jit.script(module)).save(tmp_path / "m.pen")
    for a, b in zip(same_for_all(tmp_path / "m.pen", (x,)), flat(module(x)), strict=True):
        assert np.abs(a - b).max() < 3e-6


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize(("hidden", "batch"), [(512, 1), (401, 3)])
def test_integers(kind: str, hidden: int, batch: int, tmp_path: Path) -> None:
    module, x = nn.Sequential(layer(kind, {"hidden_size": hidden})), torch.randn(4, batch, 19)
    with engine("qnnpack"):
        quantized = torch.ao.quantization.quantize_dynamic(module, {KINDS[kind]})
        expected = flat(quantized(x))
        penlight.optimize(quantized, (x,)).save(tmp_path / "m.pen")
    # A step of 1/255 of a state's range: where torch rounds one number another way, the rest of the steps differ by as much.
    for a, b in zip(same_for_all(tmp_path / "m.pen", (x,)), expected, strict=True):
        assert np.abs(a - b).max() < 2e-3


@pytest.mark.parametrize("threads", [1, 2])
def test_a_state_that_is_not_finite(threads: int, tmp_path: Path) -> None:
    """The steps end, and the model is as good as before."""
    module = nn.LSTM(19, 512).eval()
    with engine("qnnpack"):
        quantized = torch.ao.quantization.quantize_dynamic(nn.Sequential(module), {nn.LSTM})
        penlight.optimize(quantized, (torch.randn(5, 1, 19),)).save(tmp_path / "m.pen")
    model = penlight.load(tmp_path / "m.pen", threads=threads)
    x = torch.randn(5, 1, 19)
    expected = [a.tobytes() for a in flat(model(x))]
    bad = x.clone()
    bad[2] = float("nan")
    with pytest.raises(penlight.PenlightError, match="finite"):
        model(bad)
    assert [a.tobytes() for a in flat(model(x))] == expected
