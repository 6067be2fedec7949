"""pack: a weight that is known only at run time, rearranged into the layout that its kernel reads.

Lowering puts it before a conv2d or linear whose weight is not a constant (lower/select.py); constants are packed at
export (lower/prepack.py). The logical shape stays; layouts are described in pack.h.
"""

from __future__ import annotations

from penlight.ops.registry import Op

# Tested through the samples of conv2d and linear whose weights come from outside.
pack = Op(
    "pack", "w: tensor, layout: str, groups: int", tolerance=0.0, doc="w in a packed layout: panel16, taps or grouped."
)
