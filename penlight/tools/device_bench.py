"""`penlight bench --adb`: a model timed on a connected phone by speed_benchmark_torch, told as `penlight bench` tells what it timed here.

Program and model go to a folder that every app-less user may write, and are removed afterwards (`--keep` leaves them there; a model that
is there already, by its hash, is not copied again). The program's JSON comes back.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np

from penlight.build.benchmark import benchmark_binary
from penlight.model import step_time
from penlight.tools.adb import Device, check_binary, find_device
from penlight.tools.screen import Stages, in_bytes
from penlight.vm_module import PlannedPart

FOLDER = "/data/local/tmp/penlight"
PROGRAM, MODEL, RESULT = (f"{FOLDER}/{name}" for name in ("speed_benchmark_torch", "model.pen", "result.json"))


def run_flags(method: str, isa: str | None, profile: bool, runs: int | None, seconds: float) -> list[str]:
    """One run beforehand, as `measure` does, which plans and is not counted."""
    flags = ["--method", method, "--warmup", "1", *(["--isa", isa] if isa else []), *(["--profile"] if profile else [])]
    return flags + (["--iter", str(runs)] if runs else ["--seconds", str(seconds or 1e-9)])


def input_flags(ports: Sequence[Any], leaves: Sequence[Any], planned: bool, channels_last: bool) -> list[str]:
    """What tells the program the sizes and dtypes of these arrays. What a planned method fixes itself is left to it: also inputs of
    rank 0, which have no sizes to name."""
    flags = []
    shapes = [np.shape(x) for x in leaves]
    if not planned or shapes != [tuple(port.shape) for port in ports]:
        if not all(shapes):
            raise click.UsageError(
                "--adb: an input without dims beside one whose sizes are free cannot be told to the program"
            )
        flags += ["--input_dims", ";".join(",".join(map(str, shape)) for shape in shapes)]
    if not planned:
        from penlight.ir.types import dtype_of

        flags += ["--input_type", ";".join(dtype_of(x) for x in leaves)]
    if channels_last:
        formats = ("channels_last" if len(shape) == 4 else "contiguous_format" for shape in shapes)
        flags += ["--input_memory_format", ";".join(formats)]
    return flags


def bench_on_device(
    file: Path, flags: Sequence[str], threads: Sequence[int] | None, unplanned: Sequence[Any], serial: str | None, binary: Path | None,
    keep: bool, stage: Stages,
) -> tuple[str, dict[int, dict[str, Any]]]:  # fmt: skip
    """The device in words, and for each number of threads what `penlight.tools.bench.measure` would give."""
    device = find_device(serial)
    abi = device.abi
    if not abi:
        raise click.ClickException(
            f"device {device.serial} does not say which processor it has (getprop ro.product.cpu.abi)"
        )
    if binary is None:
        stage(f"compiling the benchmark program for {abi} (the first time: minutes)")
        binary = benchmark_binary(abi, stage.step)
    check_binary(binary, abi)
    results = {}
    with _placed(device, binary, file, keep, stage):
        for count in threads or dict.fromkeys((1, device.cores)):
            stage(f"timing with {count} thread{'' if count == 1 else 's'} on {device.serial}")
            found = _run(device, [*flags, "--threads", str(count)])
            try:
                results[count] = _measured(found, unplanned)
            except KeyError as e:
                raise click.ClickException(f"{binary} is of another version: its result has no {e}, or an operator of that name is unknown here") from None  # fmt: skip
        return device.description, results


@contextmanager
def _placed(device: Device, binary: Path, file: Path, keep: bool, stage: Stages) -> Iterator[None]:
    code, text = device.shell(f"mkdir -p {FOLDER}")
    if code:
        raise click.ClickException(f"device {device.serial}: no folder {FOLDER} can be made: {text.strip()}")
    try:
        stage(f"copying {in_bytes(file.stat().st_size)} to {device.serial}")
        device.push(binary, PROGRAM)
        device.push(file, MODEL)
        code, text = device.shell(f"chmod 755 {PROGRAM}")
        if code:
            raise click.ClickException(f"device {device.serial}: {PROGRAM} cannot be made executable: {text.strip()}")
        yield
    except BaseException:
        _clean(device, keep, after_error=True)
        raise
    _clean(device, keep)


def _clean(device: Device, keep: bool, after_error: bool = False) -> None:
    """After an error that one is told, whatever comes of this: the device may be gone."""
    try:
        code, text = device.shell(f"rm -f {RESULT}" if keep else f"rm -rf {FOLDER}")
    except click.ClickException:
        if not after_error:
            raise
        return
    if code and not after_error:
        raise click.ClickException(f"device {device.serial}: {FOLDER} cannot be removed: {text.strip()}")


def _run(device: Device, flags: Sequence[str]) -> dict[str, Any]:
    words = [PROGRAM, "--model", MODEL, "--json", RESULT, *flags]
    code, text = device.shell(shlex.join(words), timeout=None)
    if code:
        crashed = f"; it was ended by signal {code - 128}" if code > 128 else ""
        said = [line for line in text.splitlines() if line.strip()]
        raise click.ClickException(
            f"the program failed on {device.serial} (exit code {code}{crashed}): {' '.join(said[-2:])}"
        )
    code, text = device.shell(f"cat {RESULT}")
    try:
        found = json.loads(text) if code == 0 else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise click.ClickException(
            f"the program on {device.serial} left no result that can be read: {text.strip()[:200]}"
        )
    return found


def _measured(found: dict[str, Any], unplanned: Sequence[Any]) -> dict[str, Any]:
    """The program's JSON under the names of `measure`."""
    steps = [
        step_time(s["seconds"], s["key"], s["output"], s["source"], _operands(s["inputs"]), _operands(s["outputs"]))
        for s in found["steps"]
    ]
    return {
        "isa": found["isa"],
        "best_s": found["min_s"],
        "median_s": found["p50_s"],
        "p90_s": found["p90_s"],
        "p99_s": found["p99_s"],
        "runs": found["runs"],
        "first_s": found["load_s"] + found["first_run_s"],
        "arena_bytes": found["arena_bytes"],
        "peak_bytes": found["peak_bytes"],
        "multiply_adds": sum(step.multiply_adds for step in steps),
        "steps": steps if found["profiled_runs"] else [],
        "planned_parts": [PlannedPart(**part) for part in found["planned_parts"]],
        "unplanned": list(unplanned),
    }


def _operands(given: Sequence[Any]) -> list[Any]:
    return [operand and (tuple(operand[0]), *operand[1:]) for operand in given]
