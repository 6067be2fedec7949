"""OpenVINO in int8: quantized by its own NNCF from the ONNX file; what stays in float is f32 or bf16, as it likes.

Tried: activations symmetric ("performance") or not ("mixed").
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino

from bench.case import Case
from bench.engines import Loaded
from bench.engines.openvino_engine import bound
from bench.variants import batches_of, chosen, keep_best


def prepare(case: Case, folder: Path) -> None:
    import nncf

    kind = nncf.ModelType.TRANSFORMER if case.model.startswith("vit") else None
    names = []
    for preset in (nncf.QuantizationPreset.PERFORMANCE, nncf.QuantizationPreset.MIXED):
        model = openvino.convert_model(case.folder / "onnx" / "model.onnx")
        model = nncf.quantize(
            model, nncf.Dataset(batches_of(case)), preset=preset, target_device=nncf.TargetDevice.CPU, model_type=kind
        )
        names.append(preset.value)
        openvino.save_model(model, folder / preset.value / "model.xml", compress_to_fp16=False)
    keep_best(case, folder, names, _load)


def load(folder: Path, inputs: list[np.ndarray], threads: int) -> Loaded:
    return _load(folder / chosen(folder), inputs, threads)


def _load(folder: Path, inputs: list[np.ndarray], threads: int) -> Loaded:
    options = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1}
    model = openvino.Core().compile_model(folder / "model.xml", "CPU", options)
    return bound(model, inputs)
