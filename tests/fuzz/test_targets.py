"""./dev fuzz for a minute in all: each target a few seconds, from the same numbers on; and every finding that was mended, again.

A longer time: PENLIGHT_FUZZ_SECONDS, for each of them. .pen files have tests of their own (tests/file/test_fuzz.py).
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import torch

from tests.fuzz import fuzzing, minimize, targets
from tests.fuzz.__main__ import main
from tests.fuzz.fuzzing import Fuzzing, signature
from tests.fuzz.targets import TARGETS

HERE = Path(__file__).parent
FINDINGS = sorted(p for p in (HERE / "findings").glob("*/*") if p.suffix != ".txt")
LEAST = {"operators": 5000, "threads": 640}  # executions; else it proves nothing


def seconds() -> float:
    return float(os.environ.get("PENLIGHT_FUZZ_SECONDS", "5"))


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in TARGETS if n != "pen"])
def test_a_few_seconds(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if TARGETS[name].missing():
        pytest.skip(TARGETS[name].missing())
    monkeypatch.setattr(fuzzing, "BUILD", tmp_path)
    run = Fuzzing([TARGETS[name]], seconds(), seed=1, corpus=False)
    run.run(1)
    state = run.states[0]
    told = "\n".join(p.with_suffix(".txt").read_text()[:4000] for p in state.findings.values())
    assert not state.findings, f"{list(state.findings)}\n{told}"
    assert state.executions >= LEAST.get(name, 10)


@pytest.mark.slow
@pytest.mark.skipif(not FINDINGS, reason="no finding was mended yet")
@pytest.mark.parametrize("path", FINDINGS, ids=lambda p: f"{p.parent.name}-{p.name}")
def test_findings_stay_mended(path: Path) -> None:
    status, said = fuzzing.replay(TARGETS[path.parent.name], path)
    assert status == 0, said[-4000:]


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in TARGETS)


class Sevens:
    """A target whose files are found wanting where there are three bytes 7 in a row; it needs no time at all."""

    executions = 0

    def make(self, number: int, corpus: list[bytes]) -> bytes:
        return bytes((number * k) % 251 for k in range(40)) + (b"\7\7\7" if number % 5 == 4 else b"")

    def run(self, data: bytes) -> str:
        from tests.fuzz.python_target import Finding

        self.executions += 1
        if b"\7\7\7" in data:
            raise Finding("sevens: three of them", "at the end")
        return f"{len(data)} bytes,\n\udcd1"  # what is told of a damaged file may be no text


def test_a_finding_is_written_and_made_small() -> None:
    data = Sevens().make(9, [])
    small = minimize.smallest(data, lambda b: b"\7\7\7" in b, time.monotonic() + 20)
    assert small == b"\7\7\7"
    told = b'{"seed": 1, "steps": [0, 1, 2, 3, 4, 5]}'
    small = minimize.smallest(told, lambda b: b"3" in b and b"5" in b, time.monotonic() + 20)
    assert small == b'{"seed": 1, "steps": [3, 5]}'


def test_sessions_are_made_small() -> None:
    calls = [(b"aten::add.Tensor", bytes(range(30))), (b"aten::view", b""), (b"aten::relu_", b"\1\2\3")]
    data = minimize.session_of(calls)
    assert minimize.calls_of(data) == calls

    def shows(b: bytes) -> bool:
        return any(name == b"aten::relu_" and len(drawn) > 1 and drawn[1] == 2 for name, drawn in minimize.calls_of(b))

    small = minimize.smallest(data, shows, time.monotonic() + 20, session=True)
    assert minimize.calls_of(small) == [(b"aten::relu_", b"\0\2\0")]


def test_signatures() -> None:
    first = "a.cc:1:2: runtime error: signed integer overflow: 9223372036854775807 + 1 cannot\n  #0 0x1 in pen::f() /x/penlight/ops/a.cc:12\n"
    again = first.replace("9223372036854775807", "9223372036854775806")
    assert signature(first, -6) == signature(again, -6)
    assert signature(first, -6) != signature(first.replace("a.cc:12", "a.cc:13"), -6)
    assert "a hang" in signature("a hang: more than 30 seconds for one call\n", 3)


def test_work_writes_findings_and_corpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.fuzz import worker

    corpus = tmp_path / "corpus"
    corpus.mkdir()
    assert worker.work(Sevens(), 0.2, 0, tmp_path / "current", corpus) == 0
    said = capsys.readouterr().out
    assert f"finding {tmp_path}/current.1 sevens: three of them" in said
    assert b"\7\7\7" in (tmp_path / "current.1").read_bytes()
    assert sum(line.startswith("finding ") for line in said.splitlines()) == 1
    assert [p.name for p in sorted(corpus.iterdir())] == [".outcomes", "0"]


def test_programs_are_known() -> None:
    assert {t.name for t in TARGETS.values() if t.make is None} == {"pen", "gpu", "operators"}
    with pytest.raises(ValueError, match="C\\+\\+"):
        targets.python_target("pen")


def test_numbers_that_are_off_are_found() -> None:
    """By ten times what torch itself is off by, and some; integers by one."""
    from tests.fuzz.differential import _far

    true = torch.rand(40, dtype=torch.float64)
    torchs = true.float()
    assert not _far(torchs.clone(), torchs, true)
    for wrong in (1e-2, float("nan"), float("inf")):
        got = torchs.clone()
        got[7] += wrong
        assert _far(got, torchs, true)
    assert _far(torchs[:-1], torchs, true)
    assert _far(torchs.double(), torchs, true)
    assert _far(torch.tensor([1, 3]), torch.tensor([1, 2]), torch.tensor([1, 2]))


def test_networks_compute_something() -> None:
    """Most steps are taken, of all kinds, and a network without its last steps is another one."""
    from tests.fuzz.differential import STEPS, Network

    x = torch.rand(1, 3, 8, 8)
    with torch.no_grad():
        networks = [Network(seed, list(range(12)), x) for seed in range(30)]
        assert sum(len(n.steps) for n in networks) > 30 * 6
        assert len(STEPS) >= 13
        assert all(torch.equal(a, b) for n in networks for a, b in zip(n(x), n(x), strict=True))


def test_archives_are_merged() -> None:
    """Whole records of one in the other, and both at once; what is not an archive gives pieces."""
    import io
    import random
    import zipfile

    from tests.fuzz.readers import merged

    def archive(*names: str) -> bytes:
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as z:
            for name in names:
                z.writestr(name, name.encode())
        return stream.getvalue()

    a, b = archive("m/code", "m/data"), archive("n/data", "n/more")
    made = [merged(a, b, random.Random(seed)) for seed in range(60)]
    contents = []
    for data in made:
        with zipfile.ZipFile(io.BytesIO(data)) as z:
            contents.append({name: z.read(name) for name in z.namelist()})
    assert any(c.get("m/data") == b"n/data" for c in contents)
    assert any(len(c) == 3 and "m/more" in c for c in contents)
    assert any(data.endswith(b) and data.startswith(a) for data in made)
    assert any(b"two" in merged(b"one" * 9, b"two" * 9, random.Random(seed)) for seed in range(9))
