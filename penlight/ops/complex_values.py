"""Complex tensors at capture: a pair of real values. Graph, file and runtime know real numbers only.

A call with a complex argument or result goes to its operator's rule for complex numbers (`registry.on_complex`: ops/complex,
ops/fft, ops/linalg). Operators that only move elements, or are linear over the reals, need no rule: their ordinary converter
runs once for each part. A call that has neither is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from penlight.ir.dims import Dim
from penlight.ir.graph import Value
from penlight.ir.types import TensorType
from penlight.ops import registry

if TYPE_CHECKING:
    from penlight.ops.emitter import Emitter


@dataclass(frozen=True)
class ComplexType:
    shape: tuple[Dim, ...]
    dtype: str = field(default="c64", init=False)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def part(self) -> TensorType:
        return TensorType("f32", self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, eq=False)
class ComplexValue:
    real: Value
    imag: Value
    dtype: str = field(default="c64", init=False)

    @property
    def parts(self) -> tuple[Value, Value]:
        return self.real, self.imag

    @property
    def shape(self) -> tuple[Dim, ...]:
        return self.real.shape

    @property
    def rank(self) -> int:
        return self.real.rank

    @property
    def type(self) -> ComplexType:
        return ComplexType(self.shape)


# Operators whose ordinary converter, run for each part, is right. The numbers are the arguments that are operands: real
# ones among them have an imaginary part of zero. Other arguments (masks, indices, sizes) are the same for both parts.
_FIRST = (0,)
PARTWISE: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(
        """view _unsafe_view view_copy reshape reshape_as view_as flatten unflatten squeeze squeeze_copy unsqueeze unsqueeze_copy
        ravel permute permute_copy transpose transpose_copy swapaxes swapdims t t_copy mT numpy_T movedim moveaxis expand
        expand_as expand_copy broadcast_to repeat tile repeat_interleave slice slice_copy narrow narrow_copy select select_copy
        split split_copy split_with_sizes tensor_split hsplit vsplit dsplit chunk unsafe_chunk unsafe_split unbind unbind_copy index
        index_select gather take take_along_dim flip fliplr flipud roll rot90 clone contiguous alias alias_copy detach_copy
        diagonal diagonal_copy linalg_diagonal diag diag_embed diagflat tril triu unfold unfold_copy as_strided constant_pad_nd pad
        neg negative positive sum mean cumsum trace nansum masked_select embedding zeros_like empty_like new_zeros new_empty
        dropout atleast_1d atleast_2d atleast_3d pixel_shuffle pixel_unshuffle channel_shuffle block_diag
        zeros empty ones ones_like new_ones empty_permuted lift_fresh""".split(),  # noqa: SIM905
        _FIRST,
    ),
    **dict.fromkeys("cat concat concatenate stack hstack vstack dstack column_stack broadcast_tensors".split(), _FIRST),  # noqa: SIM905
    **dict.fromkeys("add sub subtract rsub copy select_scatter slice_scatter diagonal_scatter fill".split(), (0, 1)),  # noqa: SIM905
    "full": (1,),
    "full_like": (0, 1),
    "new_full": (0, 2),
    "scalar_tensor": (0,),
    "where": (1, 2),
    "masked_fill": (0, 2),
    "index_put": (0, 2),
    "index_copy": (0, 3),
    "index_add": (0, 3),
    "index_fill": (0, 3),
    "scatter": (0, 3),
    "scatter_add": (0, 3),
    "masked_scatter": (0, 2),
}
_ONES = ("ones", "ones_like", "new_ones")


def rule(name: str) -> Callable[..., Any] | None:
    """The converter of an aten overload for complex tensors, if it has one of its own."""
    return registry.COMPLEX.get(name) or registry.COMPLEX.get(name.partition(".")[0])


def is_complex(items: Iterable[Any]) -> bool:
    """Whether there is a complex number, value, type or dtype among the items."""
    return any(
        isinstance(x, (complex, ComplexValue, ComplexType))
        or (isinstance(x, str) and x == "c64")
        or (isinstance(x, (list, tuple)) and is_complex(x))
        for x in items
    )


def convert(g: Emitter, name: str, converter: Callable[..., Any] | None, args: Sequence[Any]) -> Any:
    """The result of a call that has complex arguments or results."""
    own = rule(name)
    if own is not None:
        return own(g, *args)
    base = name.partition(".")[0]
    if base not in PARTWISE or converter is None:
        g.fail("on a complex tensor")
    out, results = g.out, []
    for part in (0, 1):
        g.out = _part_of_type(out)
        given = [_part(g, x, part, i in PARTWISE[base]) for i, x in enumerate(args)]
        results.append(zeros(g, out.shape) if part == 1 and base in _ONES else converter(g, *given))
    g.out = out
    return _pair(*results)


def pair(g: Emitter, x: Any) -> ComplexValue:
    """A real or complex value or number as a complex value."""
    if isinstance(x, ComplexValue):
        return x
    if isinstance(x, Value):
        return ComplexValue(g.cast(x, "f32"), zeros(g, x.shape))
    number = x if isinstance(x, complex) else None
    return ComplexValue(
        g.constant(float(number.real), "f32") if number is not None else g.as_tensor(x, "f32"),
        g.constant(float(number.imag) if number is not None else 0.0, "f32"),
    )


def zeros(g: Emitter, shape: tuple[Dim, ...]) -> Value:
    known = [d for d in shape if isinstance(d, int)]
    if len(known) == len(shape) and prod(known) <= 1024:
        return g.constant(np.zeros(known, np.float32))
    made: Value = g.emit("full", type=TensorType("f32", shape), shape=shape, value=0.0, dtype="f32")
    return made


def _part(g: Emitter, x: Any, part: int, is_operand: bool) -> Any:
    if isinstance(x, (list, tuple)):
        return [_part(g, item, part, is_operand) for item in x]
    if isinstance(x, ComplexValue):
        return x.parts[part]
    if isinstance(x, complex):
        return float((x.real, x.imag)[part])
    if isinstance(x, str) and x == "c64":
        return "f32"
    if not is_operand or x is None or isinstance(x, (str, bool)):
        return x
    if isinstance(x, Value):
        return g.cast(x, "f32") if part == 0 else zeros(g, x.shape)
    return x if part == 0 else 0


def _part_of_type(out: Any) -> Any:
    if isinstance(out, tuple):
        return tuple(_part_of_type(t) for t in out)
    return out.part if isinstance(out, ComplexType) else out


def _pair(real: Any, imag: Any) -> Any:
    if isinstance(real, (list, tuple)):
        return tuple(_pair(a, b) for a, b in zip(real, imag, strict=True))
    return ComplexValue(real, imag)
