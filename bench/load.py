"""Time from open to the end of the first run and peak memory of a plain C program, for some models (`./dev load`).

Compiles bench/load.c against the static library, writes each model to a temporary .pen file and runs the program on it.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

import penlight
from tests import models

ROOT = Path(__file__).resolve().parents[1]


def build_program(folder: Path) -> Path:
    program = folder / "load"
    library = ROOT / "build/release/libpenlight.a"
    include = ROOT / "penlight/runtime/include"
    subprocess.run(
        ["cc", "-O2", f"-I{include}", str(ROOT / "bench/load.c"), str(library), "-lm", "-lpthread", "-o", str(program)],
        check=True,
    )
    return program


def measure(program: Path, file: Path, threads: int, rounds: int) -> list[float]:
    """Best times and smallest peak of several processes."""
    runs = []
    for _ in range(rounds):
        out = subprocess.run([str(program), str(file), str(threads)], check=True, capture_output=True, text=True).stdout
        runs.append([float(x) for x in out.split()])
    return [min(column) for column in zip(*runs, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="mobilenet_v2,resnet50", help="comma-separated names of tests/models.py")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    table = Table(title=f"load and first run, C program, {options.threads} thread(s), batch 1")
    for column in (
        "model",
        "file MB",
        "open ms",
        "to end of first run ms",
        "warm run ms",
        "peak RSS MB",
        "arena MB",
        "RSS - file - arena MB",
    ):
        table.add_column(column, justify="left" if column == "model" else "right")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        program = build_program(folder)
        for name in options.models.split(","):
            file = folder / f"{name}.pen"
            size = penlight.optimize(models.build(name), models.example(name)).save(file)
            opened, first, warm, peak, arena = measure(program, file, options.threads, options.rounds)
            megabytes = [size / 1e6, peak * 1024 / 1e6, arena / 1e6]
            rest = megabytes[1] - megabytes[0] - megabytes[2]
            table.add_row(
                name,
                f"{megabytes[0]:.1f}",
                f"{opened:.2f}",
                f"{first:.2f}",
                f"{warm:.2f}",
                *(f"{x:.1f}" for x in [*megabytes[1:], rest]),
            )
    Console().print(table)


if __name__ == "__main__":
    main()
