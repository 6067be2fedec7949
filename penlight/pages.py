"""Reports as pages: one HTML file each that needs nothing but a browser, all in one style. Charts are SVG."""

from __future__ import annotations

import html

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:980px;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
table{border-collapse:collapse;width:100%;margin:1rem 0}td,th{text-align:left;padding:.25rem .6rem;border-bottom:1px solid #ddd}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}code{font-size:13px;word-break:break-all}
svg{width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:#fff}.bar{height:1rem;background:#4c78a8;display:inline-block}
summary{cursor:pointer;font-weight:600}.dim{color:#777}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}td,th{border-color:#444}}
"""


def document(title: str, body: str) -> str:
    """A page in the style of Penlight's reports."""
    page = (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'><title>{html.escape(title)}</title>"
        f"<style>{_STYLE}</style><h1>{html.escape(title)}</h1>{body}</html>\n"
    )
    return page.encode("utf-8", "replace").decode()  # a file's name may have bytes that are no text
