"""What a session keeps from run to run: per thread, reset, in place, and after runs that fail."""

from __future__ import annotations

import copy
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import penlight
from penlight.file.reader import read
from tests.capture.test_state import WAYS, Cache, Counter, cache_calls
from tests.tools.call import Penlight


def cached(way: str, size: int = 40) -> penlight.Model:
    return penlight.optimize(Cache(way, size), cache_calls(3)[0], dynamic_shapes=({2: Dim("n", min=1, max=8)},))


def test_every_thread_has_its_own() -> None:
    model = penlight.optimize(Counter(), (torch.ones(2, 3),))
    counted: dict[int, list[int]] = {}

    def count(times: int) -> None:
        counted[times] = [int(model(np.ones((2, 3), np.float32))[0][0, 0]) for _ in range(times)]
        if times == 3:
            model.reset()
            counted[0] = [int(model.state()["calls"])]

    threads = [threading.Thread(target=count, args=(n,)) for n in (3, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    count(4)
    assert counted == {n: list(range(1, n + 1)) for n in (3, 4, 5)} | {0: [0]}


def test_copies_start_anew(tmp_path: Path) -> None:
    model = penlight.optimize(Counter(), (torch.ones(2, 3),))
    model(torch.ones(2, 3))
    model.save(tmp_path / "m.pen")
    for other in (
        copy.copy(model),
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        penlight.load(tmp_path / "m.pen"),
    ):
        assert int(other.state()["calls"]) == 0
        other(torch.ones(2, 3))
        assert int(other.state()["calls"]) == 1
    assert int(model.state()["calls"]) == 1
    model.state()["calls"][()] = 9  # a copy
    assert int(model.state()["calls"]) == 1


@pytest.mark.parametrize("way", [way for way in WAYS if way != "where"])  # which has scratch
def test_a_cache_is_written_in_place(way: str) -> None:
    """Neither the arena nor a second buffer has room for another cache, but where all of it becomes something else."""
    model = cached(way)
    for args in cache_calls(3, 2):
        model(*args)
    kept = model.state()["cache"]
    assert model.arena_bytes() < kept.nbytes / 2
    assert not [s for s in model.profile(*args) if s.key.startswith("copy") and s.shape == kept.shape]


def test_a_run_that_fails_before_it_writes_changes_nothing() -> None:
    """A full cache: the index is out of range, and is looked at before a row is written; the counter has memory of its own."""
    model = cached("index_copy", 8)
    (x,), (full,) = cache_calls(3, 8)
    model(x)
    before = model.state()
    with pytest.raises(penlight.RunError, match=r"index_put.*indices from .* to 7, got"):
        model(full)
    with pytest.raises(penlight.RunError, match="input 0"):
        model(torch.randn(2, 3, 3, 17))
    for name, value in model.state().items():
        np.testing.assert_array_equal(value, before[name])
    model(x)
    assert int(model.state()["pos"]) == 6


def test_a_stage_that_fails_changes_nothing() -> None:
    """The place comes from the counter, by a stage of its own; the slice is too long for the cache."""
    model = cached("slice", 9)
    (x,), (full,) = cache_calls(3, 8)
    model(x)
    with pytest.raises(penlight.RunError):
        model(full)
    assert int(model.state()["pos"]) == 3
    model(x)
    assert int(model.state()["pos"]) == 6


def test_after_a_run_that_failed_half_way_a_reset_is_needed() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("first", torch.zeros(40, 64))
            self.register_buffer("second", torch.zeros(40, 64))

        def forward(self, x: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
            self.first.index_copy_(0, i, x)
            self.second.index_copy_(0, j, x)
            return self.first.sum() + self.second.sum()

    x, good, bad = torch.ones(1, 64), torch.tensor([1]), torch.tensor([40])
    model = penlight.optimize(Twice(), (x, good, good))
    assert float(model(x, good, good)) == 128
    with pytest.raises(penlight.RunError, match="to 39, got 40"):
        model(x, bad, good)
    assert float(model(x, good, good)) == 128  # the first write failed: nothing was written
    with pytest.raises(penlight.RunError, match="to 39, got 40"):
        model(x, good, bad)
    with pytest.raises(penlight.RunError, match=r"state: expected pen_session_reset \(in Python: Model.reset\) first"):
        model(x, good, good)
    model.reset()
    assert float(model(x, good, good)) == 128


def test_memory_is_limited() -> None:
    image = cached("index_copy").to_bytes()
    with pytest.raises(penlight.RunError, match=r"state: expected at most 4096 bytes \(memory_limit\)"):
        penlight.Model(image, memory_limit=4096)(*cache_calls(3)[0])


def test_what_callers_see(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Inputs, outputs and inspect show the model's own; states by name."""
    path = tmp_path / "cache.pen"
    model = cached("index_copy")
    model.save(path)
    assert [i.name for i in model.inputs()] == ["k"]
    assert len(model.outputs()) == 2
    pen = read(path)
    assert pen.version == 4
    assert [str(s) for s in pen.method().states] == ["cache: f32[2, 3, 40, 16]", "pos: i64[]"]
    assert "state cache: f32[2, 3, 40, 16]" in str(pen)
    command = Penlight(capsys)
    told = command("inspect", path, "--shape", "2,3,2,16")
    assert told.code == 0
    assert "keeps  cache: f32[2, 3, 40, 16]" in told.out
    timed = command("bench", path, "--shape", "2,3,8,16", "--threads", 1, "--seconds", 0.05, "--profile")
    assert timed.code == 0, timed.err  # more runs than the cache has room for


def test_a_model_without_state() -> None:
    model = penlight.optimize(nn.ReLU(), (torch.ones(2),))
    model.reset()
    assert model.state() == {}
    assert read(model.to_bytes()).version == 1
