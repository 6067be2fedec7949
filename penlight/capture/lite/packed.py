"""Packed parameters (TorchBind objects) → plain weights as attributes, by the layouts that their __getstate__ wrote.

What PyTorch calls packed is, in a file, the plain weight with what else the operator needs; the packing happens at load. After
`unpack`, an object's state is gone and its attributes are these (operators read them by name; lists are lists of int):

| class                                                    | attributes                                                           |
| -------------------------------------------------------- | -------------------------------------------------------------------- |
| xnnpack.LinearOpContext, metal.LinearOpContext,          | weight [out, in], bias?, output_min: float?, output_max: float?      |
| vulkan.LinearOpContext, vulkan.LinearPackedContext       | (vulkan's, which is saved as [in, out], is turned, and has no limits)|
| xnnpack.Conv2dOpContext, xnnpack.TransposeConv2dOpContext,| weight [out, in/groups, h, w] ([in, out/groups, h, w] if transposed),|
| metal.Conv2dOpContext, vulkan.Conv2dOpContext,           | bias?, stride, padding, dilation, output_padding, groups: int,       |
| vulkan.TransposeConv2dOpContext,                         | transposed: bool, output_min: float?, output_max: float?;            |
| vulkan.Conv2dPackedContext, vulkan.Conv1dPackedContext   | *PackedContext also quantized: bool                                  |
| vulkan.BatchNormPackedContext                            | weight?, bias?, running_mean?, running_var?, eps: float              |
| vulkan.LayernormPackedContext                            | weight?, bias?, eps: float                                           |
| vulkan.GruPackedContext, vulkan.LstmPackedContext,       | params: list of tensors, has_biases: bool, num_layers: int,          |
| vulkan.GruOpContext                                      | dropout: float, train: bool, bidirectional: bool, batch_first: bool  |
| quantized.LinearPackedParamsBase                         | weight [out, in], i8 with a quantizer, or f32 (what was packed as    |
|                                                          | fp16: already rounded to it), bias? f32                              |
| quantized.Conv2dPackedParamsBase, Conv3dPackedParamsBase | weight, i8 with a quantizer, bias? f32, stride, padding, dilation,   |
| (conv1d is a Conv2d of height 1)                         | output_padding, groups: int, transposed: bool                        |
| quantized.EmbeddingPackedParamsBase                      | weight u8 [rows, columns], or [rows, columns / 2] with two numbers   |
|                                                          | in a byte, the first in its lower half; bit_rate: 8 or 4;            |
|                                                          | scales, zero_points: f32 [rows], zero points are not integers        |
|                                                          | (PyTorch computes q * scale - scale * zero_point in f32; for 4 bits  |
|                                                          | it rounds scale and scale * zero_point to f16 first)                 |
| rnn.CellParamsBase                                       | kind: "quantized" (static scales of torch 1.3), "quantized_dynamic", |
|                                                          | "quantized_fp16"; weight_ih, weight_hh, bias_ih?, bias_hh?: as in    |
|                                                          | LinearPackedParamsBase; reduce_range: bool                           |

"?": may be None. Objects of classes that are not in this table keep their state; operators that are given one fail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from penlight.capture.lite.tensors import is_dense
from penlight.errors import CaptureError
from penlight.ir.values import Quantizer, ScriptObject, ScriptTensor, Storage

PREFIX = "__torch__.torch.classes."


def unpack(value: ScriptObject, where: str) -> None:
    """Turns the state of a known class into attributes, in place. `where` begins error messages."""
    name = value.type_name.removeprefix(PREFIX)
    if not value.is_custom or not value.has_state or name not in _LAYOUTS:
        return
    fields = _Fields(value.state, f"{where}: a state of {name}")
    value.attributes = _LAYOUTS[name](fields)
    value.state, value.has_state = None, False


class _Fields:
    """The parts of a state, taken one after the other with their type."""

    def __init__(self, state: Any, where: str) -> None:
        self.where = where
        if not isinstance(state, (tuple, list)):
            raise CaptureError(f"{where} is {type(state).__name__}, expected a tuple or a list")
        self.values = list(state)
        self.at = 0

    def take(self, what: str, *kinds: type) -> Any:
        if self.at >= len(self.values):
            raise self.error(f"ends before its {what}")
        value = self.values[self.at]
        self.at += 1
        if type(value) not in kinds:
            raise self.error(f"has {type(value).__name__} as its {what}, expected {kinds[0].__name__}")
        return value

    def tensor(self, what: str) -> ScriptTensor:
        found = self.take(what, ScriptTensor)
        assert isinstance(found, ScriptTensor)
        return found

    def tensor_or_none(self, what: str) -> ScriptTensor | None:
        return self.take(what, ScriptTensor, type(None))  # type: ignore[no-any-return]

    def limit(self, what: str) -> float | None:
        value = self.take(what, float, int, type(None))
        return None if value is None else float(value)

    def list(self, what: str, kind: type) -> list[Any]:
        values = self.values[self.at] if self.at < len(self.values) else None
        self.at += 1
        if not isinstance(values, (list, tuple)) or any(type(v) is not kind for v in values):
            raise self.error(f"has something else than a list of {kind.__name__} as its {what}")
        return list(values)

    def end(self) -> None:
        if self.at != len(self.values):
            raise self.error(f"has {len(self.values)} parts, expected {self.at}")

    def error(self, what: str) -> CaptureError:
        return CaptureError(f"{self.where} {what}")


# How parts of a state are read, by name; all others are tensors.
_LISTS: dict[str, type] = dict.fromkeys(("stride", "padding", "dilation", "output_padding"), int) | {
    "params": ScriptTensor
}
_LIMITS = ("output_min", "output_max", "dropout")
_PLAIN: dict[str, type] = {"groups": int, "num_layers": int, "eps": float} | dict.fromkeys(
    ("transposed", "quantized", "has_biases", "train", "bidirectional", "batch_first"), bool
)


def _row(f: _Fields, names: str) -> dict[str, Any]:
    """All parts of a state, which have these names, in this order; "?": a tensor, or None."""
    made: dict[str, Any] = {}
    for name in names.split():
        if name in _LISTS:
            made[name] = f.list(name, _LISTS[name])
        elif name in _LIMITS:
            made[name] = f.limit(name)
        elif name in _PLAIN:
            made[name] = f.take(name, _PLAIN[name])
        elif name.endswith("?"):
            made[name[:-1]] = f.tensor_or_none(name[:-1])
        else:
            made[name] = f.tensor(name)
    f.end()
    return made


def _linear(f: _Fields) -> dict[str, Any]:
    row = _row(f, "weight bias? output_min output_max" if len(f.values) > 2 else "weight bias?")
    return {"output_min": None, "output_max": None, **row}


def _vulkan_linear(f: _Fields) -> dict[str, Any]:
    made = _linear(f)
    w = made["weight"]
    if len(w.shape) != 2 or (w.quantizer is not None and w.quantizer.axis is not None):
        raise f.error(f"has a weight of sizes {w.shape}")
    made["weight"] = ScriptTensor(w.storage, w.dtype, w.offset, w.shape[::-1], w.strides[::-1], w.quantizer)
    return made


def _conv(f: _Fields) -> dict[str, Any]:
    row = _row(f, "weight bias? stride padding dilation groups output_min output_max")
    return _checked_conv(f, {"transposed": False, "output_padding": [0], **row})


def _conv_transpose(f: _Fields) -> dict[str, Any]:
    row = _row(f, "weight bias? stride padding output_padding dilation groups output_min output_max")
    return _checked_conv(f, {"transposed": True, **row})


def _vulkan_conv(f: _Fields) -> dict[str, Any]:
    row = _row(
        f, "weight bias? stride padding dilation transposed quantized output_padding groups output_min output_max"
    )
    return _checked_conv(f, {**row, "output_padding": row["output_padding"] or [0]})


def _vulkan_conv1d(f: _Fields) -> dict[str, Any]:
    row = _row(f, "weight bias? stride padding dilation groups")
    more = {"transposed": False, "quantized": False, "output_padding": [0], "output_min": None, "output_max": None}
    return _checked_conv(f, row | more)


def _checked_conv(f: _Fields, made: dict[str, Any]) -> dict[str, Any]:
    """One number for each dimension (a single one counts for all), and a group at least."""
    rank = len(made["weight"].shape) - 2
    for field in ("stride", "padding", "dilation", "output_padding"):
        if len(made[field]) == 1:
            made[field] = made[field] * rank
        if len(made[field]) != rank:
            raise f.error(f"has a {field} of {made[field]} for a weight of sizes {made['weight'].shape}")
    if rank < 1 or made["groups"] < 1 or min(made["stride"]) < 1 or min(made["dilation"]) < 1:
        raise f.error(f"has {made['groups']} groups, stride {made['stride']}, dilation {made['dilation']}")
    return made


def _quantized_conv(f: _Fields) -> dict[str, Any]:
    """Three layouts: a flat tuple with tensors for numbers; ("2", tensors, optional tensors) with the numbers in an i16 tensor;
    (3, numbers, optional tensors)."""
    first = f.values[0] if f.values else None
    if isinstance(first, ScriptTensor):
        weight, bias = f.tensor("weight"), f.tensor_or_none("bias")
        rows = [[_number(f, t) for t in f.list(what, ScriptTensor)] for what in ("stride", "padding", "dilation")]
        rank = len(rows[0])
        numbers = [rank, *rows[0], *rows[1], *rows[2], *[0] * rank, _number(f, f.tensor("groups")), 0]
        if len(rows[1]) != rank or len(rows[2]) != rank:
            raise f.error(
                f"has stride, padding and dilation of {len(rows[0])}, {len(rows[1])} and {len(rows[2])} numbers"
            )
    elif first == "2":
        f.take("version", str)
        tensors = f.list("tensors", ScriptTensor)
        optional = f.values[f.at] if f.at < len(f.values) else None
        f.at += 1
        if len(tensors) != 2 or not isinstance(optional, list) or len(optional) != 1:
            raise f.error("does not have two tensors and a bias")
        weight, bias = tensors[1], optional[0]
        if len(tensors[0].shape) != 1 or tensors[0].dtype != "i16" or tensors[0].shape[0] > 64:
            raise f.error("does not have its numbers in a row of i16")
        numbers = tensors[0].array().tolist()
    elif first == 3 and type(first) is int:
        f.take("version", int)
        numbers = f.list("numbers", int)
        three = f.values[f.at] if f.at < len(f.values) else None
        f.at += 1
        if not isinstance(three, list) or len(three) != 3 or not isinstance(three[1], ScriptTensor):
            raise f.error("does not have its three tensors")
        weight, bias = three[1], three[2]
    else:
        raise f.error(f"has an unknown version, {first!r:.40}")
    f.end()
    rank = len(weight.shape) - 2
    if bias is not None and not isinstance(bias, ScriptTensor):
        raise f.error(f"has {type(bias).__name__} as its bias")
    if rank < 1 or not numbers or numbers[0] != rank or len(numbers) != 4 * rank + 3:
        raise f.error(f"has the numbers {numbers} for a weight of sizes {weight.shape}")
    rows = [numbers[1 + i * rank : 1 + (i + 1) * rank] for i in range(4)]
    made: dict[str, Any] = {"weight": weight, "bias": bias}
    made |= zip(("stride", "padding", "dilation", "output_padding"), rows, strict=True)
    return _checked_conv(f, {**made, "groups": numbers[-2], "transposed": bool(numbers[-1] & 1)})


def _number(f: _Fields, tensor: ScriptTensor) -> int:
    if tensor.shape not in ((), (1,)) or tensor.dtype not in ("i16", "i32", "i64"):
        raise f.error(f"has a tensor {tensor.dtype}{list(tensor.shape)} for a number")
    return int(tensor.array().reshape(-1)[0])


def _embedding(f: _Fields) -> dict[str, Any]:
    version = f.take("version", int)
    tensors, _, numbers = f.list("tensors", ScriptTensor), f.list("floats", float), f.list("numbers", int)
    f.end()
    if version != 1 or len(tensors) != 1 or len(numbers) != 1:
        raise f.error(f"has version {version}, {len(tensors)} tensors and {len(numbers)} numbers")
    (weight,), (bit_rate,) = tensors, numbers
    quantizer = weight.quantizer
    rows = quantizer is not None and quantizer.axis == 0 and len(weight.shape) == 2
    if not rows or (bit_rate, weight.dtype) not in ((8, "u8"), (4, "u4x2")):
        raise f.error(f"has a table {weight.dtype}{list(weight.shape)} of {bit_rate} bits")
    assert quantizer is not None
    if not is_dense(weight.shape, weight.strides) or (bit_rate == 4 and weight.shape[1] % 2):
        raise f.error(
            f"has a table of sizes {weight.shape} and strides {weight.strides}, whose rows are not bytes in a row"
        )
    return {
        "weight": _bytes(weight),
        "bit_rate": bit_rate,
        "scales": _floats(quantizer.scale),
        "zero_points": _floats(quantizer.zero_point),
    }


def _bytes(table: ScriptTensor) -> ScriptTensor:
    """A dense quantized table as the bytes that it lies in, two numbers of 4 bits in each, the lower first."""
    width = table.shape[1] if table.dtype == "u8" else table.shape[1] // 2
    shape = (table.shape[0], width)
    return ScriptTensor(table.storage, "u8", table.offset, shape, (width, 1), name=table.name)


def _floats(values: Any) -> ScriptTensor:
    data = np.asarray(values, np.float32)
    return ScriptTensor(Storage(data.view(np.uint8), "scales"), "f32", 0, data.shape, (1,))


def _cell(f: _Fields) -> dict[str, Any]:
    kind = f.take("kind", str)
    tensors, floats = f.list("tensors", ScriptTensor), f.list("floats", float)
    numbers, linears = f.list("numbers", int), f.list("linears", ScriptObject)
    f.end()
    if kind == "quantized" and len(tensors) == 6 and len(floats) == 2 and len(numbers) == 2:
        weights = [_quantize(t, s, z) for t, s, z in zip(tensors, floats, numbers, strict=False)]
        made = {"weight_ih": weights[0], "weight_hh": weights[1], "bias_ih": tensors[2], "bias_hh": tensors[3]}
        return {"kind": kind, **made, "reduce_range": False}
    if kind in ("quantized_dynamic", "quantized_fp16") and len(linears) == 2:
        for linear in linears:
            unpack(linear, f.where)
            if "weight" not in linear.attributes:
                raise f.error(f"has an object of class {linear.type_name} as a weight")
        ih, hh = (linear.attributes for linear in linears)
        made = {"weight_ih": ih["weight"], "weight_hh": hh["weight"], "bias_ih": ih["bias"], "bias_hh": hh["bias"]}
        return {"kind": kind, **made, "reduce_range": bool(numbers and numbers[0])}
    raise f.error(f"is of kind {kind!r:.40} with {len(tensors)} tensors and {len(linears)} linears")


def _quantize(tensor: ScriptTensor, scale: float, zero_point: int) -> ScriptTensor:
    return ScriptTensor(
        tensor.storage, tensor.dtype, tensor.offset, tensor.shape, tensor.strides, Quantizer(scale, zero_point)
    )


def _recurrent(f: _Fields) -> dict[str, Any]:
    return _row(f, "params has_biases num_layers dropout train bidirectional batch_first")


_LAYOUTS: dict[str, Callable[[_Fields], dict[str, Any]]] = {
    "xnnpack.LinearOpContext": _linear,
    "xnnpack.Conv2dOpContext": _conv,
    "xnnpack.TransposeConv2dOpContext": _conv_transpose,
    "metal.LinearOpContext": _linear,
    "metal.Conv2dOpContext": _conv,
    "vulkan.LinearOpContext": _vulkan_linear,
    "vulkan.LinearPackedContext": _vulkan_linear,
    "vulkan.Conv2dOpContext": _conv,
    "vulkan.TransposeConv2dOpContext": _conv_transpose,
    "vulkan.Conv2dPackedContext": _vulkan_conv,
    "vulkan.Conv1dPackedContext": _vulkan_conv1d,
    "vulkan.BatchNormPackedContext": lambda f: _row(f, "weight? bias? running_mean? running_var? eps"),
    "vulkan.LayernormPackedContext": lambda f: _row(f, "weight? bias? eps"),
    "vulkan.GruPackedContext": _recurrent,
    "vulkan.GruOpContext": _recurrent,
    "vulkan.LstmPackedContext": _recurrent,
    "quantized.LinearPackedParamsBase": lambda f: _row(f, "weight bias?"),
    "quantized.Conv2dPackedParamsBase": _quantized_conv,
    "quantized.Conv3dPackedParamsBase": _quantized_conv,
    "quantized.EmbeddingPackedParamsBase": _embedding,
    "rnn.CellParamsBase": _cell,
}
