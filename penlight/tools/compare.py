"""`penlight compare`: whether a model computes the same on several devices, or the same as in torch; per output and per layer."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

import penlight
from penlight.agreement import TOLERANCES, Agreement, Call, agreement, example_call, leaves
from penlight.file.layers import Layer, with_layers
from penlight.file.reader import read
from penlight.file_kinds import file_kind
from penlight.ops.devices import VARIANT
from penlight.tools.options import Factor, check_output
from penlight.tools.run import arguments, read_arrays, read_method
from penlight.tools.screen import Stages, heading, screen, table


@dataclass(frozen=True)
class Row:
    """One value: what it is, and how far the two are apart (None: there is nothing to compare it with)."""

    what: str  # "output", or the layer's kernel
    source: str
    found: Agreement | None
    against: str = ""  # the torch operator whose value it was compared with


@dataclass(frozen=True)
class Comparison:
    device: str
    reference: str
    tolerance: float
    rows: list[Row]

    @property
    def agrees(self) -> bool:
        return all(row.found is None or row.found.agrees for row in self.rows)


@click.command("compare")
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument(
    "other", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="[FILE.pen]"
)
@click.option(
    "--devices",
    default="",
    metavar="cpu,vulkan,…",
    help="What to run it on; the first is what the others are compared with. [default: cpu,vulkan; against torch: cpu]",
)
@click.option("--layers", is_flag=True, help="Also compare what every kernel computes.")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="[NAME=]FILE.npy",
    help="An array for an input; once per input. [default: bundled inputs, or random ones]",
)
@click.option("--method", default="forward", show_default=True, help="Which method to run.")
@click.option("--f16", is_flag=True, help="GPUs store values as f16.")
@click.option(
    "--tolerance",
    type=Factor(),
    help="How far apart numbers may be, in parts of the largest. [default: 1e-3, with --f16 2e-2]",
)
@click.option(
    "--page",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the table and a picture of it to this HTML file.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON instead: a list, with an object for each two that are compared."
)
@click.option("--trust", is_flag=True, help="The torch model's file may do what a program may.")
def compare_command(
    model: Path, other: Path | None, devices: str, layers: bool, inputs: tuple[str, ...], method: str, f16: bool, tolerance: float | None,
    page: Path | None, as_json: bool, trust: bool,
) -> int:  # fmt: skip
    """Compare what MODEL, a .pen file, computes on several devices; or, of two files, a .pen file with the torch model it was made of.

    A GPU in software will do for this (Debian: mesa-vulkan-drivers), so a model can be tested without the device it is made for. With
    --layers each kernel's result is compared too: of torch's values, with the one of its shape that it comes nearest to, since operators
    are fused. The exit code is 1 if anything differs.

    \b
    penlight compare mobilenet_v2.pen --devices cpu,vulkan --layers
    penlight compare mobilenet_v2.pt mobilenet_v2.pen --layers --page layers.html
    """
    file, original = (other, model) if other is not None else (model, None)
    if file_kind(file) != "pen":
        raise click.UsageError(
            f"{file}: expected a .pen file, which penlight optimize makes; a torch model comes before it"
        )
    names = [d.strip() for d in (devices or ("cpu" if original else "cpu,vulkan")).split(",") if d.strip()]
    if original is None and len(names) < 2:
        raise click.UsageError(
            "--devices: expected two or more, such as cpu,vulkan; or give the torch model before the .pen file"
        )
    check_output(page, model, other, option="--page")
    limit = TOLERANCES[f16] if tolerance is None else tolerance
    with Stages() as stage:
        stage("reading the model")
        image = np.fromfile(file, np.uint8)
        call = _call(file, method, inputs)
        if (
            layers
            and any(name != "cpu" for name in names)
            and f"{VARIANT}{method}" in [m.name for m in read(file).methods]
        ):
            method = f"{VARIANT}{method}"  # what GPUs run: the CPU computes the same layers then
        found, told = with_layers(image, method) if layers else (image, [])
        runs = {}
        for name in names:
            stage(f"running it on {name}")
            runs[name] = _run(penlight.Model(found, device=name, f16=f16), method, call, told)
        if original is not None:
            stage("running it in torch")
            made = _against_torch(original, method, call, runs, told, limit, trust)
        else:
            first, *rest = names
            made = [Comparison(name, first, limit, _rows(runs[name], runs[first], told, limit)) for name in rest]
    if not all(comparison.rows for comparison in made):
        raise click.ClickException(f"{method} gives no tensor, number or text, so there is nothing to compare")
    if page is not None:
        from penlight.paths import replace_text
        from penlight.tools.compare_page import compare_page

        replace_text(page, compare_page(str(file), made))
    if as_json:
        click.echo(json.dumps([_as_json(c) for c in made], indent=2))
    else:
        for comparison in made:
            _show(file, comparison)
    return int(not all(c.agrees for c in made))


@dataclass(frozen=True)
class Ran:
    outputs: list[tuple[str, np.ndarray]]
    layers: list[np.ndarray]


def _call(file: Path, method: str, inputs: tuple[str, ...]) -> Call:
    if not inputs:
        return example_call(penlight.load(file), method)
    names = read_method(file, method)
    args, kwargs = arguments(names.input_spec, read_arrays(inputs, names.inputs))
    return tuple(args), kwargs


def _run(model: penlight.Model, method: str, call: Call, layers: list[Layer]) -> Ran:
    given = leaves(model.run_method(method, *call[0], **call[1]))
    count = len(given) - len(layers)
    return Ran(given[:count], [array for _, array in given[count:]])


def _rows(got: Ran, expected: Ran, layers: list[Layer], tolerance: float) -> list[Row]:
    rows = [
        Row(layer.key, layer.source, agreement(layer.name, a, b, tolerance))
        for layer, a, b in zip(layers, got.layers, expected.layers, strict=True)
    ]
    if len(got.outputs) != len(expected.outputs):
        raise click.ClickException(f"one device gives {len(got.outputs)} values, the other {len(expected.outputs)}")
    pairs = zip(got.outputs, expected.outputs, strict=True)
    return rows + [Row("output", "", agreement(name, a, b, tolerance)) for (name, a), (_, b) in pairs]


# --- against torch ---
def _against_torch(
    source: Path,
    method: str,
    call: Call,
    runs: dict[str, Ran],
    layers: list[Layer],
    tolerance: float,
    trust: bool,
) -> list[Comparison]:
    from penlight.tools.torch_values import torch_values

    named, values = torch_values(source, method, call, bool(layers), trust)
    made = []
    for device, ran in runs.items():
        rows = []
        for layer, array in zip(layers, ran.layers, strict=True):
            near = _nearest(layer.name, array, values, tolerance)
            rows.append(Row(layer.key, layer.source, near and near[0], near[1] if near else ""))
        if len(named) != len(ran.outputs):
            raise click.ClickException(
                f"{source} gives {len(named)} values, the .pen file {len(ran.outputs)}: not the same model"
            )
        pairs = zip(ran.outputs, named, strict=True)
        rows += [Row("output", "", agreement(name, a, b, tolerance)) for (_, a), (name, b) in pairs]
        made.append(Comparison(device, "torch", tolerance, rows))
    return made


def _nearest(
    name: str, array: np.ndarray, values: list[tuple[str, np.ndarray]], tolerance: float
) -> tuple[Agreement, str] | None:
    """The value of torch that a layer's agrees with best: of its shape, else of its size."""
    alike = [(op, v) for op, v in values if v.shape == array.shape] or [
        (op, v.reshape(array.shape)) for op, v in values if v.size == array.size
    ]
    found = [(agreement(name, array, v, tolerance), op) for op, v in alike]
    return min(found, key=lambda pair: pair[0].relative, default=None)


