"""The first bytes by which kinds of model files are known. Standard library only: isolated builds read them (file/format.py)."""

from __future__ import annotations

PEN = b"\x89PEN\r\n\x1a\n"  # a transfer that strips bits or rewrites line ends shows at once, as in PNG
ZIP = b"PK\x03\x04"  # .pt, .pt2, .ptl
FLATBUFFER = b"PTMF"  # .ptl: at byte 4, behind the offset of the root table
