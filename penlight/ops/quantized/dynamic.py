"""Integers whose scale is chosen from the data in every run: dynamic quantization.

    %stored: u8[3, 64] q(1.0, 0), %step: f32[2] = quantize_dynamic(%x, high=255, rule="torch", eps=0.0)
    %y: f32[3, 64] = dequantize_dynamic(%stored, %step)

`step` is how far the numbers of two neighbouring integers lie apart, and the zero point. The type of `stored` says what is known before a run:
it stands for x in steps, plus that zero point. passes/dynamic.py makes integer products of such pairs.

Rules, for levels 0 to high:
    torch  of quantized::linear_dynamic: least and largest number fit in, 0 exactly; a zero point of its own, whose rounding may take the
           largest number one level above high
    pt2e   of quantized_decomposed::choose_qparams: the same otherwise rounded, steps of at least eps
    fixed  the zero point of the type, for those who must know it before a run (convolutions, whose padding is 0): steps that reach the
           number farthest from 0
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.conv.kernels import bytes_layout
from penlight.ops.registry import Op, Sample, Selection

if TYPE_CHECKING:
    from penlight.ir.graph import Node, Value
    from penlight.ops.emitter import Emitter


def _select_columns(node: Node) -> Selection:
    """Once there are weights: packed as the product has them."""
    groups, packs = node.attrs["groups"], {}
    assert isinstance(groups, int)
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        packs[2] = bytes_layout(node.inputs[2].shape, groups)
    return Selection("columns_dynamic.i32", packs)


quantize_dynamic = Op(
    "quantize_dynamic",
    "x: tensor, high: int = 255, rule: str = 'torch', eps: float = 0.0",
    layout="follow",
    reads_any=lambda node: True,
    outputs=2,
    quantized="kernels",
    doc="The integers that stand for x, and f32[2]: their scale, chosen from the range of x, and what their zero point is more than the type's.",
)
dequantize_dynamic = Op(
    "dequantize_dynamic",
    "x: tensor, step: tensor",
    layout="follow",
    dtypes=("u8",),
    mixed=("step",),
    quantized="kernels",
    doc="The numbers that integers of quantize_dynamic stand for.",
)
columns_dynamic = Op(
    "columns_dynamic",
    "columns: tensor, step: tensor, w: tensor?, groups: int = 1, zero: int = 0",
    dtypes=("i32",),
    mixed=("step", "w"),
    select=_select_columns,
    doc="What an integer product knows of its columns (lower/columns.py), for a scale that only a run tells, of their biases and weights. Until kernels are chosen: its bias.",
)


def emit_rounded(g: Emitter, x: Value, high: int, rule: str, eps: float = 0.0) -> tuple[Value, Value, Value]:
    """x as integers, their scale and zero point, and what they stand for."""
    from penlight.ir.types import Quant, TensorType

    x = g.cast(x, "f32")
    types = (TensorType("u8", x.shape, Quant.of(1.0, 0)), TensorType("f32", (2,)))
    stored, step = g.emit("quantize_dynamic", x, types=types, high=high, rule=rule, eps=eps)
    return stored, step, g.emit("dequantize_dynamic", stored, step, type=TensorType("f32", x.shape))


@quantize_dynamic.from_aten("penlight::round_dynamic")
def _(g: Emitter, x: Value, reduce_range: bool) -> Value:
    return emit_rounded(g, x, 127 if reduce_range else 255, "torch")[2]


def library() -> Any:
    """Where torch finds operators that it needs for what torch.export does not take otherwise. They last as long as it does."""
    import torch

    if not _libraries:
        _libraries.append(torch.library.Library("penlight", "FRAGMENT"))
    return _libraries[0]


_libraries: list[Any] = []


def round_dynamic() -> Any:
    """torch's operator of that name: what dynamically quantized operators make of their input, in floats."""
    import torch

    if not hasattr(torch.ops.penlight, "round_dynamic"):
        library().define("round_dynamic(Tensor x, bool reduce_range) -> Tensor")

        def rounded(x: torch.Tensor, reduce_range: bool) -> torch.Tensor:
            if x.numel() == 0:
                return x.clone()
            scale, zero = torch._choose_qparams_per_tensor(x, reduce_range)
            return torch.quantize_per_tensor(x, scale, zero, torch.quint8).dequantize()

        library().impl("round_dynamic", rounded, "CPU")
        library().impl("round_dynamic", lambda x, reduce_range: torch.empty_like(x), "Meta")
    return torch.ops.penlight.round_dynamic.default


@quantize_dynamic.samples
def _() -> Iterator[Sample]:
    import torch

    rand = torch.Generator().manual_seed(0)
    op = round_dynamic()

    def case(name: str, x: Any, **options: Any) -> Iterator[Sample]:
        for reduce_range in (False, True):
            kind = "7 bits" if reduce_range else "8 bits"
            yield Sample(lambda x, r=reduce_range: op(x, r), (x,), f"{name}, {kind}", **options)

    def r(*shape: int) -> Any:
        return torch.randn(shape, generator=rand)

    yield from case("matrix", r(9, 33))
    yield from case("many", r(3, 50, 331))
    yield from case("one", r(1))
    yield from case("no dims", r())
    yield from case("empty", r(0, 4))
    yield from case("zeros", torch.zeros(3, 17))
    yield from case("above 0", r(5, 5).abs() + 2)
    yield from case("below 0", -r(70).abs() - 2)
    yield from case("constant", torch.full((19,), 3.0))
    yield from case("small", r(40) * 1e-6)
    yield from case("tiny", r(40) * 1e-38)
    yield from case("large", r(40) * 1e30)
    yield from case("planes", r(2, 3, 17, 9))
    yield from case("channels last", r(2, 18, 7, 9).to(memory_format=torch.channels_last))
    yield from case("strides", r(20, 9, 6)[::2, :, 1::2].transpose(0, 2))
    yield from case("dynamic", r(3, 40), dynamic=({0: torch.export.Dim("n", max=64)},))
