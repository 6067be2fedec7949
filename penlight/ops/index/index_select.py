"""index_select: slices of x along a dim, by index. Indexing with one tensor, x[:, index], becomes it too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.capture.emitter import Emitter
    from penlight.ir.graph import Value

index_select = Op(
    "index_select",
    "x: tensor, index: tensor, dim: int",
    tolerance=0.0,
    key_by="size",
    mixed=("index",),
    doc="Slices of x along dim; index has rank 1 and values from 0 to the size of dim.",
)


def _select(g: Emitter, x: Value, index: Value, dim: int, type: Any) -> Value:
    return g.emit("index_select", x, index if index.dtype == "i32" else g.cast(index, "i64"), type=type, dim=dim)


@index_select.from_aten("index_select")
def _(g: Emitter, x: Value, dim: int, index: Value) -> Value:
    index = g.reshape(index, (1,)) if index.rank == 0 else index
    if x.rank == 0:
        return x
    return _select(g, x, index, dim % x.rank, g.out)


@index_select.from_aten("index.Tensor")
def _(g: Emitter, x: Value, indices: Sequence[Value | None]) -> Value:
    from penlight.ir.dims import product
    from penlight.ir.types import TensorType

    used = [(dim, i) for dim, i in enumerate(indices) if i is not None]
    if len(used) != 1 or used[0][1].dtype in ("bool", "u8"):
        g.fail("with several index tensors, or with a mask: one tensor of integers is supported")
    dim, index = used[0]
    size = x.shape[dim]
    index = g.cast(index, "i64")
    if index.constant is not None and isinstance(size, int):
        index = g.constant(index.constant + size * (index.constant < 0))
    else:  # negative ones count from the end
        negative = g.emit("lt", index, g.constant(0, "i64"), type=TensorType("bool", index.shape))
        index = g.emit(
            "where",
            negative,
            g.emit("add", index, g.constant(size, "i64"), type=index.tensor),
            index,
            type=index.tensor,
        )
    flat = g.reshape(index, (product(index.shape),))
    type = TensorType(x.dtype, (*x.shape[:dim], flat.shape[0], *x.shape[dim + 1 :]))
    return g.reshape(_select(g, x, flat, dim, type), g.out.shape)


@index_select.samples
def _() -> Iterator[Sample]:
    import torch

    rand = torch.Generator().manual_seed(0)

    def r(*shape: int) -> Any:
        return torch.randn(*shape, generator=rand)

    def case(name: str, x: Any, dim: int, index: Any) -> Sample:
        return Sample(lambda x, i: torch.index_select(x, dim, i), (x, index), name)

    yield case("rows", r(9, 17), 0, torch.tensor([3, 0, 8, 8, 1]))
    yield case("columns", r(9, 17), 1, torch.tensor([16, 0, 5]))
    yield case("channels", r(2, 7, 5, 3), -3, torch.tensor([6, 2, 2, 0]))
    yield case("i32", r(2, 7), 1, torch.tensor([1, 2], dtype=torch.int32))
    yield case("none", r(2, 7), 1, torch.tensor([], dtype=torch.int64))
    yield case("of i64", torch.arange(20).reshape(4, 5), 1, torch.tensor([4, 1]))
    yield case("of bool", torch.tensor([[True, False, True]]), 1, torch.tensor([2, 1, 1]))
    yield case("rank 1", r(9), 0, torch.tensor([8, 1]))
    yield Sample(
        lambda x, i: torch.index_select(x.permute(2, 0, 1), 1, i), (r(3, 4, 5), torch.tensor([2, 0])), "permuted"
    )
    yield Sample(lambda x, i: torch.index_select(x[:, ::2], 0, i), (r(6, 9), torch.tensor([5, 0])), "step 2")
    nhwc = r(2, 8, 3, 4).to(memory_format=torch.channels_last)
    yield case("channels_last", nhwc, 1, torch.tensor([7, 3, 0]))
    yield Sample(lambda x, i: x[:, i], (r(3, 6, 5), torch.tensor([[0, -1], [2, 5]])), "x[:, index], negative")
    yield Sample(lambda x: x[:, torch.tensor([0, -1, 2])], (r(3, 6, 5),), "x[:, constant]")
