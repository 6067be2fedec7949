"""The sequence comparison at small size: a decoder computes the same in all its forms, and one with a memory is run as it should be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from bench import documents, prepare, report, sequence_list, sequences
from bench.conduct import Worker, take_turns
from bench.decoder import Decoder, Growing, Prefill, Step
from bench.engines import Loaded
from bench.running import Running, expected_of, read_arrays
from bench.sequence_list import SEQUENCES, Sequence, SequenceCase

WORDS = 50


def small() -> Decoder:
    return Decoder(layers=2, width=32, heads=4, words=WORDS, length=64)


def small_prefill() -> Prefill:
    return Prefill(small())


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SequenceCase:
    """One that remembers."""
    monkeypatch.setattr(sequence_list, "MODELS_FOLDER", tmp_path)
    monkeypatch.setattr(sequence_list, "PROMPT", 8)
    monkeypatch.setattr(sequence_list, "ROOM", 12)
    monkeypatch.setattr(sequence_list, "RUNS", 4)
    monkeypatch.setitem(SEQUENCES, "small", Sequence(small, sequence_list._words(WORDS, 1), "a word", remembers=True))
    return SequenceCase("small")


def test_forms_agree() -> None:
    torch.manual_seed(0)
    decoder = small().eval().requires_grad_(False)
    ids = torch.randint(0, WORDS, (1, 10))
    wanted = [Prefill(decoder)(ids[:, : length + 1])[0] for length in range(6, 10)]
    _, *past = Prefill(decoder)(ids[:, :6])
    step, grown = Step(decoder, past, room=10), list(past)
    for number, want in enumerate(wanted):
        word = ids[:, 6 + number : 7 + number]
        torch.testing.assert_close(step(word), want)
        scores, *grown = Growing(decoder)(word, *grown)
        torch.testing.assert_close(scores, want)
    assert len({float(want.sum()) for want in wanted}) == len(wanted)


@pytest.mark.slow
def test_a_memory_is_put_back(case: SequenceCase, tmp_path: Path) -> None:
    prepare.convert("reference", case)
    prepare.convert("torch-eager", case)
    expected = expected_of(case.folder)
    assert len(expected) == 4
    assert not np.allclose(expected[0][0], expected[1][0], atol=1e-6)
    workers = {"torch-eager": Worker("torch-eager", 1, tmp_path / "log")}
    try:
        results = {"torch-eager": workers["torch-eager"].open(case.folder)}
        take_turns(workers, results, rounds=3, block=0.01, step=lambda text: None)
    finally:
        workers["torch-eager"].close()
    assert results["torch-eager"]["runs"] > 12, "far more than there is room for"
    assert results["torch-eager"]["error"] < 1e-5


def test_a_memory_that_forgets_is_wrong(case: SequenceCase) -> None:
    """An engine that answers as if every word were the first."""
    prepare.convert("reference", case)
    first = read_arrays(case.folder / "reference" / "outputs.npz")
    running = Running(
        lambda folder, inputs, threads: Loaded(lambda: None, lambda _: first, lambda: None), case.folder, case.folder, 1
    )
    assert running.accuracy()["error"] == 0
    errors = set()
    for _ in range(len(expected_of(case.folder))):
        running._go_on()
        errors.add(running.accuracy()["error"] > 1e-4)
    assert errors == {True, False}


def test_several_inputs_and_whole_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.networks import Bert

    monkeypatch.setattr(sequence_list, "MODELS_FOLDER", tmp_path)
    made = Sequence(lambda: Bert(2, 32, 4, WORDS, 16), sequence_list._words(WORDS, 16, kept=True), "16 words")
    monkeypatch.setitem(SEQUENCES, "small", made)
    case = SequenceCase("small")
    for step in ("reference", "penlight"):
        prepare.convert(step, case)
    worker = Worker("penlight", 1, tmp_path / "log")
    try:
        results = {"penlight": worker.open(case.folder)}
        take_turns({"penlight": worker}, results, rounds=1, block=0.01, step=lambda text: None)
    finally:
        worker.close()
    assert results["penlight"]["error"] < 1e-5
    assert results["penlight"]["best_s"] > 0


@pytest.mark.parametrize("name", SEQUENCES)
def test_names_are_folders_of_their_own(name: str) -> None:
    assert SequenceCase(name).folder.name == name
    assert SequenceCase(name).words == [name]


def test_table_has_bytes_a_second_where_memory_sets_the_time() -> None:
    def row(model: str, **about: int) -> report.Row:
        times = {"best_s": 0.02, "median_s": 0.03, "first_run_s": 0.1, "peak_rss_bytes": 10**8}
        engines = {"penlight": times, "openvino": {**times, "best_s": 0.04, "way": "torch"}}
        return {"model": model, "threads": 1, "multiply_adds": 10**9, **about, "engines": engines}

    where = {"cpu": "some", "cores": 2, "used_by_others": 0.0, "peak": {"1": {"gflops": 200, "copy_gbs": 30}}}
    rows = [row("a"), row("b", moved_bytes=10**8), row("c", multiply_adds=0)]
    head = {"date": "2026-11-18", "machine": where, "versions": {}, "engines": ["penlight", "openvino"]}
    result = {**head, "rows": rows}
    title, header, lines = sequences.tables(result)[0]
    assert title == "ms, best run; batch 1, f32, 1 thread; peak 200 GFLOP/s, copy 30 GB/s"
    assert header[-2:] == ["/ best peer", "of peak"]
    assert [line[-2:] for line in lines] == [["0.50", "50%"], ["0.50", "5.0 GB/s"], ["0.50", "-"], ["0.50", ""]]
    assert "- openvino, torch: a, b, c" in documents.of_sequences(result)
