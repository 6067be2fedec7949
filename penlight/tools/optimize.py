"""`penlight optimize`: a TorchScript or exported model becomes a .pen file, with what it should say of itself."""

from __future__ import annotations

import contextlib
import io
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

import penlight
from penlight.budget import reading
from penlight.file_kinds import file_kind
from penlight.paths import text_of
from penlight.tools.inspect import interpreted, named_outputs
from penlight.tools.options import (
    Argument,
    Factor,
    Shape,
    ShapeType,
    argument_option,
    check_output,
    description_options,
    preprocessing,
    preprocessing_options,
    reading_options,
)
from penlight.tools.screen import Stages, heading, in_bytes, in_seconds, screen


@click.command("optimize")
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write. [default: MODEL with .pen]"
)
@click.option(
    "--shape", "shapes", type=ShapeType(), multiple=True, metavar="[NAME=]DIMS[:DTYPE]",
    help="An example input, such as 1,3,224,224 or ids=1,128:i64; once per input. Not needed if the model carries its own.",
)  # fmt: skip
@argument_option
@click.option(
    "--dynamic", is_flag=True, help="Every size above 1 of every input may vary, unless the model's code fixes it."
)
@click.option(
    "--winograd-budget", type=Factor(), default=0.5, show_default=True, metavar="FRACTION",
    help="By how much the file may grow so that 3x3 convolutions run faster; 1 allows twice the size, 0 nothing.",
)  # fmt: skip
@click.option(
    "--weights", type=click.Choice(["i8", "f16"]),
    help="Store weights in a half (f16) or a quarter (i8, with products in integers) of their size, without Winograd.",
)  # fmt: skip
@click.option(
    "--backend", "backends", type=click.Choice(["cpu", "vulkan"]), multiple=True, default=("cpu",), show_default=True,
    help="What it will run on; given twice, the file is at its best on both.",
)  # fmt: skip
@click.option(
    "--fallback", type=click.Choice(["cpu"]), help="Where operators run that the GPU lacks; else they are an error."
)
@click.option(
    "--method", "methods", multiple=True, metavar="NAME",
    help="A method of TorchScript to keep besides forward; may be given again. [default of a .ptl: all]",
)  # fmt: skip
@description_options
@preprocessing_options
@reading_options
def optimize_command(
    model: Path, output: Path | None, shapes: tuple[Shape, ...], dynamic: bool, winograd_budget: float, weights: str | None, name: str | None,
    labels: Path | None, metadata: Path | None, methods: tuple[str, ...], backends: tuple[str, ...], fallback: str | None, given: tuple[Argument, ...], trust: bool,
    read_budget: float, **options: Any,
) -> None:  # fmt: skip
    """Turn MODEL into a .pen file.

    MODEL is TorchScript (torch.jit.save), a .ptl file of PyTorch Mobile, or an exported program (torch.export.save). An
    nn.Module that is still Python code goes through penlight.optimize(module, example_inputs).save(path).

    \b
    penlight optimize mobilenet_v2.pt --shape 1,3,224,224 --imagenet --labels imagenet.txt
    penlight optimize mobilenet_v2.pt --shape 1,3,224,224 --backend cpu --backend vulkan
    """
    start = time.perf_counter()
    told = described(metadata, name or model.stem, labels, preprocessing(options))
    target = output or model.with_suffix(".pen")
    check_output(target, model, labels, metadata)
    with Stages() as stage:
        stage("starting PyTorch")
        with contextlib.suppress(ImportError):  # a .ptl does without it
            import torch  # noqa: F401 (seconds, which would else count as capturing)

        compiled = optimize_file(
            model, shapes, stage, given, dynamic_shapes="auto" if dynamic else None, metadata=told,
            winograd_budget=winograd_budget, weights=weights, methods=methods, backend=backends, fallback=fallback,
            trust=trust, read_budget=read_budget,
        )  # fmt: skip
        stage("saving")
        size = compiled.save(target)
    _summary(target, size, time.perf_counter() - start)


