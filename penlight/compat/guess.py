"""Example inputs for a TorchScript module that comes without any, from the operators that read its inputs first.

A convolution says its input's dtype, rank and channels by its weight; a linear layer the last dim; an embedding that
indices come in. What the graph does not say (batch, height, width, length) is tried at usual sizes: the module itself is run to
see which it takes. An input whose readers say nothing makes no guess: the module then runs without shapes known beforehand.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import torch

from penlight.compat.rewrite import constant, name_convolutions

IMAGE_SIZES = (224, 128, 64, 299, 32, 28)  # height and width, tried in this order
LENGTHS = (128, 16, 1024, 16000)  # of sequences and signals
BATCHES = (2, 1)  # 1 last: torch.export would take it for fixed

# Readers that say no more than who reads their result says: y has x's dtype, rank and channels.
_PASS_THROUGH = {
    "aten::contiguous", "aten::detach", "aten::dropout", "aten::dropout_", "aten::clone", "aten::relu", "aten::sigmoid",
    "aten::tanh", "aten::quantize_per_tensor", "aten::dequantize", "aten::clamp", "aten::batch_norm", "aten::pad",
    "aten::max_pool2d", "aten::avg_pool2d",
}  # fmt: skip
_ARITHMETIC = {"aten::add", "aten::sub", "aten::mul", "aten::div"}  # with a number
_CONVOLUTIONS = {
    "aten::conv1d": 3, "aten::conv2d": 4, "aten::conv3d": 5, "aten::conv_transpose1d": 3, "aten::conv_transpose2d": 4,
    "aten::conv_transpose3d": 5,
}  # fmt: skip


@dataclass(frozen=True)
class Pattern:
    """What is known of an input: its dtype, and its dims, None where any size may do. `certain`: the reader takes no other
    rank and dtype (a convolution also takes one image without a batch, which nobody exports; a linear layer takes any rank)."""

    dtype: torch.dtype
    dims: tuple[int | None, ...]
    certain: bool
    below: int | None = None  # indices: how many rows the table has


@dataclass(frozen=True)
class Guess:
    args: tuple[Any, ...]
    certain: bool  # every input is of the kind that its reader demands
    patterns: tuple[Pattern, ...] = ()


def guess_inputs(frozen: Any, method: str = "forward", run: Any = None) -> Guess | None:
    """Inputs that the method of this frozen module takes, or None. `run`: what to try them with; the method itself if None."""
    graph = frozen._get_method(method).graph
    name_convolutions(graph)
    patterns = []
    for value in list(graph.inputs())[1:]:
        pattern = _pattern(value) if value.type().kind() == "TensorType" else None
        if pattern is None:
            return None
        patterns.append(pattern)
    if not patterns:
        return None
    call = run or getattr(torch.jit._recursive.wrap_cpp_module(frozen), method)
    images = any(len(p.dims) >= 4 for p in patterns)
    for batch, size in itertools.product(BATCHES, IMAGE_SIZES if images else LENGTHS):
        args = tuple(_example(p, batch, size) for p in patterns)
        try:
            with torch.no_grad():
                call(*(a.clone() for a in args))
        except Exception:  # any error of the model says no more than: not this size
            continue
        return Guess(args, all(p.certain for p in patterns), tuple(patterns))
    return None


def _pattern(value: Any, depth: int = 0) -> Pattern | None:
    """What the readers of a value say; the first that says anything, in the graph's order."""
    if depth > 8:
        return None
    found: list[Pattern] = []
    for use in value.uses():
        node, at = use.user, use.offset
        kind = node.kind()
        if at != 0 and not (kind == "aten::embedding" and at == 1):
            continue
        if kind in _CONVOLUTIONS and constant(node.inputsAt(1)):
            found.append(_of_convolution(node, _CONVOLUTIONS[kind], "transpose" in kind))
        elif kind == "aten::linear" and constant(node.inputsAt(1)):
            weight = node.inputsAt(1).toIValue()
            found.append(Pattern(weight.dtype, (None, weight.shape[1]), certain=False))
        elif kind == "aten::embedding" and at == 1 and constant(node.inputsAt(0)):
            rows = node.inputsAt(0).toIValue().shape[0]
            found.append(Pattern(torch.int64, (None, None), certain=False, below=rows))
        elif kind in _PASS_THROUGH or (kind in _ARITHMETIC and _number(node.inputsAt(1))):
            inner = _pattern(node.output(), depth + 1)
            if inner is not None:
                found.append(inner)
        elif kind in ("quantized::conv2d", "quantized::conv2d_relu", "quantized::linear", "quantized::linear_relu"):
            inner = _of_packed(node)
            if inner is not None:
                found.append(inner)
    return found[0] if found and all(p.dims == found[0].dims for p in found) else None


def _of_convolution(node: Any, rank: int, transposed: bool) -> Pattern:
    weight = node.inputsAt(1).toIValue()
    groups = next((v for v in reversed(list(node.inputs())) if str(v.type()) == "int"), None)
    count = groups.toIValue() if groups is not None and constant(groups) else 1
    channels = weight.shape[0] if transposed else weight.shape[1] * count
    return Pattern(weight.dtype, (None, channels, *[None] * (rank - 2)), certain=True)


def _of_packed(node: Any) -> Pattern | None:
    """A quantized layer reads what quantize_per_tensor made of f32."""
    packed = node.inputsAt(1)
    if not constant(packed):
        return None
    kind = node.kind()
    try:
        unpack = getattr(torch.ops.quantized, "linear_unpack" if "linear" in kind else "conv2d_unpack")
        weight = unpack(packed.toIValue())[0]
    except Exception:
        return None
    if "linear" in kind:
        return Pattern(torch.float32, (None, weight.shape[1]), certain=False)
    return Pattern(torch.float32, (None, weight.shape[1], None, None), certain=True)  # groups: the trial run decides


def _number(value: Any) -> bool:
    return str(value.type()) in ("int", "float", "Scalar", "number")


def _example(pattern: Pattern, batch: int, size: int) -> torch.Tensor:
    dims = [d if d is not None else batch if i == 0 else size for i, d in enumerate(pattern.dims)]
    if pattern.below is not None:
        return torch.arange(dims[0] * dims[1]).reshape(dims) % max(pattern.below, 1)
    if not pattern.dtype.is_floating_point:
        return torch.zeros(dims, dtype=pattern.dtype)
    return torch.rand(dims, generator=torch.Generator().manual_seed(0)).to(pattern.dtype)
