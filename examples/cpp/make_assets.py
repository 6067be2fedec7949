"""What the programs here need, into a folder: model.pen (the pretrained EfficientNet-Lite0 of examples/demo.py), photo.bin (scikit-image's cat,
as the model takes it: 1 x 3 x 224 x 224 floats) and labels.txt.

    python make_assets.py build
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import demo
import torch

import penlight


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    photo = demo.PREPROCESSING(demo.find_photographs()[0]).astype(np.float32)
    model = penlight.optimize(demo.pretrained_model(), (torch.from_numpy(photo),), backend=["cpu", "vulkan"])
    model.save(folder / "model.pen")
    photo.tofile(folder / "photo.bin")
    (folder / "labels.txt").write_text("\n".join(demo.imagenet_labels()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("build"))
