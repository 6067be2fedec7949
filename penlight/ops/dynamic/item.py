"""item: the number in a tensor, for sizes and bounds of later stages to refer to. Where the number only meets tensors, no one
asks for it as a size, and the node goes away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penlight.ops.registry import Op, Sample

item = Op(
    "item",
    "x: tensor, symbol: str",
    tolerance=0.0,
    dtypes=("i64",),
    doc="x itself, of rank 0; in dims its number is called `symbol`.",
)


@item.samples
def _() -> Iterator[Sample]:
    import torch

    x, n = torch.arange(30.0).reshape(5, 6), torch.tensor(3)
    steps = ({0: torch.export.Dim("rows", min=2, max=99)}, None)

    def use(x: Any, n: Any) -> Any:
        k = n.item()
        return x[:k] + k, x[k:].sum(0), x[:, -k:], x[: k - 1] * 2.0, torch.zeros(k, 3), torch.arange(k)

    yield Sample(use, (x, n), "bounds and sizes")
    yield Sample(use, (x, n), "dynamic", dynamic=steps)
    yield Sample(lambda x, n: (x[: n.item()], x * n.item()), (x, torch.tensor(0)), "nothing")
    yield Sample(lambda x, n: (x[: n.item()], x[n.item() :]), (x, torch.tensor(-2, dtype=torch.int32)), "negative")
    yield Sample(lambda x, n: x[n.item() :][: n.item()], (x, torch.tensor(99)), "beyond")
    yield Sample(lambda x: x * (x[1, 1].item() * 2 + 1), (x,), "a float")
    parts = torch.tensor([1, 0, 3])
    yield Sample(lambda x, n: [p * 2 for p in x[:4].split(n.tolist())], (x, parts), "tolist")
