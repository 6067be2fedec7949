"""`penlight bench`: how fast a model is on this machine, or on a phone (device_bench.py), and where the time goes.

Every number of threads gets a model of its own, so each has its own time from load to the end of the first run. Runs are
timed one by one as Python sees them, a few microseconds of which are Python's. Nothing else is compared here: `./dev bench`
puts Penlight beside other engines.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np

import penlight
from penlight.file.contents import Method, PenFile
from penlight.file.reader import read
from penlight.file_kinds import file_kind
from penlight.ir.types import itemsize, numpy_dtype
from penlight.limits import check_made_up
from penlight.tools.device_bench import bench_on_device, input_flags, run_flags
from penlight.tools.inspect import example_shapes, weight_kinds
from penlight.tools.optimize import optimize_file
from penlight.tools.options import Argument, Factor, Shape, ShapeType, argument_option, device_options, reading_options
from penlight.tools.run import Interpreted, arguments, read_arrays, read_method
from penlight.tools.screen import Stages, heading, in_bytes, screen, table
from penlight.tools.step_table import Peak, by_kernel, by_step

FEWEST_RUNS = 5  # however long one takes
MOST_PROFILED = 500  # runs of a profile, whose medians need no more


class ThreadsType(click.ParamType[tuple[int, ...]]):
    """1, or several between commas."""

    name = "threads"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            counts = tuple(int(part) for part in value.split(","))
        except ValueError:
            counts = (0,)
        if min(counts) < 1:
            self.fail(f"{value!r}: expected numbers of 1 or more between commas, such as 1,2", param, ctx)
        return counts


class PeakType(click.ParamType[Peak]):
    """GFLOP/s and GB/s between a comma."""

    name = "peak"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Peak:
        if isinstance(value, Peak):
            return value
        try:
            gflops, gigabytes = (float(part) for part in value.split(","))
        except ValueError:
            gflops = gigabytes = 0.0
        if min(gflops, gigabytes) <= 0:
            self.fail(f"{value!r}: expected GFLOP/s and GB/s, such as 118,20", param, ctx)
        return Peak(gflops, gigabytes)


@click.command("bench")
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--threads", type=ThreadsType(), help="One number, or several between commas. [default: 1 and all cores]")
@click.option("--seconds", default=2.0, show_default=True, type=Factor(), help="Time to spend on each.")
@click.option("--runs", type=click.IntRange(1), help="Exactly this many runs instead.")
@click.option("--isa", help="Instruction set to use, such as avx2. [default: the best there is]")
@click.option(
    "--shape", "shapes", type=ShapeType(), multiple=True, metavar="[NAME=]DIMS[:DTYPE]",
    help="Shape of an input whose sizes are free, such as 1,3,224,224; once per input. The data is noise.",
)  # fmt: skip
@click.option("--input", "inputs", multiple=True, metavar="[NAME=]FILE.npy", help="An array for an input instead.")
@click.option("--channels-last", is_flag=True, help="Inputs of rank 4 lie in memory with their channels innermost.")
@click.option("--method", default="forward", show_default=True, help="Which method to run.")
@argument_option
@device_options
@click.option(
    "--profile", is_flag=True, help="Also show where the time goes: every kernel call, and each kind of kernel."
)
@click.option("--peak", type=PeakType(), metavar="GFLOP/s,GB/s", help="What the machine can do: shows fractions of it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
@click.option("--adb", is_flag=True, help="Time it on the Android device that is connected. Its inputs are ones.")
@click.option("--serial", help="Which device, where several are connected: as `adb devices` names it.")
@click.option(
    "--binary", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The program to run there, speed_benchmark_torch. [default: compiled now, or from the cache]",
)  # fmt: skip
@reading_options
@click.option("--keep", is_flag=True, help="Leave program and model on the device, for the next time.")
def bench_command(
    model: Path, threads: tuple[int, ...] | None, seconds: float, runs: int | None, isa: str | None, shapes: tuple[Shape, ...],
    inputs: tuple[str, ...], channels_last: bool, method: str, profile: bool, peak: Peak | None, as_json: bool,
    given: tuple[Argument, ...], adb: bool, serial: str | None, binary: Path | None, keep: bool, device: str, f16: bool,
    trust: bool, read_budget: float,
) -> None:  # fmt: skip
    """Time MODEL: a .pen file, or what `penlight optimize` takes.

    \b
    penlight bench mobilenet_v2.pen --threads 1,2
    penlight bench mobilenet_v2.pt --shape 1,3,224,224 --profile
    penlight bench mobilenet_v2.pen --device vulkan --f16 --profile
    penlight bench mobilenet_v2.pen --adb --threads 1,4
    """
    if adb and (inputs or given):
        raise click.UsageError(
            "--adb: inputs are ones of the shapes given, or bundled with the model: no --input, no --arg"
        )
    if adb and (device != "cpu" or f16):
        raise click.UsageError("--adb: the program that runs there has the CPU only: no --device, no --f16")
    if not adb and (serial or binary or keep):
        raise click.UsageError("--serial, --binary and --keep are for --adb")
    with tempfile.TemporaryDirectory() as folder, Stages() as stage:
        file = model if _is_pen(model) else Path(folder) / "model.pen"
        if file != model:
            optimize_file(model, shapes, stage, given, trust=trust, read_budget=read_budget).save(file)
        declared = read_method(file, method, given)
        if inputs:
            leaves = read_arrays(inputs, declared.inputs)
        elif isinstance(declared, Interpreted):
            leaves = interpreted_inputs(declared, penlight.load(file), method, shapes)
        else:
            leaves = noise(declared, example_shapes(declared, penlight.load(file).metadata, shapes))
        if channels_last:
            leaves = [_channels_last(x) for x in leaves]
        if isinstance(declared, Interpreted) and not given:
            args, kwargs = leaves, dict[str, Any]()  # values of any kind, as many as were bundled
        else:
            args, kwargs = arguments(declared.input_spec, leaves)
        pen = read(file)
        facts: dict[str, Any] = {
            "file": str(model),
            "bytes": file.stat().st_size,
            "weight_dtypes": pen.weight_dtypes,
            "method": method,
            "inputs": {p.name: list(np.shape(x)) for p, x in zip(declared.inputs, leaves, strict=False)},
            "threads": {},
        }
        if adb:
            flags = run_flags(method, isa, profile, runs, seconds)
            if isinstance(declared, Interpreted) and not shapes:
                if channels_last:
                    raise click.UsageError("--channels-last: bundled inputs go to the device as they are; give --shape")
                flags += ["--use_bundled_input", "0"]
            else:
                flags += input_flags(declared.inputs, leaves, not isinstance(declared, Interpreted), channels_last)
            unplanned = penlight.load(file).metadata.get("unplanned", [])
            facts["device"], facts["threads"] = bench_on_device(
                file, flags, threads, unplanned, serial, binary, keep, stage
            )
        on_gpu = device.lower() != "cpu"
        if on_gpu:
            facts["device"] = f"{device}{', f16' if f16 else ''}"
        # The CPU's threads make no difference there, but for large inputs and outputs.
        usual = (os.cpu_count() or 1,) if on_gpu else (1, os.cpu_count() or 1)
        for count in () if adb else threads or dict.fromkeys(usual):
            stage(f"timing with {_threads(count)}")

            def load(count: int = count) -> penlight.Model:
                return penlight.load(file, threads=count, isa=isa, device=device, f16=f16)

            facts["threads"][count] = measure(load, method, args, kwargs, seconds, runs, profile)
    if as_json:
        click.echo(json.dumps(facts, indent=2, default=asdict))
    else:
        _show(facts, peak, pen)


def measure(
    load: Callable[[], penlight.Model], method: str, args: Sequence[Any], kwargs: Mapping[str, Any],
    seconds: float = 2.0, runs: int | None = None, profile: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Times from load on, memory, and the steps of a profile; seconds and bytes. The garbage collector waits."""
    gc.collect()
    before = _resident("VmRSS") if _forget_peak() else None
    gc.disable()
    try:
        start = time.perf_counter()
        model = load()
        model.run_method(method, *args, **kwargs)
        planned = method in model.planned_methods  # of VM code, nothing is known but the time
        keeps = planned and bool(model.state(method))
        first = time.perf_counter() - start
        times: list[float] = []
        end = time.perf_counter() + seconds
        while len(times) < (runs or FEWEST_RUNS) or (runs is None and start < end):
            if keeps:  # else a cache would be full at some time
                model.reset()
            start = time.perf_counter()
            model.run_method(method, *args, **kwargs)
            times.append(time.perf_counter() - start)
    finally:
        gc.enable()
    peak = _resident("VmHWM")
    count = min(len(times), MOST_PROFILED) if profile else 0
    steps = model.profile(*args, method=method, runs=count, **kwargs) if planned else []
    return {
        "isa": model.isa,
        "best_s": min(times),
        "median_s": statistics.median(times),
        "p90_s": float(np.quantile(times, 0.9)),
        "runs": len(times),
        "first_s": first,
        "arena_bytes": model.arena_bytes(method) if planned else 0,
        "peak_bytes": None if before is None or peak is None else peak - before,
        "multiply_adds": sum(step.multiply_adds for step in steps),
        "steps": steps if profile else [],
        "planned_parts": model.planned_parts,
        "unplanned": model.metadata.get("unplanned", []),
    }


