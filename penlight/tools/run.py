"""`penlight run`: images through a model, labels and probabilities out; or any arrays in, any arrays out."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

import penlight
from penlight.file.contents import Port
from penlight.preprocess import Preprocessing
from penlight.tools.arrays import free_name, load_arrays, save_arrays
from penlight.tools.options import (
    Argument,
    argument_option,
    check_output,
    device_options,
    preprocessing,
    preprocessing_options,
)
from penlight.tools.screen import heading, in_seconds, screen, table


@click.command("run")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("images", nargs=-1, type=click.Path(path_type=Path), metavar="[IMAGE]…")
@click.option("--top", default=5, show_default=True, type=click.IntRange(1), help="How many labels to show.")
@click.option("--threads", type=click.IntRange(1), help="Threads to use. [default: one per core]")
@click.option(
    "--input", "inputs", multiple=True, metavar="[NAME=]FILE.npy", help="An array for an input; once per input."
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Save the outputs: .npy (one), or .npz (any number).",
)
@click.option("--method", default="forward", show_default=True, help="Which method to run.")
@argument_option
@device_options
@preprocessing_options
def run_command(
    file: Path, images: tuple[Path, ...], top: int, threads: int | None, inputs: tuple[str, ...], output: Path | None, method: str,
    given: tuple[Argument, ...], device: str, f16: bool, **options: Any,
) -> None:  # fmt: skip
    """Run the model in FILE on images, or on arrays.

    Images go through the preprocessing that the file's metadata gives; options below override it.

    \b
    penlight run mobilenet_v2.pen photo.jpg
    penlight run encoder.pen --input ids=ids.npy --input mask=mask.npy --output hidden.npy
    penlight run speech.pen --input wave.npy --arg sr=16000
    """
    if bool(images) == bool(inputs):
        raise click.UsageError("give images, or arrays with --input; one of the two")
    if output is not None and len(images) > 1:
        raise click.UsageError("--output saves one run: give one image")
    if output is not None and output.suffix not in (".npy", ".npz"):
        raise click.UsageError(f"--output: expected a name that ends in .npy or .npz, got {output.name}")
    check_output(output, file, *images, *(Path(text.rpartition("=")[2]) for text in inputs), option="--output")
    model = penlight.load(file, threads=threads, device=device, f16=f16)
    metadata = model.metadata
    names = read_method(file, method, given)
    if inputs:
        runs = [("", read_arrays(inputs, names.inputs))]
    else:
        steps = preprocessing(options, metadata.get("preprocessing"))
        if steps is None:
            raise click.UsageError(
                f"{file} does not say how images are prepared for it. Say it here (--imagenet, or --resize, --crop, --mean, --std),"
                " or once and for all with penlight optimize"
            )
        runs = [(str(image), _image_input(steps, image, names.inputs)) for image in images]
    labels = metadata.get("labels")
    scores = str(metadata.get("scores", ""))
    for label, leaves in runs:
        args, kwargs = arguments(names.input_spec, leaves)
        start = time.perf_counter()
        outputs = named_arrays(model.run_method(method, *args, **kwargs))
        seconds = time.perf_counter() - start
        _show(label, outputs, labels if isinstance(labels, list) else [], scores, top, seconds)
        if output is not None:
            _save(output, outputs)


@dataclass(frozen=True)
class Interpreted:
    """A method of VM code, as far as it is like a planned one: its tensors are taken for f32 of any size."""

    inputs: tuple[Port, ...]
    input_spec: dict[str, Any]


def read_method(file: Path, name: str, given: tuple[Argument, ...] = ()) -> Any:
    """A method, with these arguments in its input_spec as if it had been captured with them."""
    from penlight.file.reader import read

    pen = read(file)
    for function in pen.functions:
        if function.method == name:
            return _interpreted(function, {a.name: a for a in given})
    try:
        method = pen.method(name)
    except KeyError as e:
        raise click.UsageError(e.args[0]) from None
    if given:
        raise click.UsageError(
            f"--arg {given[0].name}: {name} is one plan, made for the arguments it was compiled with; only its tensors are given"
        )
    return method


def _interpreted(function: Any, given: dict[str, Argument]) -> Interpreted:
    parameters = function.schema["arguments"][1:]
    unknown = [n for n in given if n not in [p["name"] for p in parameters]]
    if unknown:
        takes = ", ".join(f"{p['name']}: {p['type']}" for p in parameters)
        raise click.UsageError(f"--arg {unknown[0]}: no such argument; {function.method} takes ({takes})")
    kwargs: dict[str, Any] = {}
    ports: list[Port] = []
    for p in parameters:
        if p["name"] in given:
            value = given[p["name"]].value(p["type"])
            kwargs[p["name"]] = {"none": None} if value is None else {"const": value}
        elif p["type"] not in ("int", "float", "bool", "str"):
            kwargs[p["name"]] = len(ports)
            ports.append(Port(p["name"], "f32", ()))
        elif p["name"] in function.parameters[: len(function.parameters) - len(function.defaults)]:
            raise click.UsageError(f"argument {p['name']} ({p['type']}) is missing: --arg {p['name']}=…")
    return Interpreted(tuple(ports), {"args": [], "names": [], "kwargs": kwargs})


def _image_input(steps: Preprocessing, image: Path, inputs: tuple[Any, ...]) -> list[np.ndarray]:
    if len(inputs) != 1:
        raise click.UsageError(f"the model takes {len(inputs)} inputs, not one image: use --input for each")
    from penlight.ir.types import numpy_dtype

    return [steps(image).astype(numpy_dtype(inputs[0].dtype), copy=False)]


def read_arrays(given: tuple[str, ...], inputs: tuple[Any, ...]) -> list[np.ndarray]:
    """The arrays in the order of the model's inputs; those without a name take the places that are left."""
    named: dict[str, np.ndarray] = {}
    rest: list[np.ndarray] = []
    known = [port.name for port in inputs]
    for text in given:
        name, _, path = text.rpartition("=")
        if name and name not in known:
            raise click.UsageError(f"--input: no input {name!r}; the model takes {', '.join(map(str, inputs))}")
        if name in named:
            raise click.UsageError(f"--input: {name!r} twice")
        array = load_arrays(path)
        if not isinstance(array, np.ndarray):
            raise click.UsageError(f"--input: {path} holds several arrays; save each as .npy")
        if name:
            named[name] = array
        else:
            rest.append(array)
    free = [n for n in known if n not in named]
    if len(free) != len(rest):
        raise click.UsageError(f"--input: got {len(given)} arrays; the model takes {', '.join(map(str, inputs))}")
    named.update(zip(free, rest, strict=True))
    return [named[n] for n in known]


