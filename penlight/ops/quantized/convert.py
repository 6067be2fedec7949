"""quantize, dequantize: from reals to integers that stand for them, and back.

What the integers stand for is in their types (ir/types.py, Quant). torch's rule: round(x / scale) + zero point, ties to even, within
`low` and `high`, which may be narrower than the dtype (reduce_range). Kernels by what they read: quantize.f32 gives u8, i8 or i32;
dequantize.u8, .i8 and .i32 give f32. What is not known before a run (scales that are computed from data, integers of other
dtypes) is computed in floats, as torch does it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penlight.ops.quantized.dynamic import emit_rounded
from penlight.ops.registry import Op

if TYPE_CHECKING:
    import numpy as np

    from penlight.ir.graph import Value
    from penlight.ir.types import Quant
    from penlight.ops.emitter import Emitter

quantize = Op(
    "quantize",
    "x: tensor, low: int, high: int",
    layout="follow",
    reads_any=lambda node: True,
    quantized="kernels",
    doc="The integers, from low to high, that stand for x as the result's type says.",
)
dequantize = Op(
    "dequantize",
    "x: tensor",
    layout="follow",
    dtypes=("u8", "i8", "i32"),
    quantized="kernels",
    doc="The numbers that integers stand for.",
)


# ---- PT2E: one scale for the whole tensor ----
@quantize.from_aten(
    "quantized_decomposed::quantize_per_tensor",
    "quantized_decomposed::quantize_per_tensor.tensor",
    "quantized_decomposed::quantize_per_tensor.tensor2",
)
def _(g: Emitter, x: Value, scale: Any, zero: Any, low: Any, high: Any, dtype: str) -> Value:
    return _quantized(g, x, scale, zero, low, high, dtype, None)


@dequantize.from_aten(
    "quantized_decomposed::dequantize_per_tensor",
    "quantized_decomposed::dequantize_per_tensor.tensor",
    "quantized_decomposed::dequantize_per_tensor.tensor2",
)
def _(g: Emitter, x: Value, scale: Any, zero: Any, low: Any, high: Any, dtype: str, out_dtype: str | None) -> Value:
    levels = high - low if isinstance(low, int) and isinstance(high, int) else None
    return _rounded_in_run(g, x, scale, levels) or _dequantized(g, x, scale, zero, None)


def _rounded_in_run(g: Emitter, x: Value, scale: Any, levels: Any) -> Value | None:
    """What choose_qparams, quantize and dequantize make of a tensor together: the numbers of quantize_dynamic's integers."""
    from penlight.ir.types import TensorType

    chosen = _maker(scale, ("cast", "reshape", "slice"))
    node = chosen.producer if chosen is not None else None
    if node is None or node.op != "quantize_dynamic" or node.attrs["high"] != levels:
        return None
    if _maker(x, ("cast", "minimum", "maximum", "add", "round", "mul")) is not node.inputs[0]:
        return None
    stored, step = node.outputs
    made: Value = g.emit("dequantize_dynamic", stored, step, type=TensorType("f32", stored.shape))
    return made


def _maker(x: Any, ops: tuple[str, ...]) -> Value | None:
    """Where a chain of these operators, in this order from its end, begins; any may be missing."""
    from penlight.ir.graph import Value

    if not isinstance(x, Value):
        return None
    for op in ops:
        if x.producer is not None and x.producer.op == op:
            x = x.producer.inputs[0]
    return x


# ---- one scale for each channel: weights ----
@quantize.from_aten("quantized_decomposed::quantize_per_channel")
def _(g: Emitter, x: Value, scales: Value, zeros: Value, axis: int, low: int, high: int, dtype: str) -> Value:
    return _quantized(g, x, scales, zeros, low, high, dtype, axis % x.rank)


@dequantize.from_aten("quantized_decomposed::dequantize_per_channel")
def _(
    g: Emitter,
    x: Value,
    scales: Value,
    zeros: Value | None,
    axis: int,
    low: int,
    high: int,
    dtype: str,
    out: str | None,
) -> Value:
    return _dequantized(g, x, scales, 0 if zeros is None else zeros, axis % x.rank)


# ---- one scale for each row of the last dim, known only in a run ----
@quantize.from_aten("quantized_decomposed::quantize_per_token")
def _(g: Emitter, x: Value, scales: Value, zeros: Value, low: int, high: int, dtype: str) -> Value:
    return _integers(g, x, scales, zeros, low, high, dtype)


