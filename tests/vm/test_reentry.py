"""Callers that come at the wrong time: from inside of a run, on another thread, in a forked child."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import penlight
from penlight import _runtime
from penlight.file.writer import to_array
from tests.file.assemble import program

ROOT = Path(__file__).parents[2]
DROPS = "forward(self, x):\n r2 = aten::neg(r1)\n r1 = aten::neg(r2)\n r2 = aten::neg(r1)\n return(r2)"
LOOP = """forward(self, n, x):
  r3 = list()
  r4 = move(0)
  r5 = move(r1)
  r6 = move(True)
  a:
  loop(r4, r5, r6) -> end
  r7 = aten::append.t(r3, r2)
  r6 = move(True)
  jump() -> a
  end:
  return(r3)"""


def load(text: str, **options: Any) -> penlight.Model:
    return penlight.Model(to_array(program(text)), threads=1, **options)


class Finalized(np.ndarray):
    """Calls something when it is gone."""

    def __del__(self) -> None:
        if getattr(self, "last", None):
            self.last()


def test_a_finalizer_that_calls_the_model_while_it_runs() -> None:
    """The model drops its argument in the middle of a run, and the caller has it no more."""
    model = load(DROPS)
    errors: list[BaseException] = []

    def again() -> None:
        try:
            np.testing.assert_array_equal(model(np.ones(3, np.float32)), -np.ones(3))
        except penlight.RunError as error:
            errors.append(error)

    for _ in range(3):
        x = np.ones(4, np.float32).view(Finalized)
        x.last = again  # type: ignore[attr-defined]
        held = [x]
        del x
        result = model.run_method("forward", held.pop())
        np.testing.assert_array_equal(result, -np.ones(4))
        del result
        gc.collect()
    for error in errors:
        assert "from inside of it" in str(error)


SPIN = """forward(self, n):
  r2 = move(0)
  r3 = move(r1)
  r4 = move(True)
  a:
  loop(r2, r3, r4) -> end
  r5 = aten::mul.int(r2, 3)
  r4 = move(True)
  jump() -> a
  end:
  return(r2)"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a signal in the middle of a run")
def test_a_signal_handler_that_traces_the_model_while_it_runs() -> None:
    """The run notes in the trace before, which would be gone."""
    model, told = load(SPIN), []
    first = model.trace()

    def again(*_: Any) -> None:
        try:
            model.trace()
        except penlight.RunError as error:
            told.append(str(error))

    before = signal.signal(signal.SIGALRM, again)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        while not told and model._trace is first:
            model(3_000_000)  # of which the handler comes in the middle
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert "from inside of it" in told[0]
    assert first.operators == ["aten::mul.int"]


class Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def test_a_signal_handler_that_calls_the_model_while_it_runs() -> None:
    """Of planned code the inputs would be others', and freed."""
    model, told = penlight.optimize(Doubled(), (torch.ones(4),)), []

    def handler(*_: Any) -> None:
        try:
            model(torch.full((4,), 7.0))
        except penlight.RunError as error:
            told.append(str(error))

    running = model._begin("forward")
    handler()
    running.discard("forward")
    assert "from inside of it" in told[0]
    torch.testing.assert_close(model(torch.ones(4)), torch.full((4,), 2.0))


def test_results_are_dropped_while_another_thread_runs() -> None:
    """Each result is a reference to the argument, which the run counts up and down too."""
    model = load(LOOP)
    x = np.ones(2, np.float32)
    kept, stop = model(20_000, x), threading.Event()

    def drop() -> None:
        while kept and not stop.is_set():
            kept.pop()

    thread = threading.Thread(target=drop)
    thread.start()
    for _ in range(5):
        assert len(model(20_000, x)) == 20_000
    stop.set()
    thread.join()
    assert sys.getrefcount(x) < 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.slow
def test_a_child_forked_during_a_run_can_run_the_model() -> None:
    model, stop = load(LOOP), threading.Event()
    x = np.ones(2, np.float32)

    def work() -> None:
        while not stop.is_set():
            model(20_000, x)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(10):
            time.sleep(0.01)
            child = os.fork()
            if child == 0:
                signal.alarm(60)  # a child that hangs ends by this
                os._exit(0 if len(model(3, x)) == 3 else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_signal_ends_a_run_in_a_child_that_a_thread_forked() -> None:
    """The thread that forks is the child's main one, which runs handlers; the parent's was asked, and no signal ended the run."""
    model, ended = load(SPIN), []

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    def fork() -> None:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, interrupt)
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            try:
                model(10**12)
            except KeyboardInterrupt:
                pass
            finally:
                os._exit(0)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if os.waitpid(child, os.WNOHANG) != (0, 0):
                ended.append("by the signal")
                return
            time.sleep(0.05)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

    thread = threading.Thread(target=fork)
    thread.start()
    thread.join()
    assert ended


