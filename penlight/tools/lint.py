"""`penlight lint`: what should be mended in a model before it goes to a phone."""

from __future__ import annotations

import json
from pathlib import Path

import click

from penlight.tools.screen import heading, screen

SOURCES_SHOWN = 4
STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


@click.command("lint")
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--backend", "backends", type=click.Choice(["cpu", "vulkan", "metal"], case_sensitive=False), multiple=True, default=("cpu",),
    show_default=True, help="Where it is to run; several may be given.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
@click.option("--strict", is_flag=True, help="Warnings are errors.")
def lint_command(model: Path, backends: tuple[str, ...], as_json: bool, strict: bool) -> int:
    """Look for what should be mended in MODEL: TorchScript (.pt), .ptl or .pen.

    Unsupported operators for each backend, control flow that cannot be planned, missing bundled inputs, training leftovers, f64
    weights, inputs that are written into: each with its source line and what to do. The exit code is 1 if there are errors.
    """
    from rich.text import Text

    from penlight.lint.lints import lint_file

    lints = lint_file(model, [b.lower() for b in backends])
    failed = any(lint.level == "error" or (strict and lint.level == "warning") for lint in lints)
    if as_json:
        click.echo(
            json.dumps(
                {"file": str(model), "backends": list(backends), "lints": [lint.to_json() for lint in lints]}, indent=2
            )
        )
        return int(failed)
    out = screen()
    counts = [
        f"{n} {level}{'' if n == 1 else 's'}" for level in STYLES if (n := sum(lint.level == level for lint in lints))
    ]
    out.print(heading(model, ", ".join(counts) or "nothing to mend"))
    for lint in lints:
        times = f"  ×{lint.count}" if lint.count > 1 else ""
        out.print(
            Text.assemble((f"{lint.level} ", STYLES[lint.level]), (lint.code, "bold"), f"  {lint.message}{times}")
        )
        for source in lint.sources[:SOURCES_SHOWN]:
            out.print(f"    {source}")
        if len(lint.sources) > SOURCES_SHOWN:
            out.print(f"    … and {len(lint.sources) - SOURCES_SHOWN} more lines")
        out.print(f"    → {lint.fix}")
    return int(failed)
