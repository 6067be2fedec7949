"""Chooses which convolutions become Winograd: those where it saves time, as far as the file may grow for it.

    %y = conv2d(%x, @w, …)   ->   the same, kernel = "conv2d.f32.winograd4"; @w will be stored transformed, 4 times as large

Time is estimated (ops/conv/winograd.py) for the shapes of the example inputs; a file made with dynamic shapes is right for
all others too, but chosen for these. Like every kernel choice it depends on the graph alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from penlight.ir.dims import evaluate
from penlight.ir.graph import Method, Node, Program, Value
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
    offers: dict[Value, list[Offer]] = {}
    total = 0
    for method in program.methods.values():
        total += sum(v.constant.nbytes for v in method.graph.constants.values() if v.constant is not None)
        for node in method.graph.walk():
            weight = node.inputs[1] if node.op == "conv2d" else None
            if weight is not None and weight not in offers:
                layers = [layer for user in weight.users if (layer := _layer(user, method)) is not None]
                # A weight that somebody else reads as it is would have to be stored twice.
                offers[weight] = _offers(layers) if len(layers) == len(weight.users) else []
    left = budget * max(total, SMALL)
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


def _offers(layers: list[Layer]) -> list[Offer]:
    """For one weight, which all these layers read."""
    found = []
    plain = best = sum(plain_seconds(layer) for layer in layers)
    panel_bytes = -(-layers[0].co // 16) * 16 * layers[0].ci * 4
    for outputs in sorted(POINTS):
        seconds = sum(winograd_seconds(layer, outputs) for layer in layers)
        if layers[0].ci <= CHANNELS[outputs] and seconds < (1 - WORTH) * best and plain - seconds > LEAST:
            found.append(Offer(outputs, plain - seconds, ((outputs + 2) ** 2 - 9) * panel_bytes))
            best = seconds
    return found


def _layer(node: Node, method: Method) -> Layer | None:
    """None: nothing for Winograd, or of unknown size."""
    if node.op != "conv2d" or selection(node).key != "conv2d.f32.gemm":
        return None
    x, weight = node.inputs[:2]
    if x is None or weight is None or weight.constant is None or weight.shape[2:] != (3, 3):
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
