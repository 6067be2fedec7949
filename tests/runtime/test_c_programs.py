"""The runtime as a C program sees it: compiled and linked by the C compiler alone, plain and under sanitizers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import penlight
from tests.runtime import native
from tests.runtime.case import case_bytes

HERE = Path(__file__).parent
Cases = dict[str, tuple[Path, list[Path]]]
GOLDEN = HERE.parent / "file/golden/v2.pen"  # VM code
NAMES = ["classifier", "transformer", "segmenter", "mixed", "detector"]


@pytest.mark.parametrize("kind", ["plain", pytest.param("asan", marks=pytest.mark.slow)])
def test_c_interface(kind: str, cases: Cases, tmp_path: Path) -> None:
    """Every function of penlight.h, its refusals included; under ASan also: nothing leaks on any path."""
    file, paths = cases["classifier"]
    done = native.run([native.program(kind, HERE / "c_api.c"), file, paths[0], paths[2], tmp_path], timeout=300)
    assert done.stdout == "all well\n"


@pytest.mark.slow  # only debug builds assert them
def test_promises(cases: Cases) -> None:
    """What penlight.h has in brackets: who breaks it is told, and ended."""
    file, paths = cases["classifier"]
    done = native.run([native.program("asan", HERE / "promises.c"), file, paths[0], GOLDEN])
    assert done.stdout == "all promises\n"


@pytest.mark.parametrize("kind", ["plain", pytest.param("asan", marks=pytest.mark.slow)])
def test_modules_and_values(kind: str) -> None:
    """The C interface to VM code; under ASan also: nothing leaks, and what outlives its model is whole."""
    assert native.run([native.program(kind, HERE / "module.c"), GOLDEN]).stdout == "all well\n"


@pytest.mark.parametrize("kind", ["plain", pytest.param("asan", marks=pytest.mark.slow)])
def test_state(kind: str) -> None:
    """What sessions keep from run to run: each its own, reset, after a run that failed; runs allocate nothing."""
    counted = ["-DCOUNTED"] if kind == "plain" else []
    done = native.run([native.program(kind, HERE / "state.c", flags=counted), GOLDEN.with_name("v4.pen")])
    assert done.stdout == "all well\n"


def test_module_out_of_memory() -> None:
    """Every allocation of loading, making and running a module fails once."""
    assert "failures survived" in native.run([native.program("plain", HERE / "module_out_of_memory.c"), GOLDEN]).stdout


@pytest.mark.parametrize("name", NAMES)
def test_a_run_allocates_nothing(name: str, cases: Cases) -> None:
    file, paths = cases[name]
    done = native.run([native.program("plain", HERE / "no_allocation.c"), file, paths[1]])
    assert "a run allocates nothing" in done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_out_of_memory(name: str, cases: Cases) -> None:
    """Every allocation of load, session, plan and run fails once."""
    file, paths = cases[name]
    done = native.run([native.program("plain", HERE / "out_of_memory.c"), file, paths[0], paths[2]])
    assert "failures survived" in done.stdout


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["plain", pytest.param("asan", marks=pytest.mark.slow)])
def test_replay(kind: str, name: str, cases: Cases) -> None:
    """Torch's numbers at three sizes, each instruction set, 1 to 3 threads, all ways of loading."""
    file, paths = cases[name]
    done = native.run(
        [native.program(kind, HERE / "replay.c"), file, *paths], timeout=300, environment={"PENLIGHT_GUARD": "weights"}
    )
    assert done.stdout == "replayed\n"


@pytest.mark.parametrize("kind", ["plain", pytest.param("asan", marks=pytest.mark.slow)])
def test_trace(kind: str, cases: Cases) -> None:
    """penlight_trace.h, which only builds for Python and under sanitizers have."""
    if kind == "plain" and native.build(kind).name != "release":
        pytest.skip("./dev build has not made the library")
    file, paths = cases["classifier"]
    done = native.run([native.program(kind, HERE / "trace.c"), file, paths[0], GOLDEN])
    assert done.stdout == "all noted\n"


def test_a_machine_that_gives_little(cases: Cases) -> None:
    file, paths = cases["classifier"]
    done = native.run([native.program("plain", HERE / "machine.c", flags=["-ldl"]), file, paths[0], GOLDEN])
    assert done.stdout == "survived\n"


def test_fork(cases: Cases) -> None:
    file, paths = cases["classifier"]
    done = native.run([native.program("plain", HERE / "fork.c"), file, paths[2]])
    assert done.stdout == "survived\n"


@pytest.mark.parametrize(
    "kind", ["plain", pytest.param("asan", marks=pytest.mark.slow), pytest.param("tsan", marks=pytest.mark.slow)]
)
def test_parts(kind: str) -> None:
    """Strides, copies, symbolic dims, memory, SHA-256, the thread pool."""
    assert native.run([native.program(kind, HERE / "parts.cc")]).stdout == "all parts\n"


@pytest.mark.parametrize("kind", ["plain", pytest.param("tsan", marks=pytest.mark.slow)])
def test_threads_of_different_speeds(kind: str) -> None:
    """Work is handed out by what threads were seen to do, and each task is done once whatever that was."""
    assert native.run([native.program(kind, HERE / "pool.cc")]).stdout == "all tasks\n"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "asan", "tsan"])
def test_values_given_back_by_any_thread(kind: str) -> None:
    """Also while another begins a run and searches for cycles: it walked a list of containers that the first was freeing."""
    assert native.run([native.program(kind, HERE / "giving.cc")]).stdout == "all given back\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["classifier", "transformer"])
def test_one_model_many_threads(name: str, cases: Cases) -> None:
    """Under ThreadSanitizer."""
    file, paths = cases[name]
    done = native.run([native.program("tsan", HERE / "shared_model.cc"), file, *paths], timeout=400)
    assert done.stdout == "same bits\n"


@pytest.mark.slow
def test_steps_that_threads_share(tmp_path: Path) -> None:
    """Recurrent layers, each step of which is cut over threads: under ThreadSanitizer."""

    class Steps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(20, 257, proj_size=100, bidirectional=True)
            self.gru = nn.GRU(200, 217)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.gru(self.lstm(x)[0])[0]

    torch.manual_seed(2)
    module, x = Steps().eval(), torch.randn(5, 2, 20)
    penlight.optimize(module, (x,)).save(tmp_path / "steps.pen")
    (tmp_path / "case").write_bytes(case_bytes((x,), (module(x),)))
    done = native.run(
        [native.program("tsan", HERE / "shared_model.cc"), tmp_path / "steps.pen", tmp_path / "case"], timeout=400
    )
    assert done.stdout == "same bits\n"
