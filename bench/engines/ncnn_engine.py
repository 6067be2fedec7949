"""ncnn: converted by pnnx, Winograd, sgemm and packed layouts on, f16 and bf16 storage off. It has no batch."""

from __future__ import annotations

import subprocess
from pathlib import Path

import ncnn
import numpy as np

from bench.case import Convertible
from bench.engines import Loaded


def prepare(case: Convertible, folder: Path) -> None:
    import pnnx
    import torch

    image = case.inputs()[0]
    with torch.no_grad():
        torch.jit.trace(case.module(), image, strict=False, check_trace=False).save(folder / "model.pt")
    shape = ",".join(map(str, image.shape))
    command = [pnnx.EXEC_PATH, "model.pt", f"inputshape=[{shape}]", "fp16=0"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def load(folder: Path, inputs: list[np.ndarray], threads: int) -> Loaded:
    net = ncnn.Net()
    net.opt.num_threads = threads
    net.opt.use_vulkan_compute = False
    for on in ("use_winograd_convolution", "use_sgemm_convolution", "use_packing_layout"):
        setattr(net.opt, on, True)
    for off in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage"):
        setattr(net.opt, off, False)
    if net.load_param(str(folder / "model.ncnn.param")) or net.load_model(str(folder / "model.ncnn.bin")):
        raise RuntimeError("ncnn cannot load the model that pnnx made")
    (image,) = inputs
    given = ncnn.Mat(image[0])
    names = net.output_names()

    def run() -> list[ncnn.Mat]:
        extractor = net.create_extractor()
        extractor.input("in0", given)
        results = [extractor.extract(name) for name in names]
        if any(status for status, _ in results):
            raise RuntimeError(f"ncnn failed with code {[status for status, _ in results]}")
        return [mat for _, mat in results]

    return Loaded(run, lambda result: [np.array(mat)[None] for mat in result])
