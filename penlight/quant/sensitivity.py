"""What integers cost: at every layer, and at the outputs when one layer alone is in integers; and which layers to keep in floats for a budget.

The first is measured on the simulated graph, all layers at once. For the second there is one graph that computes every layer both ways, and
for each layer an input that says which of the two goes on:

    y = in floats + (in integers - in floats) * gate

so it is compiled once and run once for each layer. Images are as few as the time allowed needs (at least one). Where even that is
too long, the layers that look worst in the first measurement are run, and the others are taken to cost what theirs is worth there, in the
proportion found for those that were run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from penlight.ir.graph import Graph, Node, Value
from penlight.ir.rewrite import WITH_EPILOGUE
from penlight.ir.types import TensorType, Type
from penlight.ops import registry
from penlight.quant import recurrent
from penlight.quant.execute import Execute, Leaves, with_outputs
from penlight.quant.insert import Pairs, Scheme, insert, read_as_integers, set_recurrent
from penlight.quant.observe import Step
from penlight.quant.place import integers, moves
from penlight.quant.scheme import dequantized

FEWEST = 8  # layers that are run however long it takes
MOST = 1e10  # the largest relative error that is told: beyond is infinite, which JSON cannot say


@dataclass
class Error:
    """Summed squares of what should be, and of how far it is off. Numbers that are not finite (a mask of -inf) count where they are not
    the same: as an infinite error."""

    signal: float = 0.0
    noise: float = 0.0

    def take(self, got: np.ndarray, expected: np.ndarray) -> None:
        if expected.dtype.kind != "f":
            return
        wide = expected.astype(np.float64)
        finite = np.isfinite(wide)
        if not finite.all():
            self.noise += 0.0 if np.array_equal(got[~finite], expected[~finite], equal_nan=True) else np.inf
            wide, got = wide[finite], got[finite]
        self.signal += float((wide**2).sum())
        self.noise += float(((got - wide) ** 2).sum())

    @property
    def relative(self) -> float:
        """Root mean square of the error, in parts of the values'."""
        if not self.noise < np.inf:  # NaN too: a result that should be a number is none
            return MOST
        return min(float(np.sqrt(self.noise / self.signal)), MOST) if self.signal > 0 else float(self.noise > 0)

    @property
    def sqnr(self) -> float:
        """Signal to quantization noise, in dB; no noise at all is 200."""
        return decibels(self.relative)


def decibels(relative: float) -> float:
    return float(min(-20 * np.log10(relative), 200.0)) if relative > 1e-10 else 200.0


def layers(graph: Graph, scheme: Scheme) -> list[Node]:
    """What counts as a layer in integers: not what only moves them."""
    return [node for node in integers(graph, scheme.placement) if not moves(node)]


def layer_errors(
    graph: Graph, scheme: Scheme, batches: Sequence[Leaves], execute: Execute, step: Step
) -> dict[str, Error]:
    """Of each layer's output, in the graph that is quantized as a whole."""
    names = [node.outputs[0].name for node in layers(graph, scheme)]
    simulated = insert(graph, scheme, simulate=True)
    exact, rounded = execute(with_outputs(graph, names)), execute(with_outputs(simulated, names))
    found = {name: Error() for name in names}
    for i, batch in enumerate(batches):
        step(i, len(batches), "batches")
        for name, got, expected in zip(names, rounded(batch), exact(batch), strict=True):
            found[name].take(got, expected)
    return found