@dequantize.from_aten("quantized_decomposed::dequantize_per_token")
def _(g: Emitter, x: Value, scales: Value, zeros: Value, low: int, high: int, dtype: str, out: str) -> Value:
    return _reals(g, x, scales, zeros)


# ---- training that knows of quantization: to integers and back in one call ----
@quantize.from_aten("fake_quantize_per_tensor_affine", "fake_quantize_per_tensor_affine.tensor_qparams")
def _(g: Emitter, x: Value, scale: Any, zero: Any, *rest: Any) -> Value:
    if len(rest) == 3 and _numbers(rest[0]) != [1.0]:
        return g.fail("fake quantization that a tensor switches off")  # type: ignore[return-value]
    low, high = rest[-2:]
    return _there_and_back(g, x, scale, zero, low, high, None)


@quantize.from_aten("fake_quantize_per_channel_affine", "quantized_decomposed::fake_quant_per_channel")
def _(g: Emitter, x: Value, scales: Value, zeros: Value, axis: int, low: int, high: int) -> Value:
    return _there_and_back(g, x, scales, zeros, low, high, axis % x.rank)


def _there_and_back(g: Emitter, x: Value, scale: Any, zero: Any, low: int, high: int, axis: int | None) -> Value:
    dtype = "u8" if low >= 0 and high <= 255 else "i8" if low >= -128 and high <= 127 else "i32"
    return _dequantized(g, _quantized(g, x, scale, zero, low, high, dtype, axis), scale, zero, axis)


# ---- scales from the data, as PT2E's dynamic quantization has them ----
@quantize.from_aten("quantized_decomposed::choose_qparams.tensor")
def _(g: Emitter, x: Value, low: int, high: int, eps: float, dtype: str) -> tuple[Value, Value]:
    if not 1 <= high - low <= 255:
        return g.fail(f"dynamic quantization to {high - low + 1} levels; 2 to 256 are supported")  # type: ignore[return-value]
    step = emit_rounded(g, x, high - low, "pt2e", eps)[1]
    scale, zero = (
        g.emit("slice", step, type=replace(step.tensor, shape=(1,)), dim=0, start=i, end=i + 1, step=1) for i in (0, 1)
    )
    return _as_choice(g, scale, _f32(g, "add", zero, float(low)))


@quantize.from_aten("quantized_decomposed::choose_qparams_symmetric.tensor")
def _(g: Emitter, x: Value, low: int, high: int, eps: float, dtype: str) -> tuple[Value, Value]:
    least, most = _range(g, x)
    largest = _f32(g, "maximum", _f32(g, "neg", least), most)
    scale = _f32(g, "maximum", _f32(g, "div", largest, (high - low) / 2), eps)
    return _as_choice(g, scale, g.constant(128.0 if dtype == "u8" else 0.0, "f32"))


def _range(g: Emitter, x: Value) -> tuple[Value, Value]:
    """The least and the largest number of x, and of 0."""
    from penlight.ops.reduce.reduce import emit_reduction

    x = g.cast(x, "f32")
    least, most = (emit_reduction(g, name, x, None, False, replace(x.tensor, shape=())) for name in ("amin", "amax"))
    return _f32(g, "minimum", least, 0.0), _f32(g, "maximum", most, 0.0)


def _as_choice(g: Emitter, scale: Value, zero: Value) -> tuple[Value, Value]:
    """As torch gives them: f64 and i64, each in a tensor of one."""
    return g.reshape(g.cast(scale, g.out[0].dtype), (1,)), g.reshape(g.cast(zero, g.out[1].dtype), (1,))


# ---- what all of these come down to ----
def _quantized(g: Emitter, x: Value, scale: Any, zero: Any, low: Any, high: Any, dtype: str, axis: int | None) -> Value:
    from penlight.ir.types import TensorType

    x = g.cast(x, "f32")
    quant, limits = _quant(x, scale, zero, dtype, axis), [_numbers(low), _numbers(high)]
    if quant is not None and limits[0] and limits[1]:
        low, high = int(limits[0][0]), int(limits[1][0])
        if x.constant is not None:
            return _constant(g, _stored(x.constant, quant, low, high, dtype), quant, x.name)
        if axis is None and dtype != "i32":
            made: Value = g.emit("quantize", x, type=TensorType(dtype, x.shape, quant), low=low, high=high)
            return made
    return _integers(g, x, _along(g, scale, x, axis), _along(g, zero, x, axis), low, high, dtype)


