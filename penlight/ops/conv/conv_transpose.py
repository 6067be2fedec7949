"""conv_transpose2d, conv_transpose3d: every input pixel adds a kernel of outputs to the result, a stride apart.

The weight lies as that of a convolution, [Co, Ci / groups, kh, kw]; torch's has the first two the other way round. Padding is
what is cut off the result's sides, so output_padding is part of it: it cuts less off the end, maybe less than nothing.
conv_transpose1d is one of height 1. Kernels as for conv3d; conv2d.h says how they go about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

from penlight.ir.dims import combine
from penlight.ops.conv.conv2d import SCHEMA, operands, select
from penlight.ops.pool.planes import from_nchw, nchw_type, sides
from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

conv_transpose2d = Op(
    "conv_transpose2d",
    SCHEMA,
    layout="channels",
    dtypes=("f32", "f64", "i64"),
    work=lambda x, y: prod(x[0]) * x[1][0] * prod(x[1][2:]) // (x[0][1] // x[1][1]),
    select=select,
    doc="act(conv_transpose(x, w) + b + residual); w [Co, Ci / groups, kh, kw], padding is cut off: (top, left, bottom, right).",
)
conv_transpose3d = Op(
    "conv_transpose3d",
    SCHEMA,
    layout="channels",
    dtypes=("f32", "f64", "i64"),
    work=lambda x, y: prod(x[0]) * x[1][0] * prod(x[1][2:]) // (x[0][1] // x[1][1]),
    select=select,
    doc="The same over three dims; w [Co, Ci / groups, kd, kh, kw].",
)


def convert_transposed(
    g: Emitter,
    x: Value,
    w: Value,
    b: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
    dilation: Sequence[int],
    spatial: int,
) -> Value:
    planes, w, b = operands(g, x, w, b, spatial)
    ci, co, *kernel = w.shape
    if groups > 1:  # [groups, Ci_g, Co_g, ...] -> [groups, Co_g, Ci_g, ...]
        w = g.permute(
            g.reshape(w, (groups, combine("//", ci, groups), co, *kernel)), (0, 2, 1, *range(3, 3 + len(kernel)))
        )
        w = g.reshape(w, (combine("*", co, groups), combine("//", ci, groups), *kernel))
    else:
        w = g.permute(w, (1, 0, *range(2, 2 + len(kernel))))
    cut, less = sides(padding, spatial, 0), sides(output_padding, spatial, 0)
    type = nchw_type(planes, g.out, spatial)
    y = g.emit(
        "conv_transpose3d" if spatial == 3 else "conv_transpose2d",
        planes,
        w,
        b,
        type=replace(type, shape=(planes.shape[0], w.shape[0], *type.shape[2:])),
        stride=sides(stride, spatial, 1),
        padding=(*cut, *(combine("-", c, o) for c, o in zip(cut, less, strict=True))),
        dilation=sides(dilation, spatial, 1),
        groups=groups,
    )
    return from_nchw(g, y, g.out)


@conv_transpose2d.from_aten("conv_transpose1d", "conv_transpose2d.input")
def _(g: Emitter, x: Value, w: Value, b: Value | None, stride: Any, padding: Any, more: Any, groups: int, dilation: Any) -> Value:  # fmt: skip
    return convert_transposed(g, x, w, b, stride, padding, more, groups, dilation, w.rank - 2)


@conv_transpose3d.from_aten("conv_transpose3d.input")
def _(g: Emitter, x: Value, w: Value, b: Value | None, stride: Any, padding: Any, more: Any, groups: int, dilation: Any) -> Value:  # fmt: skip
    return convert_transposed(g, x, w, b, stride, padding, more, groups, dilation, 3)


def _case(name: str, x: Any, co: int, kernel: tuple[int, ...], seed: int, bias: bool = True, dynamic: Any = None, **options: Any) -> Sample:  # fmt: skip
    import torch
    import torch.nn.functional as F

    rand = torch.Generator().manual_seed(seed)
    dims = len(kernel)
    transposed = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}[dims]
    w = torch.randn(x.shape[-dims - 1], co // options.get("groups", 1), *kernel, generator=rand)
    b = torch.randn(co, generator=rand) if bias else None
    return Sample(lambda x: transposed(x, w, b, **options), (x,), name, 2e-5, dynamic)


@conv_transpose2d.samples
def _() -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    rand = torch.Generator().manual_seed(0)

    def r(*shape: int) -> Any:
        return torch.randn(*shape, generator=rand)

    yield _case("2x2/2 (UNet), batch 3", r(3, 20, 5, 7), 36, (2, 2), 1, stride=2)
    yield _case("4x4/2 (GAN)", r(1, 33, 9, 8), 17, (4, 4), 2, stride=2, padding=1, bias=False)
    yield _case("3x3/2, output padding", r(2, 16, 7, 5), 40, (3, 3), 3, stride=2, padding=1, output_padding=1)
    yield _case("1x1 to 4x4", r(2, 12, 1, 1), 20, (4, 4), 4)
    yield _case("one output channel", r(1, 7, 6, 9), 1, (3, 3), 5, stride=2)
    yield _case("stride past the kernel: outputs without taps", r(1, 5, 4, 3), 18, (2, 1), 6, stride=(3, 4), output_padding=(2, 1))  # fmt: skip
    yield _case("uneven all over", r(1, 9, 7, 6), 21, (3, 4), 7, stride=(3, 2), padding=(2, 1), dilation=(2, 3), output_padding=(1, 2))  # fmt: skip
    yield _case("dilation a multiple of the stride", r(1, 6, 5, 5), 16, (3, 3), 8, stride=2, dilation=4)
    yield _case("padding past the kernel", r(1, 4, 9, 9), 8, (3, 3), 9, padding=4)
    yield _case("depthwise (bilinear)", r(2, 19, 5, 6), 19, (4, 4), 10, stride=2, padding=1, groups=19)
    yield _case("3 groups of 5, 2 of 32", r(1, 6, 5, 6), 15, (3, 3), 11, stride=2, groups=3)
    yield _case("2 groups of 32", r(1, 12, 5, 9), 64, (2, 3), 12, stride=2, groups=2)
    yield _case("no batch dim", r(8, 5, 6), 12, (3, 3), 13, stride=2)
    yield _case("empty batch", r(0, 8, 5, 6), 12, (3, 3), 14, stride=2)
    yield _case("1d", r(2, 9, 17), 24, (5,), 15, stride=3, padding=1, output_padding=1)
    yield _case("channel slice", r(2, 16, 6, 5)[:, 3:9], 16, (2, 2), 16, stride=2)

    class Up(torch.nn.Module):  # norm, sum and activation in the convolution
        def __init__(self) -> None:
            super().__init__()
            self.up, self.norm = torch.nn.ConvTranspose2d(12, 20, 3, 2, 1, 1), torch.nn.BatchNorm2d(20)
            self.skip = torch.nn.Conv2d(20, 20, 1)

        def forward(self, x: Any, y: Any) -> Any:
            return torch.nn.functional.gelu(self.norm(self.up(x)) + self.skip(y))

    yield Sample(Up().eval(), (r(2, 12, 5, 4), r(2, 20, 10, 8)), "block")
    yield Sample(lambda x, w: F.conv_transpose2d(x, w, stride=2, groups=2), (r(1, 6, 5, 7), r(6, 20, 3, 2)), "weights from outside")  # fmt: skip
    yield Sample(
        lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1),
        tuple(torch.randint(-99, 99, shape, generator=rand) for shape in ((2, 3, 4, 5), (3, 4, 3, 2), (4,))),
        "integers",
        tolerance=0.0,
    )
    free = {
        0: torch.export.Dim("n", max=64),
        2: torch.export.Dim("h", min=3, max=99),
        3: torch.export.Dim("w", min=3, max=99),
    }
    yield _case("dynamic", r(2, 8, 9, 8), 20, (4, 4), 17, padding=1, stride=2, dynamic=(free,))


@conv_transpose3d.samples
def _() -> Iterator[Sample]:
    import torch

    rand = torch.Generator().manual_seed(0)

    def r(*shape: int) -> Any:
        return torch.randn(*shape, generator=rand)

    yield _case("2x2x2/2, batch 2", r(2, 20, 3, 4, 5), 36, (2, 2, 2), 1, stride=2)
    yield _case("uneven all over", r(1, 9, 4, 3, 5), 17, (3, 4, 2), 2, stride=(2, 1, 3), padding=(1, 2, 0), output_padding=(1, 0, 2))  # fmt: skip
    yield _case("groups of 3", r(1, 6, 3, 3, 9), 9, (3, 3, 3), 3, stride=2, groups=3, dilation=(1, 2, 1))
    yield _case("no batch dim", r(5, 3, 4, 2), 8, (3, 3, 3), 4)
    yield _case(
        "dynamic", r(2, 4, 3, 4, 5), 8, (3, 3, 3), 5, stride=2, dynamic=({4: torch.export.Dim("w", min=2, max=99)},)
    )
