"""embedding_bag: rows of a table added up, averaged or compared, one result for each bag of indices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

embedding_bag = Op(
    "embedding_bag",
    "w: tensor, indices: tensor, offsets: tensor, weights: tensor?, mode: int, include_last_offset: bool, padding: int",
    mixed=("indices", "offsets"),
    doc="For each bag, which begins at its offset: the sum (mode 0), mean (1) or maximum (2) of the rows; without those of `padding`.",
)


@embedding_bag.from_aten("embedding_bag", "embedding_bag.padding_idx", "_embedding_bag", "_embedding_bag_forward_only")
def _(
    g: Emitter, w: Value, indices: Value, offsets: Value, scale: bool, mode: int, sparse: bool, weights: Value | None,
    last_offset: bool, padding: int | None = None,
) -> tuple[Value, ...]:  # fmt: skip
    """The other results are for gradients."""
    from penlight.ir.types import TensorType

    if w.dtype == "f64":
        g.fail("of an f64 table: use f32")
    size = w.shape[0]
    if padding is not None and padding < 0:
        padding = size + padding if isinstance(size, int) and (g.node.target._overloadname == "padding_idx") else -1
    y = g.emit(
        "embedding_bag",
        g.cast(w, "f32"),
        g.cast(indices, "i64"),
        g.cast(offsets, "i64"),
        None if weights is None else g.cast(weights, "f32"),
        type=TensorType("f32", g.out[0].shape),
        mode=mode,
        include_last_offset=last_offset,
        padding=-1 if padding is None else padding,
    )
    return (g.cast(y, w.dtype),)


@embedding_bag.samples
def _() -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    rand = torch.Generator().manual_seed(0)
    table = torch.randn(31, 33, generator=rand)
    words = torch.randint(0, 31, (40,), generator=rand)
    offsets = torch.tensor([0, 7, 7, 20, 40])

    def case(name: str, *more: Any, **options: Any) -> Sample:
        def call(w: Any, i: Any, o: Any, *weights: Any) -> Any:
            return F.embedding_bag(i, w, o, per_sample_weights=weights[0] if weights else None, **options)

        return Sample(call, (table, words, offsets, *more), name)

    for mode in ("sum", "mean", "max"):
        yield case(mode, mode=mode)
        yield case(f"{mode}, padding", mode=mode, padding_idx=int(words[8]), include_last_offset=True)
    yield case("weighted", torch.randn(40, generator=rand), mode="sum")
    yield Sample(lambda w, i: F.embedding_bag(i, w), (table, words.reshape(8, 5)), "equal bags")
