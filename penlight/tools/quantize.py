"""`penlight quantize`: a model becomes a .pen file that computes in integers, calibrated on a folder of images or on arrays."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click
import numpy as np

import penlight
from penlight.errors import QuantizationError
from penlight.file_kinds import file_kind
from penlight.paths import text_of
from penlight.preprocess import Preprocessing, PreprocessingError
from penlight.tools.arrays import load_arrays
from penlight.tools.optimize import described
from penlight.tools.options import (
    check_output,
    description_options,
    preprocessing,
    preprocessing_options,
    reading_options,
)
from penlight.tools.screen import Stages, heading, in_bytes, in_seconds, screen

IMAGES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".ppm")


class BudgetType(click.ParamType[Any]):
    """0.05, a relative error; top1=0.99, how often the greatest score must be the same one."""

    name = "budget"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        name, equals, number = value.rpartition("=")
        try:
            given = float(number)
        except ValueError:
            given = 0.0
        if given <= 0 or (equals and (name != "top1" or given > 1)):
            self.fail(f"{value!r}: expected a relative error such as 0.05, or top1=0.99", param, ctx)
        return {"top1": given} if equals else given


@click.command("quantize")
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write. [default: MODEL with .int8.pen]",
)
@click.option(
    "--images", type=click.Path(exists=True, path_type=Path), multiple=True,
    help="A folder of images to calibrate on, with its folders, or one image; may be given again.",
)  # fmt: skip
@click.option(
    "--input", "arrays", type=click.Path(exists=True, dir_okay=False, path_type=Path), multiple=True, metavar="FILE.npy|.npz",
    help="A batch to calibrate on instead: .npy for one input, .npz with an array for each, by name; once per batch. With --weights: an example.",
)  # fmt: skip
@click.option(
    "--count", type=click.IntRange(1), default=128, show_default=True, help="How many images to take, spread evenly."
)
@click.option(
    "--method", type=click.Choice(["histogram", "minmax", "percentile"]), default="histogram", show_default=True,
    help="How ranges follow from what was seen: least squared error, all of it, or 99.99 % of it.",
)  # fmt: skip
@click.option(
    "--budget", type=BudgetType(), metavar="ERROR|top1=SHARE",
    help="Keep the costliest layers in floats until the outputs are this near: 0.05, or top1=0.99.",
)  # fmt: skip
@click.option(
    "--keep",
    multiple=True,
    metavar="PATTERN",
    help="Layers to leave in floats: a name, 'head.*', an operator; may be given again.",
)
@click.option(
    "--per-tensor", is_flag=True, help="One scale for a whole weight, instead of one for each output channel."
)
@click.option("--no-equalize", is_flag=True, help="Leave the channels between two layers as they are.")
@click.option("--no-bias-correction", is_flag=True, help="Leave biases as they are.")
@click.option("--weights", type=click.Choice(["i8", "f16"]), help="Only weights become smaller; no images are needed.")
@click.option(
    "--dynamic", is_flag=True, help="Every size above 1 of every input may vary, unless the model's code fixes it."
)
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the report to this HTML file, with pictures.",
)
@description_options
@preprocessing_options
@reading_options
def quantize_command(
    model: Path, output: Path | None, images: tuple[Path, ...], arrays: tuple[Path, ...], count: int, method: str, budget: Any, keep: tuple[str, ...],
    per_tensor: bool, no_equalize: bool, no_bias_correction: bool, weights: str | None, dynamic: bool, report: Path | None, name: str | None,
    labels: Path | None, metadata: Path | None, trust: bool, read_budget: float, **options: Any,
) -> None:  # fmt: skip
    """Turn MODEL into a .pen file that computes in integers: a quarter of the size, and faster.

    MODEL is what `penlight optimize` takes. Images should be like those that it will see, 16 to 200 of them; they go through the
    preprocessing given here, which the file then says too.

    \b
    penlight quantize mobilenet_v2.pt --images photos/ --imagenet
    penlight quantize mobilenet_v2.pt --images photos/ --imagenet --budget top1=0.99 --report report.html
    """
    start = time.perf_counter()
    if file_kind(model) == "pen":
        raise click.UsageError(f"{model} is compiled already; quantize what it was made of: a .pt, .ptl or .pt2 file")
    steps = preprocessing(options, _told(metadata).get("preprocessing"))
    target = output or model.with_suffix(".int8.pen")
    if weights is not None:
        given = {"--report": report, "--images": images, "--budget": budget, "--keep": keep}
        if wrong := [option for option, value in given.items() if value]:
            raise click.UsageError(
                f"{wrong[0]}: --weights calibrates nothing, and reports nothing; all weights become {weights}"
            )
    check_output(target, model, labels, metadata)
    check_output(report, model, labels, metadata, target, option="--report")
    with Stages() as stage:
        if weights is None:
            stage("reading what to calibrate on")
            batches = _batches(images, arrays, count, steps, stage)
        else:
            batches = [load_arrays(path) for path in arrays]  # an example, which only scripts do without
        stage("starting PyTorch")
        import torch  # noqa: F401 (seconds, which would else count as capturing)

        quantized = penlight.quantize(
            str(model), batches, method=method, budget=budget, keep=keep, per_channel=not per_tensor, equalize=not no_equalize,
            correct_bias=not no_bias_correction, weights=weights, dynamic_shapes="auto" if dynamic else None,
            metadata=described(metadata, name or model.stem, labels, steps), progress=stage, step=stage.step,
            trust=trust, read_budget=read_budget,
        )  # fmt: skip
        stage("saving")
        size = quantized.save(target)
    out = screen()
    if weights is None:
        out.print(quantized.report())
    if weights is None and report is not None:
        quantized.report().save(report)
    out.print(heading(target, f"{in_bytes(size)}, {in_seconds(time.perf_counter() - start)}"))


def _told(metadata: Path | None) -> dict[str, Any]:
    """What a file of metadata says; whether it is one is checked where it is used."""
    if metadata is None:
        return {}
    try:
        found = json.loads(text_of(metadata))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _batches(
    images: tuple[Path, ...], arrays: tuple[Path, ...], count: int, steps: Preprocessing | None, stage: Stages
) -> list[Any]:
    if bool(images) == bool(arrays):
        raise click.UsageError("give images to calibrate on (--images DIR), or arrays (--input); one of the two")
    if arrays:
        return [load_arrays(path) for path in arrays]
    if steps is None:
        raise click.UsageError(
            "it is not known how images are prepared for this model. Say it here: --imagenet, or --resize, --crop, --mean, --std"
        )
    files = _files(images, count)
    found, unreadable = [], []
    for i, path in enumerate(files):
        stage.step(i, len(files), "images")
        try:
            found.append(steps(path))
        except PreprocessingError as e:
            unreadable.append(str(e))
    if not found:
        raise QuantizationError(f"none of {len(files)} images could be read: {unreadable[0]}")
    for text in unreadable:
        stage.screen.print(f"  left out: {text}", style="yellow")
    return found


def _files(images: tuple[Path, ...], count: int) -> list[Path]:
    """All image files, those of folders in the order of their names; of more than `count`, evenly spread ones."""
    found: list[Path] = []
    for path in images:
        found += (
            [path]
            if path.is_file()
            else sorted(p for p in path.rglob("*") if p.suffix.lower() in IMAGES and p.is_file())
        )
    if not found:
        raise click.UsageError(f"--images: no image files in {', '.join(map(str, images))} ({', '.join(IMAGES)})")
    places = np.linspace(0, len(found) - 1, min(count, len(found))).round().astype(int)
    return [found[i] for i in places]
