"""Options that several commands share: input shapes as text, what a new file says of its model, and preprocessing field by field."""

from __future__ import annotations

import ast
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from penlight import limits
from penlight.ir.types import DTYPES, itemsize
from penlight.paths import check_path
from penlight.preprocess import COLORS, IMAGENET, INTERPOLATIONS, LAYOUTS, Preprocessing


@dataclass(frozen=True)
class Shape:
    """`--shape ids=1,128:i64`: an input's name ("": by position), dims and dtype ("": f32, or what the model says)."""

    name: str
    dims: tuple[int, ...]
    dtype: str


class ShapeType(click.ParamType[Shape]):
    name = "shape"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Shape:
        if isinstance(value, Shape):
            return value
        name, _, rest = value.rpartition("=")
        sizes, _, dtype = rest.partition(":")
        try:
            dims = tuple(int(part) for part in sizes.split(",")) if sizes.strip() else ()
        except ValueError:
            self.fail(f"{value!r}: expected sizes between commas, such as 1,3,224,224 or x=1,3,224,224", param, ctx)
        if any(d < 0 for d in dims):
            self.fail(f"{value!r}: a size cannot be below 0", param, ctx)
        if dtype and dtype not in DTYPES:
            self.fail(f"{value!r}: no dtype {dtype!r}; there are {', '.join(DTYPES)}", param, ctx)
        memory = limits.machine_memory() or 1 << 48
        if math.prod(dims) * itemsize(dtype or "f32") > memory:
            self.fail(f"{value!r}: an input larger than this machine's memory, {memory >> 30} GB", param, ctx)
        return Shape(name.strip(), dims, dtype)


class Factor(click.FloatRange):
    """A number from 0 on. Not nan, which passes every comparison with a limit, and fails none."""

    def __init__(self, min_open: bool = False) -> None:
        super().__init__(min=0, min_open=min_open)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value!r}: expected a number", param, ctx)
        return number


def reading_options(command: Any) -> Any:
    """--trust and --read-budget, of commands that compile a model file."""
    command = click.option(
        "--read-budget", type=Factor(min_open=True), default=1.0, show_default=True, metavar="FACTOR",
        help="How much work the file may cause while it is read, in multiples of what its size allows.",
    )(command)  # fmt: skip
    return click.option(
        "--trust", is_flag=True, help="The file may do what a program may. Give it only to files whose origin you know."
    )(command)


def check_output(path: Path | None, *kept: Path | None, option: str = "-o") -> None:
    """Before minutes of work: a file can be written there, and none of these is lost by it."""
    if path is None:
        return
    check_path(path)
    if path.is_dir():
        raise click.UsageError(f"{path} is a folder; name a file with {option}")
    if not Path(os.path.realpath(path)).parent.is_dir():
        raise click.UsageError(f"there is no folder {path.parent}")
    for other in kept:
        if other is not None and os.path.realpath(path) == os.path.realpath(other):
            raise click.UsageError(f"the output would overwrite {other}; name another with {option}")


@dataclass(frozen=True)
class Argument:
    """`--arg sr=16000`: an argument of a script that is no tensor."""

    name: str
    text: str

    def value(self, declared: str = "") -> Any:
        """As its declared type asks ("int", "Optional[str]"); without one, as Python would write it, else text."""
        kind = declared.removeprefix("Optional[").removesuffix("]")
        if kind == "str":
            return self.text
        try:
            if kind == "float":
                return float(self.text)
            found = ast.literal_eval({"true": "True", "false": "False", "none": "None"}.get(self.text, self.text))
        except (ValueError, SyntaxError):
            found = self.text
        if kind in ("int", "bool") and type(found).__name__ != kind and not (declared != kind and found is None):
            raise click.UsageError(
                f"--arg {self.name}: expected {'an int' if kind == 'int' else 'true or false'}, got {self.text!r}"
            )
        return found


