"""Test samples that every elementwise operator gets without asking: special values, ranks 0 to 5, lengths around the
vector sizes, empty, permuted, strided and expanded operands, broadcasting, dynamic shapes. torch's own operator is the
oracle. One sample holds many cases, each an output of its function, as capturing costs more than running.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from penlight.ops.registry import Sample

NAN, INF = math.nan, math.inf
# Kept apart by size: the tolerance is a part of the largest result.
SPECIAL = (NAN, INF, -INF, 0.0, -0.0, 1e-40, -1e-40, 1e-8, -1e-8, 0.3, -0.7, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0,
           -3.0, 3.5, -3.5, 6.0)  # fmt: skip
LARGE = (9.0, -9.0, 21.0, -21.0, 87.0, -87.0, 89.0, -104.0, 1e10, -1e10, 3e38, -3e38, NAN, INF, -INF, 8388609.0, -0.0)

# Ways to look at a [2, 5, 7, 9] tensor; lengths around the vector sizes, and past the buffers of the row functions.
LENGTHS = (0, 1, 3, 4, 5, 8, 15, 16, 17, 31, 33, 300)
VIEWS: tuple[Callable[[Any], Any], ...] = (
    lambda x: x,
    lambda x: x.permute(0, 2, 3, 1),
    lambda x: x[..., ::2],
    lambda x: x[:, 1:4, :, 2:],
    lambda x: x[:, :1].expand(2, 4, 7, 9),
    lambda x: x.transpose(1, 3)[:, :, 2],
    lambda x: x.reshape(2, 1, 5, 7, 9),
    lambda x: x[0, 0, 0, 0],
    *(lambda x, n=n: x.flatten()[:n] for n in LENGTHS),
)
# What broadcasts with what, for two and for three operands.
PAIRS: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((3, 4, 5), (5,)),
    ((3, 4, 5), (3, 1, 1)),
    ((3, 17), (3, 1)),
    ((), (3, 5)),
    ((7, 6), ()),
    ((2, 1, 3, 1, 5), (4, 1, 7, 1)),
    ((1,), (19,)),
    ((0, 4), (1, 4)),
    ((2, 20, 5, 6), (2, 20, 1, 1)),
    ((2, 3, 5, 6), (1, 3, 1, 1)),
)
TRIPLES: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((3, 4, 5), (5,), ()),
    ((1,), (3, 1, 1), (4, 5)),
    ((), (2, 17), (17,)),
    ((2, 1, 3, 1, 5), (4, 1, 7, 1), (5,)),
    ((2, 3, 1, 1), (2, 3, 5, 6), (1, 3, 5, 1)),
)


def automatic_samples(
    dtypes: tuple[str, ...], arity: int, oracle: Callable[..., Any], avoid: tuple[float, ...], *, condition: bool
) -> Iterator[Sample]:
    import torch

    random = torch.Generator().manual_seed(5)
    names = {"i64": torch.int64, "i32": torch.int32}

    def make(dtype: str, *shape: int) -> Any:
        if dtype == "bool":
            return torch.randint(0, 2, shape, generator=random).bool()
        if dtype == "f32":
            return clean(torch.randn(shape, generator=random) * 3)
        return clean(torch.randint(-9, 10, shape, generator=random).to(names[dtype]))

    def clean(x: Any) -> Any:
        for value in avoid:
            if isinstance(value, float) == x.is_floating_point():
                x = torch.where(x == value, torch.ones_like(x), x)
        return x

    def operands(dtype: str, *shapes: tuple[int, ...]) -> list[Any]:
        return [make("bool" if condition and i == 0 else dtype, *s) for i, s in enumerate(shapes)]

    def compute(*xs: Any) -> Any:
        return oracle(torch, *xs)

    def layouts(*xs: Any) -> Any:
        return [compute(*(view(x) for x in xs)) for view in VIEWS]

    for dtype in dtypes:
        if dtype == "f64":
            continue  # below
        yield Sample(layouts, tuple(operands(dtype, *[(2, 5, 7, 9)] * arity)), f"{dtype} layouts")
        if arity > 1:
            inputs = tuple(tuple(operands(dtype, *shapes)) for shapes in (PAIRS if arity == 2 else TRIPLES))
            yield Sample(lambda *groups: [compute(*xs) for xs in groups], inputs, f"{dtype} broadcasting")
    if "f32" not in dtypes:
        return

    nhwc = [x.contiguous(memory_format=torch.channels_last) for x in operands("f32", *[(2, 20, 5, 7)] * arity)]
    yield Sample(compute, tuple(nhwc), "channels last")
    # Every special value with every other: along its own dim for each operand.
    special = []
    for values in (SPECIAL, LARGE):
        grid = clean(torch.tensor(values))
        axes = [grid.reshape([-1 if d == i else 1 for d in range(arity - condition)]) for i in range(arity - condition)]
        special.append(([torch.tensor([True])] if condition else []) + axes)
    yield Sample(lambda *groups: [compute(*xs) for xs in groups], tuple(tuple(s) for s in special), "special values")
    if "f64" in dtypes:
        wide = [[x.double() if x.is_floating_point() else x for x in s] for s in special]
        wide[-1] = [x[..., :4] if x.is_floating_point() else x for x in wide[-1]]  # f32 and f64 overflow apart
        yield Sample(lambda *groups: [compute(*xs) for xs in groups], tuple(tuple(s) for s in wide), "f64")
    n, w = torch.export.Dim("n", min=2, max=64), torch.export.Dim("w", min=2, max=64)
    inputs = tuple(operands("f32", *[(3, 5, 11)] * arity))
    yield Sample(compute, inputs, "dynamic", dynamic=tuple([{0: n, 2: w}] * arity))


def special_samples(arity: int, oracle: Callable[..., Any], avoid: tuple[float, ...]) -> Iterator[Sample]:
    """Of a function that is computed number by number: special values, and numbers above zero, in strides. One sample."""
    import torch

    random = torch.Generator().manual_seed(5)

    def clean(x: Any) -> Any:
        for value in avoid:
            x = torch.where((x == value) | (x.isnan() & (value != value)), 1.0, x)
        return x

    def axes(values: tuple[float, ...]) -> list[Any]:
        return [clean(torch.tensor(values)).reshape([-1 if d == i else 1 for d in range(arity)]) for i in range(arity)]

    groups = [axes(SPECIAL), axes(LARGE), [torch.rand(3, 17, generator=random).t() * 5 + 0.1 for _ in range(arity)]]
    yield Sample(lambda *groups: [oracle(torch, *xs) for xs in groups], tuple(tuple(g) for g in groups), "numbers")
