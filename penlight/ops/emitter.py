"""The Emitter: what a converter of an aten call (penlight/ops/**, `Op.from_aten`) builds its nodes with.

One Emitter serves one graph; capture sets `out` and `source` anew for each call. Scalars that turn up again and again
(0.5, 1e-5) are one constant. `fail` ends a converter, not the capture: all calls that fail are reported together.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn, TypeAlias

import numpy as np

from penlight.errors import CaptureError
from penlight.ir.dims import Dim, Expr, combine, product, symbol
from penlight.ir.dtypes import category, joined
from penlight.ir.graph import Attr, AttrItem, Graph, Value
from penlight.ir.types import TensorType, numpy_dtype
from penlight.ops import registry

Number: TypeAlias = float | int | bool | Expr


class Unconvertible(Exception):
    """Raised by Emitter.fail; capture collects it."""


class Emitter:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.out: Any = None  # TensorType of the call being converted, or a tuple of them
        self.source = ""
        # f16 or bf16: what the call's first argument and its result are in the model
        self.halves: tuple[str | None, str | None] = (None, None)
        # sizes in `out` that no input tells: this call's result defines them
        self.new_symbols: frozenset[str] = frozenset()
        self.numbers: dict[str, Value] = {}  # symbol -> the rank-0 tensor whose number it is (`item`)
        self.node: Any = None  # the exported call, for converters that must know how torch lays out its arguments
        self.windows: dict[Value, Any] = {}  # see ops/shape/as_strided_scatter.py
        self._scalars: dict[tuple[str, bytes], Value] = {}

    def emit(self, op: str, *inputs: Any, type: TensorType | None = None, types: Any = None, **attrs: Any) -> Any:
        """Appends a node and returns its output (several: a tuple, with `types` given). Inputs are Values or None; lists of
        Values are spread. Attributes left out take the schema's defaults."""
        declared = registry.get(op)
        values = _spread(inputs)
        values += [None] * (len([p for p in declared.tensors if p.kind != "tensor[]"]) - len(values))
        _check_inputs(declared, values)
        complete = _complete(declared, attrs)
        kinds = types if types is not None else type if type is not None else self.out
        values, kinds = self._with_quant(declared, values, kinds)
        node = self.graph.node(op, values, complete, kinds, name=op, source=self.source)
        if len(node.outputs) != declared.outputs:
            raise ValueError(f"{op} has {declared.outputs} output(s), {len(node.outputs)} type(s) were given: {kinds}")
        self.graph.append(node)
        return node.outputs[0] if declared.outputs == 1 else tuple(node.outputs)

    def _with_quant(self, op: registry.Op, values: list[Value | None], kinds: Any) -> tuple[list[Value | None], Any]:
        """Inputs and result types where some inputs are quantized: what moves integers hands on what they stand for; what does
        not know of that gets plain integers."""
        if op.quantized == "kernels" or all(v is None or v.tensor.quant is None for v in values):
            return values, kinds
        moved = [v for i, v in enumerate(values) if v is not None and op.moves(i)]
        quants = {v.tensor.quant for v in moved}
        quant = next(iter(quants), None)
        if op.quantized != "same" or len(quants) != 1 or quant is None or quant.axis is not None:
            return [None if v is None else self.integers(v) for v in values], kinds
        if isinstance(kinds, TensorType):
            return values, replace(kinds, quant=quant)
        return values, tuple(replace(k, quant=quant) for k in kinds)

    def integers(self, x: Value) -> Value:
        """The stored integers of a quantized tensor, as plain ones: (real / scale) + zero point, which gives them back exactly."""
        quant = x.tensor.quant
        if quant is None:
            return x
        if x.constant is not None:
            return self.graph.add_constant(x.constant, x.name)
        real = TensorType("f32", x.shape)
        steps = self.emit("div", self.emit("dequantize", x, type=real), self.constant(quant.scale, "f32"), type=real)
        shifted = self.emit(
            "add", self.emit("round", steps, type=real), self.constant(float(quant.zero), "f32"), type=real
        )
        return self.cast(shifted, x.dtype)

    def constant(self, value: Number | np.ndarray | np.generic, dtype: str | None = None) -> Value:
        """A constant tensor: rank 0 for a Python number, else the array. A symbolic integer becomes a rank-0 tensor that
        the runtime computes from the shapes."""
        if isinstance(value, Expr):
            return self._from_dim(value, dtype or "i64")
        if isinstance(value, (bool, int, float)):
            dtype = dtype or {bool: "bool", int: "i64", float: "f32"}[value.__class__]
            return self._scalar(value, dtype)
        array = np.asarray(value)
        if dtype is not None and dtype != "bf16":
            array = array.astype(numpy_dtype(dtype))
        return add_constant(self.graph, array, dtype)

    def _scalar(self, value: bool | int | float, dtype: str) -> Value:
        if dtype == "bf16":
            array = np.array(_bf16_bits(float(value)), dtype="uint16")
        else:
            with np.errstate(over="ignore"):  # 1e300 as f32 is inf, as in torch
                array = np.array(value).astype(numpy_dtype(dtype))
        key = (dtype, array.tobytes())
        if key not in self._scalars or self.graph.constants.get(self._scalars[key].name) is not self._scalars[key]:
            self._scalars[key] = add_constant(self.graph, array, dtype)
        return self._scalars[key]

    def _from_dim(self, dim: Expr, dtype: str) -> Value:
        if str(dim) in self.numbers:
            return self.cast(self.numbers[str(dim)], dtype)
        kind = dtype if dtype in ("f32", "i32", "i64") else "i64"  # what arange has
        one = self.emit("arange", type=TensorType(kind, (1,)), start=dim, end=combine("+", dim, 1), step=1, dtype=kind)
        return self.cast(self.reshape(one, ()), dtype)

    def cast(self, x: Value, dtype: str) -> Value:
        if x.dtype == dtype:
            return x
        before = x.producer.inputs[0] if x.producer is not None and x.producer.op == "cast" else None
        if before is not None and before.dtype == dtype and (dtype, x.dtype) in _LOSSLESS:  # there and back again
            return before
        made: Value = self.emit("cast", x, type=TensorType(dtype, x.shape), to=dtype)
        return made

    def as_tensor(self, x: Value | Number, dtype: str) -> Value:
        return self.cast(x, dtype) if isinstance(x, Value) else self.constant(x, dtype)

    def reshape(self, x: Value, shape: Sequence[Dim]) -> Value:
        """`x` in another shape with as many elements; one dim may be -1. Itself where nothing changes."""
        shape = _infer(x.shape, tuple(shape))
        if shape == x.shape:
            return x
        made: Value = self.emit("reshape", x, type=replace(x.tensor, shape=shape), shape=shape)
        return made

    def permute(self, x: Value, dims: Sequence[int]) -> Value:
        order = tuple(d % x.rank for d in dims)
        if order == tuple(range(x.rank)):
            return x
        made: Value = self.emit(
            "permute", x, type=replace(x.tensor, shape=tuple(x.shape[d] for d in order)), dims=order
        )
        return made

    def size_of(self, x: Value, size: Dim | None = None) -> Dim:
        """The number in a rank-0 tensor as a Dim: the symbol `size`, which is new in `out`, or one of the call's own."""
        if size is None:
            size = symbol(self.graph.fresh_name("size"))
        if isinstance(size, int) or size.op != "sym":  # torch knows what comes out
            return size
        name = str(size)
        self.numbers[name] = number = self.cast(x, "i64")
        self.emit("item", number, type=TensorType("i64", ()), symbol=name)
        return size

    def promote(self, *operands: Value | Number) -> str:
        """torch's result dtype: tensors with dims decide; rank-0 tensors, then Python numbers, only where they are of a
        higher category (bool < integers < floats)."""
        return promote(*operands)

    def fail(self, reason: str) -> NoReturn:
        """This call cannot be converted, because of `reason`; it may be taken apart into others that can."""
        raise Unconvertible(reason)

    def refuse(self, reason: str) -> NoReturn:
        """No model with this call can be captured, whatever it is made of."""
        raise CaptureError(reason)


