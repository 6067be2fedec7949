"""max_pool2d, max_pool3d: the largest value of each window. NaN wins, as in torch; padding never does. max_pool_indices also
gives the place of each: the number of its pixel in the image. Where nobody asks for that, passes/drop_indices.py makes it one
of the first two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penlight.ops.pool.planes import from_nchw, nchw_type, sides, to_nchw
from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

_WINDOW = "x: tensor, kernel: int[], stride: int[], padding: int[], dilation: int[], ceil_mode: bool"

max_pool2d = Op(
    "max_pool2d",
    _WINDOW,
    layout="channels",
    images=("x",),
    tolerance=0.0,
    dtypes=("f32", "f64", "i64", "q8"),
    quantized="same",
    doc="Largest value of each window; padding = (top, left, bottom, right) counts as -inf.",
)
max_pool3d = Op(
    "max_pool3d",
    _WINDOW,
    layout="channels",
    images=("x",),
    tolerance=0.0,
    dtypes=("f32", "f64", "i64", "q8"),
    quantized="same",
    doc="The same over three dims; padding = (front, top, left, back, bottom, right).",
)
max_pool_indices = Op(
    "max_pool_indices",
    _WINDOW,
    layout="channels",
    images=("x",),
    outputs=2,
    tolerance=0.0,
    dtypes=("f32", "f64", "i64"),
    doc="max_pool2d or max_pool3d, and the number of the pixel that each value comes from.",
)


def _attributes(spatial: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> dict[str, Any]:
    return {
        "kernel": sides(kernel, spatial, 1),
        "stride": sides(stride, spatial, 1, kernel),
        "padding": sides(padding, spatial, 0) * 2,
        "dilation": sides(dilation, spatial, 1),
        "ceil_mode": ceil_mode,
    }


def _convert(g: Emitter, x: Value, spatial: int, *window: Any) -> Value:
    planes = to_nchw(g, x, spatial, ("f32", "f64", "i64"))
    name = "max_pool3d" if spatial == 3 else "max_pool2d"
    y = g.emit(name, planes, type=nchw_type(planes, g.out, spatial), **_attributes(spatial, *window))
    return from_nchw(g, y, g.out)


def with_indices(g: Emitter, op: str, x: Value, spatial: int, **attributes: Any) -> tuple[Value, Value]:
    """Values and indices, as `op` gives them."""
    planes = to_nchw(g, x, spatial, ("f32", "f64", "i64"))
    values, indices = g.out
    types = (nchw_type(planes, values, spatial), nchw_type(planes, indices, spatial, "i64"))
    y, places = g.emit(op, planes, types=types, **attributes)
    return from_nchw(g, y, values), from_nchw(g, places, indices)


@max_pool2d.from_aten("max_pool1d")
def _(g: Emitter, x: Value, kernel: Sequence[int], stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Value:
    return _convert(g, x, 1, kernel, stride, padding, dilation, ceil_mode)


@max_pool2d.from_aten("max_pool2d")
def _(g: Emitter, x: Value, kernel: Sequence[int], stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Value:
    return _convert(g, x, 2, kernel, stride, padding, dilation, ceil_mode)


@max_pool3d.from_aten("max_pool3d")
def _(g: Emitter, x: Value, kernel: Sequence[int], stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Value:
    return _convert(g, x, 3, kernel, stride, padding, dilation, ceil_mode)


@max_pool_indices.from_aten("max_pool1d_with_indices")
def _(g: Emitter, x: Value, *window: Any) -> tuple[Value, Value]:
    return with_indices(g, "max_pool_indices", x, 1, **_attributes(1, *window))


@max_pool_indices.from_aten("max_pool2d_with_indices")
def _(g: Emitter, x: Value, *window: Any) -> tuple[Value, Value]:
    return with_indices(g, "max_pool_indices", x, 2, **_attributes(2, *window))


@max_pool_indices.from_aten("max_pool3d_with_indices")
def _(g: Emitter, x: Value, *window: Any) -> tuple[Value, Value]:
    return with_indices(g, "max_pool_indices", x, 3, **_attributes(3, *window))


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
    whole = torch.randint(-(2**60), 2**60, (2, 5, 7, 9), generator=rand)
    yield Sample(lambda x: F.max_pool2d(x, 3, 2, 1), (whole,), "integers")
    yield Sample(lambda x: F.max_pool2d(x, 2), ((whole % 256).to(torch.uint8),), "bytes")


@max_pool3d.samples
def _() -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    rand = torch.Generator().manual_seed(0)

    def case(name: str, *shape: int, **options: Any) -> Sample:
        return Sample(lambda x: F.max_pool3d(x, **options), (torch.randn(*shape, generator=rand),), name)

    yield case("3x3x3/2", 1, 64, 7, 9, 8, kernel_size=3, stride=2, padding=1)
    yield case("uneven, odd channels", 3, 19, 6, 7, 9, kernel_size=(1, 3, 2), stride=(2, 1, 3), padding=(0, 1, 1))
    yield case("ceil_mode, dilation", 2, 5, 9, 8, 7, kernel_size=2, stride=2, dilation=(2, 1, 3), ceil_mode=True)
    yield case("no batch dim", 17, 4, 5, 6, kernel_size=2)
    yield case("empty batch", 0, 8, 4, 6, 6, kernel_size=2)
    special = torch.randn(1, 19, 4, 5, 6, generator=rand)
    special[0, :, 2, 3, 3] = float("nan")
    special[0, 3] = float("-inf")
    yield Sample(lambda x: F.max_pool3d(x, 3, 2, 1), (special,), "nan, inf")
    whole = torch.randint(-(2**60), 2**60, (1, 3, 4, 5, 6), generator=rand)
    yield Sample(lambda x: F.max_pool3d(x, 2, 1, 1), (whole,), "integers")
    free = ({2: torch.export.Dim("d", min=3, max=99), 4: torch.export.Dim("w", min=3, max=99)},)
    x = torch.randn(2, 8, 6, 7, 5, generator=rand)
    yield Sample(lambda x: F.max_pool3d(x, 3, 2, 1), (x,), "dynamic", dynamic=free)


@max_pool_indices.samples
def _() -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    rand = torch.Generator().manual_seed(0)

    def case(name: str, x: Any, dynamic: Any = None, **options: Any) -> Sample:
        pool = {3: F.max_pool1d, 4: F.max_pool2d, 5: F.max_pool3d}[x.dim()]
        return Sample(lambda x: pool(x, **options, return_indices=True), (x,), name, dynamic=dynamic)

    yield case("segnet", torch.randn(2, 64, 9, 10, generator=rand), kernel_size=2)
    yield case("odd channels", torch.randn(3, 17, 9, 13, generator=rand), kernel_size=3, stride=2, padding=1)
    yield case("512 channels (padded pitch)", torch.randn(1, 512, 4, 6, generator=rand), kernel_size=2)
    x = torch.randn(1, 5, 13, 9, generator=rand)
    yield case("dilation, ceil_mode", x, kernel_size=(3, 2), stride=2, padding=1, dilation=2, ceil_mode=True)
    special = torch.randn(1, 19, 9, 9, generator=rand).round()  # equal values: the first wins
    special[0, :, 4, 4] = float("nan")
    special[0, 2:4, 2, 3] = float("nan")
    special[0, 3] = float("-inf")
    yield case("equal values, nan, -inf", special, kernel_size=3, stride=1, padding=1)
    yield case("1d", torch.randn(2, 7, 33, generator=rand), kernel_size=3, stride=2)
    yield case("3d", torch.randn(2, 9, 5, 6, 7, generator=rand), kernel_size=(2, 3, 3), stride=(1, 2, 2), padding=1)
    yield case("integers", torch.randint(-9, 9, (2, 5, 7, 9), generator=rand), kernel_size=3, stride=2, padding=1)
    free = ({0: torch.export.Dim("n", max=64), 2: torch.export.Dim("h", min=8, max=99)},)
    yield case("dynamic", torch.randn(2, 8, 19, 18, generator=rand), kernel_size=3, stride=2, dynamic=free)
