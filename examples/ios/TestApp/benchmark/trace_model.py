"""Writes model.pt beside this file, as the recipe's script does, and TestApp.xcodeproj: `python trace_model.py`.

Put your own model in place of MobileNetV2, and its sizes and types into config.json. No weights are downloaded: times do not depend on them.
"""

import argparse
import sys
from pathlib import Path

import penlight.compat

penlight.compat.install()  # torch.utils.mobile_optimizer and torch.jit.save are Penlight's
import torch
import torchvision
from torch.utils.mobile_optimizer import optimize_for_mobile

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
from app import finish

parser = argparse.ArgumentParser(description="Writes model and project of TestApp.")
parser.add_argument("--out", type=Path, default=HERE, help="folder for model.pt")
path = parser.parse_args().out / "model.pt"

model = torchvision.models.mobilenet_v2(weights=None)
model.eval()
example = torch.rand(1, 3, 224, 224)
traced_script_module = torch.jit.trace(model, example)
torchscript_model_optimized = optimize_for_mobile(traced_script_module)
torch.jit.save(torchscript_model_optimized, str(path))
finish(HERE.parent)(path)
