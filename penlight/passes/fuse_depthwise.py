"""A pointwise convolution whose only user is a depthwise one joins it: the map between them is never stored.

    %e: f32[1, 96, 56, 56] = conv2d(%x, @w, @b, none, stride=[1, 1], …, act="clamp", act_args=[0.0, 6.0])
    %y: f32[1, 96, 28, 28] = conv2d(%e, @w2, @b2, none, stride=[2, 2], …, groups=96, act="clamp", …)
    ->
    %y: f32[1, 96, 28, 28] = expand_depthwise(%x, @w, @b, @w2, @b2, none, stride=[2, 2], …, act="clamp", …, act2="clamp", …)

Only with constant weights of f32: they are packed at export, and integers have no such kernel. Not where the first convolution has so few input channels that it
reads the image as it lies (conv2d.f32.direct).
"""

from __future__ import annotations

from penlight.ir.graph import Graph, Node
from penlight.ir.rewrite import blocks, call, made_by, replace, single_use
from penlight.ops.conv.kernels import FEW_CHANNELS


def run(graph: Graph) -> int:
    fused = 0
    for block in blocks(graph):
        for second in list(block.nodes):
            if second.op != "conv2d" or not _depthwise(second):
                continue
            wide = second.inputs[0]
            first = made_by(wide, "conv2d")
            if first is None or wide is None or first not in block.nodes or not _pointwise(first):
                continue
            if not single_use(graph, wide):
                continue
            attrs = {name: second.attrs[name] for name in ("stride", "padding", "dilation")}
            attrs |= {"act": first.attrs["act"], "act_args": first.attrs["act_args"]}
            attrs |= {"act2": second.attrs["act"], "act2_args": second.attrs["act_args"]}
            inputs = [*first.inputs[:3], *second.inputs[1:3], second.inputs[3]]
            y = call(graph, block, second, "expand_depthwise", inputs, second.output.type, **attrs)
            replace(graph, block, second, y)
            block.erase(first)
            fused += 1
    return fused


def _pointwise(node: Node) -> bool:
    weight = node.inputs[1]
    if weight is None or not weight.is_constant or weight.dtype != "f32" or node.inputs[3] is not None:
        return False
    _, channels, *kernel = weight.shape
    plain = node.attrs["stride"] == (1, 1) and not any(node.attrs["padding"]) and node.attrs["groups"] == 1  # type: ignore[arg-type]
    return plain and kernel == [1, 1] and isinstance(channels, int) and channels > FEW_CHANNELS


def _depthwise(node: Node) -> bool:
    weight, groups = node.inputs[1], node.attrs["groups"]
    floats = weight is not None and weight.is_constant and weight.dtype == "f32"
    return floats and weight.shape[:2] == (groups, 1) and groups != 1  # type: ignore[union-attr]
