"""`./dev bench --layers`: 200 single layers in Penlight, ONNX Runtime and OpenVINO, so that no layer is a cliff.

All layers of an engine run in one process, one layer open at a time, the engines in turns. A layer takes and gives plain
NCHW arrays in every engine, so each pays for the layouts that it prefers inside; for a layer that moves more than it
computes, that is most of its time. Inside a network nothing is converted: "penlight-nhwc" has the layer alone.
`python -m bench.layers STEP` converts all layers for one engine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import Progress

from bench import machine, report
from bench.case import ROOT, Convertible
from bench.conduct import PYTHONS, Failure, Results, Worker, take_turns
from bench.layer_list import Layer, sweep
from bench.prepare import convert, is_ready, python_of, steps
from penlight.tools.screen import screen

if TYPE_CHECKING:
    import torch

FOLDER = ROOT / "build" / "bench-layers"
ENGINES = ("penlight", "penlight-nhwc", "onnxruntime", "openvino")
OURS = "penlight-nhwc"  # whose ratio is judged
LIMIT = 1.25  # of the best peer's time


@dataclass(frozen=True)
class LayerCase(Convertible):
    """A layer as the engines' preparation sees it; without a layer, nothing but the cost of a call."""

    layer: Layer | None = None

    @property
    def key(self) -> str:
        return self.layer.key if self.layer else "empty"

    @property
    def folder(self) -> Path:
        return FOLDER / self.key

    def module(self) -> torch.nn.Module:
        from torch import nn

        return self.layer.module() if self.layer else nn.ReLU()

    def inputs(self) -> tuple[torch.Tensor, ...]:
        import torch

        return (torch.randn(self.layer.shape() if self.layer else (1, 1), generator=torch.Generator().manual_seed(1)),)


def main(options: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    task = progress.add_task("collecting layers", total=None)
    layers = [layer for layer in listed() if not options.match or any(text in layer.name for text in options.match)]
    if not layers:
        raise SystemExit(f"--match: no layer's name contains {' or '.join(options.match)}")
    cases = [LayerCase(), *(LayerCase(layer) for layer in layers)]
    prepare_all(cases, lambda text, done: progress.update(task, description=text, completed=done, total=len(cases)))
    rows = []
    workers: dict[str, Worker] = {}
    try:
        for number, case in enumerate(cases):
            with machine.alone():
                results = measure(case, workers, options.rounds, options.block)
            name = case.layer.name if case.layer else "empty"
            rows.append(
                {"model": name, **(case.layer.as_json() if case.layer else {"multiply_adds": 0}), "engines": results}
            )
            progress.update(task, description=name, completed=number + 1)
    finally:
        for worker in workers.values():
            worker.close()
    about = {**machine.about(), "peak": {"1": machine.peak(1)}}
    return {"date": time.strftime("%Y-%m-%d"), "machine": about, "empty": rows[0], "rows": rows[1:]}


def measure(case: LayerCase, workers: dict[str, Worker], rounds: int, block: float) -> Results:
    """One layer in all engines; an engine that died of the layer before gets a new process."""
    results: Results = {}
    for engine in ENGINES:
        if engine in workers and workers[engine].process.poll() is not None:
            workers.pop(engine).close()
        if engine not in workers:
            workers[engine] = Worker(engine, 1, FOLDER / f"{engine}.log")
        try:
            results[engine] = workers[engine].open(case.folder)
        except Failure as failure:
            results[engine] = {"failed": str(failure)}
    take_turns(workers, results, rounds, block, lambda text: None)
    return results


def listed() -> list[Layer]:
    """The sweep; walking the networks takes a while, so the list is kept, as long as its code is the same."""
    path, code = FOLDER / "list.json", (ROOT / "bench" / "layer_list.py").read_text()
    kept = json.loads(path.read_text()) if path.exists() else {}
    if kept.get("code") != code:
        fields = Layer.__dataclass_fields__
        kept = {"code": code, "layers": [{name: getattr(layer, name) for name in fields} for layer in sweep()]}
        FOLDER.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(kept))
    return [Layer(**values) for values in kept["layers"]]