def _interpreted(r: dict[str, Any]) -> list[str]:
    """What of interpreted code ran by its plans, and what did not, and why."""
    parts, unplanned = r["planned_parts"], r["unplanned"]
    lines = [f"{sum(p.taken > 0 for p in parts)} of {len(parts)} planned parts ran by their plans"] if parts else []
    for part in parts:
        for times, why in ((part.unfit, part.unfit_reason), (part.failed, part.failed_reason)):
            if times:
                lines.append(f"  {part.name} interpreted {times} times: {why}  ({part.source})")
    if unplanned:
        lines.append(f"{len(unplanned)} parts interpreted, never planned:")
        lines += [f"  {part['operators']} operators: {part['why']}  ({part['source']})" for part in unplanned]
    return lines


def _show(facts: dict[str, Any], peak: Peak | None, pen: PenFile) -> None:
    out = screen()
    first = next(iter(facts["threads"].values()))
    inputs = ", ".join(f"{name} {' × '.join(map(str, dims))}" for name, dims in facts["inputs"].items())
    work = f"{first['multiply_adds'] / 1e9:.3g} G multiply-adds"
    where = f"; on {facts['device']}" if "device" in facts else ""
    out.print(
        heading(
            facts["file"], f"{in_bytes(facts['bytes'])}{weight_kinds(pen)}; {inputs}; {work}; {first['isa']}{where}"
        )
    )
    weights = pen.dtypes_read if set(pen.weight_dtypes) - {"f32"} else None
    numbers = ("threads", "best ms", "median", "90 %", "runs", "GFLOP/s", "load + first run", "arena", "peak memory")
    shown = table("", *numbers, right=numbers)
    for count, r in facts["threads"].items():
        shown.add_row(
            str(count), *(_milliseconds(r[name]) for name in ("best_s", "median_s", "p90_s")), str(r["runs"]),
            f"{2e-9 * r['multiply_adds'] / r['best_s']:.1f}", f"{_milliseconds(r['first_s'])} ms", in_bytes(r["arena_bytes"]),
            "" if r["peak_bytes"] is None else in_bytes(r["peak_bytes"]),
        )  # fmt: skip
    out.print(shown)
    for line in _interpreted(first):
        out.print(line)
    for count, r in facts["threads"].items():
        if r["steps"]:
            out.print()
            out.print(by_step(f"Kernel calls, {_threads(count)}", r["steps"], peak, weights))
            out.print()
            out.print(by_kernel(f"Kernels, {_threads(count)}", r["steps"], peak))