# --- showing ---
def _show(file: Path, comparison: Comparison) -> None:
    from rich.text import Text

    out = screen()
    wrong = sum(row.found is not None and not row.found.agrees for row in comparison.rows)
    verdict = "agree" if not wrong else f"differ in {wrong} of {len(comparison.rows)} values"
    out.print(
        heading(file, f"{comparison.device} and {comparison.reference} {verdict} (tolerance {comparison.tolerance:g})")
    )
    against = ["against"] if any(row.against for row in comparison.rows) else []
    shown = table(
        "", "value", "kernel", *against, "shape", "difference", "relative", "", right=("difference", "relative")
    )
    for row in comparison.rows:
        if row.found is None:
            shown.add_row("", row.what, *[""] * len(against), "", "", "", "nothing of its size in torch")
            continue
        found = row.found
        mark = Text("ok", "green") if found.agrees else Text("differs", "bold red")
        cells = [row.against] if against else []
        shown.add_row(
            found.name,
            row.what,
            *cells,
            str(list(found.shape)),
            f"{found.difference:.3g}",
            f"{found.relative:.2g}",
            mark,
        )
    out.print(shown)


def _as_json(comparison: Comparison) -> dict[str, Any]:
    def finite(number: float) -> float | None:  # JSON has no infinity: that is null
        return number if math.isfinite(number) else None

    def value(row: Row) -> dict[str, Any]:
        told: dict[str, Any] = {"kernel": row.what, "source": row.source, "against": row.against}
        if row.found is not None:
            told |= {"name": row.found.name, "shape": row.found.shape, "difference": finite(row.found.difference),
                     "relative": finite(row.found.relative), "agrees": row.found.agrees}  # fmt: skip
        return told

    return {
        "device": comparison.device, "reference": comparison.reference, "tolerance": comparison.tolerance,
        "agrees": comparison.agrees, "values": [value(row) for row in comparison.rows],
    }  # fmt: skip
