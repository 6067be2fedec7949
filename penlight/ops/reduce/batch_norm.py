"""batch_norm with running statistics: in the IR only. Passes fold it into the convolution or linear before it, or
write it as a multiplication and an addition; no kernel exists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.reduce.layer_norm import as_floats, emit_moments
from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ir.types import TensorType
    from penlight.ops.emitter import Emitter

batch_norm = Op(
    "batch_norm",
    "x: tensor, w: tensor?, b: tensor?, mean: tensor, var: tensor, eps: float",
    layout="follow",
    images=("x",),
    dtypes=("f32", "f64"),
    doc="(x - mean) / sqrt(var + eps) * w + b, each one number a channel (dim 1).",
)

_TRAINING = "in training mode: it would change its running statistics; call model.eval() before export"


def _running(g: Emitter, x: Value, w: Any, b: Any, mean: Any, var: Any, eps: float, out: TensorType) -> Value:
    if mean is None or var is None:
        g.fail("in eval mode without running statistics")
    for v in (w, b, mean, var):  # passes compute with their numbers before anything runs
        if v is not None and v.shape != (x.shape[1],):
            g.fail(f"with numbers of shape {list(v.shape)} for {x.shape[1]} channels")
    x, w, b, mean, var = as_floats(g, x, w, b, mean, var)
    return g.cast(g.emit("batch_norm", x, w, b, mean, var, type=x.tensor, eps=eps), out.dtype)


def _of_batch(g: Emitter, x: Value, w: Any, b: Any, eps: float, out: TensorType) -> tuple[Value, Value, Value]:
    """By the statistics of this batch, which follow: mean and 1 / sqrt(var + eps)."""
    x, w, b = as_floats(g, x, w, b)
    mean, factor = emit_moments(g, x, (0, *range(2, x.rank)), eps)
    y = g.emit("mul", g.emit("sub", x, mean, type=x.tensor), factor, type=x.tensor)
    column = (x.shape[1], *[1] * (x.rank - 2))
    if w is not None:
        y = g.emit("mul", y, g.reshape(w, column), type=x.tensor)
    if b is not None:
        y = g.emit("add", y, g.reshape(b, column), type=x.tensor)
    return g.cast(y, out.dtype), g.reshape(mean, (x.shape[1],)), g.reshape(factor, (x.shape[1],))


@batch_norm.from_aten("batch_norm")
def _(
    g: Emitter, x: Value, w: Value | None, b: Value | None, mean: Value | None, var: Value | None, training: bool,
    momentum: float, eps: float, cudnn: bool,
) -> Value:  # fmt: skip
    if not training:
        return _running(g, x, w, b, mean, var, eps, g.out)
    if mean is not None or var is not None:
        g.refuse(_TRAINING)
    return _of_batch(g, x, w, b, eps, g.out)[0]


def _nothing(g: Emitter) -> Value:
    import numpy as np

    return g.constant(np.zeros(0, np.float32))


@batch_norm.from_aten("_native_batch_norm_legit_no_training")
def _(
    g: Emitter, x: Value, w: Value | None, b: Value | None, mean: Value | None, var: Value | None, momentum: float,
    eps: float,
) -> Any:  # fmt: skip
    return _running(g, x, w, b, mean, var, eps, g.out[0]), _nothing(g), _nothing(g)


@batch_norm.from_aten("_batch_norm_no_update")
def _(
    g: Emitter, x: Value, w: Value | None, b: Value | None, mean: Value | None, var: Value | None, momentum: float,
    eps: float,
) -> Any:  # fmt: skip
    import numpy as np

    if mean is None or var is None:
        return *_of_batch(g, x, w, b, eps, g.out[0]), g.constant(np.zeros(0, np.uint8))
    return _running(g, x, w, b, mean, var, eps, g.out[0]), _nothing(g), _nothing(g), g.constant(np.zeros(0, np.uint8))


@batch_norm.from_aten("native_batch_norm", "_native_batch_norm_legit")
def _(
    g: Emitter, x: Value, w: Value | None, b: Value | None, mean: Value | None, var: Value | None, training: bool,
    momentum: float, eps: float,
) -> Any:  # fmt: skip
    if not training:
        return _running(g, x, w, b, mean, var, eps, g.out[0]), _nothing(g), _nothing(g)
    if mean is not None or var is not None:
        g.refuse(_TRAINING)
    return _of_batch(g, x, w, b, eps, g.out[0])


@batch_norm.from_aten("_native_batch_norm_legit.no_stats")
def _(g: Emitter, x: Value, w: Value | None, b: Value | None, training: bool, momentum: float, eps: float) -> Any:
    return _of_batch(g, x, w, b, eps, g.out[0])


@batch_norm.samples
def _() -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    rand = torch.Generator().manual_seed(0)

    def statistics(c: int) -> tuple[Any, ...]:
        return torch.randn(c, generator=rand), torch.rand(c, generator=rand) + 0.1

    def parameters(c: int) -> tuple[Any, ...]:
        return torch.randn(c, generator=rand), torch.randn(c, generator=rand)

    def norm(x: Any, mean: Any, var: Any, w: Any = None, b: Any = None) -> Any:
        return F.batch_norm(x, mean, var, w, b, eps=1e-3)

    yield Sample(norm, (torch.randn(2, 19, 5, 7, generator=rand), *statistics(19), *parameters(19)), "planes")
    yield Sample(norm, (torch.randn(3, 8, generator=rand), *statistics(8)), "rows, no affine")
    yield Sample(
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        (torch.randn(3, 8, 5, 4, generator=rand), *parameters(8)),
        "of this batch",
    )
    yield Sample(norm, (torch.randn(3, 8, 9, generator=rand), *statistics(8), *parameters(8)), "1d")

    module = torch.nn.Sequential(torch.nn.BatchNorm2d(17), torch.nn.ReLU()).eval()
    norm2d: Any = module[0]
    norm2d.running_mean, norm2d.running_var = statistics(17)
    with torch.no_grad():
        norm2d.weight.copy_(torch.randn(17, generator=rand))
    special = torch.randn(2, 17, 4, 4, generator=rand)
    special[0, 0, 0, 0], special[1, 1, 1, 1] = float("nan"), float("inf")
    yield Sample(module, (special,), "module, nan, inf")
