"""Activations that a model spells out become the one operator that they are.

    %s: f32[4] = sigmoid(%x)
    %y: f32[4] = mul(%x, %s)    ->    %y: f32[4] = silu(%x)

So do hardsigmoid and hardswish (x * relu6(x + 3) / 6), gelu (both kinds) and mish. Then they fuse into the convolution
or linear before them (fuse_activation.py).
"""

from __future__ import annotations

import math

from penlight.ir.graph import Graph
from penlight.ir.rewrite import Pattern, blocks, call, match_value, replace
from penlight.ir.types import TensorType

_RELU6: Pattern = ("clamp", ("add", "x", 3.0), {"lo": 0.0, "hi": 6.0})
_SIXTH: Pattern = [("mul", "x", 1 / 6), ("div", "x", 6.0)]
_ERF: Pattern = ("add", ("erf", [("div", "x", math.sqrt(2)), ("mul", "x", math.sqrt(0.5))]), 1.0)
_CUBE: Pattern = [("pow", "x", 3.0), ("mul", ("mul", "x", "x"), "x")]
_TANH: Pattern = ("add", ("tanh", ("mul", ("add", "x", ("mul", _CUBE, 0.044715)), math.sqrt(2 / math.pi))), 1.0)


def _half_of_x_times(factor: Pattern) -> Pattern:
    """x / 2 * factor, however the products are nested."""

    def half(value: Pattern) -> list[Pattern]:
        return [("mul", value, 0.5), ("div", value, 2.0)]

    return [("mul", half("x"), factor), ("mul", "x", half(factor)), *half(("mul", "x", factor))]


# Later ones may contain earlier ones, which have been replaced by then.
PATTERNS: list[tuple[str, Pattern]] = [
    ("silu", ("mul", "x", ("sigmoid", "x"))),
    ("hardsigmoid", [("div", _RELU6, 6.0), ("mul", _RELU6, 1 / 6), ("clamp", ("add", _SIXTH, 0.5), {"lo": 0.0, "hi": 1.0})]),
    ("hardswish", [("mul", "x", ("hardsigmoid", "x")), ("div", ("mul", "x", _RELU6), 6.0), ("mul", ("mul", "x", _RELU6), 1 / 6),
                   ("mul", _SIXTH, _RELU6)]),
    ("gelu", _half_of_x_times(_ERF)),
    ("gelu_tanh", _half_of_x_times(_TANH)),
    ("mish", ("mul", "x", ("tanh", ("softplus", "x", {"beta": 1.0, "threshold": 20.0})))),
]  # fmt: skip


def run(graph: Graph) -> int:
    """What is left of the spelled-out form has no users; dead_code.py removes it."""
    found = 0
    for block in blocks(graph):
        for node in list(block.nodes):
            for name, pattern in PATTERNS:
                if len(node.outputs) != 1 or (bound := match_value(node.output, pattern)) is None:
                    continue
                x = bound["x"]
                if x.type == node.output.type and isinstance(x.type, TensorType) and x.dtype == "f32":
                    replace(graph, block, node, call(graph, block, node, name, [x], x.type))
                    found += 1
                    break
    return found
