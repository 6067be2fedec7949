"""resize_nearest: each output pixel is the input pixel that torch's rule names ("nearest", or "nearest-exact")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penlight.ops.registry import Op, Sample
from penlight.ops.resize.resize import emit_resize

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

resize_nearest = Op(
    "resize_nearest",
    "x: tensor, size: int[], scales: float[] = (), exact: bool = False",
    layout="follow",
    images=("x",),
    tolerance=0.0,
    key_by="size",
    quantized="same",
    doc="Nearest input pixel; scales as in resize; exact: by pixel centres.",
)


def _register(spatial: int, exact: bool) -> None:
    name = f"_upsample_nearest_exact{spatial}d" if exact else f"upsample_nearest{spatial}d"

    @resize_nearest.from_aten(f"{name}.vec")
    def _(g: Emitter, x: Value, size: Any, scales: Sequence[float] | None) -> Value:
        return emit_resize(g, "resize_nearest", x, spatial, scales, exact=exact)

    @resize_nearest.from_aten(name)
    def _(g: Emitter, x: Value, size: Any, *scales: float | None) -> Value:
        return emit_resize(g, "resize_nearest", x, spatial, scales, exact=exact)


for _spatial in (1, 2, 3):
    for _exact in (False, True):
        _register(_spatial, _exact)


@resize_nearest.samples
def _() -> Iterator[Sample]:
    import torch
    import torch.nn.functional as F

    rand = torch.Generator().manual_seed(0)

    def case(name: str, *shape: int, mode: str = "nearest", **options: Any) -> Sample:
        return Sample(lambda x: F.interpolate(x, mode=mode, **options), (torch.randn(*shape, generator=rand),), name)

    for mode in ("nearest", "nearest-exact"):
        yield case(f"{mode}: twice", 2, 17, 7, 6, mode=mode, scale_factor=2)
        yield case(f"{mode}: factor 1.7", 2, 15, 9, 10, mode=mode, scale_factor=1.7)
        yield case(f"{mode}: factors", 1, 9, 8, 7, mode=mode, scale_factor=(2.5, 0.6))
        yield case(f"{mode}: size", 3, 33, 5, 7, mode=mode, size=(13, 3))
        yield case(f"{mode}: to 1x1", 1, 5, 9, 8, mode=mode, size=1)
        yield case(f"{mode}: 1d", 2, 5, 9, mode=mode, size=17)
        yield case(f"{mode}: 3d", 2, 3, 4, 5, 6, mode=mode, scale_factor=(1.5, 2, 0.7))
    yield Sample(lambda x: F.interpolate(x, size=(9, 5)), (torch.randint(0, 255, (1, 3, 7, 6)).byte(),), "bytes")
    yield case("same size", 2, 12, 5, 6, size=(5, 6))
    yield case("twice one side", 1, 1, 6, 7, size=(12, 7))
    yield case("empty batch", 0, 4, 5, 5, size=(7, 7))
    x = torch.randn(2, 24, 6, 7, generator=rand)
    x[0, 0, 0, 0] = float("nan")
    yield Sample(lambda x: F.interpolate(x[:, 4:21], size=(9, 9)), (x,), "channel slice")
    sides = ({2: torch.export.Dim("h", min=4, max=99), 3: torch.export.Dim("w", min=4, max=99)},)
    yield Sample(lambda x: F.interpolate(x, scale_factor=2), (x,), "dynamic, factor", dynamic=sides)
    yield Sample(lambda x: F.interpolate(x, size=(17, 18)), (x,), "dynamic, size", dynamic=sides)
