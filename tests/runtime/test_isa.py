"""Which instruction set runs: the best, the one that PENLIGHT_ISA names, or an error in words. And all of them give the
same results: torch's, on every sample of every operator."""

from __future__ import annotations

from pathlib import Path

import pytest

import penlight
from penlight import _runtime
from tests.ops.recording import record_all
from tests.runtime import native, networks
from tests.runtime.networks import flat

Cases = dict[str, tuple[Path, list[Path]]]
ISAS = list(_runtime.isas())


def test_base_is_always_there() -> None:
    assert ISAS[-1] == "base"


def test_best_by_default(cases: Cases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENLIGHT_ISA", raising=False)
    assert penlight.load(cases["mixed"][0]).isa == ISAS[0]


@pytest.mark.parametrize("isa", ISAS)
def test_environment_forces(isa: str, cases: Cases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENLIGHT_ISA", isa)
    model = penlight.load(cases["classifier"][0])
    assert model.isa == isa
    given = networks.inputs("classifier", 2)
    expected = flat(networks.build("classifier")(*given))
    for a, b in zip(flat(model(*given)), expected, strict=True):
        assert (a - b).abs().max() <= 1e-4 * b.abs().max()


@pytest.mark.slow  # the quick tests run all sets on what tests/ops/test_differential.py draws
@pytest.mark.parametrize("isa", ISAS)
def test_samples(isa: str, recording: Path) -> None:
    """The samples that tests/ops/test_samples.py runs from Python, replayed by a C program."""
    program = native.program("plain", Path(__file__).parent / "samples.c")
    native.run([program, record_all(recording), isa], timeout=300)


@pytest.mark.slow
def test_samples_under_sanitizers(recording: Path) -> None:
    program = native.program("asan", Path(__file__).parent / "samples.c")
    for isa in {"base", "avx2"} & set(ISAS):
        native.run([program, record_all(recording), isa], timeout=600)


def test_argument_wins_over_environment(cases: Cases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENLIGHT_ISA", ISAS[0])
    assert penlight.load(cases["mixed"][0], isa="base").isa == "base"


def test_empty_is_unset(cases: Cases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENLIGHT_ISA", "")
    assert penlight.load(cases["mixed"][0]).isa == ISAS[0]


@pytest.mark.parametrize("name", ["mmx", "AVX2", "neon" if "neon" not in ISAS else "avx2", "avx512 ", "x" * 500])
def test_unknown_name(name: str, cases: Cases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENLIGHT_ISA", name)
    model = penlight.load(cases["mixed"][0])
    with pytest.raises(penlight.RunError) as caught:
        model(*networks.inputs("mixed", 1))
    message = str(caught.value)
    assert "PENLIGHT_ISA" in message
    assert f"got {name[:100]}" in message
    for isa in ISAS:
        assert isa in message
