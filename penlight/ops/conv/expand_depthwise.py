"""expand_depthwise: a pointwise convolution and the depthwise one that follows it, as one operator.

The first half of MobileNet's and EfficientNet's blocks. The wide map between the two, several times as large as what goes
in or comes out, is computed a few rows at a time and never stored. Made by passes/fuse_depthwise.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Any

from penlight.ops.conv.kernels import MANY, choose
from penlight.ops.registry import Op, Sample, Selection

if TYPE_CHECKING:
    from penlight.ir.graph import Node


def _select(node: Node) -> Selection:
    weight = node.inputs[3]
    assert weight is not None
    width = weight.shape[-1]
    kernel = choose("conv2d", 2, 1, 1, width if isinstance(width, int) else MANY)  # which its second half would be
    return Selection(f"expand_depthwise.f32.{kernel.variant}", {1: "panel16", 3: kernel.layout})


expand_depthwise = Op(
    "expand_depthwise",
    "x: tensor, w: tensor, b: tensor?, w2: tensor, b2: tensor?, residual: tensor?, stride: int[], padding: int[], "
    "dilation: int[], act: str = '', act_args: float[] = (), act2: str = '', act2_args: float[] = ()",
    layout="channels",
    images=("x", "residual"),
    work=lambda x, y: x[0][0] * prod(x[0][2:]) * prod(x[1][:2]) + prod(y) * prod(x[3][2:]),
    select=_select,
    doc="act2(depthwise(act(pointwise(x, w) + b), w2) + b2 + residual); w [C, Ci, 1, 1], w2 [C, 1, kh, kw].",
)


@expand_depthwise.samples
def _() -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    rand = torch.Generator().manual_seed(0)

    def r(*shape: int) -> Any:
        return torch.randn(*shape, generator=rand)

    def case(name: str, x: Any, channels: int, kernel: int, bias: bool = True, inner: Any = F.relu6, outer: Any = F.relu6,
             dynamic: Any = None, **options: Any) -> Sample:  # fmt: skip
        w, w2 = r(channels, x.shape[1], 1, 1) / x.shape[1] ** 0.5, r(channels, 1, kernel, kernel)
        b, b2 = (r(channels), r(channels)) if bias else (None, None)
        return Sample(
            lambda x: outer(F.conv2d(inner(F.conv2d(x, w, b)), w2, b2, groups=channels, **options)),
            (x,),
            name,
            dynamic=dynamic,
        )

    yield case("3x3", r(1, 16, 28, 28), 96, 3, padding=1)
    yield case("3x3/2, batch 3", r(3, 24, 27, 29), 144, 3, padding=1, stride=2)
    yield case("5x5, odd channels", r(2, 9, 13, 17), 51, 5, padding=2)
    yield case("5x5/2, several parts of the rows", r(1, 40, 61, 150), 24, 5, padding=2, stride=2)
    yield case("7x7, wide rows", r(1, 8, 19, 700), 40, 7, padding=3)
    yield case("3x3/3", r(1, 8, 20, 22), 33, 3, padding=1, stride=3)
    yield case("dilation 2", r(1, 8, 20, 22), 48, 3, padding=2, dilation=2)
    yield case("no padding, no bias", r(2, 12, 10, 9), 20, 3, bias=False)
    yield case("padding wider than the image", r(1, 8, 3, 2), 32, 5, padding=4)
    yield case("7 channels: less than a vector", r(1, 8, 9, 9), 7, 3, padding=1)
    yield case("one pixel", r(1, 8, 1, 1), 64, 3, padding=1)
    yield case("large x", r(1, 32, 80, 120), 64, 3, padding=1)
    yield case("silu", r(2, 12, 15, 14), 72, 3, inner=F.silu, outer=F.silu, padding=1)
    yield case("hardswish, then none", r(1, 12, 15, 14), 40, 5, inner=F.hardswish, outer=lambda x: x, padding=2)
    yield case("channels_last", r(2, 16, 12, 11).to(memory_format=torch.channels_last), 48, 3, padding=1)
    yield case("empty batch", r(0, 16, 12, 11), 48, 3, padding=1)
    free = {
        0: torch.export.Dim("n", max=64),
        2: torch.export.Dim("h", min=5, max=99),
        3: torch.export.Dim("w", min=5, max=99),
    }
    yield case("dynamic", r(2, 16, 19, 18), 48, 3, padding=1, stride=2, dynamic=(free,))
    special = r(1, 16, 9, 9)
    special[0, 3, 4, 4] = float("nan")
    special[0, 2, 0, 8] = float("inf")
    yield case("nan, inf", special, 32, 3, inner=F.relu, outer=F.relu, padding=1)
    w, w2 = r(24, 24, 1, 1), r(24, 1, 3, 3)
    yield Sample(
        lambda x: F.relu(F.conv2d(F.relu6(F.conv2d(x, w)), w2, padding=1, groups=24) + x),
        (r(2, 24, 9, 11),),
        "residual",
    )
    yield Sample(
        lambda x: torch.cat([F.conv2d(F.conv2d(x, w), w2, padding=1, groups=24), x], 1),
        (r(2, 24, 9, 11),),
        "into a concat",
    )
