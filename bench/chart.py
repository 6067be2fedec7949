"""The chart of the docs: each model a line, each engine a dot at its time over that of the best peer, on a log scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from bench.report import Row, best_peer, time_of

LEFT, PANEL, GAP, LINE, TOP = 150, 330, 40, 26, 74
LEAST, MOST = 0.5, 4.0  # of the scale; slower engines sit at its end, as arrows
COLOURS = {
    "penlight": "#d9480f", "torch-mobile": "#868e96", "torch-eager": "#495057", "executorch": "#7048e8", "onnxruntime": "#1971c2",
    "openvino": "#0c8599", "ncnn": "#2f9e44", "mnn": "#e8a200",
}  # fmt: skip


def svg(result: dict[str, Any]) -> str:
    """One panel a thread count."""
    engines: Sequence[str] = result["engines"]
    threads = list(dict.fromkeys(row["threads"] for row in result["rows"]))
    models = list(dict.fromkeys(row["model"] for row in result["rows"]))
    width = max(LEFT + len(threads) * (PANEL + GAP), _legend_width(engines))
    height = TOP + LINE * len(models) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        _text(10, 18, "Time of a run, of the best peer's; left of 1 is faster than every peer", weight="600"),
        *_legend(engines),
    ]
    for number, model in enumerate(models):
        parts.append(_text(LEFT - 12, TOP + LINE * number + LINE / 2 + 4, model, anchor="end"))
    for number, count in enumerate(threads):
        rows = {row["model"]: row for row in result["rows"] if row["threads"] == count}
        parts += _panel(LEFT + number * (PANEL + GAP), [rows.get(model) for model in models], engines, count)
    return "\n".join([*parts, "</svg>", ""])


def position(ratio: float) -> float:
    """Where a ratio stands in a panel, from 0 to PANEL."""
    at = math.log(min(max(ratio, LEAST), MOST) / LEAST) / math.log(MOST / LEAST)
    return at * PANEL


def _panel(x: float, rows: Sequence[Row | None], engines: Sequence[str], threads: int) -> list[str]:
    bottom = TOP + LINE * len(rows)
    parts = [_text(x + PANEL, TOP - 10, f"{threads} thread{'s' * (threads > 1)}", anchor="end", weight="600")]
    for tick in (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0):
        at = x + position(tick)
        stroke = "#343a40" if tick == 1.0 else "#e9ecef"
        parts.append(f'<line x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{bottom}" stroke="{stroke}"/>')
        parts.append(_text(at, bottom + 16, f"{tick:g}", anchor="middle", colour="#868e96"))
    for number, row in enumerate(rows):
        y = TOP + LINE * number + LINE / 2
        parts.append(f'<line x1="{x}" y1="{y}" x2="{x + PANEL}" y2="{y}" stroke="#f1f3f5"/>')
        peer = best_peer(row) if row else None
        if row is None or peer is None:
            continue
        base = time_of(row, peer)
        assert base is not None
        for engine in [e for e in engines if e != "penlight"] + ["penlight"] * ("penlight" in engines):
            taken = time_of(row, engine)
            if taken is not None:
                parts.append(_mark(x + position(taken / base), y, engine, taken, taken / base > MOST))
    return parts


def _mark(x: float, y: float, engine: str, seconds: float, beyond: bool) -> str:
    radius = 6 if engine == "penlight" else 4
    title = f"<title>{escape(engine)}: {1e3 * seconds:.2f} ms</title>"
    fill = f'fill="{COLOURS.get(engine, "#adb5bd")}" fill-opacity="0.9"'
    if beyond:
        return f'<path d="M{x - 4:.1f} {y - 4} l7 4 l-7 4 z" {fill}>{title}</path>'
    return f'<circle cx="{x:.1f}" cy="{y}" r="{radius}" {fill}>{title}</circle>'


def _legend(engines: Sequence[str]) -> list[str]:
    parts, x = [], 16
    for engine in engines:
        parts.append(f'<circle cx="{x}" cy="38" r="5" fill="{COLOURS.get(engine, "#adb5bd")}"/>')
        parts.append(_text(x + 9, 42, engine))
        x += _legend_width([engine])
    return parts


def _legend_width(engines: Sequence[str]) -> int:
    return sum(34 + 7 * len(engine) for engine in engines)


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = "#212529", weight: str = "400") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-weight="{weight}">{escape(text)}</text>'
