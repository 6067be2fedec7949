"""What it costs to start, model by model, against limits (`./dev load`): exit code 1 where one is missed.

    time    from load() to the end of the first run: at most 1.3 warm runs + 5 ms + first touch of the mapped file
    memory  peak of a C program (bench/load.c): at most file + arena + 8 MB
    arena   at most 1.15 times what is in use at the step where most is, scratch of all threads counted

Each number is the best of several processes, so that a busy machine does not count as slow loading. The time of
penlight.load() and a first call in Python, imports done, is held to the same limit.

A second table (start.py) names the parts of a start, with the file in the page cache and with its pages dropped from there; it has no limits.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import penlight
from bench import machine, report, start
from penlight.tools.screen import Stages, screen, table
from tests import models

ROOT = Path(__file__).resolve().parents[1]
MODELS = ("mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0", "squeezenet1_1", "resnet18", "resnet50",
          "deeplabv3_resnet50", "vit_b_16")  # fmt: skip
WARM_RUNS, MORE_MS, MORE_MB, ARENA = 1.3, 5.0, 8.0, 1.15  # the limits

IN_PYTHON = """
import sys, time, numpy, penlight.model, penlight._runtime
image = numpy.ones([int(d) for d in sys.argv[3].split(",")], numpy.float32)
start = time.perf_counter()
penlight.load(sys.argv[1], threads=int(sys.argv[2]))(image)
print(1e3 * (time.perf_counter() - start))
"""


def build_program(folder: Path) -> Path:
    program = folder / "load"
    library = ROOT / "build/release/libpenlight.a"
    include = ROOT / "penlight/runtime/include"
    subprocess.run(
        ["cc", "-O2", f"-I{include}", str(ROOT / "bench/load.c"), str(library), "-lm", "-lpthread", "-o", str(program)],
        check=True,
    )
    return program


def measure(program: Path, file: Path, shape: tuple[int, ...], threads: int, rounds: int) -> dict[str, Any]:
    """The best of several processes, number by number."""
    command = [str(program), str(file), str(threads)]
    python = [sys.executable, "-c", IN_PYTHON, str(file), str(threads), ",".join(map(str, shape))]
    runs = []
    for _ in range(rounds):
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        runs.append(json.loads(out))
        runs[-1]["python_ms"] = float(subprocess.run(python, check=True, capture_output=True, text=True).stdout)
        runs[-1]["start_ms"] = start.start_ms(runs[-1])
    colds = [
        json.loads(subprocess.run([*command, "3", "cold"], check=True, capture_output=True, text=True).stdout)
        for _ in range(rounds)
    ]
    best: dict[str, Any] = {name: min(run[name] for run in runs) for name in runs[0]}
    best["warm_start"], best["cold_start"] = min(runs, key=start.start_ms), min(colds, key=start.start_ms)
    best["file_bytes"] = file.stat().st_size
    best["limit_ms"] = WARM_RUNS * best["warm_ms"] + MORE_MS + best["touch_ms"]
    best["more_mb"] = (best["peak_kb"] * 1024 - best["file_bytes"] - best["arena_bytes"]) / 1e6
    best["arena_ratio"] = best["arena_bytes"] / max(best["live_bytes"], 1)
    best["missed"] = [
        name
        for name, wrong in {
            "time": best["start_ms"] > best["limit_ms"],
            "time in Python": best["python_ms"] > best["limit_ms"],
            "memory": best["more_mb"] > MORE_MB,
            "arena": best["arena_ratio"] > ARENA,
        }.items()
        if wrong
    ]
    return best


def show(results: list[dict[str, Any]], threads: int) -> None:
    title = (
        f"load to the end of the first run, {threads} thread{'s' * (threads > 1)}, batch 1; ms and MB; the limits: "
        f"{WARM_RUNS} warm runs + {MORE_MS:g} ms + touch; file + arena + {MORE_MB:g} MB; {ARENA} live sets"
    )
    numbers = ("open", "session", "plan", "first run", "all", "in Python", "limit", "warm run", "touch", "file", "arena", "/ live",
               "peak RSS", "over file + arena")  # fmt: skip
    shown = table(title, "model", *numbers, "", right=numbers)
    for r in results:
        times = [f"{r[f'{part}_ms']:.2f}" for part in ("open", "session", "plan", "first", "start", "python", "limit", "warm", "touch")]  # fmt: skip
        memory = (
            f"{r['file_bytes'] / 1e6:.1f}",
            f"{r['arena_bytes'] / 1e6:.2f}",
            f"{r['arena_ratio']:.3f}",
            f"{r['peak_kb'] * 1024 / 1e6:.1f}",
            f"{r['more_mb']:.1f}",
        )
        shown.add_row(r["model"], *times, *memory, f"misses {', '.join(r['missed'])}" if r["missed"] else "pass")
    screen().print(shown)
    screen().print(
        report.as_table(f"a start by part, {threads} thread{'s' * (threads > 1)}", *start.cells({"models": results}))
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev load", description="What it costs to start: time and memory.")
    parser.add_argument("--models", nargs="+", default=MODELS, choices=list(models.MODELS), metavar="MODEL")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5, help="processes, of which the best counts (default: 5)")
    parser.add_argument("--json", type=Path, default=ROOT / "build/load.json", help="default: build/load.json")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as temporary, Stages() as stage:
        folder = Path(temporary)
        program = build_program(folder)
        for name in options.models:
            stage(name)
            inputs = models.example(name)
            file = folder / f"{name}.pen"
            penlight.optimize(models.build(name), inputs).save(file)
            result = measure(program, file, tuple(inputs[0].shape), options.threads, options.rounds)
            results.append({"model": name, **result})
            file.unlink()
    show(results, options.threads)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    about = {"date": time.strftime("%Y-%m-%d"), "machine": machine.about(), "threads": options.threads}
    options.json.write_text(json.dumps({**about, "models": results}, indent=2) + "\n")
    return 1 if any(r["missed"] for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