def optimize_file(
    model: Path, shapes: tuple[Shape, ...], stage: Stages, given: tuple[Argument, ...] = (), **options: Any
) -> penlight.Model:
    """penlight.optimize with examples of these shapes, and these arguments that are no tensors."""
    methods = options.pop("methods", ())
    with reading(options.get("read_budget", 1.0)):
        types = declared_types(model) if given else {}
    args, kwargs = _examples(shapes, {a.name: a.value(types.get(a.name, "")) for a in given})
    return penlight.optimize(str(model), args, kwargs=kwargs, progress=stage, methods=list(methods) or None, **options)


def _summary(target: Path, size: int, seconds: float) -> None:
    from penlight.file.reader import read

    pen, out = read(target), screen()
    out.print(heading(target, f"{in_bytes(size)}, {len(pen.nodes)} kernel calls, {in_seconds(seconds)}"))
    for name, told in interpreted(pen).get("methods", {}).items():
        parts = sum(method.name.startswith(f"~{name}.") for method in pen.methods)
        out.print(f"  {told['schema']}   interpreted{f', {parts} parts planned' if parts else ''}")
    for method in (m for m in pen.methods if not m.name.startswith("~")):
        prefix = "" if len(pen.methods) == 1 else f"{method.name}: "
        out.print(f"  {prefix}in   {', '.join(map(str, method.inputs))}")
        out.print(f"  {prefix}out  {', '.join(map(str, named_outputs(method)))}")


def declared_types(model: Path) -> dict[str, str]:
    """Of the arguments of forward, where a file has its code: a text may look like a number."""
    from penlight.capture.lite.program import LiteProgram
    from penlight.capture.lite.registers import to_script
    from penlight.compile import open_source

    if file_kind(model) not in ("torchscript", "zip", "flatbuffer"):
        return {}
    opened = open_source(model)
    forward = (to_script(opened) if isinstance(opened, LiteProgram) else opened.script()).method("forward")
    return {p["name"]: p["type"] for p in forward.parameters} if forward is not None else {}


def _examples(
    shapes: tuple[Shape, ...], given: Mapping[str, Any]
) -> tuple[tuple[Any, ...] | None, dict[str, Any] | None]:
    """Positional and named example inputs: noise for floats, zeros for all else (they may be indices)."""
    import torch

    from penlight.ir.types import DTYPES

    def tensor(shape: Shape) -> Any:
        name = {"": "float32", "bf16": "bfloat16"}.get(shape.dtype) or DTYPES[shape.dtype][1]
        dtype = getattr(torch, name)
        return torch.rand(shape.dims).to(dtype) if dtype.is_floating_point else torch.zeros(shape.dims, dtype=dtype)

    named = {s.name: tensor(s) for s in shapes if s.name}
    if len(named) != sum(1 for s in shapes if s.name):
        raise click.UsageError("--shape: the same input twice")
    named.update(given)
    positional = tuple(tensor(s) for s in shapes if not s.name)
    return positional if positional or named else None, named or None


def described(file: Path | None, name: str, labels: Path | None, steps: Any) -> dict[str, Any]:
    """The metadata that a command's options ask for."""
    told: dict[str, Any] = {"name": name}
    if file is not None:
        told.update(_json(file, dict))
    if labels is not None:
        told["labels"] = _labels(labels)
    if steps is not None:
        told["preprocessing"] = steps.to_metadata()
    return told


def _labels(path: Path) -> list[str]:
    if path.suffix == ".json":
        return [str(label) for label in _json(path, list)]
    try:
        # Not by splitlines, to which an odd letter is an end too: all labels behind it would be another's.
        return [line.rstrip("\n") for line in io.StringIO(text_of(path), newline=None)]
    except ValueError as e:
        raise click.UsageError(f"{path}: not a text file in UTF-8 ({e})") from None


def _json(path: Path, kind: type) -> Any:
    try:
        found = json.loads(text_of(path))
    except (ValueError, RecursionError) as e:
        raise click.UsageError(f"{path}: not JSON ({e})") from None
    if not isinstance(found, kind):
        raise click.UsageError(
            f"{path}: expected a JSON {'object' if kind is dict else 'list'}, got {type(found).__name__}"
        )
    return found
