"""pad: around a tensor goes a number, or what reflecting, replicating or repeating it gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penlight.ir.dims import Expr, combine
from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    import numpy as np

    from penlight.ir.dims import Dim
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter


def _fold(x: np.ndarray, *, padding: tuple[int, ...], value: float, mode: str) -> np.ndarray:
    import numpy as np

    pairs = [(0, 0)] * (x.ndim - len(padding) // 2) + list(zip(padding[::2], padding[1::2], strict=True))[::-1]
    if mode == "constant":
        x = x[tuple(slice(max(-a, 0), max(n - max(-b, 0), 0)) for n, (a, b) in zip(x.shape, pairs, strict=True))]
        return np.pad(x, [(max(a, 0), max(b, 0)) for a, b in pairs], constant_values=np.array(value).astype(x.dtype))
    for d, (before, after) in enumerate(pairs):
        n, at = x.shape[d], np.arange(-before, x.shape[d] + after)
        turned = np.where(at < 0, -at, np.where(at >= n, 2 * (n - 1) - at, at))
        x = x.take(turned if mode == "reflect" else at.clip(0, n - 1) if mode == "replicate" else at % n, axis=d)
    return x


pad = Op(
    "pad",
    "x: tensor, padding: int[], value: float, mode: str = 'constant'",
    layout="follow",
    tolerance=0.0,
    key_by="size",
    quantized="same",
    fold=_fold,
    doc="`value` around x, or elements of x by mode (reflect, replicate, circular); padding lists (before, after) from the last "
    "dim on, negative amounts crop.",
)


def _pad(g: Emitter, x: Value, padding: Sequence[Dim], mode: str, value: Any = 0.0) -> Value:
    from penlight.ir.types import TensorType

    if mode not in ("constant", "reflect", "replicate", "circular"):
        g.fail(f"padding mode {mode!r}: constant, reflect, replicate and circular are supported")
    if isinstance(value, Expr):
        g.fail("a padding value that is computed from sizes")
    if mode == "circular" and any(isinstance(p, int) and p < 0 for p in padding):  # what is cropped does not come round
        crop = [min(p, 0) if isinstance(p, int) else 0 for p in padding]
        shape = list(x.shape)
        for i, p in enumerate(crop):
            shape[x.rank - 1 - i // 2] = combine("+", shape[x.rank - 1 - i // 2], p)
        x = g.emit("pad", x, type=TensorType(x.dtype, tuple(shape)), padding=tuple(crop), value=0.0)
        padding = [max(p, 0) if isinstance(p, int) else p for p in padding]
    return g.emit("pad", x, padding=tuple(padding), value=float(value or 0), mode=mode)


@pad.from_aten("pad")
def _(g: Emitter, x: Value, padding: Sequence[Any], mode: str, value: Any) -> Value:
    return _pad(g, x, padding, mode, value)


@pad.from_aten("constant_pad_nd")
def _(g: Emitter, x: Value, padding: Sequence[Any], value: Any) -> Value:
    return _pad(g, x, padding, "constant", value)


@pad.from_aten("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def _(g: Emitter, x: Value, padding: Sequence[Any]) -> Value:
    return _pad(g, x, padding, "reflect")


@pad.from_aten("replication_pad1d", "replication_pad2d", "replication_pad3d")
def _(g: Emitter, x: Value, padding: Sequence[Any]) -> Value:
    return _pad(g, x, padding, "replicate")


@pad.from_aten("_pad_circular")
def _(g: Emitter, x: Value, padding: Sequence[Any]) -> Value:
    return _pad(g, x, padding, "circular")


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
    yield case("all of it", (6, 6, 5, 5), 2, 3, 5, 6, mode="circular")
    yield case("cropped circular", (-2, 3, 1, -1), 2, 3, 5, 6, mode="circular")
    yield case("cropped reflect", (-1, 3, 2, -2), 2, 3, 5, 6, mode="reflect")
    yield case("volume", (1, 2, 1, 0, 2, 1), 2, 3, 4, 5, 6, mode="reflect")
    yield case("beyond its size", (9, 1), 2, 3, 5, mode="replicate")
    image = torch.randn(2, 5, 6, 7, generator=rand).contiguous(memory_format=torch.channels_last)
    yield Sample(
        lambda x: [F.pad(x * 2, (2, 1, 3, 0), m) for m in ("reflect", "replicate", "circular")],
        (image,),
        "channels last",
    )
    yield Sample(lambda x: F.pad(x.half(), (1, 1), value=0.1), (torch.ones(3),), "f16")
    sides = {2: torch.export.Dim("h", min=4, max=99), 3: torch.export.Dim("w", min=4, max=99)}
    yield Sample(
        lambda x: [F.pad(x, (1, 2, 3, 3), m) for m in ("reflect", "replicate", "circular")],
        (torch.randn(2, 3, 9, 8, generator=rand),),
        "dynamic modes",
        dynamic=(sides,),
    )
    yield Sample(
        lambda x: F.pad(x, (1, 2, 3, 4)), (torch.randn(2, 3, 9, 8, generator=rand),), "dynamic", dynamic=(sides,)
    )
    yield Sample(
        lambda x: F.pad(x, (0, x.shape[3] % 4, 0, 0)),
        (torch.randn(2, 3, 9, 7, generator=rand),),
        "dynamic amount",
        dynamic=(sides,),
    )
