"""Attention that a model spells out becomes one operator, which never holds the whole score matrix.

    %q2: f32[2, 4, 9, 8] = mul(%q, @scale)
    %kt: f32[2, 4, 8, 9] = permute(%k, dims=[0, 1, 3, 2])
    %s: f32[2, 4, 9, 9] = matmul(%q2, %kt)
    %m: f32[2, 4, 9, 9] = add(%s, %mask)
    %p: f32[2, 4, 9, 9] = softmax(%m, dim=3)
    %y: f32[2, 4, 9, 8] = matmul(%p, %v)
    ->
    %y: f32[2, 4, 9, 8] = attention(%q, %k, %v, %mask, scale=0.35, causal=false)

The scale may stand at the query, the key (or half of it at each) or the scores, as a product or a division; the mask is
optional. Leading dims must agree without broadcasting.
"""

from __future__ import annotations

from penlight.ir.graph import Block, Graph, Node, Value
from penlight.ir.rewrite import blocks, call, made_by, replace, scalar, single_use
from penlight.ir.types import TensorType


def run(graph: Graph) -> int:
    fused = 0
    for block in blocks(graph):
        for node in list(block.nodes):
            if node.op == "matmul":
                fused += _fuse(graph, block, node)
    return fused


def _fuse(graph: Graph, block: Block, product: Node) -> bool:
    weights, v = product.inputs
    softmax = made_by(weights, "softmax")
    if weights is None or v is None or softmax is None or not single_use(graph, weights):
        return False
    if softmax.attrs["dim"] not in (-1, weights.rank - 1) or weights.dtype != "f32":
        return False
    found = _scores(graph, softmax.inputs[0])
    mask: Value | None = None
    if found is None and (add := made_by(softmax.inputs[0], "add")) and single_use(graph, add.output):
        for scores, other in (add.inputs, add.inputs[::-1]):
            if scores is not None and scores.type == add.output.type and (found := _scores(graph, scores)):
                mask = other
                break
    if found is None:
        return False
    first, scale = found
    q, q_scale = _unscaled(first.inputs[0])
    kt, kt_scale = _unscaled(first.inputs[1])
    transpose = made_by(kt, "permute")
    swapped = [*range(kt.rank - 2), kt.rank - 1, kt.rank - 2]
    k_scale = 1.0
    if transpose is not None and list(transpose.attrs["dims"]) == swapped and transpose.inputs[0] is not None:  # type: ignore[arg-type]
        k, k_scale = _unscaled(transpose.inputs[0])
    else:
        k = kt
    if not q.shape[:-2] == k.shape[:-2] == v.shape[:-2] == product.output.shape[:-2]:
        return False
    if k is kt:
        type = TensorType(kt.dtype, (*kt.shape[:-2], kt.shape[-1], kt.shape[-2]))
        k = call(graph, block, product, "permute", [kt], type, dims=tuple(swapped))
    inputs = [q, k, v, mask]
    total = scale * q_scale * kt_scale * k_scale
    replace(
        graph,
        block,
        product,
        call(graph, block, product, "attention", inputs, product.output.type, scale=total, causal=False),
    )
    return True


def _scores(graph: Graph, value: Value | None) -> tuple[Node, float] | None:
    """matmul(q, k^T), times a number perhaps."""
    if value is None or not single_use(graph, value):
        return None
    inner, scale = _unscaled(value)
    first = made_by(inner, "matmul")
    return (first, scale) if first is not None and single_use(graph, inner) else None


def _unscaled(value: Value | None) -> tuple[Value, float]:
    """value = result * scale."""
    assert value is not None
    scale = 1.0
    while (node := made_by(value, "mul", "div")) is not None:
        a, b = node.inputs
        number = scalar(b)
        if number is None and node.op == "mul":
            a, number = b, scalar(a)
        if number is None or a is None or a.type != value.type or (node.op == "div" and number == 0):
            break
        scale = scale * number if node.op == "mul" else scale / number
        value = a
    return value, float(scale)
