"""batch_norm with running statistics: in the IR only. Passes fold it into the convolution or linear before it, or
write it as a multiplication and an addition; no kernel exists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.capture.emitter import Emitter
    from penlight.ir.graph import Value

batch_norm = Op(
    "batch_norm",
    "x: tensor, w: tensor?, b: tensor?, mean: tensor, var: tensor, eps: float",
    layout="follow",
    doc="(x - mean) / sqrt(var + eps) * w + b, each one number a channel (dim 1).",
)

_TRAINING = "in training mode: it would use the statistics of this batch; call model.eval() before export"


def _emit(
    g: Emitter, x: Value, w: Value | None, b: Value | None, mean: Value | None, var: Value | None, eps: float
) -> Value:
    if mean is None or var is None:
        g.fail("without running statistics (track_running_stats=False): " + _TRAINING)
    if x.dtype != "f32":
        g.fail(f"of a {x.dtype} tensor: only f32 is supported")
    out = g.out[0] if isinstance(g.out, tuple) else g.out
    return g.emit("batch_norm", x, w, b, mean, var, type=out, eps=eps)


@batch_norm.from_aten("batch_norm")
def _(
    g: Emitter, x: Value, w: Value | None, b: Value | None, mean: Value | None, var: Value | None, training: bool,
    momentum: float, eps: float, cudnn: bool,
) -> Value:  # fmt: skip
    if training:
        g.fail(_TRAINING)
    return _emit(g, x, w, b, mean, var, eps)


@batch_norm.from_aten("_native_batch_norm_legit_no_training")
def _(
    g: Emitter,
    x: Value,
    w: Value | None,
    b: Value | None,
    mean: Value | None,
    var: Value | None,
    momentum: float,
    eps: float,
) -> Any:
    return _emit(g, x, w, b, mean, var, eps), None, None  # saved statistics: used in training only


@batch_norm.from_aten("native_batch_norm", "_native_batch_norm_legit")
def _(
    g: Emitter, x: Value, w: Value | None, b: Value | None, mean: Value | None, var: Value | None, training: bool,
    momentum: float, eps: float,
) -> Any:  # fmt: skip
    if training:
        g.fail(_TRAINING)
    return _emit(g, x, w, b, mean, var, eps), None, None


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
    yield Sample(norm, (torch.randn(3, 8, 9, generator=rand), *statistics(8), *parameters(8)), "1d")

    module = torch.nn.Sequential(torch.nn.BatchNorm2d(17), torch.nn.ReLU()).eval()
    norm2d: Any = module[0]
    norm2d.running_mean, norm2d.running_var = statistics(17)
    with torch.no_grad():
        norm2d.weight.copy_(torch.randn(17, generator=rand))
    special = torch.randn(2, 17, 4, 4, generator=rand)
    special[0, 0, 0, 0], special[1, 1, 1, 1] = float("nan"), float("inf")
    yield Sample(module, (special,), "module, nan, inf")
