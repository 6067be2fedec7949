"""The report as a page: for each layer a bar as long as its signal stands above the noise, red where that is little; and what the whole
costs and gains."""

from __future__ import annotations

import html
from collections.abc import Sequence

from penlight.pages import document
from penlight.quant.report import LayerReport, Report

_LEFT, _WIDTH, _LINE, _MOST = 330, 560, 16, 60.0
_POOR, _FAIR = 15.0, 25.0  # dB, below which a bar is red, or orange


def report_page(report: Report) -> str:
    rows = "".join(
        f"<tr><td>{_text(a)}</td><td class=n>{_text(b)}</td><td class=n>{_text(c)}</td></tr>"
        for a, b, c in report.totals()
    )
    head = "<tr><th></th><th class=n>in floats</th><th class=n>quantized</th></tr>"
    lines = "".join(f"<p>{_text(line)}</p>" for line in report.lines())
    measured = [layer for layer in report.layers if layer.sqnr is not None]
    body = f"<table>{head}{rows}</table>{lines}<h2>signal to quantization noise, layer by layer</h2>{_chart(measured)}"
    costly = sorted((x for x in report.layers if x.cost), key=lambda x: -(x.cost or 0))[:20]
    if costly:
        body += f"<h2>what the costliest layers cost the outputs, alone in integers</h2>{_cost_chart(costly)}"
    names = ("layer", "operator", "result", "in", "SQNR dB", "alone costs", "bytes", "in integers", "why")
    numbers = ("SQNR dB", "alone costs", "bytes", "in integers")
    columns = "".join(f"<th{' class=n' if n in numbers else ''}>{n}</th>" for n in names)
    table = "".join(map(_row, report.layers))
    body += f"<details><summary>numbers</summary><table><tr>{columns}</tr>{table}</table></details>"
    return document(f"{report.name or 'model'}, quantized", body)


def _text(text: object) -> str:
    return html.escape(str(text))


def _row(layer: LayerReport) -> str:
    left = [layer.name, layer.op, layer.shape, layer.stored]
    numbers = [
        "" if layer.sqnr is None else f"{layer.sqnr:.1f}", "" if layer.cost is None else f"{layer.cost:.2g}",
        f"{layer.bytes_before:,}" if layer.bytes_before else "", f"{layer.bytes_after:,}" if layer.bytes_after else "",
    ]  # fmt: skip
    cells = "".join(f"<td>{_text(x)}</td>" for x in left) + "".join(f"<td class=n>{x}</td>" for x in numbers)
    return f"<tr>{cells}<td>{_text(layer.why)}</td></tr>"


def _chart(layers: Sequence[LayerReport]) -> str:
    height = _LINE * (len(layers) + 2)
    parts = []
    for mark in range(0, int(_MOST) + 1, 10):
        x = _LEFT + mark / _MOST * _WIDTH
        parts.append(f"<line x1='{x:.0f}' x2='{x:.0f}' y1='{_LINE}' y2='{height}' stroke='#8884'/>")
        parts.append(f"<text x='{x:.0f}' y='11' text-anchor='middle' style='fill:#888'>{mark} dB</text>")
    for i, layer in enumerate(layers):
        sqnr = layer.sqnr or 0.0
        color = (
            "#9d9d9d"
            if layer.stored != "i8"
            else "#e45756"
            if sqnr < _POOR
            else "#f58518"
            if sqnr < _FAIR
            else "#54a24b"
        )
        parts.append(_bar(i, layer, max(min(sqnr, _MOST), 0.0) / _MOST, color, f"{sqnr:.1f} dB"))
    return _svg(height, parts, "signal to quantization noise of every layer")


def _cost_chart(layers: Sequence[LayerReport]) -> str:
    most = max(layer.cost or 0.0 for layer in layers)
    parts = [
        _bar(
            i, layer, (layer.cost or 0.0) / most, "#9d9d9d" if layer.stored != "i8" else "#4c78a8", f"{layer.cost:.2g}"
        )
        for i, layer in enumerate(layers)
    ]
    return _svg(_LINE * (len(layers) + 2), parts, "relative error at the outputs, by layer")


def _bar(index: int, layer: LayerReport, length: float, color: str, told: str) -> str:
    y = _LINE * (index + 1) + 2
    label = f"{layer.name}  {layer.op}"
    title = f"{layer.name}, {layer.op} {layer.shape}, {layer.stored}: {told}. {layer.why}"
    end = _LEFT + max(length * _WIDTH, 1)
    return (
        f"<g><title>{_text(title)}</title><text x='{_LEFT - 6}' y='{y + 10}' text-anchor='end' style='fill:#888'>{_text(label[-52:])}</text>"
        f"<rect x='{_LEFT}' y='{y}' width='{end - _LEFT:.1f}' height='{_LINE - 4}' fill='{color}'/>"
        f"<text x='{end + 4:.0f}' y='{y + 10}' style='fill:#888'>{_text(told)}</text></g>"
    )


def _svg(height: int, parts: Sequence[str], label: str) -> str:
    return (
        f"<svg viewBox='0 0 {_LEFT + _WIDTH + 70} {height}' role=img aria-label='{_text(label)}'>{''.join(parts)}</svg>"
    )
