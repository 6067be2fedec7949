"""Nodes whose inputs are all constants are computed now, by their operator's numpy function (`Op.fold`).

    @w: f32[8, 4]                                    @permute_1: f32[4, 8]
    %p: f32[4, 8] = permute(@w, dims=[1, 0])    ->   %y: f32[2, 8] = matmul(%x, @permute_1)
    %y: f32[2, 8] = matmul(%x, %p)

A result that is over a megabyte and over four times its inputs (an expanded constant) stays a node: it would cost more
in the file than in the run.
"""

from __future__ import annotations

import math

import numpy as np

from penlight.ir.dims import Expr
from penlight.ir.graph import Graph, Node, Value
from penlight.ir.rewrite import blocks, replace
from penlight.ir.types import TensorType, itemsize, numpy_dtype
from penlight.ir.verify import STRUCTURAL
from penlight.ops import registry

MAX_GROWTH = 4
MAX_GROWN_BYTES = 1 << 20


def run(graph: Graph) -> int:
    folded = 0
    for block in blocks(graph):
        for node in list(block.nodes):
            if _foldable(node):
                values = [graph.add_constant(a, node.op) for a in _compute(node)]
                for value, out in zip(values, node.outputs, strict=True):
                    value.type = out.type  # arrays do not know what their integers stand for
                replace(graph, block, node, *values)
                folded += 1
    return folded


def _foldable(node: Node) -> bool:
    if node.op in STRUCTURAL or any(v is not None and v.constant is None for v in node.inputs):
        return False
    op = registry.get(node.op)
    if op.fold is None or not op.pure or any(v.layout != "plain" for v in node.inputs if v is not None):
        return False
    if any(isinstance(item, Expr) for a in node.attrs.values() for item in (a if isinstance(a, tuple) else (a,))):
        return False
    if not all(isinstance(o.type, TensorType) and o.type.is_static for o in node.outputs):
        return False
    if any(v is not None and v.dtype == "bf16" for v in (*node.inputs, *node.outputs)):
        return False  # numpy sees only its bits
    if not node.inputs and not any(_folds_with(user, node) for user in node.output.users):
        return False  # numbers that no input gives, and nothing to compute with them: the runtime fills memory faster
    before = sum(v.constant.nbytes for v in node.inputs if v is not None and v.constant is not None)
    after = sum(_bytes(o) for o in node.outputs)
    return after <= MAX_GROWN_BYTES or after <= MAX_GROWTH * before


def _folds_with(user: Node, made: Node) -> bool:
    """Whether `user` could be folded if what `made` gives were a constant."""
    if user.op in STRUCTURAL or registry.get(user.op).fold is None:
        return False
    others = (v for v in user.inputs if v is not None and v is not made.output)
    return all(v.constant is not None or (v.producer is not None and not v.producer.inputs) for v in others)


def _bytes(value: Value) -> int:
    return math.prod(d for d in value.shape if isinstance(d, int)) * itemsize(value.dtype)


def _compute(node: Node) -> list[np.ndarray]:
    fold = registry.get(node.op).fold
    assert fold is not None
    inputs = [None if v is None else v.constant for v in node.inputs]
    with np.errstate(all="ignore"):
        result = fold(*inputs, **node.attrs)
    arrays = [np.array(r, order="C") for r in (result if isinstance(result, (tuple, list)) else [result])]
    for array, out in zip(arrays, node.outputs, strict=True):
        if array.shape != out.shape or array.dtype != numpy_dtype(out.dtype):
            raise TypeError(f"{node!r}: folding gave {array.dtype}{list(array.shape)}, its type says {out.type}")
    return arrays
