"""pad: constant padding. Reflecting, replicating and circular padding of known sizes are selections of indices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.capture.emitter import Emitter
    from penlight.ir.graph import Value

pad = Op(
    "pad",
    "x: tensor, padding: int[], value: float",
    layout="follow",
    tolerance=0.0,
    key_by="size",
    doc="`value` around x; padding lists (before, after) from the last dim on, negative amounts crop.",
)


def _by_index(g: Emitter, x: Value, padding: Sequence[Any], mode: str) -> Value:
    """Padding whose values come from x itself: an index_select for each dim."""
    import numpy as np

    from penlight.ir.types import TensorType

    for i in range(len(padding) // 2):
        dim, before, after = x.rank - 1 - i, padding[2 * i], padding[2 * i + 1]
        size = x.shape[dim]
        if not isinstance(size, int) or not isinstance(before, int) or not isinstance(after, int):
            g.fail(f"{mode} padding of a dim whose size is not known at export: use constant padding")
        source = np.arange(-before, size + after)
        if mode == "reflect":
            source = np.abs(source)
            source = np.where(source >= size, 2 * (size - 1) - source, source)
        elif mode == "replicate":
            source = np.clip(source, 0, size - 1)
        elif mode == "circular":
            source = source % size
        else:
            g.fail(f"padding mode {mode!r}: constant, reflect, replicate and circular are supported")
        index = g.constant(source.astype(np.int64))
        type = TensorType(x.dtype, (*x.shape[:dim], len(source), *x.shape[dim + 1 :]))
        x = g.emit("index_select", x, index, type=type, dim=dim)
    return x


@pad.from_aten("pad")
def _(g: Emitter, x: Value, padding: Sequence[Any], mode: str, value: float | None) -> Value:
    if mode == "constant":
        return g.emit("pad", x, padding=tuple(padding), value=float(value or 0))
    return _by_index(g, x, padding, mode)


@pad.from_aten("constant_pad_nd")
def _(g: Emitter, x: Value, padding: Sequence[Any], value: float) -> Value:
    return g.emit("pad", x, padding=tuple(padding), value=float(value))


@pad.from_aten("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def _(g: Emitter, x: Value, padding: Sequence[Any]) -> Value:
    return _by_index(g, x, padding, "reflect")


@pad.from_aten("replication_pad1d", "replication_pad2d", "replication_pad3d")
def _(g: Emitter, x: Value, padding: Sequence[Any]) -> Value:
    return _by_index(g, x, padding, "replicate")


@pad.samples
def _() -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    rand = torch.Generator().manual_seed(0)

    def case(name: str, padding: Any, *shape: int, **options: Any) -> Sample:
        return Sample(lambda x: F.pad(x, padding, **options), (torch.randn(*shape, generator=rand),), name)

    yield case("image", (1, 2, 3, 0), 2, 17, 5, 7)
    yield case("tf same", (0, 1, 0, 1), 1, 3, 9, 8)
    yield case("channels", (0, 0, 0, 0, 3, 2), 2, 5, 4, 4, value=1.5)
    yield case("all dims", (1, 1, 0, 2, 3, 0, 1, 1), 2, 3, 4, 5, value=-2.0)
    yield case("crop", (-1, -2, -1, 0), 2, 8, 6, 7)
    yield case("crop and pad", (-1, 2, 3, -2), 2, 8, 6, 7, value=float("-inf"))
    yield case("crop to 1", (-3, -3), 4, 7)
    yield case("crop to nothing", (-3, -4), 4, 7)
    yield case("rank 1", (2, 3), 5)
    yield case("nothing", (0, 0), 3, 5)
    yield case("of an empty tensor", (1, 2), 3, 0, value=4.0)
    yield Sample(lambda x: F.pad(x.transpose(1, 2), (1, 1)), (torch.randn(3, 4, 5, generator=rand),), "transposed")
    yield Sample(lambda x: F.pad(x, (1, 2), value=7), (torch.arange(6).reshape(2, 3),), "i64")
    yield Sample(lambda x: F.pad(x, (1, 2), value=True), (torch.tensor([[False, True]]),), "bool")
    nan = torch.tensor([[float("nan"), float("inf"), -0.0]])
    yield Sample(lambda x: F.pad(x, (1, 1), value=float("nan")), (nan,), "nan")
    yield case("reflect", (2, 1, 3, 0), 2, 3, 5, 6, mode="reflect")
    yield case("replicate", (2, 1, 3, 0), 2, 3, 5, 6, mode="replicate")
    yield case("circular", (2, 1, 3, 0), 2, 3, 5, 6, mode="circular")
    sides = {2: torch.export.Dim("h", min=4, max=99), 3: torch.export.Dim("w", min=4, max=99)}
    yield Sample(
        lambda x: F.pad(x, (1, 2, 3, 4)), (torch.randn(2, 3, 9, 8, generator=rand),), "dynamic", dynamic=(sides,)
    )
    yield Sample(
        lambda x: F.pad(x, (0, x.shape[3] % 4, 0, 0)),
        (torch.randn(2, 3, 9, 7, generator=rand),),
        "dynamic amount",
        dynamic=(sides,),
    )