def add_constant(graph: Graph, array: np.ndarray, dtype: str | None = None, name: str = "") -> Value:
    """Like Graph.add_constant, for bfloat16 too, which numpy holds as uint16 bits."""
    if dtype != "bf16":
        return graph.add_constant(array, name)
    value = graph.add_constant(array.view("int16"), name)
    assert value.constant is not None
    value.type, value.constant = TensorType("bf16", array.shape), value.constant.view("uint16")
    return value


_LOSSLESS = {("f16", "f32"), ("bf16", "f32"), ("f16", "f64"), ("bf16", "f64"), ("f32", "f64")}


def promote(*operands: Value | Number) -> str:
    dtypes: list[str | None] = [None, None, None]  # of tensors with dims, of rank-0 tensors, of Python numbers
    for x in operands:
        if isinstance(x, Value):
            level, dtype = (0 if x.rank else 1), x.dtype
        else:
            level, dtype = 2, "bool" if isinstance(x, bool) else "f32" if isinstance(x, float) else "i64"
        known = dtypes[level]
        dtypes[level] = dtype if known is None else joined(known, dtype)
    result: str | None = None
    for dtype in (d for d in dtypes if d is not None):
        if result is None or category(dtype) > category(result):
            result = dtype
    if result is None:
        raise ValueError("promote() needs an operand")
    return result


