"""Runs a graph node by node with torch's own operators: what passes must not change.

Not fast and not clever: logical shapes only, layouts are ignored. Elementwise operators use their own numpy rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from penlight.ir import Graph, Node, Value, evaluate, parse_graph, print_graph
from penlight.ir.dims import Expr
from penlight.ir.types import DTYPES
from penlight.ir.verify import verify
from penlight.ops import registry

DTYPE = {name: getattr(torch, n) for name, (_, n) in DTYPES.items() if name != "bf16"}


def rewritten(run: Callable[[Graph], int], text: str, constants: Mapping[str, np.ndarray] | None = None) -> str:
    """The text of the graph that a pass makes of `text`; verified before and after."""
    graph = parse_graph(text, constants)
    verify(graph)
    changes = run(graph)
    verify(graph)
    after = print_graph(graph)
    assert (changes > 0) == (after != print_graph(parse_graph(text))), f"it reports {changes} changes"
    return after


def canonical(text: str) -> str:
    """Hand-written text as it prints."""
    return print_graph(parse_graph(text))


def run_graph(graph: Graph, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    symbols: dict[str, int] = {}
    values: dict[Value, torch.Tensor] = {}
    for value, tensor in zip(graph.inputs, inputs, strict=True):
        values[value] = tensor
        for dim, n in zip(value.shape, tensor.shape, strict=True):
            if isinstance(dim, Expr) and dim.op == "sym":
                symbols[str(dim.args[0])] = n
    for constant in graph.constants.values():
        values[constant] = torch.from_numpy(np.array(constant.constant))
    for node in graph.nodes:
        arguments = [None if v is None else values[v] for v in node.inputs]
        attrs = {k: _concrete(a, symbols) for k, a in node.attrs.items()}
        try:
            results = _call(node, arguments, attrs)
        except Exception as e:
            raise RuntimeError(
                f"{node!r} {attrs} on {[None if a is None else tuple(a.shape) for a in arguments]}: {e}"
            ) from e
        for out, result in zip(node.outputs, results if isinstance(results, tuple) else (results,), strict=True):
            shape = tuple(evaluate(d, symbols) for d in out.shape)
            assert tuple(result.shape) == shape, (
                f"{node!r}: gives {tuple(result.shape)}, its type is {out.type} = {shape}"
            )
            assert result.dtype == DTYPE[out.dtype], f"{node!r}: gives {result.dtype}, its type is {out.type}"
            values[out] = result
    return [values[o] for o in graph.outputs]


def assert_same_numbers(
    run: Callable[[Graph], object], text: str, inputs: Sequence[torch.Tensor], tolerance: float = 1e-5, **constants: Any
) -> Graph:
    """A pass changes the graph but not what it computes. Constants left out of the text are random."""
    rng = np.random.default_rng(0)
    data = {
        n: rng.random(v.shape, np.float32) + 0.5 if n.endswith("var") else rng.standard_normal(v.shape, np.float32)  # type: ignore[arg-type]
        for n, v in parse_graph(text).constants.items()
    }
    graph = parse_graph(text, {**data, **constants})
    before = run_graph(graph, inputs)
    assert run(graph), "the pass changed nothing"
    verify(graph)
    for a, b in zip(before, run_graph(graph, inputs), strict=True):
        error, size = (a - b).abs().max().item(), a.abs().max().item()
        assert error <= tolerance * size, f"error {error} of {size}"
    return graph


def _concrete(attr: Any, symbols: Mapping[str, int]) -> Any:
    if isinstance(attr, tuple):
        return [_concrete(a, symbols) for a in attr]
    return evaluate(attr, symbols) if isinstance(attr, Expr) else attr


def _elementwise(op: registry.Op, inputs: Sequence[torch.Tensor | None], attrs: Mapping[str, Any]) -> torch.Tensor:
    assert op.fold is not None
    with np.errstate(all="ignore"):
        return torch.from_numpy(np.array(op.fold(*(i.numpy() for i in inputs if i is not None), **attrs)))


def _finish(y: torch.Tensor, residual: torch.Tensor | None, act: str, act_args: Sequence[float]) -> torch.Tensor:
    y = y if residual is None else y + residual
    if not act:
        return y
    op = registry.get(act)
    return _elementwise(op, [y], dict(zip((p.name for p in op.attrs), act_args, strict=True)))


def _conv2d(x: Any, w: Any, b: Any, residual: Any, *, act: str, act_args: Any, padding: Any, **rest: Any) -> Any:
    top, left, bottom, right = padding
    return _finish(F.conv2d(F.pad(x, (left, right, top, bottom)), w, b, **rest), residual, act, act_args)


def _conv3d(x: Any, w: Any, b: Any, residual: Any, *, act: str, act_args: Any, padding: Any, **rest: Any) -> Any:
    front, top, left, back, bottom, right = padding
    padded = F.pad(x, (left, right, top, bottom, front, back))
    return _finish(F.conv3d(padded, w, b, **rest), residual, act, act_args)


def _conv_transpose2d(x: Any, w: Any, b: Any, residual: Any, *, act: str, act_args: Any, padding: Any, groups: int, **rest: Any) -> Any:  # fmt: skip
    torchs = w.reshape(groups, -1, *w.shape[1:]).transpose(1, 2).flatten(0, 1)
    top, left, bottom, right = padding
    y = F.pad(F.conv_transpose2d(x, torchs, None, groups=groups, **rest), (-left, -right, -top, -bottom))
    return _finish(y if b is None else y + b[:, None, None], residual, act, act_args)


def _expand_depthwise(
    x: Any,
    w: Any,
    b: Any,
    w2: Any,
    b2: Any,
    residual: Any,
    *,
    act: str,
    act_args: Any,
    act2: str,
    act2_args: Any,
    **rest: Any,
) -> Any:
    plain = {"stride": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1}
    wide = _conv2d(x, w, b, None, act=act, act_args=act_args, **plain)
    return _conv2d(wide, w2, b2, residual, act=act2, act_args=act2_args, groups=len(w2), **rest)


def _linear(x: Any, w: Any, b: Any, residual: Any, *, act: str, act_args: Any) -> Any:
    return _finish(F.linear(x, w, b), residual, act, act_args)


def _avg_pool2d(
    x: Any, *, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool, divisor: Any
) -> Any:
    top, left, bottom, right = padding
    if (top, left) == (bottom, right):
        return F.avg_pool2d(x, kernel, stride, (top, left), ceil_mode, count_include_pad, divisor)
    assert count_include_pad, "torch pads both sides alike"
    assert not ceil_mode, "torch pads both sides alike"
    return F.avg_pool2d(F.pad(x, (left, right, top, bottom)), kernel, stride, 0, False, True, divisor)


def _max_pool2d(x: Any, *, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
    assert padding[:2] == padding[2:]
    return F.max_pool2d(x, kernel, stride, padding[:2], dilation, ceil_mode)


def _max_pool_indices(x: Any, *, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
    assert padding[:2] == padding[2:]
    return F.max_pool2d(x, kernel, stride, padding[:2], dilation, ceil_mode, return_indices=True)


def _slice(x: Any, *, dim: int, start: int, end: int, step: int) -> Any:
    return torch.ops.aten.slice.Tensor(x, dim, start, end, step)


def _resize(x: Any, *, size: Any, mode: str, align_corners: bool, antialias: bool, scales: Any) -> Any:
    assert mode == "linear"
    assert not antialias
    return torch.ops.aten.upsample_bilinear2d.default(x, size, align_corners, *(scales or (None, None)))


_CALLS: dict[str, Callable[..., Any]] = {
    "conv2d": _conv2d,
    "conv3d": _conv3d,
    "conv_transpose2d": _conv_transpose2d,
    "expand_depthwise": _expand_depthwise,
    "linear": _linear,
    "matmul": torch.matmul,
    "attention": lambda q, k, v, m, scale, causal: F.scaled_dot_product_attention(q, k, v, m, 0.0, causal, scale=scale),
    "reshape": lambda x, shape: x.reshape(shape),
    "permute": lambda x, dims: x.permute(dims),
    "expand": lambda x, shape: x.expand(shape),
    "slice": _slice,
    "select": lambda x, dim, index: x.select(dim, index),
    "copy": lambda x, force: x.clone(),
    "cat": lambda *xs, dim: torch.cat(xs, dim),
    "pad": lambda x, padding, value, mode: F.pad(x, padding, mode, value if mode == "constant" else None),
    "full": lambda shape, value, dtype: torch.full(shape, value, dtype=DTYPE[dtype]),
    "arange": lambda start, end, step, dtype: torch.arange(start, end, step, dtype=DTYPE[dtype]),
    "embedding": lambda w, i: F.embedding(i, w),
    "index_select": lambda x, i, dim: x.index_select(dim, i),
    "batch_norm": lambda x, w, b, mean, var, eps: F.batch_norm(x, mean, var, w, b, False, 0.0, eps),
    "layer_norm": lambda x, w, b, dims, eps: F.layer_norm(x, x.shape[-dims:], w, b, eps),
    "softmax": lambda x, dim: x.softmax(dim),
    "sum": lambda x, dims, keepdim: x.sum(dims, keepdim),
    "mean": lambda x, dims, keepdim: x.mean(dims, keepdim),
    "amax": lambda x, dims, keepdim: x.amax(dims, keepdim),
    "avg_pool2d": _avg_pool2d,
    "max_pool2d": _max_pool2d,
    "max_pool_indices": _max_pool_indices,
    "adaptive_max_pool_indices": lambda x, size: F.adaptive_max_pool2d(x, size, return_indices=True),
    "adaptive_avg_pool2d": lambda x, size: F.adaptive_avg_pool2d(x, size),
    "resize": _resize,
}


def _call(node: Node, inputs: Sequence[torch.Tensor | None], attrs: Mapping[str, Any]) -> Any:
    if node.op in _CALLS:
        return _CALLS[node.op](*inputs, **attrs)
    return _elementwise(registry.get(node.op), inputs, attrs)
