"""linear: x [..., K] times the transpose of a weight [N, K], with what follows it in one operator.

The weight is packed into panels of 16 columns, at export where it is a constant.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Any

from penlight.ir.dims import product
from penlight.ops.conv.conv2d import takes_bytes
from penlight.ops.matmul.matmul import emit_product, emit_scaled_sum, product_dtype
from penlight.ops.registry import Op, Sample, Selection

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

linear = Op(
    "linear",
    "x: tensor, w: tensor, b: tensor?, residual: tensor?, act: str = '', act_args: float[] = ()",
    work=lambda x, y: prod(y) * x[1][1],
    dtypes=("f32", "q8"),
    quantized="kernels",
    takes_bytes=takes_bytes,
    select=lambda node: (
        Selection("linear.f32", {1: "panel16"})
        if node.inputs[0].tensor.quant is None
        else Selection("linear.q8", {1: "quads16"})
    ),
    doc="act(x w^T + b + residual); w [N, K].",
)


@linear.from_aten("linear")
def _(g: Emitter, x: Value, w: Value, b: Value | None) -> Value:
    from penlight.ir.types import TensorType

    dtype = product_dtype(x.dtype)
    if dtype != "f32":
        y = emit_product(g, x, g.permute(w, (1, 0)) if w.rank == 2 else w, g.out.shape)
        return g.cast(y, g.out.dtype) if b is None else emit_scaled_sum(g, b, 1, y, 1)
    x, w, b = g.cast(x, dtype), g.cast(w, dtype), None if b is None else g.cast(b, dtype)
    type = TensorType(dtype, g.out.shape)
    rows = product(x.shape[:-1])
    if w.rank == 2 and w.shape[0] == 1 and not (isinstance(rows, int) and rows <= 3):
        # One column would fill a sixteenth of a panel : as dot products it goes along memory.
        y = g.reshape(emit_product(g, x, g.reshape(w, (w.shape[1],)), g.out.shape[:-1]), g.out.shape)
        y = y if b is None else g.emit("add", y, b, type=type)
    elif w.rank == 1:  # one column, which the result does not have
        y = g.emit("linear", x, g.reshape(w, (1, *w.shape)), None, type=TensorType(dtype, (*g.out.shape, 1)))
        y = g.reshape(y, g.out.shape)
        y = y if b is None else g.emit("add", y, b, type=type)
    elif b is not None and b.shape != (w.shape[0],):
        y = g.emit("add", g.emit("linear", x, w, None, type=type), b, type=type)
    else:
        y = g.emit("linear", x, w, b, type=type)
    return g.cast(y, g.out.dtype)


@linear.from_aten("addmm")
def _(g: Emitter, b: Value, x: Value, w: Value, beta: Any, alpha: Any) -> Value:
    """beta * b + alpha * (x @ w): what torch.nn.Linear was before it was called linear."""
    import numpy as np

    whole = w.constant is not None and beta == 1 and alpha == 1 and b.rank == 1 and b.shape[0] == w.shape[1]
    if whole and x.dtype == "f32":
        assert w.constant is not None
        return g.emit("linear", x, g.constant(np.ascontiguousarray(w.constant.T)), b)
    return emit_scaled_sum(g, b, beta, emit_product(g, x, w, g.out.shape), alpha)


@linear.samples
def _() -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    rand = torch.Generator().manual_seed(0)

    def r(*shape: int) -> Any:
        return torch.randn(*shape, generator=rand)

    def case(name: str, x: Any, n: int, bias: bool = True, **options: Any) -> Sample:
        w, b = r(n, x.shape[-1]), r(n) if bias else None
        return Sample(lambda x: F.linear(x, w, b), (x,), name, **options)

    yield case("classifier", r(1, 320), 100)
    yield case("vector", r(37), 15)
    yield case("one of everything", r(1, 1), 1)
    for m, n in ((2, 16), (13, 17), (14, 24), (15, 31), (29, 33), (57, 8), (113, 40)):
        yield case(f"{m} rows to {n}", r(m, 21), n)
    yield case("tokens", r(3, 19, 64), 96, bias=False)
    yield case("rank 5", r(2, 1, 3, 2, 20), 19)
    yield case("long K", r(15, 1500), 40, tolerance=2e-5)
    yield case("power of two", r(20, 1024), 64)
    yield case("power of two, many columns (rows are copied)", r(2, 29, 512), 270)
    yield case("rows a power of two apart", r(3, 12, 512)[:, ::2, :100], 257)
    yield case("no rows", r(0, 20), 19)
    yield case("to one", r(3, 19, 37), 1)
    yield case("to one, no bias", r(70, 20), 1, bias=False)
    yield case("K = 0", r(5, 0), 19)
    yield case("transposed rows", r(17, 9, 20).transpose(0, 1), 33)
    yield case("transposed columns", r(20, 9).T, 33)
    yield case("rows apart", r(18, 40)[::2, :20], 33)
    yield case("expanded", r(1, 1, 20).expand(3, 4, 20), 33)
    yield Sample(lambda x, w, b: F.linear(x, w, b), (r(3, 20), r(19, 20), r(19)), "weights from outside")
    nothing = r(0, 20)
    yield Sample(lambda x: F.linear(x, nothing), (r(3, 20),), "no outputs")
    yield Sample(lambda b, x, w: torch.addmm(b, x, w), (r(19), r(3, 20), r(20, 19)), "addmm")
    wt = r(20, 19)
    yield Sample(lambda b, x: torch.addmm(b, x, wt, beta=0.5, alpha=2), (r(3, 19), r(3, 20)), "addmm, constant, scaled")
    yield Sample(lambda x: F.gelu(F.linear(x, wt.T)), (r(2, 7, 20),), "gelu")
    square = r(20, 20) / 4
    yield Sample(lambda x: F.linear(x, square) + x, (r(2, 7, 20),), "residual")
    yield Sample(lambda x: torch.tanh(F.linear(x, square) + x), (r(2, 7, 20),), "residual, tanh")
    special = r(6, 40)
    special[1, 3], special[2, 7], special[4] = float("nan"), float("inf"), -0.0
    yield case("nan, inf, -0", special, 35)
    yield case(
        "dynamic", r(3, 19, 64), 96, dynamic=({0: torch.export.Dim("n", max=64), 1: torch.export.Dim("l", max=512)},)
    )
