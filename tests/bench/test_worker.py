"""An engine in its process, from conversion to times: Penlight on a small layer, as the benchmark runs it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from bench import layers, prepare
from bench.conduct import Failure, Worker, take_turns
from bench.layer_list import Layer


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> layers.LayerCase:
    monkeypatch.setattr(layers, "FOLDER", tmp_path)
    made = layers.LayerCase(Layer("conv", "", 1, 8, 16, 12, 12, 3, 3, 1, 1, 1))
    prepare.convert("reference", made)
    prepare.convert("penlight", made)
    return made


def test_turns(case: layers.LayerCase, tmp_path: Path) -> None:
    assert prepare.is_ready("penlight", case)
    assert (
        json.loads((case.folder / "reference" / "about.json").read_text())["multiply_adds"] == case.layer.multiply_adds
    )
    workers = {name: Worker("penlight", 1, tmp_path / f"{name}.log") for name in ("right", "wrong")}
    try:
        results = {"right": workers["right"].open(case.folder)}
        wrong = dataclasses.replace(case.layer, co=16, n=1).key + "-wrong"
        folder = tmp_path / wrong
        (folder / "reference").mkdir(parents=True)
        (folder / "penlight").symlink_to(case.folder / "penlight")
        (folder / "reference" / "inputs.npz").symlink_to(case.folder / "reference" / "inputs.npz")
        np.savez(folder / "reference" / "outputs.npz", np.ones((1, 16, 12, 12), np.float32))
        results["wrong"] = workers["wrong"].open(folder, "nhwc")
        take_turns(workers, results, rounds=2, block=0.01, step=lambda text: None)
    finally:
        for worker in workers.values():
            worker.close()
    assert 0 < results["right"]["best_s"] <= results["right"]["median_s"]
    assert results["right"]["error"] < 1e-5
    assert results["right"]["peak_rss_bytes"] > 1e6
    assert results["wrong"]["error"] > 1e-4
    assert "best_s" not in results["wrong"]


def test_a_worker_that_fails_says_why(tmp_path: Path) -> None:
    worker = Worker("penlight", 1, tmp_path / "log")
    try:
        with pytest.raises(Failure, match="inputs.npz"):
            worker.open(tmp_path)
    finally:
        worker.close()
