"""The first bytes by which kinds of model files are known. Standard library only: isolated builds read them (file/format.py)."""

from __future__ import annotations

PEN = b"\x89PEN\r\n\x1a\n"  # a transfer that strips bits or rewrites line ends shows at once, as in PNG
ZIP = b"PK\x03\x04"  # .pt, .pt2, .ptl
FLATBUFFER = b"PTMF"  # .ptl: at byte 4, behind the offset of the root table
PICKLE = b"\x80\x02\x8a\x0a\x6c\xfc\x9cF\xf9 j\xa8P\x19"  # .pt of torch.save before 1.6: a number it knew itself by
