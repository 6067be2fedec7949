"""Guesses example inputs for code that comes without any, from the first operators that read its inputs.

A convolution's weight tells the dtype, rank and channels of its input, a linear layer's the last dim, an embedding that the input is
indices. For what the code does not tell (batch, height, width, length) usual sizes are tried: the code is run to see which it
takes. Where nothing is known of an input there is no guess, and the method is interpreted without any plan.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from penlight.capture.export.tensors import TORCH_DTYPES
from penlight.capture.script.dataflow import short_name
from penlight.capture.script.observe import Observation, observe
from penlight.ir.dims import Expr
from penlight.ir.graph import Method
from penlight.ir.script import Action, Const, Script, ScriptFunction
from penlight.ir.types import TensorType
from penlight.ir.values import ScriptObject, ScriptTensor

IMAGE_SIZES = (224, 128, 64, 299, 32, 28)  # height and width, tried in this order
LENGTHS = (128, 16, 1024, 16000)  # of sequences and signals
BATCHES = (2, 1)  # 1 last: torch.export would take it for fixed

# Results have the rank and channels of the input: what reads them tells about the input too.
_PASS_THROUGH = {
    "contiguous", "detach", "dropout", "clone", "relu", "sigmoid", "tanh", "quantize_per_tensor", "dequantize", "clamp", "batch_norm", "pad",
    "max_pool2d", "avg_pool2d",
}  # fmt: skip
_ARITHMETIC = {"add", "sub", "mul", "div"}  # with a number
# The rank of the input, by operator: with plain weights (aten), and with packed ones (quantized, prepacked, …).
_CONVOLUTIONS = {f"conv{kind}{n}d": n + 2 for kind in ("", "_transpose") for n in (1, 2, 3)}
_PACKED_CONVOLUTIONS = {
    "conv2d_clamp_run": 4, "run_conv2d_context": 4, "conv2d_run": 4, "conv2d": 4, "conv2d_relu": 4, "conv1d": 3, "conv1d_relu": 3,
}  # fmt: skip
_PACKED_LINEARS = {
    "linear_clamp_run", "run_linear_context", "linear_run", "linear", "linear_relu", "linear_dynamic", "linear_relu_dynamic",
}  # fmt: skip


@dataclass(frozen=True)
class Pattern:
    """What is known of an input: its dtype, and its dims, None where any size may do. `certain`: nobody passes another rank or
    dtype (a convolution also takes an image without a batch, which is rare; a linear layer takes any rank, often)."""

    dtype: torch.dtype
    dims: tuple[int | None, ...]
    certain: bool
    below: int | None = None  # indices: how many rows the table has


def fits(patterns: Sequence[Pattern], method: Method) -> bool:
    """Whether a planned method takes every input that the patterns allow: sizes that they leave open are free in it, without limits."""
    for value, pattern in zip(method.graph.inputs, patterns, strict=True):
        shape = value.type.shape if isinstance(value.type, TensorType) else ()
        if len(shape) != len(pattern.dims):
            return False
        for dim, fixed in zip(shape, pattern.dims, strict=True):
            if fixed is None and not (isinstance(dim, Expr) and dim.op == "sym"):
                return False
    return all(limits.min <= 1 and limits.max is None for limits in method.symbols.values())


def patterns_of(script: Script, function: ScriptFunction) -> list[Pattern] | None:
    """What is known of each parameter without a default; None where the code does not tell enough."""
    needed = len(function.parameters) - len(function.defaults)
    wanted = function.parameters[1:needed]
    if not wanted or any(p["type"] not in ("Tensor", "Any") for p in wanted):
        return None
    said = _said(script, function)
    patterns = []
    for i in range(1, needed):
        found = said.get(i, [])
        if not found or any(p.dims != found[0].dims for p in found):
            return None
        patterns.append(found[0])
    return patterns


def guess_inputs(script: Script, function: ScriptFunction) -> Observation | None:
    """A run on inputs that the function takes, or None."""
    patterns = patterns_of(script, function)
    if patterns is None:
        return None
    images = any(len(p.dims) >= 4 for p in patterns)
    for batch, size in itertools.product(BATCHES, IMAGE_SIZES if images else LENGTHS):
        seen = observe(script, function, tuple(_example(p, batch, size) for p in patterns))
        if seen.failure is None:  # any error of the model says: not this size
            return seen
    return None


def _said(script: Script, function: ScriptFunction) -> dict[int, list[Pattern]]:
    """What operators tell about each parameter, by its register. Reads the code from top to bottom, without following jumps."""
    held: dict[int, Any] = {0: script.module}  # parts of the state that registers hold
    origin = {i: i for i in range(1, len(function.parameters))}  # register -> the parameter that its value is like
    said: dict[int, list[Pattern]] = {}
    for action in function.code:
        values = [script.constants[a.index] if isinstance(a, Const) else held.get(a) for a in action.args]
        first = action.args[0] if action.args else None
        source = origin.get(first) if isinstance(first, int) else None
        passed, kept = None, None
        if action.op == "get_attr" and isinstance(values[0], ScriptObject):
            attributes = list(values[0].attributes.values())
            kept = attributes[action.target] if action.target < len(attributes) else None
        elif action.op == "move":
            passed, kept = source, values[0]
        elif action.op == "op":
            short = short_name(action.target)
            index = next((origin[a] for a in action.args[1:2] if isinstance(a, int) and a in origin), None)
            if short == "embedding" and index is not None and isinstance(values[0], ScriptTensor):
                rows = values[0].shape[0]
                said.setdefault(index, []).append(Pattern(torch.int64, (None, None), certain=False, below=rows))
            elif source is not None:
                pattern = _pattern(action, values)
                if pattern is not None:
                    said.setdefault(source, []).append(pattern)
                elif short.removesuffix("_") in _PASS_THROUGH or (
                    short in _ARITHMETIC and action.target.endswith(".Scalar")
                ):
                    passed = source
        for result in action.results:
            origin.pop(result, None)
            held.pop(result, None)
            if passed is not None:
                origin[result] = passed
            if kept is not None:
                held[result] = kept
    return said


def _pattern(action: Action, values: list[Any]) -> Pattern | None:
    """What an operator tells about the input that it reads."""
    namespace, short = action.target.partition("::")[0], short_name(action.target)
    weight = values[1] if len(values) > 1 else None
    if isinstance(weight, ScriptObject):  # packed: quantized, or for a backend
        weight = weight.attributes.get("weight")
    if not isinstance(weight, ScriptTensor):
        return None
    dtype = torch.float32 if namespace != "aten" else TORCH_DTYPES.get(weight.dtype)
    if dtype is None or len(weight.shape) < 2:
        return None
    if namespace == "aten" and short == "_convolution":
        transposed, rank = bool(values[6]), len(weight.shape)
        return _of_convolution(weight, dtype, rank, transposed, values[8])
    if namespace == "aten" and short in _CONVOLUTIONS:
        transposed = "transpose" in short
        groups = values[6] if len(values) > 6 else 1
        return _of_convolution(weight, dtype, _CONVOLUTIONS[short], transposed, groups)
    if short in (("linear",) if namespace == "aten" else _PACKED_LINEARS):
        return Pattern(dtype, (None, weight.shape[1]), certain=False)
    if namespace != "aten" and short in _PACKED_CONVOLUTIONS:
        context = values[1].attributes if isinstance(values[1], ScriptObject) else {}
        return _of_convolution(
            weight, dtype, _PACKED_CONVOLUTIONS[short], bool(context.get("transposed")), context.get("groups", 1)
        )
    return None


def _of_convolution(weight: ScriptTensor, dtype: torch.dtype, rank: int, transposed: bool, groups: Any) -> Pattern:
    count = groups if isinstance(groups, int) else 1
    channels = weight.shape[0] if transposed else weight.shape[1] * count
    return Pattern(dtype, (None, channels, *[None] * (rank - 2)), certain=True)


def _example(pattern: Pattern, batch: int, size: int) -> torch.Tensor:
    dims = [d if d is not None else batch if i == 0 else size for i, d in enumerate(pattern.dims)]
    if pattern.below is not None:
        return torch.arange(dims[0] * dims[1]).reshape(dims) % max(pattern.below, 1)
    return torch.rand(dims, generator=torch.Generator().manual_seed(0)).to(pattern.dtype)
