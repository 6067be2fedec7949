"""ExecuTorch in int8: PT2E with XNNPACK's quantizer, weights per channel; everything that XNNPACK takes delegated to it.

Tried: scales of activations calibrated ("static") and, for a transformer, found at run time ("dynamic").
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from bench.case import Case
from bench.engines import Loaded, executorch_engine
from bench.variants import batches_of, chosen, keep_best


def prepare(case: Case, folder: Path) -> None:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from executorch.exir import to_edge_transform_and_lower
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    torch.backends.mha.set_fastpath_enabled(False)  # one operator that no quantizer looks into
    torch.set_grad_enabled(False)
    module, inputs = case.module(), case.inputs()
    names = ["static"] + ["dynamic"] * case.model.startswith("vit")
    for name in names:
        config = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=name == "dynamic")
        observed = prepare_pt2e(torch.export.export(module, inputs).module(), XNNPACKQuantizer().set_global(config))
        for batch in batches_of(case):
            observed(torch.from_numpy(batch))
        exported = torch.export.export(convert_pt2e(observed), inputs)
        lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
        (folder / name).mkdir()
        (folder / name / "model.pte").write_bytes(lowered.to_executorch().buffer)
    keep_best(case, folder, names, executorch_engine.load)


def load(folder: Path, inputs: list[np.ndarray], threads: int) -> Loaded:
    return executorch_engine.load(folder / chosen(folder), inputs, threads)
