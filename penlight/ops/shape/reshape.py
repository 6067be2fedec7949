"""reshape: the same elements in another shape; view, flatten, squeeze and the like are all this one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.registry import Op, Sample, composite

if TYPE_CHECKING:
    import numpy as np

    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter


def _fold(x: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
    return x.reshape(shape)


reshape = Op(
    "reshape",
    "x: tensor, shape: int[]",
    layout="view",
    quantized="same",
    tolerance=0.0,
    key_by="size",
    fold=_fold,
    doc="The same elements, in the same logical order, in another shape. A view where strides allow it.",
)


@reshape.from_aten(
    "view", "reshape", "_unsafe_view", "_reshape_alias", "view_as", "reshape_as", "ravel", "flatten.using_ints",
    "unflatten.int", "squeeze", "squeeze.dim", "squeeze.dims", "unsqueeze", "view_copy", "_reshape_copy",
    "squeeze_copy", "squeeze_copy.dim", "squeeze_copy.dims", "unsqueeze_copy",
)  # fmt: skip
def _(g: Emitter, x: Value, *_: Any) -> Value:
    return g.reshape(x, g.out.shape)


@composite("resize")
def _(x: Any, size: Any, memory_format: Any = None) -> Any:
    """The first elements in another shape. torch leaves what is beyond them as it finds it; here it is zero."""
    import math

    import torch

    if not x.is_contiguous():
        raise NotImplementedError("resize_ of a tensor that is not contiguous: call contiguous() first")
    flat, wanted = x.reshape(-1), math.prod(size)
    if wanted > flat.numel():
        flat = torch.nn.functional.pad(flat, (0, wanted - flat.numel()))
    return flat[:wanted].reshape(size)


@reshape.samples
def _() -> Iterator[Sample]:
    import torch

    x = torch.randn(2, 6, 4, 5)
    nhwc = x.contiguous(memory_format=torch.channels_last)
    yield Sample(
        lambda x: [
            x.view(12, 20),
            x.flatten(1),
            x.flatten(),
            x.reshape(2, 3, 2, -1),
            x[:, :1].squeeze(1),
            x.unsqueeze(-1),
            x.unflatten(1, (2, 3)),
            x[:1, :, :, :1].squeeze(),
        ],
        (x,),
        "views",
    )
    yield Sample(
        lambda x: [
            x.permute(0, 2, 3, 1).reshape(2, -1),
            x[:, 1:].reshape(-1, 5),
            x[..., ::2].reshape(2, 6, -1),
            x.transpose(2, 3).flatten(2),
            x.expand(2, 6, 4, 5).reshape(-1),
        ],
        (x,),
        "views and copies of strided tensors",
    )
    yield Sample(lambda x: [x.flatten(1), x.flatten(2), x.reshape(2, 2, 3, 20)], (nhwc,), "channels last")
    yield Sample(
        lambda x: [
            x[:0].reshape(0, 7),
            x[:, :0].flatten(),
            x[0, 0, 0, :1].reshape(()),
            x[:, :, :1, :1].expand(2, 6, 3, 3).reshape(12, 9),
        ],
        (x,),
        "empty, rank 0, expanded",
    )
    yield Sample(
        lambda x: [x.flatten(1) + 1, x.reshape(x.shape[0], x.shape[1], -1).mT.reshape(-1)],
        (x,),
        "dynamic",
        dynamic=({0: torch.export.Dim("n", min=2, max=8), 2: torch.export.Dim("h", min=2, max=64)},),
    )
    yield Sample(lambda x: x.permute(2, 0, 1, 3).reshape(4, -1), ((x * 9).to(torch.int64),), "i64 copy")
