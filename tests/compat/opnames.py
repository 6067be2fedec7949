"""Records what a torch with XNNPACK (1.13 was such a build) leaves of the models in models.py: opnames.json, the oracle of test_rewrite.

python -m tests.compat.opnames save FOLDER      with today's torch: the models as TorchScript
python3 opnames.py record FOLDER opnames.json   with the old one: what its optimize_for_mobile makes of them
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

BLOCKED = ("", "CONV_BN_FUSION", "INSERT_FOLD_PREPACK_OPS", "REMOVE_DROPOUT", "FUSE_ADD_RELU")


def save(folder: Path) -> None:
    import torch

    from tests.compat.models import MODELS

    for name, make in MODELS.items():
        module, example = make()
        module.eval()
        torch.jit.script(module).save(folder / f"{name}.script.pt")
        if name != "branch":
            torch.jit.trace(module, example).save(folder / f"{name}.trace.pt")


def record(folder: Path, target: Path) -> None:
    import torch
    from torch.utils.mobile_optimizer import MobileOptimizerType, optimize_for_mobile

    names = {}
    for path in sorted(folder.glob("*.pt")):
        preserved = ["other"] if path.name.startswith("branch") else []
        for blocked in BLOCKED:
            script = torch.jit.load(str(path))
            block = {getattr(MobileOptimizerType, blocked)} if blocked else set()
            optimized = optimize_for_mobile(script, block, preserved)
            names[f"{path.name[:-3]} {blocked}".strip()] = torch.jit.export_opnames(optimized)
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in names.items())
    target.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1] == "save":
        save(Path(sys.argv[2]))
    else:
        record(Path(sys.argv[2]), Path(sys.argv[3]))