def costs(
    graph: Graph, scheme: Scheme, batches: Sequence[Leaves], errors: dict[str, Error], execute: Execute, seconds: float, step: Step
) -> tuple[dict[str, float], str]:  # fmt: skip
    """Relative error at the outputs with each layer alone in integers; and in words, how that was found."""
    names = [node.outputs[0].name for node in layers(graph, scheme)]
    if not names:
        return {}, ""
    run = execute(gated(graph, scheme))
    off = np.zeros((len(names), 1), np.float32)
    run([*batches[0], *off])
    start = time.perf_counter()
    expected = [run([*batches[0], *off])]
    once = time.perf_counter() - start
    count = int(np.clip(seconds / (once * len(names)), 1, len(batches)))
    expected += [run([*batch, *off]) for batch in batches[1:count]]
    tried = names
    if once * len(names) > 2 * seconds:
        worst = sorted(names, key=lambda name: -errors[name].relative)
        tried = worst[: max(FEWEST, int(2 * seconds / once))]
    found = {}
    for i, name in enumerate(tried):
        step(i, len(tried), "layers")
        on = off.copy()
        on[names.index(name)] = 1.0
        error = Error()
        for batch, exact in zip(batches[:count], expected, strict=True):
            for got, want in zip(run([*batch, *on]), exact, strict=True):
                error.take(got, want)
        found[name] = error.relative
    how = f"each layer alone in integers, {count} batch{'es' if count > 1 else ''}"
    if len(tried) < len(names):
        ratio = float(np.median([found[n] / max(errors[n].relative, 1e-9) for n in tried]))
        found |= {n: errors[n].relative * ratio for n in names if n not in found}
        how = f"the {len(tried)} layers of {len(names)} that look worst alone in integers, the others in proportion to their own error"
    return found, how


def gated(graph: Graph, scheme: Scheme) -> Graph:
    """Every layer both ways; after the graph's own inputs, one number for each layer: 0, in floats, or 1, in integers."""
    made = graph.copy()
    pairs = Pairs(made)
    names: dict[Value, str] = {}  # of what goes on after a gate: the layer's
    for number, node in enumerate(layers(made, scheme)):
        gate = made.add_input(f"gate_{number}", TensorType("f32", (1,)))
        y = node.outputs[0]
        users = list(dict.fromkeys(y.users))
        rounded = _in_integers(made, pairs, node, scheme, names)
        assert rounded.producer is not None
        away = _elementwise(made, rounded.producer, "sub", [rounded, y], y.type)
        let_through = _elementwise(made, away, "mul", [away.output, gate], y.type)
        chosen = _elementwise(made, let_through, "add", [y, let_through.output], y.type).output
        names[chosen] = y.name
        for user in users:
            for index, value in enumerate(user.inputs):
                if value is y:
                    user.set_input(index, chosen)
        made.outputs = [chosen if out is y else out for out in made.outputs]
    return made


def _elementwise(graph: Graph, after: Node, op: str, inputs: list[Value], type: Type) -> Node:
    attrs = {p.name: p.default for p in registry.get(op).attrs}
    return graph.insert(graph.nodes.index(after) + 1, graph.node(op, inputs, attrs, type, name=op))


def _in_integers(graph: Graph, pairs: Pairs, node: Node, scheme: Scheme, names: dict[Value, str]) -> Value:
    """The node once more, right after it, with everything rounded that its integers would round."""
    inputs: list[Value | None] = list(node.inputs)
    for index in read_as_integers(node, scheme):
        value = inputs[index]
        assert value is not None
        inputs[index] = pairs.before(node, value, scheme.quants[names.get(value, value.name)])
    if node.op in WITH_EPILOGUE:
        weight = node.inputs[1]
        assert weight is not None
        inputs[1] = graph.add_constant(dequantized(*scheme.weights[node.output.name]), weight.name)
        if node.output.name in scheme.biases:
            inputs[2] = graph.add_constant(scheme.biases[node.output.name], f"{weight.name}.bias")
    twin = graph.node(node.op, inputs, node.attrs, [o.type for o in node.outputs], name=node.op, source=node.source)
    graph.insert(graph.nodes.index(node) + 1, twin)
    if node.op in recurrent.OPS:
        set_recurrent(graph, twin, scheme.weights[node.outputs[0].name])
    quant = scheme.quants.get(node.outputs[0].name)
    return twin.outputs[0] if quant is None else pairs.after(twin.outputs[0], quant)


def fewest_kept(ranked: Sequence[str], meets: Callable[[Sequence[str]], bool]) -> list[str] | None:
    """The shortest beginning of the list with which the budget is met, by bisection: more kept is taken to be never worse. None: not even
    with all."""
    if meets(ranked[:0]):
        return []
    if not meets(ranked):
        return None
    low, high = 0, len(ranked)  # not met with low, met with high
    while high - low > 1:
        middle = (low + high) // 2
        if meets(ranked[:middle]):
            high = middle
        else:
            low = middle
    return list(ranked[:high])
