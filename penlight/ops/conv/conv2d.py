"""conv2d, conv3d: convolution over two or three spatial dims, with what follows it (bias, residual, activation) in one
operator.

conv1d is a conv2d of height 1. Kernels are chosen by the weight's shape (kernels.py: direct, gemm, depthwise, grouped), but for
    conv2d.f32.winograd2  also 4 and 6: 3x3 kernels of stride 1 (lower/winograd.py); weights as winograd2, 4, 6
    conv2d.i64            integers, and conv2d.f64 doubles; weights as they are
    conv2d.q8.gemm        quantized bytes; weights as quads16
    conv2d.q8.depthwise   the same where every channel is a group; weights as taps
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

from penlight.ops.conv.kernels import MANY, bytes_layout, choose
from penlight.ops.pool.planes import carrier, from_nchw, nchw_type, sides, to_nchw
from penlight.ops.registry import Op, Sample, Selection, composite

if TYPE_CHECKING:
    import numpy as np

    from penlight.ir.graph import Node, Value
    from penlight.ops.emitter import Emitter

DTYPES = ("f32", "f64", "i64")
WITH_BYTES = (*DTYPES, "q8")


def _few_channels(node: Node) -> bool:
    return select(node).key == "conv2d.f32.direct"


def select(node: Node) -> Selection:
    """The kernel of a convolution, plain or transposed (kernels.py)."""
    if node.kernel.startswith("conv2d.f32.winograd"):  # chosen before, for the whole program
        return Selection(node.kernel, {1: node.kernel.rpartition(".")[2]})
    weight, groups = node.inputs[1], node.attrs["groups"]
    assert weight is not None
    assert isinstance(groups, int)
    if weight.tensor.quant is not None:
        layout = bytes_layout(weight.shape, groups)
        return Selection(f"{node.op}.q8.{'depthwise' if layout == 'taps' else 'gemm'}", {1: layout})
    if weight.dtype != "f32":
        return Selection(f"{node.op}.{weight.dtype}")
    outputs, inputs, *_, width = (n if isinstance(n, int) else MANY for n in weight.shape)
    kernel = choose(node.op, groups, inputs, outputs // groups, width)
    return Selection(f"{node.op}.f32.{kernel.variant}", {1: kernel.layout})


MOST_DEPTH = 2**31 // (255 * 128)  # products of bytes whose sum is sure to fit 32 bits


def takes_bytes(node: Node, inputs: list[Value | None], result: Value) -> bool:
    """Constant weights of i8 around zero, with one scale or one for each output, whose sums fit 32 bits; a bias that is constant."""
    weight, bias = inputs[1], inputs[2]
    if weight is None or weight.constant is None or weight.dtype != "i8" or weight.tensor.quant is None:
        return False
    quant = weight.tensor.quant
    if prod(weight.constant.shape[1:]) > MOST_DEPTH and not _sums_fit(weight.constant):
        return False
    return quant.axis in (None, 0) and not any(quant.zeros) and (bias is None or bias.is_constant)


def _sums_fit(weight: np.ndarray) -> bool:
    """Whether bytes that are all 255 (or, with a zero point, all that far from it) stay within 32 bits."""
    return bool(255 * abs(weight.astype("int64")).reshape(len(weight), -1).sum(1).max(initial=0) < 2**31)


SCHEMA = (
    "x: tensor, w: tensor, b: tensor?, residual: tensor?, stride: int[], padding: int[], dilation: int[], groups: int, "
    "act: str = '', act_args: float[] = ()"
)

conv2d = Op(
    "conv2d",
    SCHEMA,
    layout="channels",
    reads_any=_few_channels,
    dtypes=WITH_BYTES,
    quantized="kernels",
    takes_bytes=takes_bytes,
    images=("x", "residual"),
    work=lambda x, y: prod(y) * prod(x[1][1:]),
    select=select,
    doc="act(conv(x, w) + b + residual); w [Co, Ci / groups, kh, kw], padding = (top, left, bottom, right).",
)
conv3d = Op(
    "conv3d",
    SCHEMA,
    layout="channels",
    dtypes=WITH_BYTES,
    quantized="kernels",
    takes_bytes=takes_bytes,
    images=("x", "residual"),
    work=lambda x, y: prod(y) * prod(x[1][1:]),
    select=select,
    doc="act(conv(x, w) + b + residual); w [Co, Ci / groups, kd, kh, kw], padding = (front, top, left, back, bottom, right).",
)


def operands(g: Emitter, x: Value, w: Value, b: Value | None, spatial: int) -> tuple[Value, Value, Value | None]:
    """x as [N, C, (D,) H, W], w with as many dims, and b, all of one dtype that kernels have."""
    dtype = carrier(g, x.dtype, DTYPES)
    w, b = g.cast(w, dtype), None if b is None else g.cast(b, dtype)
    if spatial == 1:
        w = g.reshape(w, (*w.shape[:2], 1, w.shape[2]))
    return to_nchw(g, x, spatial, DTYPES), w, b


def _convert(
    g: Emitter, x: Value, w: Value, b: Value | None, stride: Any, padding: Any, dilation: Any, groups: int, spatial: int
) -> Value:
    """`padding`: one number per spatial dim, or "same" or "valid"."""
    planes, w, b = operands(g, x, w, b, spatial)
    spread = sides(dilation, spatial, 1)
    if isinstance(padding, str):
        # "same" puts the odd pixel at the end
        kernel = [k for k in w.shape[2:] if isinstance(k, int)]
        if len(kernel) != len(spread):
            g.fail(f"with padding {padding!r} and a kernel of symbolic size")
        total = [d * (k - 1) if padding == "same" else 0 for d, k in zip(spread, kernel, strict=True)]
        pads: tuple[Any, ...] = (*(t // 2 for t in total), *(t - t // 2 for t in total))
    else:
        pads = sides(padding, spatial, 0) * 2
    type = nchw_type(planes, g.out, spatial)
    y = g.emit(
        "conv3d" if spatial == 3 else "conv2d",
        planes,
        w,
        b,
        type=replace(type, shape=(planes.shape[0], w.shape[0], *type.shape[2:])),
        stride=sides(stride, spatial, 1),
        padding=pads,
        dilation=spread,
        groups=groups,
    )
    return from_nchw(g, y, g.out)


@conv2d.from_aten("conv1d", "conv1d.padding", "conv2d", "conv2d.padding", "_convolution_mode")
def _(g: Emitter, x: Value, w: Value, b: Value | None, stride: Any, padding: Any, dilation: Any, groups: int) -> Value:
    return _convert(g, x, w, b, stride, padding, dilation, groups, w.rank - 2)


@conv3d.from_aten("conv3d", "conv3d.padding")
def _(g: Emitter, x: Value, w: Value, b: Value | None, stride: Any, padding: Any, dilation: Any, groups: int) -> Value:
    return _convert(g, x, w, b, stride, padding, dilation, groups, 3)


@conv2d.from_aten("convolution", "_convolution", "_convolution.deprecated")
def _(
    g: Emitter,
    x: Value,
    w: Value,
    b: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    *flags: bool,
) -> Value:
    from penlight.ops.conv.conv_transpose import convert_transposed

    spatial = w.rank - 2
    if spatial not in (1, 2, 3):
        g.fail(f"over {spatial} spatial dims: 1 to 3 are supported")
    if transposed:
        return convert_transposed(g, x, w, b, stride, padding, output_padding, groups, dilation, spatial)
    return _convert(g, x, w, b, stride, padding, dilation, groups, spatial)


@composite("conv_tbc")
def _(x: Any, w: Any, b: Any, pad: int = 0) -> Any:
    """Time first, channels last in x and w: [T, B, Ci] by [K, Ci, Co]."""
    import torch

    return torch.conv1d(x.permute(1, 2, 0), w.permute(2, 1, 0), b, padding=pad).permute(2, 0, 1)


@conv2d.samples
def _() -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    rand = torch.Generator().manual_seed(0)

    def r(*shape: int) -> Any:
        return torch.randn(*shape, generator=rand)

    def case(name: str, x: Any, co: int, kernel: int | tuple[int, int], bias: bool = True, tolerance: float | None = None, dynamic: Any = None,
             **options: Any) -> Sample:  # fmt: skip
        kh, kw = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        w, b = r(co, x.shape[-3] // options.get("groups", 1), kh, kw), r(co) if bias else None
        return Sample(lambda x: F.conv2d(x, w, b, **options), (x,), name, tolerance, dynamic)

    # pointwise: rows and columns around the tiles' sizes
    for co, pixels in (
        (1, (1, 1)),
        (7, (3, 5)),
        (15, (1, 13)),
        (16, (2, 7)),
        (17, (3, 5)),
        (24, (5, 5)),
        (31, (4, 7)),
        (33, (3, 19)),
        (65, (7, 7)),
    ):
        yield case(f"1x1 to {co}, {pixels[0]}x{pixels[1]}", r(1, 19, *pixels), co, 1)
    yield case("1x1, 512 channels (padded pitch)", r(1, 512, 7, 9), 512, 1)
    yield case("1x1, batch 3, no bias", r(3, 40, 9, 7), 24, 1, bias=False)
    yield case("1x1, stride 2", r(2, 33, 9, 8), 48, 1, stride=2)
    yield case("1x1, padded: bias at the border", r(1, 5, 4, 4), 20, 1, padding=2)
    yield case("long K", r(1, 600, 5, 5), 33, 3, padding=1, tolerance=2e-5)
    # 3x3 and others
    yield case("stem", r(1, 3, 33, 31), 32, 3, stride=2, padding=1)
    yield case("planes of one pixel in a strip", r(1, 3, 2, 2), 8, 1, stride=2)
    yield case("one pixel for all", r(1, 3, 1, 1).expand(2, 3, 4, 3), 8, 1, stride=3)
    yield case("7x7 stem, batch 2", r(2, 3, 29, 41), 64, 7, stride=2, padding=3)
    yield case("patches", r(2, 3, 32, 48), 40, 16, stride=16)
    yield case("3x3", r(3, 20, 13, 11), 36, 3, padding=1)
    yield case("3x3 on 1x1", r(1, 20, 1, 1), 17, 3, padding=1)
    yield case("one channel in and out", r(1, 1, 9, 9), 1, 3)
    yield case("uneven all over", r(2, 9, 19, 23), 21, (2, 5), stride=(3, 1), padding=(1, 4), dilation=(2, 3))
    yield case("padding wider than the image", r(1, 6, 4, 3), 18, 3, padding=7, stride=2)
    yield case("dilation 12, 24, 36 (atrous pyramid)", r(1, 24, 28, 28), 32, 3, padding=12, dilation=12)
    yield case("dilation past the image", r(2, 8, 17, 60), 20, 3, padding=36, dilation=36)
    yield case("same", r(2, 7, 10, 11), 19, (4, 3), padding="same", dilation=(1, 2))
    yield case("valid", r(1, 7, 10, 11), 19, 3, padding="valid")
    # depthwise
    for channels, kernel, stride, size in ((32, 3, 1, (15, 17)), (24, 3, 2, (14, 14)), (72, 5, 2, (28, 27)), (40, 5, 1, (7, 7)), (17, 3, 1, (8, 9)),
                                           (5, 3, 2, (9, 9)), (19, 7, 1, (12, 10)), (35, 7, 2, (17, 21)), (33, 3, 3, (13, 14))):  # fmt: skip
        name = f"depthwise {kernel}x{kernel}/{stride}, {channels} channels, {size[0]}x{size[1]}"
        yield case(name, r(2, channels, *size), channels, kernel, stride=stride, padding=kernel // 2, groups=channels)
    yield case("depthwise, dilation 2", r(1, 40, 15, 23), 40, 5, padding=4, dilation=2, groups=40)
    yield case("depthwise, dilation 3, stride 2", r(1, 20, 15, 23), 20, 3, padding=2, dilation=3, stride=2, groups=20)
    yield case("depthwise, dilation past the image", r(1, 16, 5, 6), 16, 3, padding=9, dilation=9, groups=16)
    yield case("depthwise, 3 outputs a channel", r(2, 11, 9, 10), 33, 3, padding=1, groups=11)
    yield case("depthwise, 20 outputs a channel", r(2, 3, 9, 10), 60, 3, padding=1, groups=3)
    yield case("depthwise 1x9 and no padding", r(1, 18, 3, 20), 18, (1, 9), groups=18)
    # groups
    yield case("2 groups of 16", r(2, 10, 9, 9), 32, 3, padding=1, groups=2)
    yield case("3 groups of 33", r(1, 12, 9, 9), 99, 3, padding=1, groups=3, stride=2)
    yield case("8 groups of 4 (resnext)", r(2, 32, 9, 10), 32, 3, padding=1, groups=8)
    yield case("5 groups of 7", r(1, 15, 8, 13), 35, (3, 2), padding=(1, 0), groups=5, stride=(1, 2), dilation=(2, 1))
    # other forms and layouts
    yield case("no batch dim", r(9, 8, 10), 20, 3, padding=1)
    yield case("empty batch", r(0, 9, 8, 10), 20, 3, padding=1)
    yield case("channels_last", r(2, 12, 9, 11).to(memory_format=torch.channels_last), 20, 3, padding=1)
    yield case("transposed input", r(2, 12, 9, 11).transpose(2, 3), 20, 3, padding=1)
    w = r(18, 6, 3, 3)
    yield Sample(lambda x: F.conv2d(x[:, 3:9], w, padding=1), (r(2, 16, 9, 9),), "channel slice")
    yield Sample(lambda x: F.conv2d(x.expand(2, 6, 7, 7), w), (r(2, 1, 7, 7),), "expanded input")
    w1 = r(12, 5, 3)
    yield Sample(lambda x: F.conv1d(x, w1, stride=2, padding=1), (r(2, 5, 19),), "1d")
    yield Sample(lambda x: F.conv1d(x, w1, padding="same"), (r(5, 19),), "1d, no batch dim, same")
    yield Sample(
        lambda x, w, b: F.conv2d(x, w, b, padding=1), (r(2, 6, 9, 9), r(35, 6, 3, 3), r(35)), "weights from outside"
    )
    yield Sample(
        lambda x, w: F.conv2d(x, w, padding=1, groups=24),
        (r(2, 24, 9, 9), r(24, 1, 3, 3)),
        "depthwise weights from outside",
    )
    yield Sample(
        lambda x, w: F.conv2d(x, w, padding=1, groups=6),
        (r(2, 24, 9, 9), r(30, 4, 3, 3)),
        "grouped weights from outside",
    )
    yield Sample(
        lambda x, w: F.conv2d(x, w, groups=2), (r(2, 24, 9, 9), r(66, 12, 1, 1)), "weights of 2 groups from outside"
    )
    special = r(2, 18, 8, 9)
    special[0, :, 3, 3] = float("nan")
    special[1, 4, 2, 2] = float("inf")
    yield case("nan, inf", special, 18, 3, padding=1)
    yield case("nan, inf, depthwise", special, 18, 3, padding=1, groups=18)
    free = {
        0: torch.export.Dim("n", max=64),
        2: torch.export.Dim("h", min=5, max=99),
        3: torch.export.Dim("w", min=5, max=99),
    }
    yield case("dynamic", r(2, 24, 19, 18), 40, 3, padding=1, stride=2, dynamic=(free,))
    yield case("dynamic depthwise", r(2, 24, 19, 18), 24, 3, padding=1, stride=2, groups=24, dynamic=(free,))
    # large enough for Winograd, with 2, 4 and 6 outputs a tile (lower/winograd.py)
    yield case("winograd2, 6x6", r(1, 104, 6, 6), 97, 3, padding=1)
    yield case("winograd4, 20x19", r(1, 28, 20, 19), 41, 3, padding=1)
    yield case("winograd4, batch 2, no padding, no bias", r(2, 24, 17, 18), 48, 3, bias=False)
    yield case("winograd4, dilation 2", r(1, 24, 30, 31), 48, 3, padding=2, dilation=2)
    yield case("winograd6, 24x23", r(1, 28, 24, 23), 24, 3, padding=1, tolerance=3e-5)
    wide = r(32, 32, 3, 3) / 17
    yield Sample(lambda x: F.relu(F.conv2d(x, wide, padding=1) + x), (r(1, 32, 16, 15),), "winograd4, residual, relu")
    yield Sample(lambda x: F.silu(F.conv2d(x, wide, padding=1)), (r(1, 32, 16, 15),), "winograd4, silu")
    yield Sample(
        lambda x: torch.cat([F.conv2d(x, wide, padding=1), x], 1), (r(2, 32, 16, 15),), "winograd4, into a concat"
    )
    yield case("winograd4, dynamic", r(2, 24, 19, 18), 40, 3, padding=1, dynamic=(free,))
    # what fusing makes of it
    w3, b3, wd = r(24, 24, 3, 3), r(24), r(24, 1, 3, 3)
    small, big = w3 / 15, r(24, 24, 1, 1) / 5
    for name, act in (
        ("relu", F.relu),
        ("relu6", F.relu6),
        ("silu", F.silu),
        ("hardswish", F.hardswish),
        ("leaky_relu", lambda x: F.leaky_relu(x, 0.1)),
    ):
        yield Sample(lambda x, act=act: act(F.conv2d(x, small, b3, padding=1)), (r(2, 24, 9, 11),), name)
        yield Sample(
            lambda x, act=act: act(F.conv2d(x, wd, b3, padding=1, groups=24)), (r(2, 24, 9, 11),), f"depthwise, {name}"
        )
    yield Sample(lambda x: F.conv2d(x, big, b3) + x, (r(2, 24, 9, 11),), "residual")
    yield Sample(lambda x: F.relu(F.conv2d(x, small, padding=1) + x), (r(3, 24, 7, 7),), "residual, relu")
    yield Sample(
        lambda x: F.relu(F.conv2d(x, wd, b3, padding=1, groups=24) + x), (r(1, 24, 9, 9),), "depthwise, residual"
    )
    yield Sample(
        lambda x: torch.cat([F.relu(F.conv2d(x, big)), F.conv2d(x, small, padding=1)], 1),
        (r(2, 24, 6, 7),),
        "into a concat",
    )
    yield Sample(
        lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1, groups=2),
        tuple(torch.randint(-(2**40), 2**40, shape, generator=rand) for shape in ((2, 4, 5, 6), (6, 2, 3, 2), (6,))),
        "integers",
        tolerance=0.0,
    )
    wt, bt = r(3, 5, 20), r(20)
    yield Sample(lambda x: torch.conv_tbc(x, wt, bt, 1), (r(9, 2, 5),), "conv_tbc")


@conv3d.samples
def _() -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    rand = torch.Generator().manual_seed(0)

    def r(*shape: int) -> Any:
        return torch.randn(*shape, generator=rand)

    def case(name: str, x: Any, co: int, kernel: tuple[int, ...], bias: bool = True, dynamic: Any = None, **options: Any) -> Sample:  # fmt: skip
        w, b = r(co, x.shape[-4] // options.get("groups", 1), *kernel), r(co) if bias else None
        return Sample(lambda x: F.conv3d(x, w, b, **options), (x,), name, 2e-5, dynamic)

    yield case("3x3x3, batch 3", r(3, 20, 5, 7, 9), 36, (3, 3, 3), padding=1)
    yield case("stem: runs of 3 channels", r(1, 3, 6, 15, 17), 24, (3, 7, 7), stride=(1, 2, 2), padding=(1, 3, 3), bias=False)  # fmt: skip
    yield case("pointwise, stride 2", r(2, 17, 5, 6, 7), 33, (1, 1, 1), stride=2)
    yield case("over time only", r(1, 40, 8, 5, 5), 20, (3, 1, 1), padding=(1, 0, 0))
    yield case(
        "uneven all over", r(1, 6, 9, 8, 11), 18, (2, 3, 4), stride=(1, 2, 3), padding=(1, 0, 2), dilation=(3, 2, 1)
    )
    yield case("padding wider than the image", r(1, 5, 2, 3, 2), 17, (3, 3, 3), padding=4, stride=2)
    yield case("depthwise, 19 channels", r(2, 19, 4, 6, 9), 19, (3, 3, 3), padding=1, groups=19)
    yield case("depthwise, stride 2", r(1, 40, 5, 9, 17), 40, (3, 5, 3), padding=(1, 2, 1), stride=(1, 2, 2), groups=40)
    yield case("depthwise, dilated past the image", r(1, 5, 3, 4, 6), 5, (3, 2, 4), padding=(6, 3, 0), dilation=(4, 3, 1), groups=5)  # fmt: skip
    yield case("4 groups of 3, and 2 of 16", r(1, 8, 4, 5, 9), 12, (3, 2, 1), groups=4)
    yield case("2 groups of 16", r(2, 8, 3, 5, 6), 32, (2, 2, 2), groups=2)
    yield case("same, no batch dim", r(7, 5, 6, 7), 9, (2, 3, 4), padding="same")
    yield case("empty batch", r(0, 4, 5, 6, 7), 8, (3, 3, 3))
    yield case("channels_last", r(2, 6, 4, 5, 7).to(memory_format=torch.channels_last_3d), 16, (3, 3, 3), padding=1)

    class Block(torch.nn.Module):  # stays channels-last, norm, sum and activation in the convolution
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Conv3d(16, 16, 3, padding=1), torch.nn.BatchNorm3d(16)

        def forward(self, x: Any) -> Any:
            return torch.relu(self.b(self.a(x)) + x)

    yield Sample(Block().eval(), (r(1, 16, 4, 7, 5),), "block")
    yield Sample(lambda x, w: F.conv3d(x, w, padding=1), (r(1, 6, 4, 5, 7), r(20, 6, 3, 3, 3)), "weights from outside")
    special = r(1, 18, 3, 5, 6)
    special[0, :, 1, 2, 2] = float("nan")
    special[0, 3, 2, 4, 5] = float("inf")
    yield case("nan, inf", special, 18, (3, 3, 3), padding=1)
    free = {
        0: torch.export.Dim("n", max=64),
        2: torch.export.Dim("d", min=3, max=99),
        4: torch.export.Dim("w", min=3, max=99),
    }
    yield case("dynamic", r(2, 8, 5, 9, 8), 20, (3, 3, 3), padding=1, stride=2, dynamic=(free,))
    yield Sample(
        lambda x, w: F.conv3d(x, w, padding=1),
        tuple(torch.randint(-99, 99, shape, generator=rand) for shape in ((1, 3, 4, 3, 5), (4, 3, 2, 3, 2))),
        "integers",
        tolerance=0.0,
    )