def arguments(spec: Any, leaves: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Flat inputs in the containers that the model takes."""
    from penlight.ir.containers import unflatten

    args = [unflatten(part, leaves) for part in spec["args"]]
    return args, {name: unflatten(part, leaves) for name, part in spec["kwargs"].items()}


def named_arrays(result: Any) -> dict[str, np.ndarray]:
    """Every array in a result, under a name that says where it stands in it."""
    found: dict[str, np.ndarray] = {}

    def walk(value: Any, name: str) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                walk(item, f"{name}.{key}" if name else str(key))
        elif isinstance(value, (list, tuple)):
            for i, item in enumerate(value):
                walk(item, f"{name}[{i}]" if name else f"output{i}")
        elif isinstance(value, np.ndarray):
            found[free_name(name or "output", found)] = value

    walk(result, "")
    return found


def _show(label: str, outputs: dict[str, np.ndarray], labels: list[str], scores: str, top: int, seconds: float) -> None:
    out = screen()
    classes = next(
        (y for y in outputs.values() if y.dtype.kind == "f" and y.ndim in (1, 2) and 2 <= y.size == y.shape[-1]), None
    )
    if label and classes is not None:
        out.print(heading(label, in_seconds(seconds)))
        for i, p in top_labels(probabilities(classes.reshape(-1), scores), top):
            out.print(f"  {p:7.2%}  {labels[i] if i < len(labels) else f'class {i}'}")
        return
    shown = table("", "output", "dtype", "shape", "least", "mean", "greatest", right=("least", "mean", "greatest"))
    for name, y in outputs.items():
        numbers = [f"{f(y):.6g}" if y.size else "" for f in (np.min, np.mean, np.max)]
        shown.add_row(name, str(y.dtype), str(list(y.shape)), *numbers)
    out.print(heading(label or "outputs", in_seconds(seconds)))
    out.print(shown)


def probabilities(y: np.ndarray, scores: str = "") -> np.ndarray:
    """Softmax of logits. `scores` ("logits", "probabilities") is what the metadata says; else numbers that are already
    a distribution stay as they are."""
    y = y.astype(np.float64)
    if scores == "probabilities" or (not scores and y.min() >= 0 and abs(y.sum() - 1) < 1e-3):
        return y
    e = np.exp(y - y.max())
    result: np.ndarray = e / e.sum()
    return result


def top_labels(p: np.ndarray, count: int) -> list[tuple[int, float]]:
    """The `count` greatest, as (index, value), greatest first; of equal ones the first."""
    order = np.argsort(-p, kind="stable")[:count]
    return [(int(i), float(p[i])) for i in order]


def _save(path: Path, outputs: dict[str, np.ndarray]) -> None:
    if path.suffix != ".npz" and len(outputs) != 1:
        raise click.UsageError(
            f"--output: the model gives {len(outputs)} arrays ({', '.join(outputs)}): use a name that ends in .npz"
        )
    save_arrays(path, outputs)
