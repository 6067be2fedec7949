"""`./dev bench --scaling`: how Penlight's time grows with threads, batch, image size and layout, and how threads fare on cores that are not
alike (uneven.py). No peers, about three minutes.

All variants wait in processes of their own and take turns, as the engines of the comparison do.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

from rich.progress import Progress

from bench import machine, report, uneven
from bench.case import MODELS_FOLDER, Case
from bench.conduct import SETTLE_S, Results, Worker, prepare, take_turns
from penlight.tools.screen import screen


@dataclass(frozen=True)
class Variant:
    model: str
    batch: int = 1
    size: int = 224
    threads: int = 1
    layout: str = "nchw"

    @property
    def case(self) -> Case:
        return Case.of(self.model, self.batch, self.size)

    @property
    def pixels(self) -> int:
        return self.batch * self.case.size**2

    def __str__(self) -> str:
        return f"{self.model} {self.batch}x{self.case.size}, {self.threads} thread{'s' * (self.threads > 1)}, {self.layout}"


@dataclass(frozen=True)
class Question:
    """Compares two variants: by how much the second is faster ("speed-up", the limit is a least value), or the second's
    time per pixel over that of the first ("per pixel"; the limit is a greatest value, 0: only to know)."""

    text: str
    first: Variant
    second: Variant
    kind: str
    limit: float

    def answer(self, first_s: float, second_s: float) -> float:
        if self.kind == "speed-up":
            return first_s / second_s
        return (second_s / self.second.pixels) / (first_s / self.first.pixels)

    def is_met(self, value: float) -> bool:
        return not self.limit or (value >= self.limit if self.kind == "speed-up" else value <= self.limit)


def questions() -> list[Question]:
    asked = [
        Question(f"{model}: speed-up by a second thread", Variant(model), Variant(model, threads=2), "speed-up", least)
        for model, least in (
            ("resnet50", 1.85),
            ("vit_b_16", 1.85),
            ("mobilenet_v2", 1.75),
            ("mobilenet_v3_large", 1.75),
        )
    ]
    for model in ("mobilenet_v2", "resnet18", "resnet50"):
        asked.append(
            Question(
                f"{model}: an image of a batch of 8, of one alone",
                Variant(model),
                Variant(model, batch=8),
                "per pixel",
                1.0,
            )
        )
    for model in ("mobilenet_v2", "resnet50"):
        asked.append(
            Question(
                f"{model}: the same on two threads",
                Variant(model, threads=2),
                Variant(model, batch=8, threads=2),
                "per pixel",
                1.0,
            )
        )
    for model in ("mobilenet_v2", "resnet18"):
        asked.append(
            Question(
                f"{model}: a pixel at 896², of one at 224²", Variant(model), Variant(model, size=896), "per pixel", 1.15
            )
        )
    last, first = Variant("mobilenet_v2", layout="nhwc"), Variant("mobilenet_v2")
    asked.append(Question("mobilenet_v2: NCHW input, of NHWC", last, first, "per pixel", 0))
    return asked


def main(options: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    asked = [q for q in questions() if q.second.threads <= max(options.threads) and q.first.model in options.models]
    variants = list(dict.fromkeys(v for question in asked for v in (question.first, question.second)))
    task = progress.add_task("", total=len(variants) * (1 + options.rounds) + uneven.ROWS)
    workers: dict[str, Worker] = {}
    results: Results = {}

    def step(text: str) -> None:
        progress.update(task, advance=1, description=text)

    try:
        for number, variant in enumerate(variants):
            progress.update(task, description=str(variant), advance=1)
            failed = prepare(variant.case, ["penlight"], lambda text: progress.update(task, description=text))
            if failed:
                raise SystemExit(f"{variant}: penlight {failed['penlight']}")
            workers[str(variant)] = Worker("penlight", variant.threads, MODELS_FOLDER / f"scaling-{number}.log")
            results[str(variant)] = workers[str(variant)].open(variant.case.folder, variant.layout)
        with machine.alone():
            take_turns(workers, results, options.rounds, options.block, step, SETTLE_S)
    finally:
        for worker in workers.values():
            worker.close()
    rows = []
    for question in asked:
        pair = results[str(question.first)], results[str(question.second)]
        row: dict[str, Any] = {
            "question": question.text,
            "kind": question.kind,
            "limit": question.limit,
            "variants": pair,
        }
        if all("best_s" in result for result in pair):
            value = question.answer(pair[0]["best_s"], pair[1]["best_s"])
            row |= {
                "value": value,
                "median_value": question.answer(pair[0]["median_s"], pair[1]["median_s"]),
                "met": question.is_met(value),
            }
        rows.append(row)
    if max(options.threads) > 1:
        rows += uneven.rows(options.models, options.rounds, options.block, step)
    return {"date": time.strftime("%Y-%m-%d"), "machine": machine.about(), "rows": rows}


def cells(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    lines = []
    for row in result["rows"]:
        limit = (
            "" if not row["limit"] else f"{'at least' if row['kind'] == 'speed-up' else 'at most'} {row['limit']:.2f}"
        )
        times = [f"{1e3 * r['best_s']:.2f}" if "best_s" in r else "wrong" for r in row["variants"]]
        lines.append([row["question"], *times, f"{row['value']:.2f}" if "value" in row else "-", limit])
    return ["Penlight", "first, ms", "second, ms", "ratio", "wanted"], lines


def show(result: dict[str, Any], options: argparse.Namespace) -> None:
    title = "scaling; ms, best run; the second time over the first, per pixel; a speed-up the other way round"
    screen().print(report.as_table(title, *cells(result)))


def is_right(result: dict[str, Any]) -> bool:
    return all("value" in row for row in result["rows"])
