"""The build report as a page: what was built for which target, how it was tried, and charts of where the bytes went. One HTML file that
needs nothing but a browser: the charts are SVG.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from penlight.build.report import Sizes
from penlight.build.verify import Verified
from penlight.pages import document

_WIDTH, _HEIGHT = 960, 420
_COLORS = {"runtime": "#4c78a8", "elementwise": "#72b7b2", "VM": "#b279a2", "conv": "#e45756", "matmul": "#f58518", "reduce": "#54a24b",
           "pool": "#eeca3b", "shape": "#9d755d"}  # fmt: skip


def page(title: str, built: Sequence[tuple[Sizes, Sequence[Verified]]]) -> str:
    rows = "".join(_row(sizes, tried) for sizes, tried in built)
    head = "".join(
        f"<th{' class=n' if n == 'bytes' else ''}>{n}</th>" for n in ("target", "bytes", "compiler", "tried")
    )
    parts = "".join(_details(sizes) for sizes, _ in built)
    return document(title, f"<table><tr>{head}</tr>{rows}</table>{parts}")


def _row(sizes: Sizes, tried: Sequence[Verified]) -> str:
    library = sizes.library
    how = "<br>".join(_text(f"{t.model}: {t.text}") for t in tried) or "<span class=dim>no model to try</span>"
    told = (
        f"{_text(library.target.name)}<br><code class=dim>build-id {library.build_id}<br>sha256 {library.sha256}</code>"
    )
    return f"<tr><td>{told}</td><td class=n>{sizes.total:,}</td><td>{_text(library.toolchain)}</td><td>{how}</td></tr>"


def _details(sizes: Sizes) -> str:
    if not sizes.parts:
        return ""
    largest = max(sizes.sections.values())
    sections = "".join(
        f"<tr><td>{_text(n)}</td><td class=n>{s:,}</td><td style='width:60%'><span class=bar style='width:{100 * s / largest:.1f}%'></span></td></tr>"
        for n, s in sizes.sections.items()
    )
    parts = "".join(
        f"<tr><td>{_text(n)}</td><td class=n>{s:,}</td><td class=n>{100 * s / sizes.total:.1f} %</td></tr>"
        for n, s in sizes.parts.items()
    )
    symbols = "".join(
        f"<tr><td><code>{_text(s.name)}</code></td><td>{_text(s.part)}</td><td>{s.isa}</td><td class=n>{s.size:,}</td></tr>"
        for s in sizes.symbols[:100]
    )
    return (
        f"<h2>{_text(sizes.library.target.name)}: {sizes.total:,} bytes</h2>{_treemap(sizes)}"
        f"<details><summary>operators and parts of the runtime</summary><table>{parts}</table></details>"
        f"<details><summary>sections</summary><table>{sections}</table></details>"
        f"<details><summary>the largest functions and tables</summary><table>{symbols}</table></details>"
    )


def _treemap(sizes: Sizes) -> str:
    items = [(name, size) for name, size in sizes.parts.items() if size]
    boxes = []
    for (name, size), (x, y, w, h) in zip(
        items, _squarified([s for _, s in items], 0, 0, _WIDTH, _HEIGHT), strict=True
    ):
        kind = name.split("/")[0].split(" ")[0]
        label = ""
        if w > 50 and h > 28:
            short = name if len(name) * 6.2 < w - 8 else name[: max(int((w - 14) / 6.2), 1)] + "…"
            label = f"<text x='{x + 4:.1f}' y='{y + 14:.1f}'>{_text(short)}</text><text x='{x + 4:.1f}' y='{y + 26:.1f}'>{size:,}</text>"
        boxes.append(
            f"<g><title>{_text(name)}: {size:,} bytes, {100 * size / sizes.total:.1f} %</title><rect x='{x:.1f}' y='{y:.1f}' width='{max(w - 1, 0):.1f}'"
            f" height='{max(h - 1, 0):.1f}' fill='{_COLORS.get(kind, '#888')}'/>{label}</g>"
        )
    return f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' role=img aria-label='bytes by part'>{''.join(boxes)}</svg>"


def _squarified(
    sizes: Sequence[int], x: float, y: float, w: float, h: float
) -> Iterator[tuple[float, float, float, float]]:
    """A rectangle for each size, largest first, as near to squares as rows along the shorter side give."""
    left = list(sizes)
    while left:
        scale = w * h / sum(left)
        side = min(w, h)
        row: list[int] = []

        def worst(some: Sequence[int], side: float = side, scale: float = scale) -> float:
            thick = sum(some) * scale / side
            return max(max(thick * thick / (s * scale), s * scale / (thick * thick)) for s in some)

        while left and (not row or worst([*row, left[0]]) <= worst(row)):
            row.append(left.pop(0))
        thick = sum(row) * scale / side
        at = 0.0
        for size in row:
            long = size * scale / thick
            yield (x, y + at, thick, long) if w >= h else (x + at, y, long, thick)
            at += long
        x, y, w, h = (x + thick, y, w - thick, h) if w >= h else (x, y + thick, w, h - thick)


def _text(text: str) -> str:
    return html.escape(text)
