"""expand: dims of size 1 repeated, as a view with stride 0."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.registry import Op, Sample, Selection

if TYPE_CHECKING:
    import numpy as np

    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter


def _fold(x: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
    import numpy as np

    return np.broadcast_to(x, shape)


expand = Op(
    "expand",
    "x: tensor, shape: int[]",
    layout="view",
    quantized="same",
    tolerance=0.0,
    mixed=("x",),
    select=lambda node: Selection("expand.view"),
    fold=_fold,
    doc="x broadcast to a shape. Always a view.",
)


@expand.from_aten("expand", "expand_as", "broadcast_to", "expand_copy")
def _(g: Emitter, x: Value, *_: Any) -> Value:
    return x if x.shape == g.out.shape else g.emit("expand", x, shape=g.out.shape)


@expand.samples
def _() -> Iterator[Sample]:
    import torch

    x = torch.randn(3, 1, 5)
    yield Sample(
        lambda x: [
            x.expand(3, 4, 5),
            x.expand(2, 3, 4, 5),
            x[:, :, :1].expand(-1, 7, 2),
            x[0, 0, 0].expand(4),
            x.expand(0, 3, 1, 5),
            x[:, 0].expand_as(x.new_zeros(2, 3, 5)),
        ],
        (x,),
        "views",
    )
    yield Sample(
        lambda x: [
            x.expand(3, 4, 5) * 2,
            x.expand(3, 4, 5).transpose(0, 1) + x[:, 0],
            torch.cat([x.expand(3, 2, 5), x], 1),
        ],
        (x,),
        "then computed with",
        1e-6,
    )
    yield Sample(
        lambda x, y: x[:, :1].expand(-1, y.shape[1], -1) + y,
        (x, torch.randn(3, 6, 5)),
        "dynamic",
        dynamic=(
            {0: torch.export.Dim("n", min=2, max=9)},
            {0: torch.export.Dim("n", min=2, max=9), 1: torch.export.Dim("m", min=2, max=9)},
        ),
    )
