"""Batch normalization by constants vanishes into the convolution or linear next to it.

    %c: f32[1, 8, 6, 6] = conv2d(%x, @w, @b, none, …)
    %y: f32[1, 8, 6, 6] = batch_norm(%c, @gamma, @beta, @mean, @var, eps=1e-05)
    ->
    %y: f32[1, 8, 6, 6] = conv2d(%x, @w, @b, none, …)      w * s for w, (b - mean) * s + beta for b

with s = gamma / sqrt(var + eps), in float64, rounded once. A batch_norm before a convolution folds too, where nothing is
padded (padding comes after the normalization, and would be normalized as well) and every output sees the whole kernel (not
in a transposed one).
"""

from __future__ import annotations

import numpy as np

from penlight.ir import batch_norm
from penlight.ir.graph import Block, Graph, Node, Value
from penlight.ir.rewrite import WITH_EPILOGUE, blocks, made_by, replace, returned, single_use


def run(graph: Graph) -> int:
    folded = 0
    for block in blocks(graph):
        for node in list(block.nodes):
            if node.op == "batch_norm" and all(v is None or v.is_constant for v in node.inputs[1:]):
                folded += _into_producer(graph, block, node) or _into_user(graph, block, node)
    return folded


def scale_and_shift(norm: Node) -> tuple[np.ndarray, np.ndarray]:
    """s and t of y = x * s + t for each channel, in float64."""
    gamma, beta, mean, var = (None if v is None else v.constant for v in norm.inputs[1:])
    assert mean is not None
    assert var is not None
    eps = norm.attrs["eps"]
    assert isinstance(eps, float)
    return batch_norm.scale_and_shift(gamma, beta, mean, var, eps)


def set_weights(graph: Graph, node: Node, w: np.ndarray, b: np.ndarray) -> None:
    """New weight and bias for a convolution or linear, rounded here and only here."""
    weight, bias = node.inputs[1], node.inputs[2]
    assert weight is not None
    assert weight.constant is not None
    names = weight.name, bias.name if bias is not None else f"{weight.name.removesuffix('.weight')}.bias"
    for index, name, array in zip((1, 2), names, (w, b), strict=True):
        old = node.inputs[index]
        node.set_input(index, None)
        if old is not None and not old.users and not returned(graph, old):
            del graph.constants[old.name]  # nobody else's: the new one takes over its name
        node.set_input(index, graph.add_constant(array.astype(weight.constant.dtype), name))


def takes_affine(graph: Graph, node: Node | None) -> bool:
    """A convolution or linear with constant weights that ends in its sum, used by one node only."""
    if node is None or node.op not in WITH_EPILOGUE or node.inputs[3] is not None or node.attrs["act"]:
        return False
    return constant_weights(node) and single_use(graph, node.output)


def constant_weights(node: Node) -> bool:
    w, b = node.inputs[1], node.inputs[2]
    return w is not None and w.is_constant and w.dtype == "f32" and (b is None or b.is_constant)


def weights_f64(node: Node) -> tuple[np.ndarray, np.ndarray]:
    """Weight and bias (zeros where there is none)."""
    w, b = node.inputs[1], node.inputs[2]
    assert w is not None
    weight = _f64(w)
    return weight, np.zeros(weight.shape[0]) if b is None else _f64(b)


def _f64(value: Value) -> np.ndarray:
    assert value.constant is not None
    return value.constant.astype(np.float64)


def _into_producer(graph: Graph, block: Block, norm: Node) -> bool:
    first = made_by(norm.inputs[0], *WITH_EPILOGUE)
    if first is None or not takes_affine(graph, first) or (first.op == "linear" and norm.output.rank != 2):
        return False
    set_weights(graph, first, *batch_norm.into_weights(*weights_f64(first), *scale_and_shift(norm)))
    replace(graph, block, norm, first.output)
    return True


def _into_user(graph: Graph, block: Block, norm: Node) -> bool:
    if not single_use(graph, norm.output):
        return False
    user = norm.output.users[0]
    if user.op not in ("conv2d", "conv3d", "linear") or user.inputs[0] is not norm.output or not constant_weights(user):
        return False
    if user.op == "linear" and norm.output.rank != 2:
        return False
    if user.op != "linear" and any(p != 0 for p in user.attrs["padding"]):  # type: ignore[union-attr]
        return False
    scale, shift = scale_and_shift(norm)
    w, b = weights_f64(user)
    groups = user.attrs.get("groups", 1)
    assert isinstance(groups, int)
    by_group = w.reshape(groups, w.shape[0] // groups, w.shape[1], -1)  # groups, Co_g, Ci_g, taps
    s, t = (v.reshape(groups, 1, -1, 1) for v in (scale, shift))
    set_weights(graph, user, (by_group * s).reshape(w.shape), b + (by_group * t).sum((2, 3)).reshape(-1))
    user.set_input(0, norm.inputs[0])
    block.erase(norm)
    return True
