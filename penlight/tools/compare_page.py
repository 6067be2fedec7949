"""A comparison as a page: for each value a bar as long as the two are apart, on a logarithmic scale, with the tolerance as a line."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penlight.pages import document

if TYPE_CHECKING:
    from penlight.tools.compare import Comparison, Row

_LEAST = -9  # 1e-9 of the largest number and below is drawn as nothing
_LEFT, _WIDTH, _LINE = 330, 600, 16


def compare_page(title: str, comparisons: Sequence[Comparison]) -> str:
    return document(title, "".join(map(_section, comparisons)))


def _section(c: Comparison) -> str:
    verdict = "agree" if c.agrees else "differ"
    rows = "".join(map(_row, c.rows))
    head = "".join(f"<th{' class=n' if n in ('difference', 'relative') else ''}>{n}</th>"
                   for n in ("value", "kernel", "against", "shape", "difference", "relative", "source"))  # fmt: skip
    return (
        f"<h2>{html.escape(c.device)} and {html.escape(c.reference)} {verdict}</h2>{_chart(c)}"
        f"<details><summary>numbers</summary><table><tr>{head}</tr>{rows}</table></details>"
    )


def _place(relative: float) -> float:
    if relative <= 0:
        return 0.0
    return min(max((math.log10(min(relative, 1.0)) - _LEAST) / -_LEAST, 0.0), 1.0) * _WIDTH


def _chart(c: Comparison) -> str:
    rows = [row for row in c.rows if row.found is not None]
    height = _LINE * (len(rows) + 2)
    parts = []
    for power in range(_LEAST, 1, 1):
        x = _LEFT + _place(10.0**power)
        parts.append(f"<line x1='{x:.0f}' x2='{x:.0f}' y1='{_LINE}' y2='{height}' stroke='#8884'/>")
        parts.append(f"<text x='{x:.0f}' y='11' text-anchor='middle' style='fill:#888'>1e{power}</text>")
    for i, row in enumerate(rows):
        found = row.found
        assert found is not None
        y = _LINE * (i + 1) + 2
        color = "#54a24b" if found.agrees else "#e45756"
        told = (
            f"{found.name}, {row.what}: {found.difference:.3g} apart, {found.relative:.2g} of the largest. {row.source}"
        )
        label = f"{found.name}  {row.what}"
        parts.append(
            f"<g><title>{html.escape(told)}</title>"
            f"<text x='{_LEFT - 6}' y='{y + 10}' text-anchor='end' style='fill:#888'>{html.escape(label[:52])}</text>"
            f"<rect x='{_LEFT}' y='{y}' width='{max(_place(found.relative), 1):.1f}' height='{_LINE - 4}' fill='{color}'/></g>"
        )
    x = _LEFT + _place(c.tolerance)
    parts.append(
        f"<line x1='{x:.1f}' x2='{x:.1f}' y1='{_LINE}' y2='{height}' stroke='#e45756' stroke-dasharray='4 3'/>"
    )
    label = f"how far {c.device} and {c.reference} are apart, by value"
    return f"<svg viewBox='0 0 {_LEFT + _WIDTH + 20} {height}' role=img aria-label='{html.escape(label)}'>{''.join(parts)}</svg>"


def _row(row: Row) -> str:
    if row.found is None:
        return f"<tr><td></td><td>{html.escape(row.what)}</td><td class=dim colspan=5>nothing of its size to compare with</td></tr>"
    found = row.found
    cells = [found.name, row.what, row.against, str(list(found.shape))]
    text = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
    numbers = f"<td class=n>{found.difference:.3g}</td><td class=n>{found.relative:.2g}</td>"
    return f"<tr>{text}{numbers}<td class=dim>{html.escape(row.source)}</td></tr>"
