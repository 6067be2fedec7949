"""ONNX Runtime in int8: its own quantizer, weights signed and per channel, activations unsigned; run as in f32.

Tried: every operator that can be or only convolutions and matrix products ("layers"), and for a transformer scales found at run time
("dynamic"). Signed activations are not among them: they took 1.7 times as long for mobilenet_v2 and 3.5 times for resnet18.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime as ort

from bench.case import Case
from bench.engines import Loaded
from bench.engines.onnxruntime_engine import load_file
from bench.variants import batches_of, chosen, keep_best


def prepare(case: Case, folder: Path) -> None:
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_dynamic, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    source = folder / "float.onnx"
    # All sizes are known; its search for symbolic ones fails on attention.
    quant_pre_process(case.folder / "onnx" / "model.onnx", source, skip_symbolic_shape=True)
    port = ort.InferenceSession(source, providers=["CPUExecutionProvider"]).get_inputs()[0].name

    class Batches(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left: Iterator[np.ndarray] = iter(batches_of(case))

        def get_next(self) -> dict[str, np.ndarray] | None:
            batch = next(self.left, None)
            return None if batch is None else {port: batch}

    only = {"u8s8": None, "u8s8-layers": ["Conv", "MatMul", "Gemm"]}
    for name, operators in only.items():
        (folder / name).mkdir()
        quantize_static(
            source,
            folder / name / "model.onnx",
            Batches(),
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            op_types_to_quantize=operators,
        )
    names = list(only)
    if case.model.startswith("vit"):
        names.append("dynamic")
        (folder / "dynamic").mkdir()
        quantize_dynamic(source, folder / "dynamic" / "model.onnx", per_channel=True, weight_type=QuantType.QInt8)
    source.unlink()
    keep_best(case, folder, names, _load)


def load(folder: Path, inputs: list[np.ndarray], threads: int) -> Loaded:
    return _load(folder / chosen(folder), inputs, threads)


def _load(folder: Path, inputs: list[np.ndarray], threads: int) -> Loaded:
    return load_file(folder / "model.onnx", inputs, threads)