def _dequantized(g: Emitter, x: Value, scale: Any, zero: Any, axis: int | None) -> Value:
    from penlight.ir.types import TensorType

    quant = _quant(x, scale, zero, x.dtype, axis)
    if quant is not None and x.constant is not None and x.tensor.quant != quant:
        if x.tensor.quant is None and not x.users:
            x.type = replace(x.tensor, quant=quant)
        else:
            x = _constant(g, x.constant, quant, x.name)
    if quant is not None and x.tensor.quant == quant:
        made: Value = g.emit("dequantize", x, type=TensorType("f32", x.shape))
        return made
    return _reals(g, g.integers(x), _along(g, scale, x, axis), _along(g, zero, x, axis))


def _quant(x: Value, scale: Any, zero: Any, dtype: str, axis: int | None) -> Quant | None:
    """What integers of this dtype stand for; None where that is not known, or not what a type can say."""
    from penlight.ir.types import LEVELS, Quant

    scales, zeros = _numbers(scale), _numbers(zero)
    count = 1 if axis is None else x.shape[axis]
    if scales is None or zeros is None or len(scales) != count or dtype not in LEVELS:
        return None
    zeros = zeros * len(scales) if len(zeros) == 1 else zeros  # none given: all 0
    low, high = LEVELS[dtype]
    if len(zeros) != count or any(z != int(z) or not low <= z <= high for z in zeros):
        return None
    if any(not 0 < s < float("inf") for s in scales):
        return None
    return Quant(tuple(map(float, scales)), tuple(map(int, zeros)), axis)


def _numbers(x: Any) -> list[Any] | None:
    """The numbers of a Python number or a constant; None where only a run tells them."""
    if isinstance(x, (int, float)):
        return [x]
    constant = getattr(x, "constant", None)
    return None if constant is None else constant.reshape(-1).tolist()  # type: ignore[no-any-return]


def _constant(g: Emitter, array: np.ndarray, quant: Quant, name: str) -> Value:
    """One constant for all that read the same memory in the same way."""
    for known in g.graph.constants.values():
        if known.constant is array and known.tensor.quant == quant:
            return known
    made = g.graph.add_constant(array, name)
    made.type = replace(made.tensor, quant=quant)
    return made


def _stored(x: np.ndarray, quant: Quant, low: int, high: int, dtype: str) -> np.ndarray:
    """The integers of constants, by the rule of the kernels."""
    import numpy as np

    from penlight.ir.types import numpy_dtype

    shape = [1] * x.ndim
    if quant.axis is not None:
        shape[quant.axis] = -1
    scales, zeros = (np.array(v, np.float32).reshape(shape if x.ndim else ()) for v in (quant.scales, quant.zeros))
    return np.clip(np.rint(x * (np.float32(1) / scales)) + zeros, low, high).astype(numpy_dtype(dtype))


def _integers(g: Emitter, x: Value, scale: Any, zero: Any, low: Any, high: Any, dtype: str) -> Value:
    """Plain integers, in floats: clamp(round(x * (1 / scale)) + zero point)."""
    steps = _f32(g, "round", _f32(g, "mul", x, _f32(g, "div", 1.0, scale)))
    within = _f32(g, "minimum", _f32(g, "maximum", _f32(g, "add", steps, zero), low), high)
    return g.cast(within, dtype)


def _reals(g: Emitter, x: Value, scale: Any, zero: Any) -> Value:
    return _f32(g, "mul", _f32(g, "sub", x, zero), scale)


def _along(g: Emitter, numbers: Any, x: Value, axis: int | None) -> Any:
    """Numbers of a tensor or of its channels, in a shape that meets x's."""
    from penlight.ir.graph import Value

    if not isinstance(numbers, Value):
        return numbers
    return g.reshape(numbers, () if axis is None else (*(1,) * axis, x.shape[axis], *(1,) * (x.rank - axis - 1)))


def _f32(g: Emitter, op: str, *operands: Any) -> Value:
    """An elementwise operator on f32, its operands spread to the largest of their ranks."""
    from penlight.ir.dims import broadcast
    from penlight.ir.types import TensorType

    values = [g.as_tensor(float(x) if isinstance(x, int) else x, "f32") for x in operands]
    made: Value = g.emit(op, *values, type=TensorType("f32", broadcast(*(v.shape for v in values))))
    return made
