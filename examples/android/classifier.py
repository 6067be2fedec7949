"""Model and assets of the apps that classify: the pretrained EfficientNet-Lite0 (as in examples/demo.py), names of its classes, a photograph.

Called by their make_model.py. Writes the folder of assets and says how to go on: here for Android, and by ../ios/app.py for iOS.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import demo
from PIL import Image

import penlight


def main(app: Path, photograph: str, backends: Sequence[str] = ("cpu",)) -> None:
    make(app, app / "app/src/main/assets", photograph, lambda model: say_next(app, model, backends), backends)


def make(
    app: Path, assets: Path, photograph: str, after: Callable[[Path], None], backends: Sequence[str] = ("cpu",)
) -> None:
    """Writes the assets, or what --out names in their place, then calls `after` with the model."""
    parser = argparse.ArgumentParser(description=f"Writes model and assets of {app.name}.")
    known = next(path for path in demo.find_photographs() if path.name == photograph)
    parser.add_argument("--photograph", type=Path, default=known, help="to show [default: scikit-image's %(default)s]")
    parser.add_argument("--out", type=Path, default=assets)
    given = parser.parse_args()
    import torch

    given.out.mkdir(parents=True, exist_ok=True)
    example = torch.from_numpy(demo.PREPROCESSING(given.photograph))
    model = penlight.optimize(demo.pretrained_model(), (example,), backend=tuple(backends))
    model.save(given.out / "model.pen")
    (given.out / "labels.txt").write_text("\n".join(demo.imagenet_labels()) + "\n", "utf-8")
    write_photograph(given.photograph, given.out)
    after(given.out / "model.pen")


def write_photograph(path: Path, assets: Path) -> None:
    Image.open(path).convert("RGB").save(assets / "image.jpg", quality=92)


def say_next(app: Path, model: Path, backends: Sequence[str] = ("cpu",)) -> None:
    """Commands from a model to an installed app."""
    options = ["--backends", ",".join(backends)] if len(backends) > 1 else []
    build = ["penlight", "build", "--model", str(model), "--target", "android", *options, "--maven", str(app / "maven")]
    print(
        f"{model}: {model.stat().st_size / 1e6:.1f} MB\nNow: {shlex.join(build)}\nThen: cd {app} && gradle installDebug"
    )
