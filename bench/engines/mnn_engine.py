"""MNN: converted from ONNX by its own converter, high precision (f32)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import MNN
import numpy as np

from bench.case import Convertible
from bench.engines import Loaded


def prepare(case: Convertible, folder: Path) -> None:
    converter = Path(sys.executable).parent / "mnnconvert"
    command = [str(converter), "-f", "ONNX", "--modelFile", str(case.folder / "onnx" / "model.onnx")]
    command += ["--MNNModel", str(folder / "model.mnn"), "--bizCode", "bench"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def load(folder: Path, inputs: list[np.ndarray], threads: int) -> Loaded:
    (image,) = inputs
    net = MNN.Interpreter(str(folder / "model.mnn"))
    session = net.createSession({"backend": "CPU", "precision": "high", "numThread": threads})
    port = net.getSessionInput(session)
    shape = tuple(image.shape)
    host = MNN.Tensor(shape, MNN.Halide_Type_Float, image, MNN.Tensor_DimensionType_Caffe)

    def run() -> None:
        port.copyFrom(host)
        net.runSession(session)

    def read(_: object) -> list[np.ndarray]:
        arrays = []
        for output in net.getSessionOutputAll(session).values():
            shape = output.getShape()
            copy = MNN.Tensor(shape, MNN.Halide_Type_Float, np.zeros(shape, np.float32), MNN.Tensor_DimensionType_Caffe)
            output.copyToHostTensor(copy)
            arrays.append(np.array(copy.getNumpyData()).reshape(shape).copy())
        return arrays

    return Loaded(run, read)
