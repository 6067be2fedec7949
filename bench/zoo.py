"""`./dev bench --zoo`: every model of the tests' zoo against torch eager, one thread: error and latency. Writes docs/MODELS.md.

Both run in this process, in turns, at batch 1 and the size of the tests; the best of each counts. The sizes are small, so eager's
time is to a large part the cost of its calls; docs/BENCHMARKS.md has models at their usual sizes, beside other engines.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from rich.progress import Progress

from bench import machine
from bench.case import ROOT
from penlight.tools.screen import screen

PAGE = ROOT / "docs" / "MODELS.md"
TOLERANCE = 1e-4


def main(options: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    import torch

    from tests.zoo import UNSUPPORTED, ZOO

    torch.set_num_threads(1)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    chosen = [n for n in ZOO if n not in UNSUPPORTED and (not options.match or any(t in n for t in options.match))]
    if not chosen:
        raise SystemExit(f"--match: no model's name contains {' or '.join(options.match)}")
    task = progress.add_task("zoo", total=len(chosen))
    rows = []
    for name in chosen:
        progress.update(task, description=name)
        rows.append(measure(ZOO[name], options.rounds, options.block))
        progress.update(task, advance=1)
    return {"date": time.strftime("%Y-%m-%d"), "machine": machine.about(), "whole": not options.match, "rows": rows}


def measure(entry: Any, rounds: int, block: float) -> dict[str, Any]:
    row: dict[str, Any] = {"name": entry.name, "family": entry.family, "size": " × ".join(map(str, entry.sizes[0]))}
    row["free"] = ", ".join(["batch"] * entry.batches + ["size"] * (len(entry.sizes) > 1))
    try:
        module = entry.build()
        captured = 2 if entry.batches else 1
        models = {captured: entry.capture(module, captured, threads=1)}
        row["error"] = max(entry.errors(module, models))
    except Exception as e:  # one that fails is shown as such; the others go on
        return {**row, "failed": f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"}
    inputs = entry.example(1, entry.sizes[0])
    sides = {"penlight": models[captured], "eager": module}
    times: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side, model in sides.items():
            times[side].append(_best(lambda model=model: entry.call(model, inputs), block))  # type: ignore[misc]
    row.update({side: min(found) for side, found in times.items()})
    return row


def _best(call: Any, block: float) -> float:
    best, end = float("inf"), time.perf_counter() + block
    while time.perf_counter() < end or best == float("inf"):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def is_right(result: dict[str, Any]) -> bool:
    return not any("failed" in row or row["error"] > TOLERANCE for row in result["rows"])


def show(result: dict[str, Any], options: argparse.Namespace) -> None:
    rows, out = [r for r in result["rows"] if "failed" not in r], screen()
    for row in sorted(rows, key=lambda r: r["penlight"] / r["eager"], reverse=True)[: options.worst]:
        ratio = row["penlight"] / row["eager"]
        out.print(
            f"{row['name']:32} {1e3 * row['penlight']:8.2f} ms  eager {1e3 * row['eager']:8.2f}  {ratio:5.2f}x",
            highlight=False,
        )
    for row in result["rows"]:
        if "failed" in row:
            out.print(f"{row['name']:32} {row['failed']}", highlight=False, markup=False)
    if result["whole"]:
        PAGE.write_text(page(result))


def page(result: dict[str, Any]) -> str:
    rows = [r for r in result["rows"] if "failed" not in r]
    slower = sum(r["penlight"] > r["eager"] for r in rows)
    text = f"""# Models

{len(rows)} models from `torch.export`, as the tests run them (`tests/zoo`): random weights, norms far from neutral, f32; batch 1 and 3, and
another size where the model takes one. `free` says which dims one capture leaves open. Error: the largest of these runs, as a fraction
of max |y|; at most 1e-4 is allowed. Latency: batch 1 at the size shown, one thread, best of several runs, in turns with torch eager;
times over 1 mean slower than eager ({slower} of {len(rows)}). Sizes are small, to keep the tests short, so that much of eager's time is the cost
of its calls: [BENCHMARKS.md](BENCHMARKS.md) compares models at their usual sizes. The nms and roi_align of
torchvision's detectors are plain Python in eager here (tests/zoo/detection.py), where their times say little.

Written by `./dev bench --zoo`. {result["date"]}, {result["machine"]["cpu"]}.
"""
    for family in dict.fromkeys(r["family"] for r in rows):
        text += f"\n## {family}\n| model | input | free | error | Penlight ms | eager ms | of eager |\n| --- | --- | --- | ---: | ---: | ---: | ---: |\n"
        for r in rows:
            if r["family"] == family:
                times = f"{1e3 * r['penlight']:.2f} | {1e3 * r['eager']:.2f} | {r['penlight'] / r['eager']:.2f}"
                text += f"| {r['name']} | {r['size']} | {r['free']} | {r['error']:.1e} | {times} |\n"
    return text