def _spread(inputs: Sequence[Any]) -> list[Value | None]:
    values: list[Value | None] = []
    for x in inputs:
        if isinstance(x, (list, tuple)):
            values.extend(x)
        else:
            values.append(x)
    return values


def _check_inputs(op: registry.Op, values: list[Value | None]) -> None:
    is_list = bool(op.tensors) and op.tensors[-1].kind == "tensor[]"
    if len(values) > len(op.tensors) and not is_list:
        raise ValueError(f"{op.name} takes {len(op.tensors)} tensor(s), {len(values)} were given")
    for i, value in enumerate(values):
        param = op.tensors[min(i, len(op.tensors) - 1)]
        if value is None and param.kind != "tensor?":
            raise ValueError(f"{op.name}: tensor {param.name!r} is missing")
        if value is not None and not isinstance(value, Value):
            raise TypeError(
                f"{op.name}: {param.name!r} must be a Value, got {value!r} (Emitter.as_tensor makes one of a number)"
            )


def _complete(op: registry.Op, given: dict[str, Any]) -> dict[str, Attr]:
    """All attributes of the schema, in its order, with the kinds it asks for."""
    unknown = given.keys() - {p.name for p in op.attrs}
    if unknown:
        raise ValueError(f"{op.name} has no attribute {', '.join(sorted(unknown))}; its schema: {op.schema}")
    attrs: dict[str, Attr] = {}
    for p in op.attrs:
        if p.name not in given and not p.has_default:
            raise ValueError(f"{op.name}: attribute {p.name!r} is missing; its schema: {op.schema}")
        attrs[p.name] = _coerce(given.get(p.name, p.default), p.kind, f"{op.name}: attribute {p.name!r}")
    return attrs


_ACCEPTS: dict[str, tuple[type, ...]] = {
    "int": (int, np.integer, Expr),
    "float": (int, float, np.integer, np.floating),
    "bool": (bool, np.bool_, int),
    "str": (str,),
}


def _coerce(value: Any, kind: str, what: str) -> Attr:
    if kind.endswith("[]"):
        if not isinstance(value, (list, tuple)):
            raise TypeError(f"{what} must be a list of {kind[:-2]}s, got {value!r}")
        return tuple(_coerce_item(v, kind[:-2], what) for v in value)
    if kind.endswith("?"):
        return None if value is None else _coerce_item(value, kind[:-1], what)
    return _coerce_item(value, kind, what)


def _coerce_item(value: Any, kind: str, what: str) -> AttrItem:
    if not isinstance(value, _ACCEPTS[kind]):
        raise TypeError(f"{what} must be {kind}, got {value!r}")
    if isinstance(value, Expr):
        return value
    made: AttrItem = {"int": int, "float": float, "bool": bool, "str": str}[kind](value)
    return made


def _infer(old: tuple[Dim, ...], new: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """`new` with its -1, if any, worked out."""
    if -1 not in new:
        return new
    kept = list(old)
    rest = [d for d in new if d != -1]
    for d in list(rest):
        if d in kept:  # the same factor on both sides: the rest stays a simple expression
            kept.remove(d)
            rest.remove(d)
    missing = combine("//", product(kept), product(rest)) if rest else product(kept)
    return tuple(missing if d == -1 else d for d in new)


def _bf16_bits(value: float) -> int:
    """Round to nearest, ties to even."""
    with np.errstate(over="ignore"):
        bits: int = struct.unpack("<I", np.float32(value).tobytes())[0]
    if value != value:
        return 0x7FC0
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
