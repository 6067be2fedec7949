"""The engines side by side. Each is one file here with the same two functions:

    prepare(case, folder)        converts the model into the form that this engine runs best, once; kept on disk
    load(folder, inputs, threads) -> Loaded

`prepare` may import torch; `load` must not, unless the engine cannot do without, as its process is weighed. What an
engine file imports at its top is not part of the load time. The benchmark itself imports none of them: they run in
other processes, some under other interpreters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple


class Loaded(NamedTuple):
    """An engine ready to run: `run` is what is timed, `read` turns its result into arrays for the comparison. A model with a memory
    (case.py) goes on from run to run, and `reset` takes it back to the beginning."""

    run: Callable[[], Any]
    read: Callable[[Any], list[Any]]
    reset: Callable[[], None] | None = None


Load = Callable[[Path, list[Any], int], Loaded]


@dataclass(frozen=True)
class Engine:
    module: str  # file in this folder
    more: tuple[str, ...] = ()  # files in this folder that it prepares with, too
    python: str = "peers"  # "project", "peers" or "debian": whose interpreter it needs
    source: str = ""  # "onnx" or "weights": prepared first, shared by several
    package: str = ""  # whose version is reported
    batches: bool = True
    layers_only: bool = False  # for the sweep, not for models
    aside: bool = False  # only where it is asked for
    precision: str = "f32"  # or "int8": for the comparison of quantized models alone


ENGINES: dict[str, Engine] = {
    "penlight": Engine("penlight_engine", python="project", package="penlight"),
    "penlight-nhwc": Engine("penlight_nhwc", python="project", package="penlight", layers_only=True),
    "penlight-script": Engine("penlight_script", python="project", package="penlight", aside=True),
    "penlight-vm": Engine("penlight_interpreted", python="project", package="penlight", aside=True),
    "torch-mobile": Engine("torch_mobile", python="debian", source="weights", package="torch"),
    "torch-eager": Engine("torch_eager", python="project", package="torch"),
    "executorch": Engine("executorch_engine", package="executorch"),
    "onnxruntime": Engine(
        "onnxruntime_engine", ("onnxruntime_fusion", "onnxruntime_memory"), source="onnx", package="onnxruntime"
    ),
    "openvino": Engine("openvino_engine", source="onnx", package="openvino"),
    "ncnn": Engine("ncnn_engine", package="ncnn", batches=False),
    "mnn": Engine("mnn_engine", source="onnx", package="MNN"),
    "penlight-int8": Engine("penlight_int8", python="project", package="penlight", precision="int8"),
    "executorch-int8": Engine("executorch_int8", package="executorch", precision="int8"),
    "onnxruntime-int8": Engine("onnxruntime_int8", source="onnx", package="onnxruntime", precision="int8"),
    "openvino-int8": Engine("openvino_int8", source="onnx", package="openvino", precision="int8"),
}
