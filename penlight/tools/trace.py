"""`penlight trace`: runs models on their bundled inputs and writes down what of a library they used."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import click

from penlight.tools.screen import Stages, heading, screen

NAMES_SHOWN = 24


@click.command("trace")
@click.argument("models", type=click.Path(exists=True, dir_okay=False, path_type=Path), nargs=-1, required=True)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), default=Path("ops.yaml"), show_default=True,
    help="YAML file to write, for penlight build --ops.",
)  # fmt: skip
@click.option("--static", is_flag=True, help="Without running: all that the files may ask for on any input.")
def trace_command(models: tuple[Path, ...], output: Path, static: bool) -> None:
    """Run MODELS (.pen, .ptl, .pt, .pt2) on their bundled inputs and write which kernels and operators they used.

    Every bundled input of every method is run, on each way that a device may take: inputs row-major and channels-last, planned parts of
    interpreted code by their plan and interpreted. What the files name is always kept. What they might ask for on other inputs, and
    did not on these, is listed and left out. PyTorch's own build tools read the file too.

    \b
    penlight trace mobilenet_v2.pen keyboard.ptl -o ops.yaml
    """
    from penlight.build.trace import trace_model
    from penlight.build.yaml_file import write_yaml

    if not output.parent.is_dir():
        raise click.UsageError(f"there is no folder {output.parent}")
    if os.path.realpath(output) in map(os.path.realpath, models):
        raise click.UsageError("the output would overwrite a model; name another with -o")
    out = screen()
    traces = []
    with Stages() as stage:
        for model in models:
            stage(f"{'reading' if static else 'running'} {model}")
            traces.append(trace_model(model, static))
    whole = traces[0]
    for trace in traces[1:]:
        whole |= trace
    write_yaml(output, whole)
    for model, trace in zip(models, traces, strict=True):
        ran = ", ".join(f"{n} bundled input{'s' if n > 1 else ''} of {method}" for method, n in trace.inputs)
        out.print(f"  {model}: {ran or 'not run'}")
        if trace.not_run:
            out.print(f"    without bundled inputs, so that what they use is not known: {', '.join(trace.not_run)}")
    kernels, vm = len(whole.chosen.keys or ()), whole.chosen.operators or ()
    out.print(
        heading(output, f"{kernels} kernels, {f'the VM with {len(vm)} operators' if whole.chosen.vm else 'no VM'}")
    )
    if not static:
        _tell_unused(sorted(whole.unused), kernels)


def _tell_unused(unused: list[str], kept: int) -> None:
    out = screen()
    if not unused:
        out.print("  as many as the files may ask for on any input")
        return
    out.print(
        f"  Left out: {len(unused)} of {kept + len(unused)} kernels, which other inputs might ask for (--static keeps them):"
    )
    found = Counter(key.partition(".")[0] for key in unused)
    names = [f"{name} ×{count}" if count > 1 else name for name, count in found.most_common()]
    more = f" … and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    out.print(f"    {', '.join(names[:NAMES_SHOWN])}{more}")
