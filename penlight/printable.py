"""Text that is fit for a terminal: names in a model file may carry escape sequences, which change titles, colours and the clipboard of who
reads an error about them."""

from __future__ import annotations

import unicodedata


def printable(text: str) -> str:
    """Without control characters, escape sequences among them, and without marks that reverse the reading order."""
    if text.isprintable():
        return text
    kept = (
        c if c in "\n\t" or not unicodedata.category(c).startswith("C") else "\N{REPLACEMENT CHARACTER}" for c in text
    )
    return "".join(kept)
