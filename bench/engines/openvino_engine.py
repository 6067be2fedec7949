"""OpenVINO: its own file format in f32, tuned for latency, arithmetic held to f32 (it would choose bf16 where it can)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino

from bench.case import Convertible
from bench.engines import Loaded


def prepare(case: Convertible, folder: Path) -> None:
    model = openvino.convert_model(case.folder / "onnx" / "model.onnx")
    openvino.save_model(model, folder / "model.xml", compress_to_fp16=False)


def load(folder: Path, image: np.ndarray, threads: int) -> Loaded:
    options = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "NUM_STREAMS": 1,
    }
    model = openvino.Core().compile_model(folder / "model.xml", "CPU", options)
    request = model.create_infer_request()
    request.set_input_tensor(openvino.Tensor(image, shared_memory=True))

    def read(_: object, kept: object = model) -> list[np.ndarray]:  # the request does not keep it alive
        return [tensor.data.copy() for tensor in request.output_tensors]

    return Loaded(request.infer, read)
