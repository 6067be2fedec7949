"""layer_norm over the last dims; group_norm and instance_norm are made of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.capture.emitter import Emitter
    from penlight.ir.graph import Value

layer_norm = Op(
    "layer_norm",
    "x: tensor, w: tensor?, b: tensor?, dims: int, eps: float",
    doc="(x - mean) / sqrt(var + eps) * w + b over the last `dims` dims; w and b have their shape.",
)


def _require_f32(g: Emitter, x: Value) -> None:
    if x.dtype != "f32":
        g.fail(f"of a {x.dtype} tensor: only f32 is supported")


@layer_norm.from_aten("layer_norm")
def _(g: Emitter, x: Value, shape: Sequence[Any], w: Value | None, b: Value | None, eps: float, cudnn: bool) -> Value:
    _require_f32(g, x)
    return g.emit("layer_norm", x, w, b, dims=len(shape), eps=eps)


@layer_norm.from_aten("native_layer_norm")
def _(g: Emitter, x: Value, shape: Sequence[Any], w: Value | None, b: Value | None, eps: float) -> Any:
    _require_f32(g, x)
    y = g.emit("layer_norm", x, w, b, type=g.out[0], dims=len(shape), eps=eps)
    return y, None, None  # mean and rstd: used in training only


def _grouped(g: Emitter, x: Value, groups: Any, w: Value | None, b: Value | None, eps: float) -> Value:
    """A norm over the channels of each group and all that follows them: one row to a group."""
    from penlight.ir.dims import combine, product
    from penlight.ir.types import TensorType

    _require_f32(g, x)
    size = combine("//", product(x.shape[1:]), groups)
    rows = g.reshape(x, (x.shape[0], groups, size))
    y = g.emit("layer_norm", rows, None, None, type=rows.tensor, dims=1, eps=eps)
    y = g.reshape(y, x.shape)
    type = TensorType(x.dtype, x.shape)
    ones = (1,) * (x.rank - 2)
    if w is not None:
        y = g.emit("mul", y, g.reshape(w, (x.shape[1], *ones)), type=type)
    if b is not None:
        y = g.emit("add", y, g.reshape(b, (x.shape[1], *ones)), type=type)
    return y


@layer_norm.from_aten("group_norm")
def _(g: Emitter, x: Value, groups: int, w: Value | None, b: Value | None, eps: float, cudnn: bool) -> Value:
    return _grouped(g, x, groups, w, b, eps)


@layer_norm.from_aten("instance_norm")
def _(
    g: Emitter, x: Value, w: Value | None, b: Value | None, mean: Any, var: Any, use_input_stats: bool, momentum: float,
    eps: float, cudnn: bool,
) -> Value:  # fmt: skip
    if not use_input_stats:  # running statistics: a batch_norm
        return g.emit("batch_norm", x, w, b, mean, var, eps=eps)
    return _grouped(g, x, x.shape[1], w, b, eps)


@layer_norm.samples
def _() -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    rand = torch.Generator().manual_seed(0)

    def r(*shape: int) -> Any:
        return torch.randn(*shape, generator=rand)

    yield Sample(lambda x, w, b: F.layer_norm(x, (768,), w, b, 1e-6), (r(1, 19, 768), r(768), r(768)), "vit")
    yield Sample(lambda x, w, b: F.layer_norm(x, (37,), w, b), (r(3, 5, 37), r(37), r(37)), "odd")
    yield Sample(lambda x: F.layer_norm(x, (5, 6)), (r(3, 5, 6),), "two dims, no affine")
    yield Sample(lambda x, w: F.layer_norm(x, (3,), w), (r(4, 3), r(3)), "short, no bias")
    yield Sample(lambda x: F.layer_norm(x * 1e-3 + 100, (64,)), (r(4, 64),), "large mean", tolerance=1e-2)
    yield Sample(lambda x: F.layer_norm(x.transpose(1, 2), (8,)), (r(2, 8, 9),), "transposed")
    yield Sample(
        lambda x: F.layer_norm(x.permute(0, 2, 3, 1), (33,)).permute(0, 3, 1, 2),
        (r(2, 33, 5, 4),),
        "channels (convnext)",
    )
    yield Sample(lambda x: F.layer_norm(x, (4,)), (r(0, 4),), "empty")
    yield Sample(lambda x: F.layer_norm(x, (1,)), (r(5, 1),), "size 1")
    special = r(5, 20)
    special[0, 19] = float("nan")
    special[1, 3] = float("inf")
    special[2] = 3.0
    yield Sample(lambda x: F.layer_norm(x, (20,)), (special,), "nan, inf, constant")
    yield Sample(lambda x, w, b: F.group_norm(x, 4, w, b), (r(2, 12, 5, 6), r(12), r(12)), "group_norm")
    yield Sample(lambda x: F.group_norm(x, 3), (r(2, 12, 7),), "group_norm 1d")
    yield Sample(lambda x, w, b: F.instance_norm(x, None, None, w, b), (r(2, 5, 6, 7), r(5), r(5)), "instance_norm")
    free: Any = ({0: torch.export.Dim("n"), 1: torch.export.Dim("l", min=2, max=99)}, None, None)
    yield Sample(lambda x, w, b: F.layer_norm(x, (32,), w, b), (r(3, 7, 32), r(32), r(32)), "dynamic", dynamic=free)
