"""Operators on quantized tensors, in Python: integers and what they stand for, around torch's float operators.

    quantized::conv2d_relu(x, packed, scale, zero)   becomes   quantize(relu(conv2d(dequantize(x), dequantize(w), b)), scale, zero)

torch.export has no quantized tensors. Here one is a Quantized: its integers as a plain tensor, which quantized_decomposed's operators
make and read, as in PT2E's graphs. What only moves elements works on the integers. Scales of results are torch's: given, fixed
by the operator (sigmoid), or the input's (relu, pooling). Rounding is torch's too where a kernel knows the pair; else within one step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed
import torch.nn.functional as F

from penlight.capture.script.plain_values import DTYPES
from penlight.errors import CaptureError
from penlight.ops.quantized.dynamic import round_dynamic
from penlight.ops.recurrent.recurrent_dynamic import cell_dynamic

STORED = {torch.quint8: torch.uint8, torch.qint8: torch.int8, torch.qint32: torch.int32}
LEVELS = {torch.uint8: (0, 255), torch.int8: (-128, 127), torch.int32: (-(2**31), 2**31 - 1)}
OPS = torch.ops.quantized_decomposed
Call = Callable[[str, str, list[Any]], Any]  # name, overload, arguments


@dataclass(eq=False)
class Quantized:
    """A quantized tensor: real = (stored - zero) * scale, with one of each, or one for every place along `axis`."""

    stored: torch.Tensor
    scale: Any  # float; along an axis a tuple of them, or a tensor
    zero: Any
    axis: int | None = None
    shared: bool = False  # another one has the same memory: writing into this one would change it

    @property
    def dtype(self) -> torch.dtype:
        return next(q for q, kind in STORED.items() if kind == self.stored.dtype)

    def __getattr__(self, name: str) -> Any:
        """Facts about sizes are those of the integers."""
        if name in ("shape", "dim", "numel", "stride", "storage_offset"):
            return getattr(self.stored, name)
        raise AttributeError(name)

    def is_floating_point(self) -> bool:
        return False

    def is_complex(self) -> bool:
        return False

    @property
    def real(self) -> torch.Tensor:
        kind = self.stored.dtype
        if self.axis is None:
            return OPS.dequantize_per_tensor.default(self.stored, self.scale, self.zero, *LEVELS[kind], kind)
        scales, zeros = _numbers(self.scale, torch.float64), _numbers(self.zero, torch.int64)
        if zeros.is_floating_point():
            places = (*(1,) * self.axis, -1, *(1,) * (self.stored.dim() - self.axis - 1))
            return (self.stored.float() - zeros.view(places)) * scales.view(places)
        return OPS.dequantize_per_channel.default(self.stored, scales, zeros, self.axis, *LEVELS[kind], kind)

    def same(self, real: torch.Tensor) -> Quantized:
        """Other numbers, quantized like these."""
        if self.axis is not None:
            raise CaptureError("a result with a scale for each channel is not planned")
        return quantized(real, self.scale, self.zero, self.stored.dtype)


@dataclass(eq=False)
class Rounded:
    """A tensor quantized by a scale that the run chooses, as the reals that its integers stand for: all that code may ask of it here."""

    real: torch.Tensor


def quantized(real: torch.Tensor, scale: Any, zero: Any, kind: torch.dtype) -> Quantized:
    if not isinstance(scale, (int, float)) or not isinstance(zero, (int, float)):
        raise CaptureError("a scale or a zero point that is computed when the model runs is not planned")
    args = (float(scale), int(zero), *LEVELS[kind], kind)
    return Quantized(OPS.quantize_per_tensor.default(real, *args), float(scale), int(zero))


def _numbers(x: Any, kind: torch.dtype) -> torch.Tensor:
    return x if isinstance(x, torch.Tensor) else torch.tensor(x, dtype=kind)


QUANTIZE = {
    "aten::quantize_per_tensor", "aten::quantize_per_channel", "aten::quantize_per_tensor_dynamic", "aten::dequantize",
}  # fmt: skip


def holds_quantized(x: Any, seen: set[int] | None = None) -> bool:
    """`seen`: containers that hold none, as a few lists can be in each other a billion times."""
    if not isinstance(x, (list, tuple)):
        return isinstance(x, (Quantized, Rounded))
    seen = set() if seen is None else seen
    if id(x) in seen:
        return False
    seen.add(id(x))
    return any(holds_quantized(item, seen) for item in x)


def is_about_quantized(name: str, args: list[Any]) -> bool:
    """Whether a call is for `call_quantized`."""
    return name.startswith(("quantized::", "aten::quantized_")) or name in QUANTIZE or any(map(holds_quantized, args))


def call_quantized(name: str, overload: str, args: list[Any], call: Call) -> Any:
    """An operator that makes, reads or is given quantized tensors. `call` runs those on plain tensors."""
    if name != "aten::dequantize" and any(isinstance(a, Rounded) for a in args):
        raise CaptureError(f"{name} on a tensor whose scale is chosen in the run is not planned")
    if name in OPERATORS:
        return OPERATORS[name](*args)
    base = name.partition("::")[2]
    in_place = base.endswith("_") and not base.endswith("__")
    function = base.rstrip("_") if in_place else base
    x = args[0]
    if function in KEEP_SCALE and isinstance(x, Quantized) and not holds_quantized(args[1:]):
        made = x.same(call(f"aten::{function}", overload, [x.real, *args[1:]]))
        return _written(x, made, name) if in_place else made
    if base in MOVE or base in JOIN:
        return _moved(name, overload, args, call)
    if base in ORDER and isinstance(x, Quantized) and not holds_quantized(args[1:]):
        made = call(name, overload, [x.real, *args[1:]])
        return [x.same(made[0]), *made[1:]] if isinstance(made, (list, tuple)) else x.same(made)
    if base in COMPARE:
        return call(name, overload, [a.real if isinstance(a, Quantized) else a for a in args])
    if function in FIXED and isinstance(x, Quantized):
        made = quantized(
            call(f"aten::{function}", overload, [x.real, *args[1:]]), *FIXED[function][x.dtype], x.stored.dtype
        )
        return _written(x, made, name) if in_place else made
    what = name if name.startswith("quantized::") else f"{name} on quantized tensors"
    raise CaptureError(f"{what} is not planned")


def _written(x: Quantized, made: Quantized, name: str) -> Quantized:
    if x.shared:
        raise CaptureError(f"{name} writes into memory that another quantized tensor shares")
    x.stored, x.scale, x.zero = made.stored, made.scale, made.zero
    return x


def _moved(name: str, overload: str, args: list[Any], call: Call) -> Any:
    """The same on the integers; views share them. What is joined to a tensor of another scale takes on the first one's, as in torch."""
    like = next(v for a in args for v in (a if isinstance(a, (list, tuple)) else [a]) if isinstance(v, Quantized))
    if like.axis is not None:
        raise CaptureError(f"{name} on a tensor with a scale for each channel is not planned")

    def integers(a: Any) -> Any:
        if isinstance(a, (list, tuple)):
            return [integers(v) for v in a]
        if isinstance(a, Quantized):
            a.shared = True
            if (a.scale, a.zero, a.stored.dtype) == (like.scale, like.zero, like.stored.dtype):
                return a.stored
            if name.partition("::")[2] not in JOIN or a.axis is not None or a.stored.dtype != like.stored.dtype:
                raise CaptureError(f"{name} on tensors that are quantized in several ways is not planned")
            return like.same(a.real).stored
        return a

    def wrapped(made: Any) -> Any:
        if isinstance(made, (list, tuple)):
            return [wrapped(v) for v in made]
        return replace(like, stored=made, shared=True)

    return wrapped(call(name, overload, [integers(a) for a in args]))


