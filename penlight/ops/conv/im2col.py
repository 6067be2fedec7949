"""im2col, col2im: the windows of a convolution as columns of a matrix, and back, where columns that overlap add up
(torch.nn.functional.unfold and fold). Convolutions here need no such matrix; models that ask for it get it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.pool.planes import HALVES
from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

_WINDOW = "kernel: int[], stride: int[], padding: int[], dilation: int[]"

im2col = Op(
    "im2col",
    f"x: tensor, {_WINDOW}",
    tolerance=0.0,
    key_by="size",
    doc="Windows of x [N, C, H, W] as columns: [N, C * kh * kw, windows]. Padding reads as zero.",
)
col2im = Op(
    "col2im",
    f"x: tensor, size: int[], {_WINDOW}",
    doc="The sum of all columns of x [N, C * kh * kw, windows] at their windows' places: [N, C, H, W].",
)


def _window(kernel: Any, dilation: Any, padding: Any, stride: Any) -> dict[str, Any]:
    return {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}


@im2col.from_aten("im2col")
def _(g: Emitter, x: Value, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Value:
    from penlight.ir.types import TensorType

    batched = g.reshape(x, (1,) * (4 - x.rank) + x.shape)
    type = TensorType(x.dtype, (batched.shape[0], *g.out.shape[-2:]))
    return g.reshape(g.emit("im2col", batched, type=type, **_window(kernel, dilation, padding, stride)), g.out.shape)


@col2im.from_aten("col2im")
def _(g: Emitter, x: Value, size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Value:
    from penlight.ir.types import TensorType

    if x.dtype not in ("f32", *HALVES):
        g.fail(f"of a {x.dtype} tensor: only f32 is supported")
    batched = g.cast(g.reshape(x, (1,) * (3 - x.rank) + x.shape), "f32")
    type = TensorType("f32", (batched.shape[0], *g.out.shape[-3:]))
    y = g.emit("col2im", batched, type=type, size=size, **_window(kernel, dilation, padding, stride))
    return g.cast(g.reshape(y, g.out.shape), g.out.dtype)


@im2col.samples
def _() -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    rand = torch.Generator().manual_seed(0)

    def case(name: str, x: Any, dynamic: Any = None, **options: Any) -> Sample:
        return Sample(lambda x: F.unfold(x, **options), (x,), name, dynamic=dynamic)

    yield case("patches", torch.randn(2, 3, 32, 48, generator=rand), kernel_size=16, stride=16)
    x = torch.randn(3, 5, 17, 33, generator=rand)
    yield case("3x3, padded", x, kernel_size=3, padding=1)
    yield case("uneven", x, kernel_size=(2, 5), stride=(3, 2), padding=(1, 4), dilation=(2, 3))
    yield case("padding wider than the image", x[:, :, :2, :2], kernel_size=2, padding=5, dilation=3)
    yield case("channels_last, no batch dim", x.to(memory_format=torch.channels_last)[0], kernel_size=2)
    yield case("empty", x[:0], kernel_size=2)
    yield case("bool", x > 0, kernel_size=3, stride=2)
    free = ({0: torch.export.Dim("n", max=64), 3: torch.export.Dim("w", min=4, max=99)},)
    yield case("dynamic", x, kernel_size=3, padding=1, dynamic=free)


@col2im.samples
def _() -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    rand = torch.Generator().manual_seed(0)

    def case(name: str, size: tuple[int, int], *shape: int, dynamic: Any = None, **options: Any) -> Sample:
        return Sample(
            lambda x: F.fold(x, size, **options), (torch.randn(*shape, generator=rand),), name, dynamic=dynamic
        )

    yield case("patches", (32, 48), 2, 3 * 256, 6, kernel_size=16, stride=16)
    yield case("3x3, padded", (17, 33), 3, 45, 17 * 33, kernel_size=3, padding=1)
    yield case("uneven", (11, 13), 1, 20, 12, kernel_size=(2, 5), stride=(3, 4), padding=(1, 2), dilation=(2, 2))
    yield case("no batch dim", (4, 5), 12, 12, kernel_size=2)
    yield case("dynamic", (9, 8), 2, 8, 56, kernel_size=2, dynamic=({0: torch.export.Dim("n", min=2, max=64)},))
