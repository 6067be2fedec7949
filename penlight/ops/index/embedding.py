"""embedding: rows of a table, by index. An index out of range is an error of the run, not of memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.registry import Op, Sample, composite

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

embedding = Op(
    "embedding",
    "w: tensor, indices: tensor",
    tolerance=0.0,
    key_by="size",
    mixed=("indices",),
    fold=lambda w, indices: w[indices],
    doc="w[indices].",
)


@embedding.from_aten("embedding")
def _(g: Emitter, w: Value, indices: Value, padding_idx: int, scale_grad: bool, sparse: bool) -> Value:
    return g.emit("embedding", w, indices if indices.dtype == "i32" else g.cast(indices, "i64"))


@composite("embedding_renorm")
def _(w: Any, indices: Any, max_norm: float, norm_type: float) -> Any:
    """max_norm: rows that are looked up and too long are scaled, with torch's small number against division by zero."""
    import torch

    norm = torch.linalg.vector_norm(w, norm_type, 1, keepdim=True)
    used = torch.zeros(w.shape[0], dtype=torch.bool).index_fill(0, indices.flatten(), True)
    return torch.where(used[:, None] & (norm > max_norm), w * (max_norm / (norm + 1e-7)), w)


@embedding.samples
def _() -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    rand = torch.Generator().manual_seed(0)

    def case(name: str, rows: int, width: int, *shape: int, dtype: Any = torch.int64) -> Sample:
        table = torch.randn(rows, width, generator=rand)
        return Sample(F.embedding, (torch.randint(0, rows, shape, generator=rand, dtype=dtype), table), name)

    yield case("words", 100, 33, 3, 7)
    yield case("one index", 5, 16)
    yield case("narrow", 50, 1, 65)
    yield case("i32", 9, 17, 4, 5, dtype=torch.int32)
    yield case("none", 9, 17, 0)
    module = torch.nn.Embedding(31, 24, padding_idx=0)
    indices = torch.randint(0, 31, (2, 9), generator=rand)
    yield Sample(module, (indices,), "module")
    yield Sample(module, (indices,), "dynamic", dynamic=({1: torch.export.Dim("l", min=2, max=99)},))
    yield Sample(
        lambda i, w: F.embedding(i, w * 2, max_norm=1.5),
        (indices, torch.randn(31, 5, generator=rand)),
        "max_norm",
        1e-6,
    )
    yield Sample(lambda i, w: F.embedding(i, w.T), (indices % 5, torch.randn(6, 5, generator=rand)), "transposed table")
    yield Sample(lambda i, w: F.embedding(i.T, w), (indices, torch.randn(31, 5, generator=rand)), "transposed indices")