# What keeps the scale and zero point of its input.
KEEP_SCALE = {
    "relu", "relu6", "clamp", "clamp_min", "clamp_max", "hardtanh", "leaky_relu", "hardswish", "threshold", "max_pool1d", "max_pool2d",
    "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "mean",
    "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_bilinear2d", "constant_pad_nd", "pad", "reflection_pad1d",
    "reflection_pad2d", "replication_pad2d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "gelu", "std", "masked_fill", "index",
}  # fmt: skip
# What moves elements, and changes none.
MOVE = {
    "view", "reshape", "flatten", "unflatten", "permute", "transpose", "t", "numpy_T", "squeeze", "unsqueeze", "slice", "select", "narrow",
    "chunk", "split", "split_with_sizes", "unsafe_chunk", "unsafe_split", "unbind", "contiguous", "clone", "detach", "expand", "expand_as",
    "view_as", "reshape_as", "index_select", "flip", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "alias",
    "data", "repeat", "repeat_interleave", "tile", "roll", "rot90", "ravel", "broadcast_to", "hsplit", "vsplit", "dsplit", "movedim",
    "moveaxis", "tensor_split", "unfold", "diagonal", "atleast_1d", "atleast_2d", "atleast_3d",
}  # fmt: skip
# The same for several tensors, which the first one's scale is for.
JOIN = {"cat", "concat", "concatenate", "stack", "hstack", "vstack", "row_stack", "dstack", "column_stack"}
# What chooses among elements, and may say where they were.
ORDER = {"max", "min", "topk", "sort"}
# What gives truth values.
COMPARE = {"eq", "ne", "lt", "le", "gt", "ge"}
# Scale and zero point that torch gives these, whatever their input's: the whole range of the function.
_UNIT = {torch.quint8: (1 / 256, 0), torch.qint8: (1 / 256, -128), torch.qint32: (1 / 2**32, 0)}
FIXED = {
    "sigmoid": _UNIT,
    "hardsigmoid": _UNIT,
    "tanh": {torch.quint8: (1 / 128, 128), torch.qint8: (1 / 128, 0), torch.qint32: (1 / 2**31, 0)},
}


