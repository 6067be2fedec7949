"""Writes the app's model, DeepLabV3 with 21 classes, and photograph to app/src/main/assets.

`--weights` takes a state dict of torchvision's (download.pytorch.org/models/deeplabv3_resnet50_coco-cd0a2569.pth). No package carries one, so
without it the network is random but for its last two layers, which learn outlines by heart that were drawn by hand on the photograph.
Such a model draws this photograph roughly right, and no other.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import skimage
from PIL import Image, ImageDraw

import penlight

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from classifier import say_next, write_photograph

APP = Path(__file__).resolve().parent
SIZE = 400  # as Segmenter.java has it
STEPS = 40  # of training
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PHOTOGRAPH = Path(skimage.__file__).parent / "data/astronaut.png"
# On it, in hundredths of its sides: what is where, by the number of its class.
OUTLINES = {
    15: [(36, 2), (43, 2), (53, 5), (58, 12), (59, 22), (55, 26), (51, 27), (51, 31), (58, 36), (60, 44), (58, 50), (66, 55), (71, 63),
         (73, 68), (66, 70), (58, 76), (54, 83), (54, 100), (5, 100), (6, 84), (10, 62), (18, 50), (24, 45), (23, 38), (28, 32), (36, 29),
         (37, 27), (31, 22), (30, 14), (32, 7)],
    1: [(80, 0), (85, 0), (86, 20), (90, 40), (93, 48), (93, 53), (69, 53), (69, 48), (73, 38), (72, 25), (74, 22), (77, 10)],
}  # fmt: skip


def main(assets: Path, after: Callable[[Path], None]) -> None:
    """Writes the assets, or what --out names in their place, then calls `after` with the model."""
    parser = argparse.ArgumentParser(description="Writes model and assets of ImageSegmentation.")
    parser.add_argument("--weights", type=Path, help="a state dict of the network; without it, it was not trained")
    parser.add_argument("--photograph", type=Path, default=PHOTOGRAPH, help="to show; another one needs --weights")
    parser.add_argument("--backbone", choices=("resnet50", "mobilenet_v3_large"), default="resnet50")
    parser.add_argument("--out", type=Path, default=assets)
    given = parser.parse_args()
    if given.photograph != PHOTOGRAPH and not given.weights:
        parser.error(
            "--photograph: a network that was not trained is fitted to scikit-image's astronaut: give --weights too"
        )
    given.out.mkdir(parents=True, exist_ok=True)
    write_photograph(given.photograph, given.out)
    image = as_input(given.out / "image.jpg")
    network = make_network(given.backbone, given.weights, image)
    model = penlight.optimize(network, (image,), winograd_budget=0.0)  # larger weights are not worth an app's size
    model.save(given.out / "deeplabv3.pen")
    after(given.out / "deeplabv3.pen")


def make_network(backbone: str, weights: Path | None, image: Any) -> Any:
    import torch
    import torchvision

    torch.manual_seed(0)
    network = torchvision.models.get_model(
        f"deeplabv3_{backbone}", weights=None, weights_backbone=None, num_classes=21, aux_loss=False
    )
    if weights:
        state = torch.load(weights, map_location="cpu", weights_only=True)
        network.load_state_dict({name: value for name, value in state.items() if not name.startswith("aux_")})
    else:
        print("No --weights: a network that was not trained, fitted to scikit-image's astronaut alone.")
        fit(network, image)
    return network.eval()


def as_input(photograph: Path) -> Any:
    """As the app makes it: a pixel between its four neighbours."""
    import torch

    pixels = torch.from_numpy(np.array(Image.open(photograph).convert("RGB"))).permute(2, 0, 1)[None].float()
    scaled = torch.nn.functional.interpolate(pixels, (SIZE, SIZE), mode="bilinear").round() / 255
    return (scaled - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]


def fit(network: Any, image: Any) -> None:
    """Gives batch norms the photograph's statistics, then trains the last two layers on it and on a copy with noise."""
    import torch

    images = torch.cat([image, image + 0.05 * torch.randn_like(image)])
    network.eval()
    for norm in network.modules():
        if isinstance(norm, torch.nn.BatchNorm2d):
            norm.momentum = None  # the mean of what was seen
            norm.train()
    with torch.no_grad():
        network(images)
        network.eval()
        features = network.classifier[0](network.backbone(images)["out"])
    last = torch.nn.Sequential(*list(network.classifier)[1:])
    wanted = torch.from_numpy(outlined(*features.shape[2:])).repeat(len(images), 1, 1)
    trained = torch.optim.Adam(last.parameters(), lr=3e-3)
    for _ in range(STEPS):
        trained.zero_grad()
        torch.nn.functional.cross_entropy(last(features), wanted).backward()
        trained.step()


def outlined(height: int, width: int) -> Any:
    """Numbers of the classes, a pixel each."""
    outlines = Image.new("L", (SIZE, SIZE))
    for number, outline in OUTLINES.items():
        ImageDraw.Draw(outlines).polygon([(x * SIZE / 100, y * SIZE / 100) for x, y in outline], fill=number)
    return np.asarray(outlines.resize((width, height), Image.Resampling.NEAREST)).astype(np.int64)


if __name__ == "__main__":
    main(APP / "app/src/main/assets", lambda model: say_next(APP, model))
