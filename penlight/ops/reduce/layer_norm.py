"""layer_norm and rms_norm over the last dims."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ir.types import TensorType
    from penlight.ops.emitter import Emitter

EPSILON = {"f32": 1.1920928955078125e-07, "f64": 2.220446049250313e-16}  # torch's, of the dtype in which it computes
layer_norm = Op(
    "layer_norm",
    "x: tensor, w: tensor?, b: tensor?, dims: int, eps: float",
    dtypes=("f32", "f64"),
    doc="(x - mean) / sqrt(var + eps) * w + b over the last `dims` dims; w and b have their shape.",
)
rms_norm = Op(
    "rms_norm",
    "x: tensor, w: tensor?, dims: int, eps: float",
    dtypes=("f32", "f64"),
    doc="x / sqrt(mean of squares + eps) * w over the last `dims` dims; w has their shape.",
)


def as_floats(g: Emitter, *values: Value | None, dtypes: Sequence[str] = ("f32", "f64")) -> list[Any]:
    """The operands of a norm, of the first one's dtype; half floats are computed in f32, as torch does."""
    for x in values:
        if x is not None and x.dtype not in (*dtypes, "f16", "bf16"):
            g.fail(f"of a {x.dtype} tensor: {', '.join(dtypes)}, f16 and bf16 are supported")
    dtype = "f64" if values and values[0] is not None and values[0].dtype == "f64" else "f32"
    return [None if x is None else g.cast(x, dtype) for x in values]


def as_f32(g: Emitter, *values: Value | None) -> list[Any]:
    """The same for an operator whose kernels are f32 alone."""
    return as_floats(g, *values, dtypes=("f32",))


def emit_moments(g: Emitter, x: Value, dims: Sequence[int], eps: float) -> tuple[Value, Value]:
    """Mean and 1 / sqrt(var + eps) over dims, which stay with size 1. Where nobody reads them, they cost nothing."""
    from penlight.ops.reduce.reduce import reduced_type

    type = reduced_type(x, x.dtype, tuple(dims), True)
    mean: Value = g.emit("mean", x, type=type, dims=tuple(dims), keepdim=True)
    apart = g.emit("sub", x, mean, type=x.tensor)
    square = g.emit("mul", apart, apart, type=x.tensor)
    var = g.emit("mean", square, type=type, dims=tuple(dims), keepdim=True)
    return mean, g.emit("rsqrt", g.emit("add", var, g.constant(float(eps), x.dtype), type=type), type=type)


@layer_norm.from_aten("layer_norm")
def _(g: Emitter, x: Value, shape: Sequence[Any], w: Value | None, b: Value | None, eps: float, cudnn: bool) -> Value:
    return _layer_norm(g, x, shape, w, b, eps, g.out)


@layer_norm.from_aten("native_layer_norm")
def _(g: Emitter, x: Value, shape: Sequence[Any], w: Value | None, b: Value | None, eps: float) -> Any:
    dims = range(x.rank - len(shape), x.rank)
    (plain,) = as_floats(g, x)
    mean, factor = emit_moments(g, plain, dims, eps)
    return (
        _layer_norm(g, x, shape, w, b, eps, g.out[0]),
        g.cast(mean, g.out[1].dtype),
        g.cast(factor, g.out[2].dtype),
    )


def _layer_norm(g: Emitter, x: Value, shape: Sequence[Any], w: Any, b: Any, eps: float, out: TensorType) -> Value:
    from penlight.ir.types import TensorType

    x, w, b = as_floats(g, x, w, b)
    y = g.emit("layer_norm", x, w, b, type=TensorType(x.dtype, out.shape), dims=len(shape), eps=eps)
    return g.cast(y, out.dtype)


def _rms_norm(g: Emitter, x: Value, shape: Sequence[Any], w: Value | None, eps: float | None, out: TensorType) -> Value:
    from penlight.ir.types import TensorType

    x, w = as_floats(g, x, w)
    eps = EPSILON[x.dtype] if eps is None else eps
    y = g.emit("rms_norm", x, w, type=TensorType(x.dtype, out.shape), dims=len(shape), eps=eps)
    return g.cast(y, out.dtype)


@rms_norm.from_aten("rms_norm")
def _(g: Emitter, x: Value, shape: Sequence[Any], w: Value | None, eps: float | None) -> Value:
    return _rms_norm(g, x, shape, w, eps, g.out)


@rms_norm.from_aten("_fused_rms_norm")
def _(g: Emitter, x: Value, shape: Sequence[Any], w: Value | None, eps: float | None) -> Any:
    from penlight.ops.reduce.reduce import reduced_type

    (plain,) = as_floats(g, x)
    dims = tuple(range(x.rank - len(shape), x.rank))
    type = reduced_type(plain, plain.dtype, dims, True)
    square = g.emit("mul", plain, plain, type=plain.tensor)
    mean = g.emit("mean", square, type=type, dims=dims, keepdim=True)
    constant = g.constant(EPSILON[plain.dtype] if eps is None else float(eps), plain.dtype)
    factor = g.emit("rsqrt", g.emit("add", mean, constant, type=type), type=type)
    return _rms_norm(g, x, shape, w, eps, g.out[0]), factor


@rms_norm.samples
def _() -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    rand = torch.Generator().manual_seed(0)

    def r(*shape: int) -> Any:
        return torch.randn(*shape, generator=rand)

    yield Sample(lambda x, w: F.rms_norm(x, (768,), w, 1e-6), (r(1, 19, 768), r(768)), "llama")
    yield Sample(lambda x: F.rms_norm(x, (5, 7)), (r(3, 5, 7),), "two dims, no weight")
    yield Sample(lambda x, w: F.rms_norm(x.transpose(1, 2), (33,), w), (r(2, 33, 9), r(33)), "transposed")
    yield Sample(lambda x: F.rms_norm(x, (4,)), (r(0, 4),), "empty")


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
    free: Any = ({0: torch.export.Dim("n"), 1: torch.export.Dim("l", min=2, max=99)}, None, None)
    yield Sample(lambda x, w, b: F.layer_norm(x, (32,), w, b), (r(3, 7, 32), r(32), r(32)), "dynamic", dynamic=free)
