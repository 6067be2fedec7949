"""Part of `./dev bench --scaling`: two threads where the cores are not alike.

    a quarter    one of the two threads is slowed to a quarter of its speed (uneven.cc), the caller or the other: together they could do 1.25 times
                 what one does, and at least 90 % of that is wanted
    a busy core  another program keeps one of the two cores busy: two threads take at most 1.15 times as long as one that has the other
                 core for itself. By the mean, as a run that had to wait must count

The first is one process (its ways take turns of 50 ms), best runs; the second compares workers as the rest of scaling.py does.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import machine
from bench.case import MODELS_FOLDER, ROOT, Case
from bench.conduct import SETTLE_S, Worker, prepare

SLOWER = 4  # times, the slowed thread
QUARTER = 0.9 * (1 + 1 / SLOWER)
BUSY = 1.15
# of a quarter, and beside a busy program: model, precision
MODELS = (("mobilenet_v2", "f32"), ("mobilenet_v2", "int8"), ("resnet50", "f32"), ("vit_b_16", "f32"))
ROWS = 3 * len(MODELS)

# Like what it keeps busy, it comes first among programs of its session.
BUSY_PROGRAM = "from bench.machine import come_first\ncome_first()\nwhile True: pass"


def build_program() -> Path:
    """uneven.cc over the runtime's static library. The name that is wrapped is pen::pool_run, as this compiler writes it."""
    program, source, library = ROOT / "build/uneven", ROOT / "bench/uneven.cc", ROOT / "build/release/libpenlight.a"
    if not program.exists() or program.stat().st_mtime < max(source.stat().st_mtime, library.stat().st_mtime):
        wrap = "-Wl,--wrap=_ZN3pen8pool_runEPNS_10ThreadPoolElPFvPvlliES2_"
        words = ["-std=c++17", "-O2", f"-I{ROOT / 'penlight/runtime/include'}", str(source), str(library), wrap]
        subprocess.run(["c++", *words, "-lm", "-lpthread", "-o", str(program)], check=True)
    return program


def rows(wanted: list[str], rounds: int, block: float, step: Callable[[str], None]) -> list[dict[str, Any]]:
    """Rows for the table of scaling.py, in two halves: one of the threads slowed, then a busy core."""
    chosen = [(model, precision) for model, precision in MODELS if model in wanted]
    made: list[dict[str, Any]] = []
    folders = {}
    for model, precision in chosen:
        case = Case.of(model, 1, 224, precision)
        engine = "penlight" if precision == "f32" else "penlight-int8"
        step(f"{model}, {precision}: preparing")
        failed = prepare(case, [engine], step)
        if failed:
            raise SystemExit(f"{model}, {precision}: {engine} {failed[engine]}")
        folders[model, precision] = case.folder, engine
    program = build_program()
    with machine.alone():
        for (model, precision), (folder, engine) in folders.items():
            name = model if precision == "f32" else f"{model} {precision}"
            step(f"{name}: a thread slowed")
            made += of_quarter(name, program, folder / engine / "model.pen", rounds * block)
        for (model, precision), (folder, engine) in folders.items():
            name = model if precision == "f32" else f"{model} {precision}"
            step(f"{name}: beside a busy program")
            made.append(of_busy_core(name, folder, engine, rounds, block))
    return made


def of_quarter(name: str, program: Path, file: Path, seconds: float) -> list[dict[str, Any]]:
    command = [*machine.pinned(2), str(program), str(file), str(SLOWER), str(4 * seconds)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, preexec_fn=machine.come_first)
    ms = json.loads(done.stdout)
    one = {"best_s": ms["one_ms"] / 1e3, "median_s": ms["one_median_ms"] / 1e3}
    made = []
    for way, who in (("slow_other", "a second thread"), ("slow_caller", "a second thread, the caller")):
        two = {"best_s": ms[f"{way}_ms"] / 1e3, "median_s": ms[f"{way}_median_ms"] / 1e3}
        made.append(
            {
                "question": f"{name}: speed-up by {who} at a quarter of the speed",
                "kind": "speed-up",
                "limit": QUARTER,
                "variants": (one, two),
                "value": one["best_s"] / two["best_s"],
                "median_value": one["median_s"] / two["median_s"],
                "met": one["best_s"] / two["best_s"] >= QUARTER,
            }
        )
    return made


def of_busy_core(name: str, folder: Path, engine: str, rounds: int, block: float) -> dict[str, Any]:
    """The busy program has the first core; one thread is pinned to the last (machine.pinned), two go where the system puts them."""
    first = sorted(os.sched_getaffinity(0))[0]
    command = ["taskset", "-c", str(first), sys.executable, "-c", BUSY_PROGRAM]
    means: dict[int, list[float]] = {1: [], 2: []}
    workers = {n: Worker(engine, n, MODELS_FOLDER / f"busy-{n}.log") for n in means}
    busy = subprocess.Popen(command, cwd=ROOT)
    try:
        for worker in workers.values():
            worker.open(folder)
        for _ in range(rounds):
            for n, worker in workers.items():
                time.sleep(SETTLE_S)
                means[n].append(statistics.mean(worker.turn(block)["times_s"]))
    finally:
        busy.kill()
        busy.wait()
        for worker in workers.values():
            worker.close()
    # Of several turns the middle one: what a third program did to one of them does not count, what happens in every turn does.
    one, two = (statistics.median(means[n]) for n in (1, 2))
    return {
        "question": f"{name}: two threads beside a busy program, of one thread; mean",
        "kind": "at most",
        "limit": BUSY,
        "variants": ({"best_s": one, "median_s": one}, {"best_s": two, "median_s": two}),
        "value": two / one,
        "median_value": two / one,
        "met": two / one <= BUSY,
    }
