"""avg_pool2d, avg_pool3d: the mean of each window, over a divisor that depends on padding, ceil_mode and an override."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penlight.ops.pool.planes import from_nchw, nchw_type, sides, to_nchw
from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

_SCHEMA = (
    "x: tensor, kernel: int[], stride: int[], padding: int[], ceil_mode: bool, count_include_pad: bool, divisor: int?"
)
_DTYPES = ("f32", "f64", "i64", "q8")

avg_pool2d = Op(
    "avg_pool2d",
    _SCHEMA,
    layout="channels",
    images=("x",),
    dtypes=_DTYPES,
    quantized="kernels",
    doc="Sum of each window over its size (padding counted or not) or over `divisor`.",
)
avg_pool3d = Op(
    "avg_pool3d",
    _SCHEMA,
    layout="channels",
    images=("x",),
    dtypes=_DTYPES,
    quantized="kernels",
    doc="The same over three dims.",
)


def _convert(
    g: Emitter,
    x: Value,
    spatial: int,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil: bool,
    count_pad: bool,
    divisor: Any,
) -> Value:
    planes = to_nchw(g, x, spatial, ("f32", "f64", "i64"))
    y = g.emit(
        "avg_pool3d" if spatial == 3 else "avg_pool2d",
        planes,
        type=nchw_type(planes, g.out, spatial),
        kernel=sides(kernel, spatial, 1),
        stride=sides(stride, spatial, 1, kernel),
        padding=sides(padding, spatial, 0) * 2,
        ceil_mode=ceil,
        count_include_pad=count_pad,
        divisor=divisor,
    )
    return from_nchw(g, y, g.out)


@avg_pool2d.from_aten("avg_pool2d")
def _(
    g: Emitter,
    x: Value,
    kernel: Sequence[int],
    stride: Any,
    padding: Any,
    ceil: bool,
    count_pad: bool,
    divisor: int | None,
) -> Value:
    return _convert(g, x, 2, kernel, stride, padding, ceil, count_pad, divisor)


@avg_pool3d.from_aten("avg_pool3d")
def _(
    g: Emitter,
    x: Value,
    kernel: Sequence[int],
    stride: Any,
    padding: Any,
    ceil: bool,
    count_pad: bool,
    divisor: int | None,
) -> Value:
    return _convert(g, x, 3, kernel, stride, padding, ceil, count_pad, divisor)


@avg_pool2d.from_aten("avg_pool1d")
def _(g: Emitter, x: Value, kernel: Sequence[int], stride: Any, padding: Any, ceil: bool, count_pad: bool) -> Value:
    return _convert(g, x, 1, kernel, stride, padding, ceil, count_pad, None)


@avg_pool2d.samples
def _() -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    rand = torch.Generator().manual_seed(0)

    def case(name: str, *shape: int, **options: Any) -> Sample:
        return Sample(lambda x: F.avg_pool2d(x, **options), (torch.randn(*shape, generator=rand),), name)

    yield case("2x2", 1, 32, 16, 16, kernel_size=2)
    yield case("padding counted", 3, 17, 15, 13, kernel_size=3, stride=2, padding=1)
    yield case("padding not counted", 2, 15, 14, 9, kernel_size=3, stride=1, padding=1, count_include_pad=False)
    yield case("ceil_mode, padding", 2, 33, 13, 14, kernel_size=3, stride=2, padding=1, ceil_mode=True)
    yield case(
        "ceil_mode, not counted", 1, 9, 7, 8, kernel_size=(3, 2), stride=(2, 3), ceil_mode=True, count_include_pad=False
    )
    yield case("divisor", 1, 20, 9, 9, kernel_size=3, stride=2, padding=1, divisor_override=5)
    yield case("whole plane", 2, 65, 7, 7, kernel_size=7)
    yield case("no batch dim", 15, 9, 8, kernel_size=2)
    yield case("empty batch", 0, 8, 6, 6, kernel_size=2)
    special = torch.randn(2, 19, 9, 9, generator=rand)
    special[0, :, 4, 4] = float("nan")
    special[1, 4, 2, 2] = float("inf")
    yield Sample(lambda x: F.avg_pool2d(x, 3, 2, 1), (special,), "nan, inf")
    yield Sample(lambda x: F.avg_pool1d(x, 3, 2, 1), (torch.randn(2, 7, 33, generator=rand),), "1d")
    yield Sample(
        lambda x: F.avg_pool2d(x, 3, 2, 1),
        (torch.randn(2, 24, 19, 18, generator=rand),),
        "dynamic",
        dynamic=({2: torch.export.Dim("h", min=4, max=99), 3: torch.export.Dim("w", min=4, max=99)},),
    )
    whole = torch.randint(-(2**40), 2**40, (2, 5, 7, 9), generator=rand)
    yield Sample(lambda x: F.avg_pool2d(x, 3, 2, 1), (whole,), "integers", tolerance=0.0)


@avg_pool3d.samples
def _() -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    rand = torch.Generator().manual_seed(0)

    def case(name: str, *shape: int, **options: Any) -> Sample:
        return Sample(lambda x: F.avg_pool3d(x, **options), (torch.randn(*shape, generator=rand),), name)

    yield case("2x2x2", 2, 64, 4, 6, 8, kernel_size=2)
    yield case(
        "padding not counted", 1, 19, 5, 7, 9, kernel_size=3, stride=(1, 2, 2), padding=1, count_include_pad=False
    )
    yield case("ceil_mode, padding", 2, 5, 7, 8, 6, kernel_size=(3, 2, 2), stride=2, padding=1, ceil_mode=True)
    yield case("divisor", 1, 3, 5, 5, 5, kernel_size=3, padding=1, divisor_override=7)
    yield case("no batch dim", 17, 4, 5, 6, kernel_size=(1, 2, 3))
    whole = torch.randint(-99, 99, (1, 3, 4, 5, 6), generator=rand)
    yield Sample(lambda x: F.avg_pool3d(x, 2, 1, 1), (whole,), "integers", tolerance=0.0)
    free = ({2: torch.export.Dim("d", min=3, max=99), 4: torch.export.Dim("w", min=3, max=99)},)
    x = torch.randn(2, 8, 6, 7, 5, generator=rand)
    yield Sample(lambda x: F.avg_pool3d(x, 3, 2, 1), (x,), "dynamic", dynamic=free)
