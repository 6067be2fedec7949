"""Chooses which convolutions become Winograd: those where it saves time, as far as the file may grow for it.

    %y = conv2d(%x, @w, …)   ->   the same, kernel = "conv2d.f32.winograd4"; @w will be stored transformed, 4 times as large

Time is estimated (ops/conv/winograd.py) for the shapes of the example inputs; a file made with dynamic shapes is right for
all others too, but chosen for these. Like every kernel choice it depends on the graph alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penlight.errors import ArgumentError
from penlight.ir.array_map import ArrayMap
from penlight.ir.dims import evaluate
from penlight.ir.graph import Method, Node, Program, Value
from penlight.ir.values import tensors_in
from penlight.lower.select import selection
from penlight.ops.conv.winograd import POINTS, Layer, plain_seconds, winograd_seconds

BUDGET = 0.5
"""By what fraction of its weights' size the file may grow: 1.0 is twice the size (docs/WINOGRAD.md has the trade)."""
SMALL = 1 << 20
"""Bytes. Files of less count as this much: they may grow as if they were that large."""
WORTH = 0.15
"""A variant has to take this much less time than the one that takes fewer bytes."""
LEAST = 20e-6
"""Seconds that a layer has to save."""
CHANNELS = {2: 1 << 20, 4: 1 << 20, 6: 256}
"""Most input channels for each variant: errors grow with their number, and F(6) starts out with ten times that of F(4)."""


@dataclass(frozen=True)
class Offer:
    """What F(outputs) saves, in seconds, for how many bytes more."""

    outputs: int
    saved: float
    bytes: int


NOTHING = Offer(0, 0.0, 0)


def choose_winograd(program: Program, budget: float = BUDGET) -> None:
    """Presets the kernel of the chosen nodes. Greedy: whatever saves most per byte comes first, until nothing fits."""
    if not budget >= 0:
        raise ArgumentError(
            f"winograd_budget: expected 0 (no growth) or more, as a fraction of the weights, got {budget!r}"
        )
    weights = _weights(program)
    offers = {weight: weight.offers() for weight in weights if weight.layers}
    left = budget * max(sum(weight.bytes for weight in weights), SMALL)
    chosen = dict.fromkeys(offers, NOTHING)
    while True:
        steps = [
            ((offer.saved - chosen[weight].saved) / (offer.bytes - chosen[weight].bytes), weight, offer)
            for weight, known in offers.items()
            for offer in known
            if offer.saved > chosen[weight].saved and 0 < offer.bytes - chosen[weight].bytes <= left
        ]
        if not steps:
            break
        _, weight, offer = max(steps, key=lambda step: step[0])
        left -= offer.bytes - chosen[weight].bytes
        chosen[weight] = offer
    for weight, offer in chosen.items():
        for node in weight.users if offer is not NOTHING else ():
            node.kernel = f"conv2d.f32.winograd{offer.outputs}"


@dataclass(eq=False)
class _Weight:
    """What the file holds once: constants of the same numbers in all methods, and what VM code has of them."""

    bytes: int
    users: list[Node] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)  # of those users that Winograd could serve
    is_interpreted: bool = False

    def offers(self) -> list[Offer]:
        if len(self.layers) < len(self.users) or len({(layer.co, layer.ci) for layer in self.layers}) > 1:
            return []  # somebody else reads it as it is, or in another shape: it would have to be stored twice
        found: list[Offer] = []
        plain = best = sum(plain_seconds(layer) for layer in self.layers)
        first = self.layers[0]
        panel_bytes = -(-first.co // 16) * 16 * first.ci * 4
        for outputs in sorted(POINTS):
            seconds = sum(winograd_seconds(layer, outputs) for layer in self.layers)
            if first.ci <= CHANNELS[outputs] and seconds < (1 - WORTH) * best and plain - seconds > LEAST:
                more = ((outputs + 2) ** 2 - 9) * panel_bytes
                # VM code would have read what is packed; what is transformed does not serve it.
                found.append(Offer(outputs, plain - seconds, more + self.bytes * self.is_interpreted))
                best = seconds
        return found


def _weights(program: Program) -> list[_Weight]:
    found: ArrayMap[_Weight] = ArrayMap()
    for method in program.methods.values():
        for value in method.graph.constants.values():
            if value.constant is None:
                continue
            weight = found.setdefault(value.constant, _Weight(value.constant.nbytes))
            weight.users += value.users
            weight.layers += [layer for user in value.users if (layer := _layer(user, method, value)) is not None]
    for tensor, _ in tensors_in(program.script.roots if program.script else ()):
        found.setdefault(tensor.storage.data, _Weight(tensor.storage.data.nbytes)).is_interpreted = True
    return found.values()


def _layer(node: Node, method: Method, value: Value) -> Layer | None:
    """None: nothing for Winograd, not with this weight, or of unknown size."""
    if node.op != "conv2d" or selection(node).key != "conv2d.f32.gemm":
        return None
    x, weight = node.inputs[:2]
    if x is None or weight is None or weight is not value or weight.shape[2:] != (3, 3):
        return None
    if node.attrs["stride"] != (1, 1) or node.attrs["groups"] != 1:
        return None
    hints = {name: known.hint for name, known in method.symbols.items() if known.hint is not None}
    padding, dilation = node.attrs["padding"], node.attrs["dilation"]
    assert isinstance(padding, tuple)
    assert isinstance(dilation, tuple)
    try:
        images, ci, *image = (evaluate(d, hints) for d in x.shape)
        _, co, *size = (evaluate(d, hints) for d in node.output.shape)
        pads = [evaluate(d, hints) for d in padding if not isinstance(d, (str, float)) and d is not None]
        steps = [evaluate(d, hints) for d in dilation if not isinstance(d, (str, float)) and d is not None]
    except KeyError:  # a symbol without a hint
        return None
    return Layer(images, ci, co, (size[0], size[1]), (image[0], image[1]), (pads[0], pads[1]), (steps[0], steps[1]))
