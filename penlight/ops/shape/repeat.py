"""repeat: a tensor several times along its dims; tile too. Only dims of size 1: a view, see expand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penlight.ops.registry import Op, Sample, composite

if TYPE_CHECKING:
    import numpy as np

    from penlight.ir.dims import Dim
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter


def _fold(x: np.ndarray, *, repeats: tuple[int, ...]) -> np.ndarray:
    import numpy as np

    return np.tile(x, repeats)


repeat = Op(
    "repeat",
    "x: tensor, repeats: int[]",
    tolerance=0.0,
    key_by="size",
    quantized="same",
    fold=_fold,
    doc="x, repeats[d] times along each dim d.",
)


@repeat.from_aten("repeat", "tile")
def _(g: Emitter, x: Value, repeats: Sequence[Dim]) -> Value:
    repeats = [1] * (x.rank - len(repeats)) + list(repeats)  # tile may give fewer
    x = g.reshape(x, [1] * (len(repeats) - x.rank) + list(x.shape))
    if all(r == 1 for r in repeats):
        return x
    if all(r == 1 or n == 1 for r, n in zip(repeats, x.shape, strict=True)):
        return g.emit("expand", x, shape=g.out.shape)
    return g.emit("repeat", x, repeats=tuple(repeats))


@composite("repeat_interleave.self_int")
def _(x: Any, repeats: int, dim: int | None = None, *, output_size: Any = None) -> Any:
    if dim is None:
        x, dim = x.flatten(), 0
    if x.dim() == 0:
        x, dim = x.reshape(1), 0
    dim %= x.dim()
    wide = x.unsqueeze(dim + 1).expand(*x.shape[: dim + 1], repeats, *x.shape[dim + 1 :])
    return wide.clone().flatten(dim, dim + 1)


@repeat.samples
def _() -> Iterator[Sample]:
    import torch

    x = torch.randn(3, 1, 5)
    yield Sample(
        lambda x: [x.repeat(2, 3, 1), x.repeat(2, 1, 1, 4), x.tile(2), x.repeat(0, 1, 1), x.repeat(1, 7, 1), x.mT.repeat(2, 1, 3),
                   x.repeat(2, 2, 2), x[:, :, ::2].repeat(1, 1, 17), x.bool().tile(3, 3), x[0, 0, 0].repeat(5)],
        (x,), "times",
    )  # fmt: skip
    yield Sample(
        lambda x: [x.repeat_interleave(2, 1), x.repeat_interleave(3), x.repeat_interleave(2, -1)], (x,), "interleaved"
    )
    yield Sample(
        lambda x: [x.repeat(2, 1, 2, 1, 3, 2), x.repeat(2, 2, 3, 2, 2, 2)], (torch.randn(2, 3, 1, 2, 3, 5),), "rank 6"
    )
    yield Sample(lambda x: x.repeat(2, 2, 3, 2, 2, 2, 2, 2), (torch.randn(2, 2, 2, 1, 2, 2, 2, 2),), "rank 8")
    n = torch.export.Dim("n", min=2, max=99)
    yield Sample(lambda x: [x.repeat(2, 3, 1), x.tile(x.shape[0])], (x,), "dynamic", dynamic=({0: n},))