DAEMONS = """
import sys, threading, time
import numpy as np, penlight
model, x = penlight.load(sys.argv[1], threads=1), np.ones((8, 64), np.float32)
began = threading.Barrier(4)
def work():
    model(x)
    began.wait()
    while True:
        model(x)
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
began.wait()
time.sleep(0.1)
"""


@pytest.mark.parametrize("kind", ["planned", "interpreted"])
def test_python_ends_while_daemons_run_models(kind: str, tmp_path: Path) -> None:
    """A thread that came back from a run was ended by an unwinding that aborted the process."""
    layers = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(20)])
    made = penlight.optimize(layers, (torch.ones(8, 64),)) if kind == "planned" else load(DROPS)
    made.save(tmp_path / "m.pen")
    for _ in range(3):
        child = subprocess.run(
            [sys.executable, "-c", DAEMONS, tmp_path / "m.pen"], cwd=ROOT, capture_output=True, text=True, timeout=120
        )
        assert (child.returncode, child.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a signal in the middle of a run")
def test_a_signal_handler_that_traces_operators_while_one_runs() -> None:
    operators, first, told = _runtime.Operators(), _runtime.Trace(), []
    operators.create(1, 0)
    assert operators.set_trace(first) is None
    before = signal.signal(signal.SIGALRM, lambda *_: told.append(operators.set_trace(_runtime.Trace())))
    x = np.ones(20_000_000, np.float32)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        while not any(told):
            operators.run("aten::special_bessel_j0", [x])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert "from inside of it" in next(filter(None, told))["message"]


@pytest.mark.parametrize(
    "kind", [_runtime.Session, _runtime.Module, _runtime.Operators, _runtime.Model, _runtime.Buffer]
)
def test_objects_that_were_never_created_answer(kind: Any) -> None:
    calls: list[tuple[str, tuple[Any, ...]]] = [
        ("run", ([],)), ("run", ("forward", [])), ("run", ("aten::neg", [])), ("prepare", ()), ("set_inputs", ([],)), ("reset", ()),
        ("seed", (1,)), ("states", ()), ("read_state", (0, np.zeros(1))), ("output_shapes", ()), ("set_profiling", (True,)), ("steps", ()),
        ("step_nanoseconds", ()), ("take_output", (0,)), ("read_output", (0, np.zeros(1))), ("device_report", ()), ("state", ()),
        ("inputs", ("forward",)), ("outputs", ("forward",)), ("input_spec", ("forward",)), ("output_spec", ("forward",)), ("bundles", ()),
        ("image", ()), ("upload", (np.zeros(1),)), ("download", (np.zeros(1),)), ("create", (_runtime.Model(), "forward", 1, 1, 0, None)),
        ("create", (_runtime.Model(), 1, 0, 0, None)), ("takes", (_runtime.Buffer(),)), ("set_trace", (_runtime.Trace(),)),
    ]  # fmt: skip
    for name, args in calls:
        if hasattr(kind, name):
            try:
                getattr(kind(), name)(*args)
            except (TypeError, MemoryError, RuntimeError):
                continue
    for name in (
        "isa",
        "arena_bytes",
        "live_bytes",
        "plan_count",
        "planned_parts",
        "metadata",
        "methods",
        "functions",
        "missing_operators",
        "device_name",
    ):
        if hasattr(kind, name):
            getattr(kind(), name)


RAISING = """
import threading, numpy as np
from penlight import _runtime
operators = _runtime.Operators()
operators.create(1, 0)
def interrupted():  # as by a signal that came in the meantime
    raise KeyboardInterrupt
threading.main_thread = interrupted
for _ in range(2):
    problem, results, _ = operators.run("aten::neg", [np.ones(1_000_000, np.float32)])
    print(problem, np.asarray(results[0].array).sum())
"""


def test_a_run_that_asks_calls_no_python_that_may_raise() -> None:
    """Which is the main thread was asked in the first run: an exception went through the runtime, and the model was in use for ever."""
    child = subprocess.run([sys.executable, "-c", RAISING], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (child.returncode, child.stdout) == (0, "None -1e+06\n" * 2), child.stderr
