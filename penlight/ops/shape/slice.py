"""slice: every step-th element of a dim from start to end, as a view; split and chunk are several of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penlight.ir.dims import combine, symbols_of
from penlight.ops.registry import Op, Sample, Selection

if TYPE_CHECKING:
    import numpy as np

    from penlight.ir.dims import Dim
    from penlight.ir.graph import Value
    from penlight.ir.types import TensorType
    from penlight.ops.emitter import Emitter

END = 2**63 - 1  # as torch says "to the end"


def _fold(x: np.ndarray, *, dim: int, start: int, end: int, step: int) -> np.ndarray:
    return x[(*[slice(None)] * (dim % x.ndim), slice(start, end, step))]


slice_op = Op(
    "slice",
    "x: tensor, dim: int, start: int, end: int, step: int",
    layout="view",
    quantized="same",
    tolerance=0.0,
    mixed=("x",),
    select=lambda node: Selection("slice.view"),
    fold=_fold,
    doc="x[start:end:step] along dim; bounds may be negative or beyond. Always a view.",
)


@slice_op.from_aten("slice.Tensor", "slice_copy.Tensor")
def _(g: Emitter, x: Value, dim: int, start: Dim | None, end: Dim | None, step: Dim) -> Value:
    if x.shape == g.out.shape and step == 1:
        return x
    dim %= x.rank
    # bounds that come out of data: torch does not say how many there are
    type = None if symbols_of(g.out.shape[dim]) & g.new_symbols else g.out
    return emit_slice(g, x, dim, 0 if start is None else start, END if end is None else end, step, type)


def emit_slice(g: Emitter, x: Value, dim: int, start: Dim, end: Dim, step: Dim, type: TensorType | None) -> Value:
    """`type`: of the result, where that is known."""
    dim %= x.rank
    if type is None:
        length = _length(x.shape[dim], start, end, step)
        type = replace(x.tensor, shape=(*x.shape[:dim], length, *x.shape[dim + 1 :]))
    made: Value = g.emit("slice", x, type=type, dim=dim, start=start, end=end, step=step)
    return made


def _length(size: Dim, start: Dim, end: Dim, step: Dim) -> Dim:
    """Elements of range(size)[start:end:step]."""
    first, last = _clamped(start, size), _clamped(end, size)
    gap = combine("max", combine("-", last, first), 0)
    return combine("//", combine("+", gap, combine("-", step, 1)), step)


def _clamped(bound: Dim, size: Dim) -> Dim:
    """A bound from 0 to size, a negative one counted from the end."""
    if isinstance(bound, int) and (bound == 0 or bound >= END // 2):
        return 0 if bound == 0 else size
    is_negative = combine("min", combine("max", combine("-", 0, bound), 0), 1)
    return combine("min", combine("max", combine("+", bound, combine("*", is_negative, size)), 0), size)


@slice_op.from_aten("narrow", "narrow_copy")
def _(g: Emitter, x: Value, dim: int, start: Dim, length: Dim) -> Value:
    if isinstance(start, int) and start < 0:
        start = combine("+", x.shape[dim], start)
    return g.emit("slice", x, dim=dim % x.rank, start=start, end=combine("+", start, length), step=1)


@slice_op.from_aten(
    "split.Tensor", "split.sizes", "split_with_sizes", "chunk", "unsafe_split.Tensor", "unsafe_split_with_sizes",
    "unsafe_chunk", "tensor_split.sections", "tensor_split.indices", "split_copy.Tensor", "split_with_sizes_copy",
)  # fmt: skip
def _(g: Emitter, x: Value, how: Any, dim: int) -> tuple[Value, ...]:
    """torch has worked out the parts' types: each begins where the one before ends."""
    parts: Sequence[Any] = g.out
    dim %= x.rank
    results: list[Value] = []
    start: Dim = 0
    for part in parts:
        end = combine("+", start, part.shape[dim])
        results.append(g.emit("slice", x, type=part, dim=dim, start=start, end=end, step=1))
        start = end
    return tuple(results)


@slice_op.samples
def _() -> Iterator[Sample]:
    import torch

    x = torch.randn(4, 9, 6)
    yield Sample(
        lambda x: [
            x[1:3],
            x[:, -4:],
            x[..., ::2],
            x[:, 1:-1:3],
            x[:, 5:2],
            x[3:99],
            x[:, :, :-1][:, 2:],
            x.narrow(1, 2, 5),
            x.narrow(1, -3, 2),
        ],
        (x,),
        "bounds and steps",
    )
    yield Sample(
        lambda x: [
            *x.split(4, 1),
            *x.chunk(4, 2),
            *torch.split(x, [1, 5, 3], 1),
            *x.tensor_split(4, 1),
            *x.tensor_split((2, 7), 1),
        ],
        (x,),
        "parts",
    )
    yield Sample(
        lambda x: [x[:, ::2] * x[:, 1:6], x[1:, :, 1::2].exp(), x[:, 2:].transpose(1, 2)[::3] + 1],
        (x,),
        "then computed with",
        1e-6,
    )
    nhwc = torch.randn(2, 24, 5, 7).contiguous(memory_format=torch.channels_last)
    yield Sample(lambda x: [x[:, 8:] * 2, *x.chunk(3, 1), x[:, :, 1:3, ::2] + 1], (nhwc,), "channels last")
    yield Sample(
        lambda x: [x[1:] - x[:-1], x[:, 1:-1], x[-2:]],
        (x,),
        "dynamic",
        dynamic=({0: torch.export.Dim("n", min=3, max=9), 1: torch.export.Dim("m", min=4, max=99)},),
    )
