"""group_norm: over the channels of each group and all pixels; instance_norm has one channel to a group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.reduce.layer_norm import as_floats, emit_moments
from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ir.types import TensorType
    from penlight.ops.emitter import Emitter

group_norm = Op(
    "group_norm",
    "x: tensor, w: tensor?, b: tensor?, groups: int, eps: float",
    layout="follow",
    doc="(x - mean) / sqrt(var + eps) * w + b, mean and var of a group of channels (dim 1) and all that follows them; w and b "
    "are one number a channel.",
)


def _emit(g: Emitter, x: Value, groups: Any, w: Value | None, b: Value | None, eps: float, out: TensorType) -> Value:
    from penlight.ir.dims import combine, product
    from penlight.ir.types import TensorType

    x, w, b = as_floats(g, x, w, b)
    if x.dtype == "f64":  # rare: rows, then channels
        rows = g.reshape(x, (x.shape[0], groups, combine("//", product(x.shape[1:]), groups)))
        y = g.reshape(g.emit("layer_norm", rows, None, None, type=rows.tensor, dims=1, eps=eps), x.shape)
        column = (x.shape[1], *[1] * (x.rank - 2))
        y = y if w is None else g.emit("mul", y, g.reshape(w, column), type=x.tensor)
        return y if b is None else g.emit("add", y, g.reshape(b, column), type=x.tensor)
    y = g.emit("group_norm", x, w, b, type=TensorType("f32", x.shape), groups=groups, eps=eps)
    return g.cast(y, out.dtype)


@group_norm.from_aten("group_norm")
def _(g: Emitter, x: Value, groups: int, w: Value | None, b: Value | None, eps: float, cudnn: bool) -> Value:
    return _emit(g, x, groups, w, b, eps, g.out)


@group_norm.from_aten("native_group_norm")
def _(
    g: Emitter, x: Value, w: Value | None, b: Value | None, n: Any, c: Any, pixels: Any, groups: int, eps: float
) -> Any:
    from penlight.ir.dims import combine, product

    (plain,) = as_floats(g, x)
    rows = g.reshape(plain, (n, groups, combine("//", product(x.shape[1:]), groups)))
    mean, factor = emit_moments(g, rows, (2,), eps)
    saved = [g.cast(g.reshape(v, (n, groups)), t.dtype) for v, t in zip((mean, factor), g.out[1:], strict=True)]
    return _emit(g, x, groups, w, b, eps, g.out[0]), *saved


@group_norm.from_aten("instance_norm")
def _(
    g: Emitter, x: Value, w: Value | None, b: Value | None, mean: Any, var: Any, use_input_stats: bool, momentum: float,
    eps: float, cudnn: bool,
) -> Value:  # fmt: skip
    if use_input_stats:
        return _emit(g, x, x.shape[1], w, b, eps, g.out)
    x, w, b, mean, var = as_floats(g, x, w, b, mean, var)
    return g.cast(g.emit("batch_norm", x, w, b, mean, var, type=x.tensor, eps=eps), g.out.dtype)


@group_norm.samples
def _() -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    rand = torch.Generator().manual_seed(0)

    def r(*shape: int) -> Any:
        return torch.randn(*shape, generator=rand)

    def nhwc(*shape: int) -> Any:
        return r(*shape).to(memory_format=torch.channels_last)

    yield Sample(lambda x, w, b: F.group_norm(x, 4, w, b), (r(2, 12, 5, 6), r(12), r(12)), "planes")
    yield Sample(lambda x, w, b: F.group_norm(x * 2, 3, w, b), (nhwc(3, 39, 33, 17), r(39), r(39)), "nhwc")
    yield Sample(lambda x: F.group_norm(x + 1, 1), (nhwc(1, 5, 70, 30),), "nhwc, one group")
    yield Sample(lambda x: F.group_norm(x[:, 4:20] * 1, 4), (nhwc(2, 24, 7, 1),), "nhwc, one column")
    yield Sample(lambda x: F.group_norm(x, 3), (r(2, 12, 7),), "1d")
    yield Sample(lambda x, w: F.group_norm(x, 2, w), (r(4, 6), r(6)), "no pixels dim")
    yield Sample(lambda x, b: F.group_norm(x, 2, None, b), (r(1, 4, 3, 50, 60), r(4)), "3d, pieces")
    yield Sample(lambda x: F.group_norm(x * 1e-3 + 100, 2), (r(1, 4, 60, 60),), "large mean", tolerance=1e-2)
    yield Sample(lambda x: F.group_norm(x, 2), (r(0, 4, 3, 3),), "empty")
    special = r(2, 6, 4, 5)
    special[0, 1, 2, 3], special[1, 5, 0, 0] = float("nan"), float("inf")
    yield Sample(lambda x: F.group_norm(x, 3), (special,), "nan, inf")
    yield Sample(lambda x, w, b: F.instance_norm(x, None, None, w, b), (r(2, 5, 6, 7), r(5), r(5)), "instance_norm")
    yield Sample(
        lambda x: F.instance_norm(x, torch.arange(5) / 3, torch.arange(5) + 0.5, use_input_stats=False),
        (r(2, 5, 6, 7),),
        "instance_norm, statistics",
    )
    sides = (
        {0: torch.export.Dim("n"), 2: torch.export.Dim("h", min=4, max=99), 3: torch.export.Dim("w", min=4, max=99)},
    )
    yield Sample(lambda x: F.group_norm(x * 2, 4), (r(2, 24, 6, 7),), "dynamic", dynamic=sides)
    yield Sample(lambda x, w: F.group_norm(F.conv3d(x, w), 3), (r(2, 3, 5, 4, 7), r(12, 3, 2, 1, 3)), "3d, nhwc")