# ---- to integers and back ----
def _quantize(x: Any, scale: Any, zero: Any, dtype: int) -> Any:
    if isinstance(x, (list, tuple)):
        raise CaptureError("aten::quantize_per_tensor of a list is not planned")
    return quantized(x, scale, zero, _stored_as(dtype))


def _quantize_channels(x: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor, axis: int, dtype: int) -> Quantized:
    """Weights of FX's reference modules, which stay floats and are quantized in every call; as constants they are so once."""
    axis %= x.dim()
    if zeros.is_floating_point():  # of embeddings: a real zero point is added before rounding
        kind, levels = (torch.uint8, (0, 15)) if dtype == _QUINT4X2 else (_stored_as(dtype), LEVELS[_stored_as(dtype)])
        places = (*(1,) * axis, -1, *(1,) * (x.dim() - axis - 1))
        steps = torch.round(x * (1 / scales.to(x.dtype)).view(places) + zeros.view(places))
        return Quantized(steps.clamp(*levels).to(kind), scales, zeros, axis)
    kind = _stored_as(dtype)
    return Quantized(OPS.quantize_per_channel.default(x, scales, zeros, axis, *LEVELS[kind], kind), scales, zeros, axis)


_QUINT4X2 = 16  # torch's number of the dtype, which plain tensors do not have


def _stored_as(dtype: int) -> torch.dtype:
    known = DTYPES[dtype] if dtype < len(DTYPES) else f"torch's dtype number {dtype}"
    kind = STORED.get(known) if isinstance(known, torch.dtype) else None
    if kind is None:
        raise CaptureError(f"quantization to {known} is not planned")
    return kind


def _quantize_dynamic(x: torch.Tensor, dtype: int, reduce_range: bool) -> Any:
    if DTYPES.index(torch.float16) == dtype:
        return x.half()
    if _stored_as(dtype) == torch.int32:
        raise CaptureError("dynamic quantization to qint32 is not planned")
    return Rounded(round_dynamic()(x, reduce_range))


