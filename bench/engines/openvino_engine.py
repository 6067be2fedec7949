"""OpenVINO: its own file format in f32, tuned for latency, arithmetic held to f32 (it would choose bf16 where it can).

Tried for sequences: converted from the ONNX file ("onnx") and from the module itself ("torch"), where attention stays one operator. The
memory of a decoder becomes OpenVINO's own, by its transformation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino

from bench.case import Convertible
from bench.engines import Loaded
from bench.running import read_arrays, write_arrays
from bench.variants import chosen, keep_best

F32 = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}


def prepare(case: Convertible, folder: Path) -> None:
    if not case.sequence:
        model = openvino.convert_model(case.folder / "onnx" / "model.onnx")
        openvino.save_model(model, folder / "model.xml", compress_to_fp16=False)
        return
    for name, convert in (("onnx", _from_onnx), ("torch", _from_torch)):
        (folder / name).mkdir()
        model = convert(case)
        if memory := case.memory():
            _remember(model, len(memory.past))
            write_arrays(folder / name / "past.npz", [past.numpy() for past in memory.past])
        openvino.save_model(model, folder / name / "model.xml", compress_to_fp16=False)
    keep_best(case, folder, ["onnx", "torch"], _load)


def _from_onnx(case: Convertible) -> openvino.Model:
    return openvino.convert_model(case.folder / "onnx" / "model.onnx")


def _from_torch(case: Convertible) -> openvino.Model:
    from bench.prepare import port_names

    memory = case.memory()
    if memory is None:
        return openvino.convert_model(
            case.module(), example_input=case.inputs(), input=[x.shape for x in case.inputs()]
        )
    shapes: list[Any] = [x.shape for x in case.inputs()]
    shapes += [openvino.PartialShape([*past.shape[:2], -1, past.shape[3]]) for past in memory.past]
    model = openvino.convert_model(memory.growing, example_input=(*case.inputs(), *memory.past), input=shapes)
    names = port_names(len(memory.past))
    for ports, called in ((model.inputs, names["input_names"]), (model.outputs, names["output_names"])):
        for port, name in zip(ports, called, strict=True):
            port.get_tensor().set_names({name})
    return model


def _remember(model: openvino.Model, count: int) -> None:
    from openvino._offline_transformations import apply_make_stateful_transformation

    apply_make_stateful_transformation(model, {f"past_{i}": f"present_{i}" for i in range(count)})


def load(folder: Path, inputs: list[np.ndarray], threads: int) -> Loaded:
    return _load(folder / chosen(folder), inputs, threads)


def _load(folder: Path, inputs: list[np.ndarray], threads: int) -> Loaded:
    options = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, **F32}
    model = openvino.Core().compile_model(folder / "model.xml", "CPU", options)
    path = folder / "past.npz"
    return bound(model, inputs, read_arrays(path) if path.exists() else [])


def bound(model: openvino.CompiledModel, inputs: list[np.ndarray], past: list[np.ndarray] | None = None) -> Loaded:
    """With what the model remembers at first, by number."""
    request = model.create_infer_request()
    for number, array in enumerate(inputs):
        request.set_input_tensor(number, openvino.Tensor(array, shared_memory=True))

    def read(_: object, kept: object = model) -> list[np.ndarray]:  # the request does not keep it alive
        return [tensor.data.copy() for tensor in request.output_tensors]

    def reset() -> None:
        for variable in request.query_state():
            number = int(variable.name.partition("present_")[2])
            variable.state = openvino.Tensor(past[number])

    if past:
        reset()
    return Loaded(request.infer, read, reset)
