"""matmul: a product of two matrices (or batches of them, broadcast) that are both known only in a run.
A constant second matrix becomes a `linear`, whose weight is packed at export."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Any

from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.capture.emitter import Emitter
    from penlight.ir.graph import Value

matmul = Op(
    "matmul",
    "a: tensor, b: tensor",
    work=lambda x, y: prod(y) * x[0][-1],
    doc="a [..., M, K] x b [..., K, N], leading dims broadcast.",
)


def emit_matmul(g: Emitter, a: Value, b: Value) -> Value:
    """torch.matmul of two values of any rank; its shape is that of g.out."""
    import numpy as np

    from penlight.ir.types import TensorType

    for x in (a, b):
        if x.dtype != "f32":
            g.fail(f"of a {x.dtype} tensor: only f32 is supported")
    shape = g.out.shape
    if b.constant is not None and b.rank == 2 and a.rank >= 1:
        w = g.constant(np.ascontiguousarray(b.constant.T))
        return g.emit("linear", a, w, None, None, type=TensorType("f32", shape))
    rows = a if a.rank > 1 else g.reshape(a, (1, *a.shape))
    columns = b if b.rank > 1 else g.reshape(b, (*b.shape, 1))
    if columns.rank == 2:  # one matrix for the whole batch: its rows are rows of one matrix
        rows = g.reshape(rows, (-1, rows.shape[-1]))
    lead = () if columns.rank == 2 else shape[: len(shape) - (a.rank > 1) - (b.rank > 1)]
    type = TensorType("f32", (*lead, rows.shape[-2], columns.shape[-1]))
    return g.reshape(g.emit("matmul", rows, columns, type=type), shape)


@matmul.from_aten("matmul", "mm", "bmm", "mv", "dot")
def _(g: Emitter, a: Value, b: Value) -> Value:
    return emit_matmul(g, a, b)


@matmul.from_aten("baddbmm")
def _(g: Emitter, x: Value, a: Value, b: Value, beta: Any, alpha: Any) -> Value:
    y = emit_matmul(g, a, b)
    if alpha != 1:
        y = g.emit("mul", y, g.constant(float(alpha)))
    if beta == 0:
        return y
    return g.emit("add", x if beta == 1 else g.emit("mul", x, g.constant(float(beta)), type=x.tensor), y)


@matmul.samples
def _() -> Iterator[Sample]:
    import torch

    rand = torch.Generator().manual_seed(0)

    def r(*shape: int) -> Any:
        return torch.randn(*shape, generator=rand)

    def case(name: str, a: Any, b: Any, **options: Any) -> Sample:
        return Sample(lambda a, b: a @ b, (a, b), name, **options)

    yield case("square", r(48, 64), r(64, 32))
    yield case("odd", r(29, 37), r(37, 43))
    yield case("tiny", r(1, 1), r(1, 1))
    yield case("tall", r(201, 5), r(5, 3))
    yield case("long K", r(7, 1300), r(1300, 33), tolerance=2e-5)
    yield case("one row", r(1, 70), r(70, 51))
    yield case("one row, b transposed", r(1, 70), r(51, 70).T)
    yield case("three rows", r(3, 65), r(65, 100))
    yield case("batch", r(3, 17, 20), r(3, 20, 19))
    yield case("broadcast", r(2, 1, 17, 20), r(3, 20, 19))
    yield case("broadcast a", r(17, 20), r(2, 3, 20, 19))
    yield case("one b for all", r(2, 3, 5, 20), r(20, 19))
    yield case("b transposed", r(2, 17, 65), r(2, 19, 65).transpose(1, 2))
    yield case("a transposed", r(2, 65, 17).transpose(1, 2), r(2, 65, 19))
    yield case("heads", r(2, 9, 3, 8).permute(0, 2, 1, 3), r(2, 9, 3, 8).permute(0, 2, 3, 1))
    yield case("expanded b", r(4, 6, 8), r(8, 9).expand(4, 8, 9))
    yield case("vector vector", r(33), r(33))
    yield case("matrix vector", r(9, 33), r(33))
    yield case("vector matrix", r(33), r(33, 9))
    yield case("batch vector", r(2, 5, 9, 33), r(33))
    yield case("vector batch", r(33), r(2, 33, 9))
    yield case("no K", r(3, 0), r(0, 5))
    yield case("no rows", r(0, 4), r(4, 5))
    yield case("no batch", r(0, 3, 4), r(0, 4, 5))
    special = r(5, 20)
    special[1, 3], special[2, 4] = float("nan"), float("inf")
    yield case("nan, inf", special, r(20, 17))
    weight = r(20, 35)
    yield Sample(lambda x: x @ weight, (r(2, 7, 20),), "constant b")
    yield Sample(lambda x: weight @ x, (r(3, 35, 6),), "constant a")
    yield Sample(torch.bmm, (r(3, 4, 5), r(3, 5, 6)), "bmm")
    yield Sample(
        lambda x, a, b: torch.baddbmm(x, a, b, beta=0.5, alpha=2.0), (r(3, 4, 6), r(3, 4, 5), r(3, 5, 6)), "baddbmm"
    )
    n, k = torch.export.Dim("n"), torch.export.Dim("k", min=2, max=99)
    free = ({0: n, 2: k}, {0: n, 1: k})
    yield Sample(lambda a, b: a @ b, (r(3, 5, 18), r(3, 18, 7)), "dynamic", dynamic=free)