def _dequantize(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return [_dequantize(v) for v in x]
    return x.real if isinstance(x, (Quantized, Rounded)) else x.float()  # torch takes plain tensors too: weights of f16


def _to(x: Any, *args: Any) -> Any:
    """Other devices and memory formats; a float dtype gives reals, as in torch."""
    dtype = next((DTYPES[a] for a in args[:2] if isinstance(a, int) and not isinstance(a, bool)), None)
    if dtype is None or dtype == x.dtype:
        return x
    raise CaptureError(f"aten::to of a quantized tensor as {dtype} is not planned")


# ---- products: `packed` gives plain weights by name (lite/packed.py) ----
def _weight(packed: Any) -> torch.Tensor:
    weight = packed("weight")
    if not isinstance(weight, Quantized):
        raise CaptureError("a packed weight that is not of 8 bits is not planned")
    return weight.real


def _linear(relu: bool) -> Callable[..., Any]:
    def call(x: Quantized, packed: Any, scale: Any, zero: Any) -> Quantized:
        y = torch.ops.aten.linear.default(x.real, _weight(packed), packed("bias"))
        return quantized(F.relu(y) if relu else y, scale, zero, x.stored.dtype)

    return call


def _linear_dynamic(relu: bool) -> Callable[..., Any]:
    """Its input is rounded to a scale that is chosen in the run. Weights of f16 are plain numbers."""

    def call(x: torch.Tensor, packed: Any, reduce_range: bool = False) -> torch.Tensor:
        y = _product_dynamic(x, packed("weight"), packed("bias"), reduce_range)
        return F.relu(y) if relu else y

    return call


def _product_dynamic(x: torch.Tensor, weight: Any, bias: torch.Tensor | None, reduce_range: bool) -> torch.Tensor:
    if isinstance(weight, Quantized):
        x, weight = round_dynamic()(x, reduce_range), _symmetric(weight)
    return torch.ops.aten.linear.default(x, weight, bias)


def _symmetric(weight: Quantized) -> torch.Tensor:
    if any(weight.zero if isinstance(weight.zero, tuple) else (weight.zero,)):
        raise CaptureError("a dynamic product with weights whose zero point is not 0 is not planned")
    return weight.real


# ---- recurrent layers, dynamic too ----
WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def _recurrent(kind: str) -> Callable[..., Any]:
    """Of a padded batch. `params` gives the weights of each layer and direction by name, as `packed` does."""

    def call(x: torch.Tensor, hx: Any, params: Any, *rest: Any) -> Any:
        if not isinstance(params, (list, tuple)) or not all(map(callable, params)):
            raise CaptureError(f"aten::quantized_{kind} of a packed sequence is not planned")
        _, layers, _, train, both, batch_first = rest[:6]
        directions = 2 if both else 1
        if train:
            raise CaptureError("a quantized layer in training mode is not planned: call model.eval() first")
        if len(params) != layers * directions:
            raise CaptureError(f"{len(params)} parameters for {layers} layers of aten::quantized_{kind}")
        if not any(isinstance(cell("weight_hh"), Quantized) for cell in params):
            return _halves(kind, x, hx, params, layers, both, batch_first)
        states, lasts = list(hx) if kind == "lstm" else [hx], []
        x = x.transpose(0, 1) if batch_first else x
        for layer in range(layers):
            ys = []
            for d in range(directions):
                index = layer * directions + d
                y, *last = _layer(kind, x, [s[index] for s in states], params[index], d == 1)
                ys.append(y)
                lasts.append(last)
            x = torch.cat(ys, 2) if both else ys[0]
        y = x.transpose(0, 1) if batch_first else x
        return (y, *(torch.stack(each) if len(each) > 1 else each[0].unsqueeze(0) for each in zip(*lasts, strict=True)))

    return call


def _layer(kind: str, x: torch.Tensor, states: list[torch.Tensor], cell: Any, reverse: bool) -> tuple[Any, ...]:
    """One layer in one direction: its output and last states. The products of all steps' inputs are one, with one scale."""
    w_ih, w_hh, b_ih, b_hh = map(cell, WEIGHTS)
    if not isinstance(w_ih, Quantized) or not isinstance(w_hh, Quantized):
        raise CaptureError("a recurrent layer with integers and floats as weights is not planned")
    reduce_range = cell("reduce_range")
    gates = _product_dynamic(x, w_ih, b_ih, reduce_range)
    return cell_dynamic(kind)(gates, _symmetric(w_hh), *states, b_hh, reverse, reduce_range)  # type: ignore[no-any-return]


def _halves(kind: str, x: torch.Tensor, hx: Any, params: Any, layers: int, both: bool, batch_first: bool) -> Any:
    """Weights of f16 are plain numbers, and the layer is torch's own."""
    weights = []
    for cell in params:
        w_ih, w_hh, *biases = map(cell, WEIGHTS)
        weights += [w_ih, w_hh, *(torch.zeros(w_hh.shape[0]) if b is None else b for b in biases)]
    op = torch.ops.aten.lstm.input if kind == "lstm" else torch.ops.aten.gru.input
    return op(x, hx, weights, True, layers, 0.0, False, both, batch_first)


def _cell(kind: str, **more: Any) -> Callable[..., Any]:
    """One step: a layer over a sequence of one. The biases beside the packed ones are not read, as in torch. Levels: levels.py."""

    def call(x: torch.Tensor, hx: Any, w_ih: Any, w_hh: Any, *biases: Any) -> Any:
        reduce_range = bool(w_ih("reduce_range"))
        gates = _product_dynamic(x, w_ih("weight"), w_ih("bias"), reduce_range).unsqueeze(0)
        states = list(hx) if kind == "lstm" else [hx]
        if not isinstance(w_hh("weight"), Quantized):
            raise CaptureError(f"a {kind} cell with floats as weights is not planned")
        weight = _symmetric(w_hh("weight"))
        _, *last = cell_dynamic(kind)(gates, weight, *states, w_hh("bias"), False, reduce_range, *more.values())
        return tuple(last) if kind == "lstm" else last[0]

    return call


def _conv(relu: bool, lines: bool = False) -> Callable[..., Any]:
    """`lines`: of 1d, whose packed weights are those of images of height 1. The old forms repeat the packed sizes."""

    def call(x: Quantized, packed: Any, *rest: Any) -> Quantized:
        scale, zero = rest[-2:]
        real = replace(x, stored=x.stored.unsqueeze(2)).real if lines else x.real
        w, b, stride, padding, dilation = _weight(packed), *map(packed, ("bias", "stride", "padding", "dilation"))
        rank, groups = w.dim() - 2, packed("groups")
        y: torch.Tensor
        if packed("transposed"):
            op = {2: torch.ops.aten.conv_transpose2d.input, 3: torch.ops.aten.conv_transpose3d.input}[rank]
            y = op(real, w, b, stride, padding, packed("output_padding"), groups, dilation)
        else:
            op = {2: torch.ops.aten.conv2d.default, 3: torch.ops.aten.conv3d.default}[rank]
            y = op(real, w, b, stride, padding, dilation, groups)
        made = quantized(F.relu(y) if relu else y, scale, zero, x.stored.dtype)
        return replace(made, stored=made.stored.squeeze(2)) if lines else made

    return call


# ---- arithmetic ----
def _pair(function: Callable[..., Any], relu: bool) -> Callable[..., Any]:
    def call(a: Any, b: Any, *scale_and_zero: Any) -> Quantized:
        if not isinstance(a, Quantized) or not isinstance(b, Quantized):
            number, x = (a, b) if isinstance(b, Quantized) else (b, a)
            return _with_number(function, relu)(x, number)
        if len(scale_and_zero) == 1:  # add.out
            raise CaptureError("an operator that writes into a quantized tensor is not planned")
        y = function(a.real, b.real)
        scale, zero = scale_and_zero
        return quantized(F.relu(y) if relu else y, scale, zero, a.stored.dtype)

    return call


def _with_number(function: Callable[..., Any], relu: bool) -> Callable[..., Any]:
    """A number moves the zero point or changes the scale where it can, and no integer: then torch's result is exact."""

    def call(x: Quantized, number: Any) -> Quantized:
        if not isinstance(number, (int, float)):
            raise CaptureError("a number that is computed when the model runs, with a quantized tensor, is not planned")
        scale, zero = (_scaled if function is torch.mul else _shifted)(x, float(number))
        y = function(x.real, float(number))
        return quantized(F.relu(y) if relu else y, scale, zero, x.stored.dtype)

    return call


def _shifted(x: Quantized, number: float) -> tuple[float, int]:
    low, high = LEVELS[x.stored.dtype]
    moved = x.zero - round(number / x.scale)
    if moved < low:
        return (high - moved) / (high - low) * x.scale, low
    if moved > high:
        return (moved - low) / (high - low) * x.scale, high
    return x.scale, moved


def _scaled(x: Quantized, number: float) -> tuple[float, int]:
    low, high = LEVELS[x.stored.dtype]
    if number == 0:
        return 1.0, 0
    return (number * x.scale, x.zero) if number > 0 else (-number * x.scale, high - (x.zero - low))


def _cat(relu: bool) -> Callable[..., Any]:
    def call(xs: Sequence[Quantized], dim: int, scale: Any = None, zero: Any = None) -> Quantized:
        first = xs[0]
        y = torch.cat([x.real for x in xs], dim)
        scale, zero = first.scale if scale is None else scale, first.zero if zero is None else zero
        return quantized(F.relu(y) if relu else y, scale, zero, first.stored.dtype)

    return call


# ---- functions of reals whose last two arguments are the result's scale and zero point ----
def _ending(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    def call(x: Quantized, *args: Any) -> Quantized:
        *rest, scale, zero = args
        return quantized(function(x.real, *rest), scale, zero, x.stored.dtype)

    return call


def _elu(x: Quantized, scale: Any, zero: Any, alpha: Any = 1, out: Any = 1, into: Any = 1) -> Quantized:
    return quantized(torch.ops.aten.elu.default(x.real, alpha, out, into), scale, zero, x.stored.dtype)


def _celu(x: Quantized, scale: Any, zero: Any, alpha: Any = 1) -> Quantized:
    return quantized(F.celu(x.real, alpha), scale, zero, x.stored.dtype)


def _batch_norm(relu: bool) -> Callable[..., Any]:
    def normalize(x: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float) -> torch.Tensor:
        y = F.batch_norm(x, mean, var, weight, bias, False, 0.0, eps)
        return F.relu(y) if relu else y

    return _ending(normalize)


def _instance_norm(x: Any, weight: Any, bias: Any, eps: float) -> torch.Tensor:
    return F.instance_norm(x, weight=weight, bias=bias, eps=eps)


def _prelu(x: Any, weight: Any) -> torch.Tensor:
    return F.prelu(x, weight.real if isinstance(weight, Quantized) else weight)


def _matmul(a: Quantized, b: Quantized, scale: Any, zero: Any) -> Quantized:
    return quantized(torch.matmul(a.real, b.real), scale, zero, a.stored.dtype)


def _keeping(function: Callable[..., torch.Tensor], given: int) -> Callable[..., Any]:
    """A function that keeps the scale, by the first `given` arguments after x."""
    return lambda x, *args: x.same(function(x.real, *args[:given]))


def _avg_pool2d(
    x: Quantized, kernel: Any, stride: Any = (), padding: Any = 0, ceil: bool = False, count_padding: bool = True, divisor: Any = None
) -> Quantized:  # fmt: skip
    """qnnpack counts the padding and knows no divisor, whatever it is told; it computes images of u8 without ceil_mode. So does the VM."""
    if x.stored.dtype == torch.uint8 and x.dim() == 4 and not ceil:
        count_padding, divisor = True, None
    return x.same(
        torch.ops.aten.avg_pool2d.default(x.real, kernel, stride or [], padding, ceil, count_padding, divisor)
    )


def _avg_pool1d(x: Quantized, kernel: Any, stride: Any = (), padding: Any = (0,), *rest: Any) -> Quantized:
    """As torch does it: of images of height 1."""
    kernel, stride, padding = ([n] if isinstance(n, int) else list(n) for n in (kernel, stride or kernel, padding))
    lines = replace(x, stored=x.stored.unsqueeze(-2))
    made = _avg_pool2d(lines, [1, *kernel], [1, *stride], [0, *padding], *rest)
    return replace(made, stored=made.stored.squeeze(-2))


# ---- tables of rows, each with a scale; the results are reals ----
def _embedding(packed: Any, indices: torch.Tensor, pruned: bool = False, *_: Any) -> torch.Tensor:
    if pruned:
        raise CaptureError("an embedding with pruned rows is not planned")
    table, scales = packed("weight"), packed("scales")
    shifts = scales * packed("zero_points")
    if packed("bit_rate") == 4:  # torch keeps the scales of these in halves
        scales, shifts = scales.half().float(), shifts.half().float()
    rows = F.embedding(indices, table)
    if packed("bit_rate") == 4:  # two numbers in a byte, the first in its lower half
        halves = torch.stack([rows & 15, rows >> 4], -1)
        rows = halves.reshape(*halves.shape[:-2], -1)
    return rows.float() * scales[indices].unsqueeze(-1) - shifts[indices].unsqueeze(-1)


def _embedding_bag(
    packed: Any,
    indices: torch.Tensor,
    offsets: Any = None,
    scale_grad: bool = False,
    mode: int = 0,
    pruned: bool = False,
    weights: Any = None,
    mapping: Any = None,
    include_last: bool = False,
) -> torch.Tensor:
    """Sums of rows: only those that are asked for become reals."""
    if pruned or mapping is not None:
        raise CaptureError("a table with pruned rows is not planned")
    rows = _embedding(packed, indices.reshape(-1))
    places = torch.arange(rows.shape[0]).reshape(indices.shape)
    return F.embedding_bag(
        places, rows, offsets, mode="sum", per_sample_weights=weights, include_last_offset=include_last
    )


OPERATORS: dict[str, Callable[..., Any]] = {
    "aten::quantize_per_tensor": _quantize,
    "aten::quantize_per_channel": _quantize_channels,
    "aten::quantize_per_tensor_dynamic": _quantize_dynamic,
    "aten::dequantize": _dequantize,
    "aten::int_repr": lambda x: x.stored,
    "aten::q_scale": lambda x: x.scale,
    "aten::q_zero_point": lambda x: x.zero,
    "aten::dropout": lambda x, *_: x,
    "aten::avg_pool1d": _avg_pool1d,
    "aten::avg_pool2d": _avg_pool2d,
    "aten::to": _to,
    "quantized::dropout": lambda x, *_: x,
    "quantized::linear": _linear(relu=False),
    "quantized::linear_relu": _linear(relu=True),
    "quantized::linear_dynamic": _linear_dynamic(relu=False),
    "quantized::linear_relu_dynamic": _linear_dynamic(relu=True),
    "quantized::linear_dynamic_fp16": _linear_dynamic(relu=False),
    "quantized::linear_relu_dynamic_fp16": _linear_dynamic(relu=True),
    "aten::quantized_lstm": _recurrent("lstm"),
    "aten::quantized_gru": _recurrent("gru"),
    "quantized::quantized_lstm_cell_dynamic": _cell("lstm"),
    "quantized::quantized_gru_cell_dynamic": _cell("gru"),
    "quantized::quantized_rnn_tanh_cell_dynamic": _cell("rnn", nonlinearity="tanh"),
    "quantized::quantized_rnn_relu_cell_dynamic": _cell("rnn", nonlinearity="relu"),
    "quantized::add": _pair(torch.add, relu=False),
    "quantized::add_relu": _pair(torch.add, relu=True),
    "quantized::mul": _pair(torch.mul, relu=False),
    "quantized::mul_relu": _pair(torch.mul, relu=True),
    "quantized::add_scalar": _with_number(torch.add, relu=False),
    "quantized::add_scalar_relu": _with_number(torch.add, relu=True),
    "quantized::mul_scalar": _with_number(torch.mul, relu=False),
    "quantized::mul_scalar_relu": _with_number(torch.mul, relu=True),
    "quantized::matmul": _matmul,
    "quantized::cat": _cat(relu=False),
    "quantized::cat_relu": _cat(relu=True),
    "quantized::sigmoid": _ending(torch.sigmoid),
    "quantized::hardswish": _ending(F.hardswish),
    "quantized::leaky_relu": _ending(lambda x, slope, inplace=False: F.leaky_relu(x, slope)),
    "quantized::elu": _elu,
    "quantized::celu": _celu,
    "quantized::prelu": _ending(_prelu),
    "quantized::softmax": _ending(torch.softmax),
    "quantized::layer_norm": _ending(F.layer_norm),
    "quantized::group_norm": _ending(F.group_norm),
    "quantized::instance_norm": _ending(_instance_norm),
    "quantized::relu6": _keeping(F.relu6, 0),
    "quantized::clamp": _keeping(torch.clamp, 2),
    "quantized::threshold": _keeping(F.threshold, 2),
    "quantized::max_pool1d": _keeping(F.max_pool1d, 5),
    "quantized::max_pool2d": _keeping(F.max_pool2d, 5),
    "aten::quantized_max_pool2d": _keeping(F.max_pool2d, 5),
    "quantized::embedding_byte": _embedding,
    "quantized::embedding_4bit": _embedding,
    "quantized::embedding_bag_byte": _embedding_bag,
    "quantized::embedding_bag_4bit": _embedding_bag,
    **{
        f"quantized::{t}{n}d{r}": _conv(bool(r), n == 1)
        for n in (1, 2, 3)
        for t in ("conv", "conv_transpose")
        for r in ("", "_relu")
    },
    **{f"quantized::batch_norm{n}{r}": _batch_norm(bool(r)) for n in ("", "1d", "2d", "3d") for r in ("", "_relu")},
}
"""By name: called with the arguments of any overload."""
