"""torch's tensors and dtypes as Penlight knows them: names of dtypes, types, and weights as numpy arrays.

Half floats (f16, bf16) are how a model is stored, not how it is computed: inside of a graph every half is f32. Weights are
widened here; inputs and outputs keep the model's dtype, with a cast right behind the input and right before the output
(conversion.py). Where the model itself asks for a half (`x.half()` of an f32), and where it makes integers of halves, the
number is rounded as torch rounds it (ops/elementwise/cast.py). Between, torch rounds every result and this does not: the
two agree within half precision, and this one is nearer to the f32 model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penlight.capture.export.symbols import Symbols
from penlight.errors import CaptureError
from penlight.ir.graph import Graph, Value
from penlight.ir.types import DTYPES, TensorType
from penlight.ops.complex_values import ComplexType, ComplexValue
from penlight.ops.emitter import add_constant

DTYPE_NAMES: dict[torch.dtype, str] = {
    torch.float32: "f32",
    torch.float16: "f16",
    torch.float64: "f64",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.bool: "bool",
    torch.bfloat16: "bf16",
}
TORCH_DTYPES = {name: dtype for dtype, name in DTYPE_NAMES.items()}


def dtype_name(dtype: torch.dtype) -> str:
    """CaptureError where Penlight has no such dtype."""
    if dtype not in DTYPE_NAMES:
        raise CaptureError(f"tensors of {dtype} are not supported; supported are {', '.join(DTYPES)}")
    return DTYPE_NAMES[dtype]


HALVES = ("f16", "bf16")


def computed(dtype: str) -> str:
    """The dtype that stands for `dtype` inside of a graph."""
    return "f32" if dtype in HALVES else dtype


def half_name(tensor: object) -> str | None:
    """ "f16" or "bf16" for a (fake) tensor of halves."""
    name = DTYPE_NAMES.get(tensor.dtype) if isinstance(tensor, torch.Tensor) else None
    return name if name in HALVES else None


def described(value: object) -> str:
    """For an error."""
    return f"{value.dtype} of shape {list(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__


def tensor_type(tensor: torch.Tensor, symbols: Symbols) -> TensorType:
    """The type of a (fake) tensor inside of a graph, its symbolic sizes as Dims."""
    if tensor.layout is not torch.strided:
        raise CaptureError(f"a tensor of layout {tensor.layout}: only dense (strided) tensors are supported")
    return TensorType(computed(dtype_name(tensor.dtype)), tuple(symbols.dim(d) for d in tensor.shape))


def value_type(tensor: torch.Tensor, symbols: Symbols) -> TensorType | ComplexType:
    """Like tensor_type, for complex tensors too."""
    if tensor.dtype == torch.complex64 and tensor.layout is torch.strided:
        return ComplexType(tuple(symbols.dim(d) for d in tensor.shape))
    return tensor_type(tensor, symbols)


class Constants:
    """Parameters, buffers and constant tensors as constants of a graph: made when first used, one for each piece of
    memory, so that shared weights stay shared."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[Any, Value] = {}
        self._kept: list[torch.Tensor] = []  # so that no address is used twice

    def value(self, tensor: torch.Tensor, name: str) -> Value | ComplexValue:
        if tensor.dtype == torch.complex64:
            whole = torch.view_as_real(tensor.detach().resolve_conj())
            real, imag = (self._real(whole[..., i], f"{name}.{part}") for i, part in enumerate(("real", "imag")))
            return ComplexValue(real, imag)
        return self._real(tensor, name)

    def _real(self, tensor: torch.Tensor, name: str) -> Value:
        key = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        if tensor.numel() == 0 or key not in self._known:
            self._kept.append(tensor)
            array, dtype = to_numpy(tensor, name)
            self._known[key] = add_constant(self._graph, array, dtype, name)
        return self._known[key]


def to_numpy(tensor: torch.Tensor, name: str) -> tuple[np.ndarray, str]:
    """The tensor's numbers, row-major, read-only (they may be the model's own memory), and their dtype in the graph."""
    dtype = computed(dtype_name(tensor.dtype))
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer) or tensor.device.type == "meta":
        if type(tensor).__module__.startswith("torchao."):
            raise CaptureError(
                f"{name} is of torchao's {type(tensor).__name__}, which its quantize_ put there, and cannot be captured: give the model in floats, with"
                ' weights="i8", or what convert_pt2e makes of it'
            )
        kind = "meta tensor" if tensor.device.type == "meta" else type(tensor).__name__
        raise CaptureError(f"{name} is a {kind}, whose numbers cannot be read; load the model's real weights first")
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise CaptureError(f"{name} is sparse or quantized; only dense tensors of plain numbers can be captured")
    plain = tensor.detach().cpu().contiguous()
    array = (plain.float() if half_name(plain) else plain).numpy()
    array.flags.writeable = False
    return array, dtype
