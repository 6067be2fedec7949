"""cast: the same numbers in another dtype. Between each two dtypes there is a row function of the identity rule; the
conversion itself is `convert` in runtime/cpu/elementwise.h: floats are cut towards zero, anything but 0 is true.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.elementwise.expression import Term
from penlight.ops.elementwise.rules import ElementwiseOp, Row
from penlight.ops.registry import Sample, Selection

if TYPE_CHECKING:
    import numpy as np

    from penlight.ir.graph import Node, Value
    from penlight.ops.emitter import Emitter

DTYPES = ("f32", "f64", "f16", "bf16", "i8", "u8", "i16", "i32", "i64", "bool")


LOOPS = {("f16", "f32"): "f32_from_f16_row", ("f32", "f16"): "f16_from_f32_row"}  # there are instructions for these


class Cast(ElementwiseOp):
    def rows(self) -> list[Row]:
        pairs = [(a, b) for a in DTYPES for b in DTYPES if a != b]
        return [Row(f"cast.{a}.{b}", (a,), b, LOOPS.get((a, b), "")) for a, b in pairs]


def _identity(x: Term) -> Term:
    return x


def _select(node: Node) -> Selection:
    x = node.inputs[0]
    assert x is not None
    return Selection(f"cast.{x.dtype}.{node.attrs['to']}")


def _fold(x: np.ndarray, *, to: str) -> np.ndarray:
    import numpy as np

    from penlight.ir.types import numpy_dtype

    if x.dtype == np.uint16:  # the bits of bf16: the upper half of an f32
        x = (x.astype(np.uint32) << 16).view(np.float32)
    if to == "bf16":  # round to nearest even on the upper half of the bits
        bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
        rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        return np.where(np.isnan(x), np.uint16(0x7FC0), rounded).astype(np.uint16)
    with np.errstate(all="ignore"):
        return x.astype(numpy_dtype(to))


cast = Cast(
    "cast",
    "x: tensor, to: str",
    layout="follow",
    doc="The same numbers in another dtype, by torch's rules.",
    rule=_identity,
    dtypes=DTYPES,
    select=_select,
    fold=_fold,
    module=__name__,
)


@cast.from_aten(
    "to.dtype",
    "to.device",
    "to.other",
    "type_as",
    "_to_copy",
    "to.dtype_layout",
    "to.prim_dtype",
    "to.prim_Device",
    "to.prim_other",
    "prims::convert_element_type",
)
def _(g: Emitter, x: Value, *_: Any) -> Value:
    """Inside of a graph halves are f32 (capture/export/tensors.py): one that the model asks for is rounded, and so is one of
    which it makes an integer."""
    was, becomes = g.halves
    if becomes and becomes != was:
        x = g.cast(x, becomes)
    elif was and g.out.dtype not in ("f32", "f64"):
        x = g.cast(x, was)
    return g.cast(x, g.out.dtype)


@cast.samples
def _() -> Iterator[Sample]:
    import torch

    names = (
        torch.float32,
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int8,
        torch.uint8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.bool,
    )
    small = torch.tensor(
        [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 99.9, -99.9, 127.0, 3.14159, 1e-3, -7.75, 100.0, 64.25]
    )
    for source in names:
        x = small.abs().to(source) if source == torch.uint8 else small.to(source)
        yield Sample(lambda x: [x.to(d) for d in names if d != x.dtype], (x,), str(source).removeprefix("torch."))
    halves = torch.tensor(
        [
            1e-8,
            6e-8,
            5.96e-8,
            3e-5,
            6.1e-5,
            65504.0,
            65519.9,
            65520.0,
            -1e6,
            float("inf"),
            -float("inf"),
            float("nan"),
            1.00048828125,
            2049.0,
            2051.0,
        ]
    )
    yield Sample(
        lambda x: [x.half().float(), x.bfloat16().float(), x.double().half().float()], (halves,), "rounding to halves"
    )
    outside = torch.tensor([300.0, -1.0, -300.0, 3e9, -3e9, 1e20, float("nan"), float("inf"), -129.0, 40000.0])
    yield Sample(lambda x: [x.to(torch.int32), x.to(torch.int64), x.to(torch.bool)], (outside,), "outside of the range")
    yield Sample(
        lambda x: [x.permute(2, 0, 1).to(torch.int32), x[:, ::2].to(torch.int64), x[:, :0].to(torch.bool)],
        (torch.randn(3, 5, 7) * 9,),
        "layouts",
    )
