"""ONNX Runtime with a decoder that remembers (case.py). Two ways:

growing  keys and values come in and go out one word longer, into memory that ONNX Runtime allocates; bound anew for each word
shared   its operator GroupQueryAttention writes them in place, into memory with room for all words that is bound once
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime as ort

from bench.case import Convertible
from bench.engines import Loaded
from bench.engines.onnxruntime_engine import session_of
from bench.running import read_arrays, write_arrays


def prepare(case: Convertible, folder: Path) -> list[str]:
    import torch
    import torch.nn.functional as F

    from bench.prepare import port_names

    memory = case.memory()
    assert memory is not None
    for name in WAYS:
        (folder / name).mkdir()
    (folder / "growing" / "model.onnx").symlink_to(Path("../../onnx/model.onnx"))
    write_arrays(folder / "growing" / "past.npz", [past.numpy() for past in memory.past])
    length = memory.past[0].shape[2]
    roomy = [F.pad(past, (0, 0, 0, memory.room - length)) for past in memory.past]
    torch.onnx.export(
        memory.shared, (*case.inputs(), torch.tensor([length]), *roomy), folder / "shared" / "model.onnx",
        dynamo=False, custom_opsets={"com.microsoft": 1}, **port_names(len(roomy), "position"),
    )  # fmt: skip
    write_arrays(folder / "shared" / "past.npz", [np.array([length]), *(past.numpy() for past in roomy)])
    return [*WAYS]


def load_growing(folder: Path, inputs: list[np.ndarray], threads: int) -> Loaded:
    session = session_of(folder / "model.onnx", threads)
    values = ort.OrtValue.ortvalue_from_numpy
    first = [values(past) for past in read_arrays(folder / "past.npz")]
    into, outof = ([port.name for port in ports] for ports in (session.get_inputs(), session.get_outputs()))
    scores = _scores(session)
    binding = session.io_binding()
    binding.bind_ortvalue_input(into[0], values(inputs[0]))
    past = first

    def run() -> None:
        nonlocal past
        for name, value in zip(into[1:], past, strict=True):
            binding.bind_ortvalue_input(name, value)
        binding.clear_binding_outputs()
        binding.bind_ortvalue_output(outof[0], scores)
        for name in outof[1:]:
            binding.bind_output(name)
        session.run_with_iobinding(binding)
        past = binding.get_outputs()[1:]

    def reset() -> None:
        nonlocal past
        past = first

    return Loaded(run, lambda _: [scores.numpy()], reset)


def load_shared(folder: Path, inputs: list[np.ndarray], threads: int) -> Loaded:
    session = session_of(folder / "model.onnx", threads)
    start, *kept = read_arrays(folder / "past.npz")
    arrays = [inputs[0], start, *kept]
    binding = session.io_binding()
    values = [ort.OrtValue.ortvalue_from_numpy(array) for array in arrays]
    for port, value in zip(session.get_inputs(), values, strict=True):
        binding.bind_ortvalue_input(port.name, value)
    scores = _scores(session)
    for port, value in zip(session.get_outputs(), [scores, *values[2:]], strict=True):
        binding.bind_ortvalue_output(port.name, value)
    position, length = values[1], int(start[0])
    words = 0

    def run() -> None:
        nonlocal words
        position.update_inplace(np.array([length + words]))
        session.run_with_iobinding(binding)
        words += 1

    def reset() -> None:  # what later words left behind is not looked at
        nonlocal words
        words = 0

    def read(_: object, kept: object = arrays) -> list[np.ndarray]:  # whose memory the values are
        return [scores.numpy()]

    return Loaded(run, read, reset)


def _scores(session: ort.InferenceSession) -> ort.OrtValue:
    """Room for the scores of one word; the shape that it infers has an unknown batch."""
    return ort.OrtValue.ortvalue_from_shape_and_type([1, session.get_outputs()[0].shape[1]], np.float32)


WAYS: dict[str, Callable[[Path, list[np.ndarray], int], Loaded]] = {"growing": load_growing, "shared": load_shared}
