"""The original PyTorch Mobile: Debian's torch 1.13 with XNNPACK, optimize_for_mobile and the lite interpreter.

It cannot read what today's torch writes. So the weights travel as plain arrays into Debian's torchvision, which has the
same architectures; that they are the same is what the comparison of outputs proves.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from bench.case import Case, flat
from bench.engines import Loaded


def prepare(case: Case, folder: Path) -> None:
    import torchvision
    from torch.utils.mobile_optimizer import optimize_for_mobile

    backbone = {"weights_backbone": None} if case.model.startswith("deeplabv3") else {}
    model = torchvision.models.get_model(case.model, weights=None, **backbone)
    with np.load(case.folder / "weights" / "weights.npz") as arrays:
        model.load_state_dict({name: torch.from_numpy(arrays[name]) for name in arrays.files})
    # Scripted, not traced: of a traced model, optimize_for_mobile folds the batch norms wrongly.
    optimize_for_mobile(torch.jit.script(model.eval()))._save_for_lite_interpreter(str(folder / "model.ptl"))


def load(folder: Path, inputs: list[np.ndarray], threads: int) -> Loaded:
    from torch.jit.mobile import _load_for_lite_interpreter

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    module = _load_for_lite_interpreter(str(folder / "model.ptl"))
    given = list(map(torch.from_numpy, inputs))
    return Loaded(lambda: module(*given), lambda result: [t.numpy() for t in flat(result)])
