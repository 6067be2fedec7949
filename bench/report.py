"""What the benchmark says: ratios, geometric means, tables for the screen and for the docs, all from the same rows.

A row is one model at one thread count, as it stands in the JSON file: model, threads, multiply_adds, and by engine either
best_s and median_s, or `failed` in words, or only how wrong it is (accuracy.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from bench.accuracy import LEAST_SQNR_DB
from penlight.tools.screen import table

Row = dict[str, Any]


def time_of(row: Row, engine: str, which: str = "best_s") -> float | None:
    value = row["engines"].get(engine, {}).get(which)
    return None if value is None else float(value)


def best_peer(row: Row, which: str = "best_s") -> str | None:
    """The fastest engine that is not Penlight, of those with a right result."""
    timed = {e: t for e in row["engines"] if not e.startswith("penlight") and (t := time_of(row, e, which)) is not None}
    return min(timed, key=lambda engine: timed[engine], default=None)


def ratio(row: Row, which: str = "best_s", engine: str = "penlight") -> float | None:
    """Penlight's time over that of the best peer: below 1 is faster."""
    peer = best_peer(row, which)
    ours, theirs = time_of(row, engine, which), time_of(row, peer, which) if peer else None
    return None if ours is None or theirs is None else ours / theirs


def geometric_mean(values: Iterable[float | None]) -> float | None:
    logs = [math.log(value) for value in values if value is not None]
    return math.exp(sum(logs) / len(logs)) if logs else None


def fraction_of_peak(row: Row, gflops: float, which: str = "best_s") -> float | None:
    """Multiply-adds as the model is written, over what the cores could do in Penlight's time; Winograd and taps on padding
    that are skipped may take it above 1."""
    ours = time_of(row, "penlight", which)
    return None if ours is None else 2e-9 * row["multiply_adds"] / ours / gflops


def rate(row: Row, gflops: float, which: str) -> str:
    """How near Penlight is to what the machine can do: as a fraction of the peak, or where memory sets the time in bytes a second."""
    ours = time_of(row, "penlight", which)
    if ours is None or not (row.get("moved_bytes") or row["multiply_adds"]):
        return "-"
    if moved := row.get("moved_bytes"):
        return f"{1e-9 * moved / ours:.1f} GB/s"
    return f"{fraction_of_peak(row, gflops, which):.0%}"


def latency_cells(
    rows: Sequence[Row], engines: Sequence[str], gflops: float, which: str = "best_s", mean: bool = True
) -> tuple[list[str], list[list[str]]]:
    """Header and lines of the latency table; the best peer's time is marked with asterisks."""
    header = ["model", *engines]
    if "penlight" in engines:
        header += ["/ best peer", "of peak"]
    lines = []
    for row in rows:
        peer = best_peer(row, which)
        line = [row["model"]]
        line += [f"**{_ms(row, e, which)}**" if e == peer else _ms(row, e, which) for e in engines]
        if "penlight" in engines:
            line += [number(ratio(row, which)), rate(row, gflops, which)]
        lines.append(line)
    if mean and "penlight" in engines and len(rows) > 1:
        total = geometric_mean(ratio(row, which) for row in rows)
        lines.append(["geometric mean", *[""] * len(engines), number(total), ""])
    return header, lines


def quantized_cells(
    rows: Sequence[Row], engines: Sequence[str], ours: str, which: str = "best_s"
) -> tuple[list[str], list[list[str]]]:
    """Header and lines of the int8 table: time and SQNR; the best peer's are marked with asterisks."""
    lines = []
    for row in rows:
        peer = best_peer(row, which)
        line = [row["model"]]
        for engine in engines:
            cell = _ms(row, engine, which)
            if (sqnr_db := row["engines"].get(engine, {}).get("sqnr_db")) is not None:
                cell += f" · {sqnr_db:.0f}"
            line.append(f"**{cell}**" if engine == peer else cell)
        lines.append([*line, number(ratio(row, which, ours))])
    if len(rows) > 1:
        total = geometric_mean(ratio(row, which, ours) for row in rows)
        lines.append(["geometric mean", *[""] * len(engines), number(total)])
    return ["model", *engines, "/ best peer"], lines


def ways(rows: Sequence[Row]) -> list[str]:
    """Which of its ways each engine ran: one line per engine and way."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for engine, result in row["engines"].items():
            if way := result.get("way"):
                models = found.setdefault(f"{engine}, {way}", [])
                if row["model"] not in models:
                    models.append(row["model"])
    return [f"{way}: {', '.join(models)}" for way, models in sorted(found.items())]


def load_cells(rows: Sequence[Row], engines: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """From load() to the end of the first run in ms, and the peak RSS of the process in MB."""
    lines = []
    for row in rows:
        line = [row["model"]]
        for engine in engines:
            result = row["engines"].get(engine, {})
            right = "best_s" in result
            line.append(f"{1e3 * result['first_run_s']:.0f} · {result['peak_rss_bytes'] / 1e6:.0f}" if right else "-")
        lines.append(line)
    return ["model", *engines], lines


def footnotes(rows: Sequence[Row]) -> list[str]:
    """Why a cell is empty: one line per engine and reason."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        for engine, result in row["engines"].items():
            if "best_s" in result:
                continue
            if "failed" in result:
                reason = f"{engine} {result['failed']}"
            elif "sqnr_db" in result:
                sqnr_db = result["sqnr_db"]
                what = "not finite" if sqnr_db is None else f"{sqnr_db:.1f} dB"
                reason = f"{engine} is wrong: SQNR {what}, at least {LEAST_SQNR_DB:g} dB expected"
            else:
                error = result.get("error")
                reason = (
                    f"{engine} is wrong: error {'not finite' if error is None else format(error, '.1e')} of max |y|"
                )
            models = reasons.setdefault(reason, [])
            if row["model"] not in models:
                models.append(row["model"])
    return [f"{', '.join(models)}: {reason}" for reason, models in reasons.items()]


def as_table(title: str, header: Sequence[str], lines: Sequence[Sequence[str]]) -> Table:
    """For the screen: asterisks become bold, the ratio coloured."""
    shown = table(title, *header, right=header[1:])
    for line in lines:
        cells = [Text(c.strip("*"), style="bold" if c.startswith("**") else "") for c in line]
        if "/ best peer" in header and _isnumber(line[header.index("/ best peer")]):
            at = header.index("/ best peer")
            cells[at].stylize("green" if float(line[at]) <= 1 else "red")
        shown.add_row(*cells)
    return shown


def as_markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    every = [header, ["---", *["--:"] * (len(header) - 1)], *lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in every)


def _ms(row: Row, engine: str, which: str) -> str:
    value = time_of(row, engine, which)
    if value is not None:
        return f"{1e3 * value:.2f}"
    result = row["engines"].get(engine, {"failed": ""})
    return "-" if "failed" in result else "wrong"


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _isnumber(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()
