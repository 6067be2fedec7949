"""Ratios, means, tables: what the benchmark claims follows from the times, and a wrong result never has one."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from bench import report
from bench.accuracy import TOLERANCE, error_of, is_right
from bench.conduct import add_times, last_words


def row(model: str, **times: float | None) -> report.Row:
    engines = {
        e: {"failed": "is not installed"} if t is None else {"best_s": t, "median_s": 2 * t} for e, t in times.items()
    }
    return {"model": model, "threads": 1, "multiply_adds": 10**9, "engines": engines}


def test_ratio_is_to_the_fastest_peer() -> None:
    one = row("a", penlight=0.02, ncnn=0.05, mnn=0.04, openvino=None)
    assert report.best_peer(one) == "mnn"
    assert report.ratio(one) == pytest.approx(0.5)
    assert report.ratio(one, "median_s") == pytest.approx(0.5)
    assert report.ratio(row("b", penlight=None, mnn=0.1)) is None
    assert report.ratio(row("b", penlight=0.1)) is None


def test_geometric_mean_leaves_out_what_is_missing() -> None:
    assert report.geometric_mean([0.5, None, 2.0]) == pytest.approx(1.0)
    assert report.geometric_mean([]) is None


def test_fraction_of_peak() -> None:
    assert report.fraction_of_peak(row("a", penlight=0.02), gflops=200) == pytest.approx(0.5)


def test_latency_table() -> None:
    rows = [row("a", penlight=0.02, mnn=0.04, ncnn=None), row("b", penlight=0.08, mnn=0.04, ncnn=0.05)]
    rows[1]["engines"]["ncnn"] = {"error": 0.3}
    header, lines = report.latency_cells(rows, ["penlight", "ncnn", "mnn"], gflops=200)
    assert header == ["model", "penlight", "ncnn", "mnn", "/ best peer", "of peak"]
    assert lines == [
        ["a", "20.00", "-", "**40.00**", "0.50", "50%"],
        ["b", "80.00", "wrong", "**40.00**", "2.00", "12%"],
        ["geometric mean", "", "", "", "1.00", ""],
    ]
    assert report.as_markdown(header, lines).splitlines()[2] == "| a | 20.00 | - | **40.00** | 0.50 | 50% |"
    assert report.footnotes(rows) == ["a: ncnn is not installed", "b: ncnn is wrong: error 3.0e-01 of max |y|"]


@pytest.mark.parametrize("error", [2 * TOLERANCE, math.inf, math.nan])
def test_a_wrong_result_has_no_time(error: float) -> None:
    result = {"error": error}
    add_times(result, [0.001, 0.002])
    assert not is_right({"error": error})
    assert "best_s" not in result
    assert report.best_peer({"engines": {"ncnn": result, "mnn": {"best_s": 1.0}}}) == "mnn"


def test_a_right_result_has_best_and_median() -> None:
    result = {"error": TOLERANCE / 2}
    add_times(result, [0.003, 0.001, 0.002])
    assert (result["best_s"], result["median_s"], result["runs"]) == (0.001, 0.002, 3)


def test_error_is_of_the_largest_value() -> None:
    want = [np.array([1.0, -4.0], np.float32)]
    assert error_of(want, [np.array([1.0, -3.0], np.float32)]) == pytest.approx(0.25)
    for other in ([np.array([1.0, math.nan])], [np.array([[1.0, -4.0]])], [], want + want):
        assert error_of(want, other) == math.inf


def test_last_words(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("loading\nImportError: no module\n\n")
    assert last_words(log, 1) == "ImportError: no module"
    assert last_words(log, -11) == "killed by signal 11; last: ImportError: no module"
    log.write_text("")
    assert last_words(log, 3) == "exit code 3"
