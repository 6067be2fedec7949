"""max_pool2d: the largest value of each window. NaN wins, as in torch; padding never does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penlight.ops.pool.planes import from_nchw, nchw_type, sides, to_nchw
from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.capture.emitter import Emitter
    from penlight.ir.graph import Value

max_pool2d = Op(
    "max_pool2d",
    "x: tensor, kernel: int[], stride: int[], padding: int[], dilation: int[], ceil_mode: bool",
    layout="channels",
    tolerance=0.0,
    doc="Largest value of each window; padding = (top, left, bottom, right) counts as -inf.",
)


def _convert(
    g: Emitter, x: Value, spatial: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool
) -> Value:
    out = g.out[0] if isinstance(g.out, tuple) else g.out
    planes = to_nchw(g, x, spatial)
    y = g.emit(
        "max_pool2d",
        planes,
        type=nchw_type(planes, out, spatial),
        kernel=sides(kernel, spatial, 1),
        stride=sides(stride, spatial, 1, kernel),
        padding=sides(padding, spatial, 0) * 2,
        dilation=sides(dilation, spatial, 1),
        ceil_mode=ceil,
    )
    return from_nchw(g, y, out)


@max_pool2d.from_aten("max_pool2d")
def _(g: Emitter, x: Value, kernel: Sequence[int], stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Value:
    return _convert(g, x, 2, kernel, stride, padding, dilation, ceil_mode)


@max_pool2d.from_aten("max_pool1d")
def _(g: Emitter, x: Value, kernel: Sequence[int], stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Value:
    return _convert(g, x, 1, kernel, stride, padding, dilation, ceil_mode)


@max_pool2d.from_aten("max_pool2d_with_indices")
def _(g: Emitter, x: Value, kernel: Sequence[int], stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
    return _convert(g, x, 2, kernel, stride, padding, dilation, ceil_mode), None  # None: an index that is used fails


@max_pool2d.samples
def _() -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    rand = torch.Generator().manual_seed(0)

    def case(name: str, *shape: int, **options: Any) -> Sample:
        return Sample(lambda x: F.max_pool2d(x, **options), (torch.randn(*shape, generator=rand),), name)

    yield case("resnet stem", 1, 64, 23, 21, kernel_size=3, stride=2, padding=1)
    yield case("batch, odd channels", 3, 17, 15, 13, kernel_size=3, stride=2, padding=1)
    yield case("ceil_mode (squeezenet)", 2, 33, 14, 14, kernel_size=3, stride=2, ceil_mode=True)
    yield case("ceil_mode drops the last window", 1, 5, 7, 7, kernel_size=2, stride=3, padding=1, ceil_mode=True)
    yield case("dilation, uneven", 2, 31, 13, 17, kernel_size=(3, 2), stride=(1, 2), padding=(1, 1), dilation=(2, 3))
    yield case("stride past the window", 1, 3, 19, 20, kernel_size=2, stride=5)
    yield case("1x1", 1, 1, 1, 1, kernel_size=1)
    yield case("no batch dim", 15, 9, 8, kernel_size=2)
    yield case("empty batch", 0, 8, 6, 6, kernel_size=2)
    special = torch.randn(2, 19, 9, 9, generator=rand)
    special[0, :, 4, 4] = float("nan")
    special[1, 3] = float("-inf")
    special[1, 4, 2, 2] = float("inf")
    special[1, 5] = -0.0
    yield Sample(lambda x: F.max_pool2d(x, 3, 2, 1), (special,), "nan, inf, -0")
    first = torch.randn(1, 16, 8, 8, generator=rand)
    first[0, 0, 0, 0] = float("nan")
    yield Sample(lambda x: F.max_pool2d(x, 4), (first,), "nan first in its window")
    yield Sample(lambda x: F.max_pool2d(x[:, 3:20], 2), (torch.randn(2, 24, 8, 10, generator=rand),), "channel slice")
    nhwc = torch.randn(2, 12, 9, 11, generator=rand).to(memory_format=torch.channels_last)
    yield Sample(lambda x: F.max_pool2d(x, 3, 1, 1), (nhwc,), "channels_last")
    yield Sample(lambda x: F.max_pool1d(x, 3, 2, 1), (torch.randn(2, 7, 33, generator=rand),), "1d")
    yield Sample(
        lambda x: F.max_pool2d(x, 3, 2, 1),
        (torch.randn(2, 24, 19, 18, generator=rand),),
        "dynamic",
        dynamic=(
            {
                0: torch.export.Dim("n"),
                2: torch.export.Dim("h", min=4, max=99),
                3: torch.export.Dim("w", min=4, max=99),
            },
        ),
    )
    yield Sample(
        lambda x: F.max_pool2d(x, 2, return_indices=True)[0],
        (torch.randn(2, 7, 8, 8, generator=rand),),
        "indices unused",
    )
