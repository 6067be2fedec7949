"""ONNX Runtime: all graph optimisations, spinning threads, inputs and outputs bound once.

Tried for transformers: the exported file ("exported"), what the optimizer that comes with ONNX Runtime makes of it ("fused"), and both
with attention as ONNX Runtime's own operator ("attention", "attention-fused"); for a decoder with a memory those of onnxruntime_memory.py.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort

from bench.case import Convertible
from bench.engines import Loaded
from bench.variants import chosen, keep_best


def prepare(case: Convertible, folder: Path) -> None:
    """Where there is but one way nothing: it runs the ONNX file."""
    from bench.engines import onnxruntime_memory

    if case.memory():
        keep_best(case, folder, onnxruntime_memory.prepare(case, folder), _load)
    elif transformer := case.transformer():
        from bench.engines.onnxruntime_fusion import fuse, with_attention

        names = ["exported", "fused"] + ["attention", "attention-fused"] * (transformer[1] > 0)
        for name in names:
            (folder / name).mkdir()
        (folder / "exported" / "model.onnx").symlink_to(Path("../../onnx/model.onnx"))
        if "attention" in names:
            with_attention(case, folder / "attention" / "model.onnx")
        for name in names[1::2]:
            fuse(folder / names[names.index(name) - 1] / "model.onnx", folder / name / "model.onnx", transformer)
        keep_best(case, folder, names, _load)


def load(folder: Path, inputs: list[np.ndarray], threads: int) -> Loaded:
    way = chosen(folder)
    return _load(folder / way if way else folder.parent / "onnx", inputs, threads)


def _load(folder: Path, inputs: list[np.ndarray], threads: int) -> Loaded:
    from bench.engines import onnxruntime_memory

    if folder.name in onnxruntime_memory.WAYS:
        return onnxruntime_memory.WAYS[folder.name](folder, inputs, threads)
    return load_file(folder / "model.onnx", inputs, threads)


def load_file(path: Path, inputs: list[np.ndarray], threads: int) -> Loaded:
    session = session_of(path, threads)
    binding = session.io_binding()
    for port, array in zip(session.get_inputs(), inputs, strict=True):
        binding.bind_ortvalue_input(port.name, ort.OrtValue.ortvalue_from_numpy(array))
    outputs = [ort.OrtValue.ortvalue_from_shape_and_type(o.shape, np.float32) for o in session.get_outputs()]
    for port, value in zip(session.get_outputs(), outputs, strict=True):
        binding.bind_ortvalue_output(port.name, value)
    return Loaded(lambda: session.run_with_iobinding(binding), lambda _: [value.numpy() for value in outputs])


def session_of(path: Path, threads: int) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "1")
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
