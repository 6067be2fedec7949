"""Recurrent layers with weights of i8: the state is rounded at every step, to levels that its range in that step asks for.

    %y, %h, %c = lstm(%x, @w: f32[64, 16], %h0, %c0, none, reverse=false)
    ->
    %y, %h, %c = lstm_dynamic(%x, @w: i8[64, 16] q(axis=0), %h0, %c0, none, reverse=false, high=255, rule="pt2e")

What comes in and goes out are floats as before: nothing has to be calibrated. The product of the layer's input is a linear of its own.
"""

from __future__ import annotations

import numpy as np

from penlight.ir.graph import Node, Value

OPS = ("lstm", "gru", "rnn")


def takes_integers(node: Node) -> bool:
    """A layer with constant weights, and without a projection, for which there is no kernel."""
    if node.op not in OPS or (node.op == "lstm" and node.inputs[4] is not None):
        return False
    w, b = node.inputs[1], node.inputs[3] if node.op == "gru" else None
    if w is None or w.constant is None or w.dtype != "f32" or not np.isfinite(w.constant).all():
        return False
    return b is None or b.is_constant


def set_integers(node: Node, weight: Value) -> None:
    """The layer with this weight of i8. torch's own rule takes no steps below 6.1e-5, and would lose small numbers."""
    attrs = node.attrs
    node.attrs = {"reverse": attrs["reverse"], "high": 255, "rule": "pt2e"}
    if node.op == "rnn":
        node.inputs.append(None)
        node.attrs["nonlinearity"] = attrs["nonlinearity"]
    node.op += "_dynamic"
    node.set_input(1, weight)
