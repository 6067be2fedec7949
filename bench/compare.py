"""The comparison itself: all models, thread counts and engines; its tables. What cannot be measured is in the rows in words."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from typing import Any

from rich.progress import Progress

from bench import conduct, machine, report
from bench.case import Case
from penlight.tools.screen import screen


def main(options: argparse.Namespace, progress: Progress, precision: str = "f32") -> dict[str, Any]:
    cases = [Case.of(model, options.batch, options.size, precision) for model in options.models]
    settings = {key: getattr(options, key) for key in ("batch", "size", "rounds", "block")}
    return {**of_cases(cases, options, progress), "settings": settings}


def of_cases(cases: Sequence[conduct.AnyCase], options: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    turns = len(options.threads) * len(options.engines) * (1 + options.rounds)
    task = progress.add_task("", total=len(cases) * turns)
    rows: list[dict[str, Any]] = []
    busy = machine.Busy()
    for number, case in enumerate(cases):
        failed = conduct.prepare(case, options.engines, lambda text: progress.update(task, description=text))
        about = json.loads((case.folder / "reference" / "about.json").read_text())
        for threads in options.threads:

            def step(text: str, threads: int = threads) -> None:
                progress.update(task, advance=1, description=f"{text}, threads: {threads}")

            with busy:
                engines = conduct.measure(case, options.engines, threads, options.rounds, options.block, step, failed)
            rows.append({**case.about, "threads": threads, **about, "engines": engines})
        progress.update(task, completed=(number + 1) * turns)  # an engine that failed took no turns
    rows.sort(key=lambda row: options.threads.index(row["threads"]))
    peaks = {str(threads): machine.peak(threads) for threads in options.threads}
    about = {**machine.about(), "peak": peaks, "used_by_others": busy.others}
    versions = {e: r["version"] for row in rows for e, r in row["engines"].items() if "version" in r}
    head = {"date": time.strftime("%Y-%m-%d"), "machine": about, "versions": versions}
    return {**head, "engines": options.engines, "rows": rows}


def tables(result: dict[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Title, header and lines of each table: the best run and the median per thread count, then load and memory."""
    settings = result["settings"]
    return tables_of(result, f"batch {settings['batch']}, {settings['size']}×{settings['size']}")


def tables_of(result: dict[str, Any], size: str) -> list[tuple[str, list[str], list[list[str]]]]:
    engines, made = result["engines"], []
    for threads, peak in result["machine"]["peak"].items():
        rows = [row for row in result["rows"] if row["threads"] == int(threads)]
        what = f"{size}, f32, {threads} thread{'s' * (threads != '1')}"
        limit = f"peak {peak['gflops']:.0f} GFLOP/s, copy {peak['copy_gbs']:.0f} GB/s"
        for word, which in (("best", "best_s"), ("median", "median_s")):
            made.append(
                (f"ms, {word} run; {what}; {limit}", *report.latency_cells(rows, engines, peak["gflops"], which))
            )
    count = result["rows"][0]["threads"]
    rows = [row for row in result["rows"] if row["threads"] == count]
    made.append(
        (f"load to the end of the first run, ms · peak RSS, MB; threads: {count}", *report.load_cells(rows, engines))
    )
    return made


def show(result: dict[str, Any], options: argparse.Namespace) -> None:
    show_tables(tables(result), result)


def show_tables(made: list[tuple[str, list[str], list[list[str]]]], result: dict[str, Any]) -> None:
    out = screen()
    for title, header, lines in made:
        out.print(report.as_table(title, header, lines))
        out.print()
    for note in report.footnotes(result["rows"]):
        out.print(note)
    if (others := result["machine"]["used_by_others"]) > machine.QUIET:
        out.print(f"other programs took {others:.0%} of the processors meanwhile: measure again when they are done")


def is_right(result: dict[str, Any], ours: str = "penlight") -> bool:
    """Whether Penlight, where it took part, has a right result everywhere."""
    return all("best_s" in row["engines"].get(ours, {"best_s": 0}) for row in result["rows"])