def prepare_all(cases: Sequence[LayerCase], say: Callable[[str, int], None]) -> None:
    for step in steps(ENGINES):
        missing = [case.key for case in cases if not is_ready(step, case)]
        if not missing:
            continue
        command = [PYTHONS[python_of(step)], "-m", "bench.layers", step]
        log = FOLDER / f"{step}.log"
        with log.open("w") as errors:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT)
            assert process.stdout is not None
            for done, _ in enumerate(process.stdout):
                say(f"preparing {step}", done)
        if process.wait():
            raise SystemExit(f"{step} does not convert the layers: see {log}")


def tables(result: dict[str, Any], worst: int) -> list[tuple[str, list[str], list[list[str]]]]:
    """The worst layers, and a summary by kind of layer, as inside a network and as called."""
    rows = sorted(result["rows"], key=lambda row: -(report.ratio(row, engine=OURS) or float("inf")))
    header, lines = report.latency_cells(rows[:worst], ENGINES, result["machine"]["peak"]["1"]["gflops"], mean=False)
    header[-2:] = ["nhwc / best peer", "called / best peer"]
    for row, line in zip(rows[:worst], lines, strict=True):
        line[-2:] = [report.number(report.ratio(row, engine=OURS)), report.number(report.ratio(row))]
    title = f"the worst {min(worst, len(rows))} of {len(rows)} layers; ms, best run; 1 thread"
    groups: dict[str, list[report.Row]] = {}
    for row in rows:
        groups.setdefault(_group(row), []).append(row)
    cells = []
    for name, members in [*sorted(groups.items()), ("all", rows)]:
        ratios = [value for row in members if (value := report.ratio(row, engine=OURS)) is not None]
        called = report.geometric_mean(report.ratio(row) for row in members)
        mean = report.geometric_mean(ratios)
        over = [sum(value > limit for value in ratios) for limit in (1.0, LIMIT)]
        cells.append(
            [
                name,
                str(len(members)),
                "-" if mean is None else f"{mean:.2f}",
                f"{max(ratios, default=0):.2f}",
                *map(str, over),
                report.number(called),
            ]
        )
    summary = ["kind", "layers", "geometric mean", "worst", "> 1.00", f"> {LIMIT}", "mean as called"]
    return [(title, header, lines), ("Penlight nhwc / best peer, by kind", summary, cells)]


def call_cost(result: dict[str, Any]) -> str:
    costs = ", ".join(f"{e} {1e6 * t:.1f} µs" for e in ENGINES if (t := report.time_of(result["empty"], e)) is not None)
    return f"A call that does nothing costs: {costs}."


def show(result: dict[str, Any], options: argparse.Namespace) -> None:
    out = screen()
    for title, header, lines in tables(result, options.worst):
        out.print(report.as_table(title, header, lines))
        out.print()
    out.print(call_cost(result))
    for note in report.footnotes(result["rows"]):
        out.print(note)


def is_right(result: dict[str, Any]) -> bool:
    return all("best_s" in row["engines"][e] for e in ("penlight", OURS) for row in result["rows"])


def _group(row: report.Row) -> str:
    if row["kind"] == "linear":
        return "linear, one row" if row["n"] == 1 else "linear, rows"
    kernel = f"{row['kh']}×{row['kw']}" if row["kh"] in (1, 3) and row["kh"] == row["kw"] else "other kernels"
    if row["groups"] == row["ci"] > 1:
        return f"depthwise {kernel}"
    return f"{'dilated ' if row['dilation'] > 1 else ''}{'grouped ' if row['groups'] > 1 else ''}{kernel}"


if __name__ == "__main__":
    for layer in [None, *listed()]:
        case = LayerCase(layer)
        if not is_ready(sys.argv[1], case):
            convert(sys.argv[1], case)
        print(case.key, flush=True)