class ArgumentType(click.ParamType[Argument]):
    name = "argument"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Argument:
        if isinstance(value, Argument):
            return value
        name, equals, text = value.partition("=")
        if not equals or not name.strip().isidentifier():
            self.fail(f"{value!r}: expected NAME=VALUE, such as sr=16000", param, ctx)
        return Argument(name.strip(), text)


def device_options(command: Any) -> Any:
    """Where a model runs: penlight.load's device and f16."""
    half = click.option("--f16", is_flag=True, help="On a GPU: values stored as f16, sums as f32.")
    where = click.option(
        "--device",
        default="cpu",
        show_default=True,
        help="What to run on: cpu, vulkan, vulkan:1, vulkan:part of a name.",
    )
    return where(half(command))


argument_option = click.option(
    "--arg", "given", type=ArgumentType(), multiple=True, metavar="NAME=VALUE",
    help="An argument that is no tensor: an int, a float, true or false, a string; once per argument.",
)  # fmt: skip


class NumbersType(click.ParamType[tuple[float, ...]]):
    """One number, or one per channel: 0.5 or 0.485,0.456,0.406."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        if isinstance(value, tuple):
            return value
        try:
            return tuple(float(part) for part in value.split(","))
        except ValueError:
            self.fail(f"{value!r}: expected a number, or one per channel between commas", param, ctx)


class SizeType(click.ParamType[Any]):
    """224, or height,width."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            sizes = [int(part) for part in value.split(",")]
        except ValueError:
            sizes = []
        if not 1 <= len(sizes) <= 2:
            self.fail(f"{value!r}: expected a size such as 224, or height,width", param, ctx)
        return sizes[0] if len(sizes) == 1 else tuple(sizes)


_PREPROCESSING = (
    click.option(
        "--imagenet",
        is_flag=True,
        help="Preprocessing of torchvision's ImageNet models: 256, crop 224, its mean and std.",
    ),
    click.option("--resize", type=SizeType(), help="Resize the shorter side to this, or to exactly height,width."),
    click.option("--crop", type=SizeType(), help="Then cut this size from the centre."),
    click.option("--interpolation", type=click.Choice(INTERPOLATIONS), help="How to resize. [default: bilinear]"),
    click.option("--scale", type=float, help="Pixels (0 to 255) are multiplied by this first. [default: 1/255]"),
    click.option("--mean", type=NumbersType(), help="Then this is subtracted; one number, or one per channel."),
    click.option("--std", type=NumbersType(), help="Then it is divided by this; one number, or one per channel."),
    click.option("--color", type=click.Choice(list(COLORS)), help="Order of the channels. [default: RGB]"),
    click.option("--layout", type=click.Choice(LAYOUTS), help="Order of the dims. [default: NCHW]"),
)


_DESCRIPTION = (
    click.option("--name", help="The model's name, for its metadata."),
    click.option(
        "--labels",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Class names: one a line, or a JSON list.",
    ),
    click.option(
        "--metadata",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="JSON object to put into the file.",
    ),
)


def description_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of what a new file says of its model: name, labels, metadata."""
    for option in reversed(_DESCRIPTION):
        command = option(command)
    return command


def preprocessing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options; the command gets them by name and gives them to `preprocessing`."""
    for option in reversed(_PREPROCESSING):
        command = option(command)
    return command


def preprocessing(options: Mapping[str, Any], otherwise: Mapping[str, Any] | None = None) -> Preprocessing | None:
    """What the options ask for, on top of --imagenet or of a file's metadata; None where nothing is asked for."""
    given = {k: v for k, v in options.items() if k in Preprocessing.__dataclass_fields__ and v is not None}
    base: Mapping[str, Any] = IMAGENET.to_metadata() if options.get("imagenet") else otherwise or {}
    if not base and not given:
        return None
    if not isinstance(base, Mapping):
        return Preprocessing.from_metadata(base)  # which says what is wrong with it
    return Preprocessing.from_metadata({**base, **given})
