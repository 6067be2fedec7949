"""index: x[:, i, j] with tensors of indices, as numpy has it; index_select and take are simpler forms of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penlight.ir.dims import broadcast
from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    import numpy as np

    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter


def _fold(x: np.ndarray, *indices: np.ndarray, at: int) -> np.ndarray:
    where: Any = (*[slice(None)] * at, *indices)
    return x[where]


def _fold_select(x: np.ndarray, index: np.ndarray, *, dim: int) -> np.ndarray:
    return x.take(index, axis=dim)


index = Op(
    "index",
    "x: tensor, indices: tensor[], at: int",
    tolerance=0.0,
    key_by="size",
    mixed=("indices",),
    fold=_fold,
    doc="x[:, i, j]: i64 indices, broadcast together, for neighbouring dims of x from `at` on; negative ones from the end.",
)
index_select = Op(
    "index_select",
    "x: tensor, index: tensor, dim: int",
    tolerance=0.0,
    key_by="size",
    mixed=("index",),
    fold=_fold_select,
    doc="Slices of x along dim; index has rank 1 and values from 0 to the size of dim.",
)


@index_select.from_aten("index_select")
def _(g: Emitter, x: Value, dim: int, index: Value) -> Value:
    if x.rank == 0:
        return x
    index = g.cast(g.reshape(index, (1,)) if index.rank == 0 else index, "i64")
    return g.emit("index_select", x, index, dim=dim % x.rank)


def neighbours(g: Emitter, x: Value, indices: Sequence[Value | None]) -> tuple[Value, list[int], int, list[Value]]:
    """x with the indexed dims side by side, the order of its dims for that, the first of them, and the indices as i64.
    numpy's rule: where they are neighbours already the result's dims stand in their place, else in front."""
    from penlight.ops.dynamic.nonzero import emit_places

    used: list[tuple[int, Value]] = []
    dim = 0
    for i in indices:
        if i is None:
            dim += 1
        elif is_mask(i):
            if i.rank == 0:
                g.fail("a mask of rank 0 beside other indices")
            used += [(dim + k, places) for k, places in enumerate(emit_places(g, i))]
            dim += i.rank
        else:
            used.append((dim, g.cast(i, "i64")))
            dim += 1
    dims = [d for d, _ in used]
    together = dims == list(range(dims[0], dims[0] + len(dims)))
    order = list(range(x.rank)) if together else [*dims, *(d for d in range(x.rank) if d not in dims)]
    return g.permute(x, order), order, dims[0] if together else 0, [i for _, i in used]


@index.from_aten("index.Tensor", "_unsafe_index.Tensor")
def _(g: Emitter, x: Value, indices: Sequence[Value | None]) -> Value:
    from penlight.ir.types import TensorType
    from penlight.ops.dynamic.masked_select import emit_masked_select

    if all(i is None for i in indices):
        return x
    first, *rest = indices
    if first is not None and is_mask(first) and first.constant is None and all(i is None for i in rest):
        return emit_masked_select(g, x, first, g.out.shape[0])
    x, _, at, places = neighbours(g, x, indices)
    shape = (*x.shape[:at], *broadcast(*(p.shape for p in places)), *x.shape[at + len(places) :])
    return g.emit("index", x, places, type=TensorType(x.dtype, shape) if g.new_symbols else g.out, at=at)


def is_mask(index: Value) -> bool:
    return index.dtype in ("bool", "u8")


@index.from_aten("take")
def _(g: Emitter, x: Value, i: Value) -> Value:
    return g.emit("index", g.reshape(x, (-1,)), g.cast(i, "i64"), at=0)


@index.samples
def _() -> Iterator[Sample]:
    import torch

    rand = torch.Generator().manual_seed(0)

    def r(*shape: int) -> Any:
        return torch.randn(*shape, generator=rand)

    def i(n: int, *shape: int) -> Any:
        return torch.randint(-n, n, shape, generator=rand)

    yield Sample(lambda x, i: [x[:, i], x[i[0]], x[..., i]], (r(6, 6, 6), i(6, 2, 3)), "one, negative")
    yield Sample(
        lambda x, i, j: [x[i, j], x[:, i, j], x[i, :, j], x[:, i[:, None], :, j]],
        (r(5, 5, 5, 5), i(5, 3), i(5, 3)),
        "two",
    )
    yield Sample(lambda x, i, j: x[:, :, i[:, None], j[None]], (r(2, 17, 8, 9), i(8, 5), i(9, 33)), "grid of an image")
    yield Sample(
        lambda x, i, j: x[i, None, j], (r(4, 4, 3).permute(2, 0, 1), i(3, 2, 1), i(4, 7)), "broadcast, permuted, None"
    )
    yield Sample(lambda x, i: x[i] if x.dtype == torch.int64 else x, (torch.arange(9), i(9, 130, 301)), "many i64")
    yield Sample(lambda x, i: [x[i], x[:, :0][i], torch.take(x, i)], (r(6, 5), i(6, 0)), "none")
    yield Sample(
        lambda x: [x[:, torch.tensor([True, False, True])], x[torch.eye(3) > 0]], (r(3, 3, 2),), "constant mask"
    )
    yield Sample(
        lambda x, m: [x[m], x[m[:, 0]], x[:, m[0]], x[m, 1], x[:, m], x[m[:, :, None] & (x > 0)] + 1],
        (r(5, 5, 5), r(5, 5) > 0.5),
        "masks",
    )
    yield Sample(lambda x, m: [x[m], x[:, m[0], 2:] * 2, x[..., m[0]]], (r(5, 5, 5), r(5, 5) > 99), "masks of nothing")
    n = torch.export.Dim("n", min=2, max=99)
    yield Sample(
        lambda x, i: [x[torch.arange(x.shape[0]), i], x[:, i]], (r(4, 5), i(4, 4)), "dynamic", dynamic=({0: n}, {0: n})
    )


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
    yield case("of bool", torch.tensor([[True, False, True]]), 1, torch.tensor([2, 1, 1]))
    yield Sample(
        lambda x, i: torch.index_select(x.permute(2, 0, 1), 1, i), (r(3, 4, 5), torch.tensor([2, 0])), "permuted"
    )
    nhwc = r(2, 8, 3, 4).to(memory_format=torch.channels_last)
    yield case("channels_last", nhwc, 1, torch.tensor([7, 3, 0]))
