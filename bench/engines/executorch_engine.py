"""ExecuTorch: a .pte with everything that XNNPACK takes delegated to it, outputs not cloned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from executorch.extension.pybindings import portable_lib

from bench.case import Convertible
from bench.engines import Loaded


def prepare(case: Convertible, folder: Path) -> None:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    exported = torch.export.export(case.module(), case.inputs())
    lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    (folder / "model.pte").write_bytes(lowered.to_executorch().buffer)


def load(folder: Path, inputs: list[np.ndarray], threads: int) -> Loaded:
    portable_lib._unsafe_reset_threadpool(threads)
    program = portable_lib._load_program(str(folder / "model.pte"))
    method = program.load_method("forward")
    given = tuple(map(torch.from_numpy, inputs))

    def run() -> object:
        method.set_inputs(given)
        method.execute()
        return method.get_outputs(clone_outputs=False)

    return Loaded(run, lambda result: [t.numpy().copy() for t in result])