def _is_pen(path: Path) -> bool:
    """Else it is for penlight.optimize; a file of no kind is for the reader to refuse."""
    return file_kind(path) in ("pen", "other")


def interpreted_inputs(declared: Interpreted, model: penlight.Model, method: str, shapes: Sequence[Shape]) -> list[Any]:
    """Noise of the shapes given, or else what is bundled with the model."""
    bundled = model.bundled_inputs(method)
    if shapes:
        rand = np.random.default_rng(0)
        return [
            rand.standard_normal(shape.dims).astype(np.float32)
            if shape.dtype in ("", "f32")
            else np.zeros(shape.dims, numpy_dtype(shape.dtype))
            for shape in shapes
        ]
    if not bundled:
        names = ", ".join(port.name for port in declared.inputs)
        raise click.UsageError(
            f"{method}({names}) is interpreted: the file does not say how large its inputs are. Give --shape or --input for each"
        )
    return list(bundled[0].args)


def noise(method: Method, shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Noise for floats, zeros for all else: they may be indices."""
    rand = np.random.default_rng(0)
    check_made_up((port.name, shape, itemsize(port.dtype)) for port, shape in zip(method.inputs, shapes, strict=True))
    return [
        np.zeros(shape, numpy_dtype(port.dtype)) if numpy_dtype(port.dtype).kind != "f"
        else rand.standard_normal(shape).astype(numpy_dtype(port.dtype))
        for port, shape in zip(method.inputs, shapes, strict=True)
    ]  # fmt: skip


def _channels_last(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) if x.ndim == 4 else x


def _forget_peak() -> bool:
    """Lets the peak of this process's memory begin anew. False where the system has no such thing."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _resident(field: str) -> int | None:
    """Bytes of this process in memory: "VmRSS" now, "VmHWM" at its peak."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(f"{field}:")), None)


def _milliseconds(seconds: float) -> str:
    """Three digits or more."""
    ms = 1e3 * seconds
    return f"{ms:.{3 if ms < 1 else 2 if ms < 10 else 1}f}"


def _threads(count: int) -> str:
    return f"{count} thread{'' if count == 1 else 's'}"
