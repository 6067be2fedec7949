"""gather: an element of x for each index, along one dim; take_along_dim and the picking in losses become it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.registry import Op, Sample, composite

if TYPE_CHECKING:
    import numpy as np

    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter


def _fold(x: np.ndarray, index: np.ndarray, *, dim: int) -> np.ndarray:
    import numpy as np

    same = tuple(slice(None) if d == dim else slice(n) for d, n in enumerate(index.shape))
    return np.take_along_axis(x[same], index, dim)


gather = Op(
    "gather",
    "x: tensor, index: tensor, dim: int",
    tolerance=0.0,
    key_by="size",
    mixed=("index",),
    fold=_fold,
    doc="x[i, index[i, j, k], k] for dim 1. Indices are i64, from 0 to the size of dim.",
)


@gather.from_aten("gather")
def _(g: Emitter, x: Value, dim: int, index: Value, sparse_grad: bool) -> Value:
    import numpy as np

    from penlight.ir.types import TensorType, numpy_dtype

    index = g.cast(index, "i64")
    if 0 in index.shape:  # of any rank
        sizes = tuple(d if isinstance(d, int) else 0 for d in index.shape)
        return g.reshape(g.constant(np.zeros(sizes, numpy_dtype(x.dtype)), x.dtype), index.shape)
    if x.rank == 0 or index.rank == 0:
        x, index = (g.reshape(v, (1,)) if v.rank == 0 else v for v in (x, index))
        return g.reshape(g.emit("gather", x, index, type=TensorType(x.dtype, index.shape), dim=0), g.out.shape)
    return g.emit("gather", x, index, dim=dim % x.rank)


@composite("take_along_dim")
def _(x: Any, index: Any, dim: int | None = None) -> Any:
    import torch

    if dim is None:
        x, index, dim = x.flatten(), index.flatten(), 0
    dim %= x.dim()
    index = torch.where(index < 0, index + x.shape[dim], index)
    shape = [max(a, b) if d != dim else 0 for d, (a, b) in enumerate(zip(x.shape, index.shape, strict=True))]
    wide = [n if d != dim else x.shape[dim] for d, n in enumerate(shape)]
    index_shape = [n if d != dim else index.shape[dim] for d, n in enumerate(shape)]
    return torch.gather(x.expand(wide), dim, index.expand(index_shape))


@gather.samples
def _() -> Iterator[Sample]:
    import torch

    rand = torch.Generator().manual_seed(0)

    def case(name: str, shape: tuple[int, ...], dim: int, sizes: tuple[int, ...], dtype: Any = torch.float32) -> Sample:
        x = (torch.randn(*shape, generator=rand) * 9).to(dtype)
        index = torch.randint(0, shape[dim], sizes, generator=rand)
        return Sample(lambda x, i: torch.gather(x, dim, i), (x, index), name)

    yield case("rows", (9, 17), 0, (5, 17))
    yield case("inside, fewer of all", (3, 33, 7), 1, (2, 65, 5))
    yield case("last dim of i64", (3, 5, 31), -1, (3, 5, 7), torch.int64)
    yield case("many, of bool", (200, 130), 1, (200, 301), torch.bool)
    yield case("none", (3, 4), 1, (3, 0))
    words = torch.randint(0, 7, (3, 4, 1), generator=rand)
    x = torch.randn(3, 7, 19, generator=rand)
    yield Sample(lambda x, i: x.gather(1, i.expand(-1, -1, 19)), (x, words), "one index a row")
    yield Sample(lambda x, i: x.mT.gather(2, i.expand(-1, -1, 5)[:, :, ::2]), (x, words), "strided")
    n = torch.export.Dim("n", min=2, max=99)
    yield Sample(
        lambda x, i: x.gather(1, i),
        (torch.randn(4, 9), torch.tensor([[1, 0]] * 4)),
        "dynamic",
        dynamic=({0: n}, {0: n}),
    )
