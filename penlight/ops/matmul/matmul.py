"""matmul: a product of two matrices (or batches of them, broadcast) that are both known only in a run.
A constant second matrix becomes a `linear`, whose weight is packed at export."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from penlight.ir.dims import product
from penlight.ops.registry import Op, Sample, composite

if TYPE_CHECKING:
    from penlight.ir.graph import Node, Value
    from penlight.ops.emitter import Emitter


def takes_bytes(node: Node, inputs: list[Value | None], result: Value) -> bool:
    """Both of u8 with one scale, and so long that 32 bits hold every sum. How long a symbol may get is not known here."""
    reach = 1
    for value in inputs:
        quant = None if value is None else value.tensor.quant
        if value is None or value.dtype != "u8" or quant is None or quant.axis is not None:
            return False
        reach *= max(quant.zero, 255 - quant.zero)
    assert inputs[0] is not None
    depth = inputs[0].shape[-1]
    return isinstance(depth, int) and depth * reach < 2**31


matmul = Op(
    "matmul",
    "a: tensor, b: tensor",
    work=lambda x, y: prod(y) * x[0][-1],
    dtypes=("f32", "f64", "i64", "q8"),
    quantized="kernels",
    takes_bytes=takes_bytes,
    doc="a [..., M, K] x b [..., K, N], leading dims broadcast.",
)


def product_dtype(dtype: str) -> str:
    """In which dtype products are computed: half floats as torch does, integers in the widest one, where they wrap alike."""
    return "f32" if dtype in ("f32", "f16", "bf16") else "f64" if dtype == "f64" else "i64"


def emit_product(g: Emitter, a: Value, b: Value, shape: Sequence[Any]) -> Value:
    """torch.matmul of two values of any rank, of this shape, in product_dtype."""
    import numpy as np

    from penlight.ir.types import TensorType

    dtype = product_dtype(a.dtype)
    a, b = g.cast(a, dtype), g.cast(b, dtype)
    if b.constant is not None and b.rank == 2 and a.rank >= 1 and dtype == "f32":
        w = g.constant(np.ascontiguousarray(b.constant.T))
        made: Value = g.emit("linear", a, w, None, None, type=TensorType("f32", tuple(shape)))
        return made
    rows = a if a.rank > 1 else g.reshape(a, (1, *a.shape))
    columns = b if b.rank > 1 else g.reshape(b, (*b.shape, 1))
    if columns.rank == 2:  # one matrix for the whole batch: its rows are rows of one matrix
        rows = g.reshape(rows, (product(rows.shape[:-1]), rows.shape[-1]))
    lead = () if columns.rank == 2 else tuple(shape)[: len(shape) - (a.rank > 1) - (b.rank > 1)]
    if columns.shape[-1] == 1 and rows.shape[-2] != 1:  # one column: the kernel is for one row
        rows, columns = (g.permute(v, (*range(v.rank - 2), -1, -2)) for v in (columns, rows))
    type = TensorType(dtype, (*lead, rows.shape[-2], columns.shape[-1]))
    return g.reshape(g.emit("matmul", rows, columns, type=type), shape)


def emit_matmul(g: Emitter, a: Value, b: Value) -> Value:
    """torch.matmul of two values of any rank; its type is g.out."""
    return g.cast(emit_product(g, a, b, g.out.shape), g.out.dtype)


def emit_scaled_sum(g: Emitter, x: Value, beta: Any, y: Value, alpha: Any) -> Value:
    """beta * x + alpha * y as g.out; y is in product_dtype. Where beta is 0, x is not looked at."""
    from penlight.ir.types import TensorType

    type = TensorType(y.dtype, g.out.shape)

    def number(value: Any) -> Value:
        return g.constant(int(value) if y.dtype == "i64" else float(value), y.dtype)

    if alpha != 1:
        y = g.emit("mul", y, number(alpha), type=y.tensor)
    if beta != 0:
        x = g.cast(x, y.dtype)
        x = x if beta == 1 else g.emit("mul", x, number(beta), type=x.tensor)
        y = g.emit("add", x, y, type=type)
    return g.cast(y, g.out.dtype)


@matmul.from_aten("matmul", "mm", "bmm", "mv", "dot")
def _(g: Emitter, a: Value, b: Value) -> Value:
    return emit_matmul(g, a, b)


@matmul.from_aten("baddbmm")
def _(g: Emitter, x: Value, a: Value, b: Value, beta: Any, alpha: Any) -> Value:
    return emit_scaled_sum(g, x, beta, emit_product(g, a, b, g.out.shape), alpha)


@matmul.from_aten("addmv")
def _(g: Emitter, x: Value, a: Value, b: Value, beta: Any, alpha: Any) -> Value:
    return emit_scaled_sum(g, x, beta, emit_product(g, a, b, g.out.shape), alpha)


@composite("addbmm")
def _(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    import torch

    # The sum over the batch is part of K: [M, B * K] times [B * K, N].
    m, n = a.shape[1], b.shape[2]
    return torch.addmm(x, a.permute(1, 0, 2).reshape(m, -1), b.reshape(-1, n), beta=beta, alpha=alpha)


@composite("bilinear")
def _(x: Any, y: Any, w: Any, b: Any = None) -> Any:
    """sum over i, j of x[i] w[o, i, j] y[j]"""
    o, i, j = w.shape
    xw = (x @ w.permute(1, 0, 2).reshape(i, o * j)).reshape(*x.shape[:-1], o, j)
    z = (xw @ y.unsqueeze(-1)).squeeze(-1)
    return z if b is None else z + b


@composite("linalg_cross")
def _(x: Any, y: Any, *, dim: int = -1) -> Any:
    import torch

    x, y = torch.broadcast_tensors(x, y)
    a, b = x.unbind(dim), y.unbind(dim)
    return torch.stack([a[i - 2] * b[i - 1] - a[i - 1] * b[i - 2] for i in range(3)], dim)


@composite("_trilinear")
def _(x: Any, y: Any, z: Any, expand1: Any, expand2: Any, expand3: Any, sumdim: Any, unroll_dim: int = 1) -> Any:
    for d in expand1:
        x = x.unsqueeze(d)
    for d in expand2:
        y = y.unsqueeze(d)
    for d in expand3:
        z = z.unsqueeze(d)
    made = x * y * z
    return made.sum(sumdim) if sumdim else made


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
    whole = torch.randint(-9, 9, (2, 5, 7), generator=rand)
    yield case("i64", whole, torch.randint(-9, 9, (7, 6), generator=rand))
    yield case("i32, transposed", whole.int(), torch.randint(-9, 9, (2, 6, 7), generator=rand).int().transpose(1, 2))
    yield case("u8, wraps", (whole + 99).byte(), torch.full((7, 3), 200).byte())
    yield case("f64", r(3, 5).double(), r(5, 4).double())
    nan = torch.full((5, 6), float("nan"))
    yield Sample(lambda a, b: torch.addbmm(nan, a, b, beta=0, alpha=2), (r(3, 5, 9), r(3, 9, 6)), "addbmm")
    yield Sample(torch.nn.functional.bilinear, (r(2, 3, 5), r(2, 3, 7), r(4, 5, 7), r(4)), "bilinear")
    yield case("batch of one column", r(2, 3, 19, 37), r(3, 37, 1))
    yield case("long dot", r(2, 5000).abs()[1], r(5000).abs())
    yield case("i64, wide", torch.randint(-9, 9, (3, 5), generator=rand), torch.randint(-9, 9, (5, 70), generator=rand))
