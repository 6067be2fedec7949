"""Puts quantize and dequantize around everything that shall compute in integers; weights become integers.

    %c: f32[1, 8, 6, 6] = conv2d(%x, @w, @b, none, …)
    %r: f32[1, 8] = mean(%c, …)
    ->
    %q: u8[1, 3, 8, 8] q(0.02, 114) = quantize(%x, low=0, high=255)
    %d: f32[1, 3, 8, 8] = dequantize(%q)
    %w: f32[8, 3, 3, 3] = dequantize(@w_i8)
    %c: f32[1, 8, 6, 6] = conv2d(%d, %w, @b, none, …)
    …

`simulate`: weights are floats, rounded to what the integers would be, and so constants for float kernels: this computes what the integers will,
but for the rounding of sums, and shows every value on the way.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from penlight.ir.graph import Graph, Node, Value
from penlight.ir.rewrite import WITH_EPILOGUE
from penlight.ir.types import LEVELS, Quant, TensorType
from penlight.passes import fuse_activation
from penlight.quant import recurrent
from penlight.quant.execute import values_by_name
from penlight.quant.observe import Observed
from penlight.quant.place import KEEPS_SCALE, Placement, data, integers, moves
from penlight.quant.scheme import activation_quant, dequantized, weight_quant
from penlight.quant.unfuse import RESIDUAL


@dataclass
class Scheme:
    """How a graph is quantized. By names of values; weights and biases by the name of their node's output."""

    placement: Placement
    quants: dict[str, Quant] = field(default_factory=dict)
    weights: dict[str, tuple[np.ndarray, Quant]] = field(default_factory=dict)
    biases: dict[str, np.ndarray] = field(default_factory=dict)  # those that were corrected


def choose(
    graph: Graph, placement: Placement, observed: dict[str, Observed], method: str, per_channel: bool,
    known: dict[tuple[str, str], Quant],
) -> Scheme:  # fmt: skip
    """Scales for all that is stored and for all weights. `known` keeps what was found before: a search takes time."""
    scheme = Scheme(placement)
    widest: dict[str, str] = {}
    for name in sorted(placement.stored):
        root = placement.root(name)
        if root not in widest or _width(observed[name]) > _width(observed[widest[root]]):
            widest[root] = name
    for name in placement.stored:
        source = widest[placement.root(name)]
        if (source, method) not in known:
            known[source, method] = activation_quant(observed[source], method)
        scheme.quants[name] = known[source, method]
    for node in integers(graph, placement):
        if node.op in WITH_EPILOGUE:
            x, weight, bias = node.inputs[:3]
            assert x is not None
            assert weight is not None
            assert weight.constant is not None
            scheme.weights[node.output.name] = weight_quant(
                weight.constant, None if bias is None else bias.constant, scheme.quants[x.name].scale, per_channel
            )
        elif node.op in recurrent.OPS:
            weight = node.inputs[1]
            assert weight is not None
            assert weight.constant is not None
            scheme.weights[node.outputs[0].name] = weight_quant(weight.constant, None, 1.0, per_channel)
    return scheme


def _width(observed: Observed) -> float:
    return max(observed.high, 0.0) - min(observed.low, 0.0)


def insert(graph: Graph, scheme: Scheme, simulate: bool) -> Graph:
    """A copy of the graph, quantized. Values keep their names."""
    made = graph.copy()
    pairs = Pairs(made)
    chosen = list(integers(made, scheme.placement))
    values = values_by_name(made)
    origin = {out for node in chosen for out in node.outputs}
    stored = {}
    for name, quant in scheme.quants.items():
        value = values[name]
        users, returned = list(dict.fromkeys(value.users)), made.is_output(value)
        stored[value] = pairs.after(value, quant)
        for user in users:
            if value in origin or user in chosen:
                _exchange(user, value, stored[value], None if value in origin else read_as_integers(user, scheme))
        if value in origin and returned:
            made.outputs = [stored[value] if out is value else out for out in made.outputs]
    for node in chosen:
        if moves(node) or node.op in KEEPS_SCALE:
            wanted = scheme.quants[node.outputs[0].name]
            for index, read in enumerate(node.inputs):
                if read is not None and pairs.quants.get(read, wanted) != wanted:
                    node.set_input(index, pairs.before(node, read, wanted))
    for node in chosen:
        if node.op in WITH_EPILOGUE:
            _set_weight(made, node, scheme, simulate)
        elif node.op in recurrent.OPS:
            set_recurrent(made, node, scheme.weights[node.outputs[0].name])
    fuse_activation.run(made)  # what is computed in floats, and what integers give as floats
    made.prune_constants()
    return made


def read_as_integers(node: Node, scheme: Scheme) -> list[int]:
    """Places among the inputs that integers come in by. A residual is of the result's kind: integers only where the result is."""
    real = node.op in WITH_EPILOGUE and node.output.name not in scheme.quants
    return [i for i, v in enumerate(node.inputs) if v in data(node) and not (real and i == RESIDUAL)]


def _exchange(user: Node, old: Value, new: Value, only: list[int] | None) -> None:
    for index, value in enumerate(user.inputs):
        if value is old and (only is None or index in only):
            user.set_input(index, new)


class Pairs:
    """Makes quantize and dequantize nodes; `quants`: what the results went through."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.quants: dict[Value, Quant] = {}

    def after(self, value: Value, quant: Quant) -> Value:
        """The value as the integers have it, for those who shall read it so."""
        nodes = self.graph.nodes
        place = nodes.index(value.producer) + 1 if value.producer is not None else 0
        return self._at(place, value, quant, value.producer.source if value.producer is not None else "")

    def before(self, node: Node, value: Value, quant: Quant) -> Value:
        return self._at(self.graph.nodes.index(node), value, quant, node.source)

    def _at(self, place: int, value: Value, quant: Quant, source: str) -> Value:
        low, high = LEVELS["u8"]
        type = TensorType("u8", value.shape, quant)
        first = self.graph.node(
            "quantize", [value], {"low": low, "high": high}, type, name=f"{value.name}_u8", source=source
        )
        self.graph.insert(place, first)
        second = self.graph.node("dequantize", [first.output], {}, value.type, name=f"{value.name}_f32", source=source)
        self.graph.insert(place + 1, second)
        self.quants[second.output] = quant
        return second.output


def set_recurrent(graph: Graph, node: Node, weights: tuple[np.ndarray, Quant]) -> None:
    """Simulated or not: its kernel rounds the state itself."""
    weight = node.inputs[1]
    assert weight is not None
    constant = graph.add_constant(weights[0], weight.name)
    constant.type = replace(constant.tensor, quant=weights[1])
    recurrent.set_integers(node, constant)


def _set_weight(graph: Graph, node: Node, scheme: Scheme, simulate: bool) -> None:
    integers_, quant = scheme.weights[node.output.name]
    weight = node.inputs[1]
    assert weight is not None
    if simulate:
        node.set_input(1, graph.add_constant(dequantized(integers_, quant), weight.name))
    else:
        constant = graph.add_constant(integers_, weight.name)
        constant.type = replace(constant.tensor, quant=quant)
        read = graph.node("dequantize", [constant], {}, weight.type, name="dequantize", source=node.source)
        graph.insert_before(node, read)
        node.set_input(1, read.output)
    if node.output.name in scheme.biases:
        node.set_input(2, graph.add_constant(scheme.biases[node.output.name], f"{weight.name}.bias"))
