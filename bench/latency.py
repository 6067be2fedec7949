"""Latency of the test models, torch eager against Penlight: `./dev bench`.

Both run in one process with the same number of threads, in interleaved rounds, so that a machine that slows down slows
both. Outputs are compared first; a model whose error is above the tolerance has no latency, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import penlight
from penlight.tools.screen import in_bytes, screen, table
from tests.models import MODELS, build, example

TOLERANCE = 1e-4  # of max |y|


def main() -> int:
    options = _options()
    torch.set_num_threads(options.threads)
    results: list[dict[str, Any]] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=len(options.models) * (options.rounds + 1))
        for name in options.models:
            progress.update(task, description=f"{name}: optimizing")
            results.append(measure(name, options, lambda text: progress.update(task, advance=1, description=text)))
    show(results, options)
    if options.json:
        about = {"torch": torch.__version__, "penlight": penlight.__version__, "cpu": _cpu(), "threads": options.threads, "size": options.size,
                 "rounds": options.rounds, "models": results}  # fmt: skip
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(about, indent=2) + "\n")
    return 0 if all(r["error"] <= TOLERANCE for r in results) else 1


def measure(name: str, options: argparse.Namespace, step: Callable[[str], None]) -> dict[str, Any]:
    module = build(name)
    inputs = example(name, options.batch, options.size if MODELS[name].any_size else None)
    compiled = penlight.optimize(module, inputs, threads=options.threads)
    with torch.inference_mode():
        error = _error(module(*inputs), compiled(*inputs))
        result: dict[str, Any] = {"model": name, "error": error, "shape": list(inputs[0].shape), "isa": compiled.isa}
        result["arena_bytes"] = compiled.arena_bytes()
        step(name)
        if not error <= TOLERANCE:
            return result
        runs: dict[str, Callable[[], Any]] = {"torch": lambda: module(*inputs), "penlight": lambda: compiled(*inputs)}
        times: dict[str, list[float]] = {engine: [] for engine in runs}
        gc.collect()
        gc.disable()
        for _ in range(options.rounds):
            for engine, run in runs.items():
                # The other engine has just emptied the caches: the first run of a block only warms them.
                run()
                end = time.perf_counter() + options.block
                while True:
                    start = time.perf_counter()
                    run()
                    now = time.perf_counter()
                    times[engine].append(now - start)
                    if now >= end:
                        break
            step(name)
        gc.enable()
    for engine, taken in times.items():
        result[engine] = {"best_s": min(taken), "median_s": statistics.median(taken), "runs": len(taken)}
    return result


def show(results: list[dict[str, Any]], options: argparse.Namespace) -> None:
    numbers = ("torch best", "median", "Penlight best", "median ", "best ×", "median ×", "error", "arena")
    title = f"ms, batch {options.batch}, {options.threads} thread{'s' if options.threads > 1 else ''}, {results[0]['isa']}; × is torch / Penlight"
    shown = table(title, "model", *numbers, right=numbers)
    measured = [r for r in results if "torch" in r]
    for r in results:
        tail = (f"{r['error']:.1e}", in_bytes(r["arena_bytes"]))
        if "torch" not in r:
            shown.add_row(r["model"], *["wrong"] * 6, *tail)
            continue
        t, p = r["torch"], r["penlight"]
        times = [f"{1e3 * v:.2f}" for v in (t["best_s"], t["median_s"], p["best_s"], p["median_s"])]
        shown.add_row(
            r["model"], *times, f"{t['best_s'] / p['best_s']:.2f}", f"{t['median_s'] / p['median_s']:.2f}", *tail
        )
    if len(measured) > 1:
        means = [
            math.exp(statistics.mean(math.log(r["torch"][k] / r["penlight"][k]) for r in measured))
            for k in ("best_s", "median_s")
        ]
        shown.add_row("geometric mean", "", "", "", "", *(f"{m:.2f}" for m in means), "", "")
    screen().print(shown)


def _error(expected: Any, got: Any) -> float:
    if isinstance(expected, dict):
        return max(_error(expected[k], got[k]) for k in expected)
    return float((got - expected).abs().max() / expected.abs().max())


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(": ", 1)[1] for line in lines if line.startswith("model name")), platform.machine())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bench", description="Latency of the test models, torch eager against Penlight."
    )
    parser.add_argument(
        "--models", nargs="+", default=list(MODELS), choices=list(MODELS), metavar="MODEL", help=", ".join(MODELS)
    )
    parser.add_argument("--threads", type=int, default=1, help="of both engines (default: 1)")
    parser.add_argument("--rounds", type=int, default=5, help="how often the engines take turns (default: 5)")
    parser.add_argument("--block", type=float, default=0.5, help="seconds of one engine's turn (default: 0.5)")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument(
        "--size", type=int, default=224, help="height and width of the image, where the model allows it"
    )
    parser.add_argument(
        "--json",
        type=Path,
        default=Path("build/latency.json"),
        help="where the numbers go (default: build/latency.json)",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
