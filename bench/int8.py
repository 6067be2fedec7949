"""`./dev bench --int8`: the models quantized, each engine by its own means, all calibrated on the same few images.

Runs as the comparison in f32 does (compare.py). Answers are compared with the float network's; how is in accuracy.py. The networks are
those of settled.py, whose answers depend on the image.
"""

from __future__ import annotations

import argparse
from typing import Any

from rich.progress import Progress

from bench import compare, report
from penlight.tools.screen import screen

OURS = "penlight-int8"


def main(options: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    return compare.main(options, progress, precision="int8")


def tables(result: dict[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Title, header and lines of each table: the best run and the median per thread count, then load and memory."""
    engines, settings = result["engines"], result["settings"]
    made = []
    for threads in dict.fromkeys(row["threads"] for row in result["rows"]):
        rows = [row for row in result["rows"] if row["threads"] == threads]
        size = f"batch {settings['batch']}, {settings['size']}×{settings['size']}"
        for word, which in (("best", "best_s"), ("median", "median_s")):
            title = f"ms, {word} run · SQNR, dB; {size}, int8, {threads} thread{'s' * (threads != 1)}"
            made.append((title, *report.quantized_cells(rows, engines, OURS, which)))
    count = result["rows"][0]["threads"]
    rows = [row for row in result["rows"] if row["threads"] == count]
    title = f"load to the end of the first run, ms · peak RSS, MB; threads: {count}"
    return [*made, (title, *report.load_cells(rows, engines))]


def show(result: dict[str, Any], options: argparse.Namespace) -> None:
    compare.show_tables(tables(result), result)
    for way in report.ways(result["rows"]):
        screen().print(way)


def is_right(result: dict[str, Any]) -> bool:
    return compare.is_right(result, OURS)
