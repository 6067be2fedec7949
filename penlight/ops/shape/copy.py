"""copy: the same elements in the layout that the output has. The layout pass puts it where values change from nchw to
nhwc and back. Regions are functional, so clone, contiguous and detach need none: their converters emit nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    import numpy as np

    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter


def _fold(x: np.ndarray, *, force: bool = False) -> np.ndarray:
    return x


copy = Op(
    "copy",
    "x: tensor, force: bool = False",
    layout="follow",
    tolerance=0.0,
    key_by="size",
    quantized="same",
    fold=_fold,
    doc="The same elements in the output's layout; a view where x lies so already, unless force.",
)


@copy.from_aten(
    "contiguous", "clone", "detach", "alias", "lift_fresh", "lift_fresh_copy", "positive", "detach_copy", "alias_copy"
)
def _(g: Emitter, x: Value, *_: Any) -> Value:
    return x


@copy.from_aten("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
def _(g: Emitter, x: Value, p: float, train: bool) -> Value:
    if train and p != 0:
        g.fail("dropout in training mode: call model.eval() first")
    return x


@copy.from_aten("copy")
def _(g: Emitter, x: Value, source: Value, *_: Any) -> Value:
    value = g.cast(source, x.dtype)
    return value if value.shape == g.out.shape else g.emit("expand", value, shape=g.out.shape)


@copy.samples
def _() -> Iterator[Sample]:
    import torch

    x = torch.randn(2, 21, 9, 11)
    nhwc = x.contiguous(memory_format=torch.channels_last)
    yield Sample(lambda x: [x.contiguous(), x.clone() + 1, x.detach(), torch.dropout(x, 0.5, False)], (x,), "identity")
    yield Sample(lambda x: x.clone(), (nhwc,), "channels last to row-major")
    yield Sample(
        lambda x: [
            x.permute(p).contiguous() for p in ((0, 2, 3, 1), (0, 3, 1, 2), (3, 2, 1, 0), (1, 0, 2, 3), (0, 1, 3, 2))
        ],
        (x,),
        "permutations",
    )
    for dtype in (torch.uint8, torch.float16, torch.int64, torch.bool):
        yield Sample(
            lambda x: [x.permute(0, 2, 3, 1).contiguous(), x[:, ::3, 1:].clone()],
            ((x * 9).to(dtype),),
            str(dtype).removeprefix("torch."),
        )
    yield Sample(
        lambda a, b, c: [v.permute(0, 2, 3, 1).contiguous() for v in (a, b, c)],
        (torch.randn(1, 3, 17, 19), torch.randn(2, 16, 8, 8), torch.randn(0, 3, 4, 4)),
        "images, whole blocks, empty",
    )
