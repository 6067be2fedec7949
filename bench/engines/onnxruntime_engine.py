"""ONNX Runtime: all graph optimisations, spinning threads, inputs and outputs bound once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort

from bench.case import Convertible
from bench.engines import Loaded


def prepare(case: Convertible, folder: Path) -> None:
    """Nothing: it runs the ONNX file."""


def load(folder: Path, image: np.ndarray, threads: int) -> Loaded:
    return load_file(folder.parent / "onnx" / "model.onnx", image, threads)


def load_file(path: Path, image: np.ndarray, threads: int) -> Loaded:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "1")
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_ortvalue_input(session.get_inputs()[0].name, ort.OrtValue.ortvalue_from_numpy(image))
    outputs = [ort.OrtValue.ortvalue_from_shape_and_type(o.shape, np.float32) for o in session.get_outputs()]
    for port, value in zip(session.get_outputs(), outputs, strict=True):
        binding.bind_ortvalue_output(port.name, value)
    return Loaded(lambda: session.run_with_iobinding(binding), lambda _: [value.numpy() for value in outputs])
