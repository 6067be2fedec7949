"""searchsorted: where values go in a sorted row; bin_sum: what falls to each index. Histograms are made of the two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penlight.ops.reduce.reduce import kernel_dtype
from penlight.ops.registry import Op, Sample, composite

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

searchsorted = Op(
    "searchsorted", "row: tensor, values: tensor, sorter: tensor?, right: bool, out_int32: bool", tolerance=0.0,
    dtypes=("f32", "f64", "i64"), mixed=("sorter",), nan="goes last",
    doc="How many elements of a sorted row (the last dim; one row for all, or one each) are below each value; right: or equal.",
)  # fmt: skip
bin_sum = Op(
    "bin_sum", "index: tensor, weight: tensor?, size: int, strict: bool = False", dtypes=("i64",), mixed=("weight",),
    doc="How many indices, or how much weight, fall to each of 0 … size - 1, as f32; other indices fall nowhere. strict: they are "
    "an error, and numbers of indices are i64.",
)  # fmt: skip


def _search(g: Emitter, row: Value, values: Any, sorter: Value | None, right: bool, side: str | None) -> Value:
    from penlight.ir.types import TensorType

    out = g.out
    dtype = kernel_dtype(g, g.promote(row, values))
    values = g.as_tensor(values, dtype)
    return g.emit(
        "searchsorted",
        g.cast(row, dtype),
        values,
        sorter if sorter is None or sorter.dtype == "i32" else g.cast(sorter, "i64"),
        type=TensorType(out.dtype, values.shape),
        right=right or side == "right",
        out_int32=out.dtype == "i32",
    )


@searchsorted.from_aten("searchsorted.Tensor", "searchsorted.Scalar")
def _(g: Emitter, row: Value, values: Any, narrow: bool, right: bool, side: Any, sorter: Any) -> Value:
    return _search(g, row, values, sorter, right, side)


@searchsorted.from_aten("bucketize.Tensor", "bucketize.Scalar")
def _(g: Emitter, values: Any, boundaries: Value, narrow: bool, right: bool) -> Value:
    return _search(g, boundaries, values, None, right, None)


def register_bins() -> Any:
    """penlight::bin_sum, through which composites reach the operator: torch has no call that means it."""
    import torch

    library = torch.library.Library("penlight", "FRAGMENT")
    library.define("bin_sum(Tensor index, Tensor? weight, int size) -> Tensor")
    library.impl("bin_sum", lambda index, weight, size: index.new_zeros(size, dtype=torch.float32), "Meta")
    return library


_library: list[Any] = []  # it lives as long as its operators


def _bins(index: Any, weight: Any, size: int) -> Any:
    import torch

    if not _library:
        _library.append(register_bins())
    return torch.ops.penlight.bin_sum(index, weight, size)


@bin_sum.from_aten("penlight::bin_sum")
def _(g: Emitter, index: Value, weight: Value | None, size: int) -> Value:
    return g.emit("bin_sum", index, None if weight is None else g.cast(weight, "f32"), size=size)


@composite("histc")
def _(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """By arithmetic on the values, as torch does it: a search in rounded edges would differ near them."""
    import torch

    x = x.reshape(-1)
    low, high = x.new_full((), min), x.new_full((), max)
    if min == max:
        if min == 0 and x.numel() > 0:
            low, high = torch.aminmax(x)
        same = low == high
        low, high = torch.where(same, low - 1, low), torch.where(same, high + 1, high)
    # inf and NaN are no index: a range that is not finite, or overflows, counts nothing or at the edge; torch refuses the first.
    place = ((x - low) * bins / (high - low)).nan_to_num(0.0, bins - 1, 0.0).clamp(0, bins - 1)
    at = place.to(torch.int64)
    inside = (x >= low) & (x <= high)
    return _bins(torch.where(inside, at, -1), None, bins).to(x.dtype)


def _edges(x: Any, bins: int, bounds: Sequence[float] | None) -> Any:
    """bins + 1 edges from bounds, or from the least to the greatest of x."""
    import torch

    if bounds is not None:
        low, high = x.new_full((), bounds[0]), x.new_full((), bounds[1])
    elif x.numel() == 0:
        low, high = x.new_zeros(()), x.new_ones(())
    else:
        low, high = torch.aminmax(x)
    same = low == high
    low, high = torch.where(same, low - 0.5, low), torch.where(same, high + 0.5, high)
    i = torch.arange(bins + 1, dtype=x.dtype)
    step = (high - low) / bins
    return torch.where(i < (bins + 1) // 2, low + step * i, high - step * (bins - i))


def _place(x: Any, edges: Any) -> Any:
    """The bin of each value, -1 outside; the last edge belongs to the last bin."""
    import torch

    at = torch.searchsorted(edges.contiguous(), x.contiguous(), right=True) - 1
    at = torch.where(x == edges[-1], edges.shape[0] - 2, at)
    return torch.where((x >= edges[0]) & (x <= edges[-1]), at, -1)


def _histogram(x: Any, edges: Sequence[Any], weight: Any, density: bool) -> Any:
    """x: one row for each point, one column for each list of edges."""
    import torch

    sizes = [e.shape[0] - 1 for e in edges]
    at, inside = x.new_zeros(x.shape[0], dtype=torch.int64), x.new_ones(x.shape[0], dtype=torch.bool)
    total = 1
    for d, e in enumerate(edges):
        place = _place(x[:, d], e)
        inside = inside & (place >= 0)
        at = at * sizes[d] + place
        total *= sizes[d]
    weight = None if weight is None else weight.reshape(-1)
    hist = _bins(torch.where(inside, at, -1), weight, total).reshape(sizes).to(x.dtype)
    if density:
        hist = hist / hist.sum()
        for d, e in enumerate(edges):
            hist = hist / torch.diff(e).reshape([-1 if i == d else 1 for i in range(len(edges))])
    return hist


@composite("histogram.bin_ct")
def _(x: Any, bins: int = 100, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    edges = _edges(x.reshape(-1), bins, range)
    return _histogram(x.reshape(-1, 1), [edges], weight, density), edges


@composite("histogram.bins_tensor")
def _(x: Any, bins: Any, *, weight: Any = None, density: bool = False) -> Any:
    return _histogram(x.reshape(-1, 1), [bins], weight, density), bins.clone()


def _all_edges(x: Any, bins: Sequence[int], bounds: Any) -> list[Any]:
    points = x.reshape(-1, x.shape[-1])
    spans = [None] * len(bins) if bounds is None else [bounds[2 * d : 2 * d + 2] for d in range(len(bins))]
    return [_edges(points[:, d], n, spans[d]) for d, n in enumerate(bins)]


@composite("_histogramdd_bin_edges")
def _(x: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    return _all_edges(x, bins, range)


@composite("_histogramdd_from_bin_cts")
def _(x: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    return _histogram(x.reshape(-1, x.shape[-1]), _all_edges(x, bins, range), weight, density)


@composite("_histogramdd_from_bin_tensors")
def _(x: Any, bins: Any, *, weight: Any = None, density: bool = False) -> Any:
    return _histogram(x.reshape(-1, x.shape[-1]), bins, weight, density)


@searchsorted.samples
def _() -> Iterator[Sample]:
    import torch

    rand = torch.Generator().manual_seed(0)
    inf, nan = float("inf"), float("nan")
    rows = torch.randint(0, 9, (3, 17), generator=rand).float().sort(1).values
    values = torch.randint(-1, 10, (3, 40), generator=rand).float()
    values[1, :4] = torch.tensor([inf, -inf, nan, -0.0])

    def both(row: Any, values: Any, **options: Any) -> list[Any]:
        return [torch.searchsorted(row, values, right=right, **options) for right in (False, True)]

    yield Sample(lambda a, b: both(a, b), (rows, values), "rows")
    yield Sample(lambda a, b: both(a, b, out_int32=True), (rows[0], values), "one row, i32")
    yield Sample(lambda a, b: torch.bucketize(b, a), (rows[0].long(), values[0].long()), "i64")
    mixed = torch.randn(3, 17, generator=rand)
    yield Sample(lambda a, b: both(a, b, sorter=a.argsort(1)), (mixed, values), "sorter")
    yield Sample(
        lambda a, b: (torch.bucketize(b.t(), a), torch.bucketize(2.5, a)), (rows[1], values), "strided, a number"
    )
    yield Sample(lambda a, b: both(a[:0], b), (rows[0], values), "no row")
    many = torch.randn(9000, generator=rand)
    yield Sample(lambda a, b: torch.bucketize(b, a), (torch.linspace(-2, 2, 100), many), "many")


@bin_sum.samples
def _() -> Iterator[Sample]:
    import torch

    rand = torch.Generator().manual_seed(0)
    x = torch.randn(40, 30, generator=rand)
    x[0, 0] = float("nan")
    w = torch.rand(40, 30, generator=rand)
    yield Sample(lambda x: (torch.histc(x, 10, -2, 2), torch.histc(x[1:], 7)), (x,), "histc")
    yield Sample(lambda x, w: torch.histogram(x, 13, range=(-1.0, 2.0), weight=w), (x, w), "weights")
    yield Sample(
        lambda x: torch.histogram(x, torch.tensor([-1.0, 0.0, 0.25, 1.0]), density=True), (x,), "edges, density"
    )
    yield Sample(lambda x: torch.histogramdd(x[1:].reshape(-1, 2), [4, 5]), (x,), "two dims")
