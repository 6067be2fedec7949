"""The layers of the sweep: enough of them, long enough, of every kind, the same each time."""

from __future__ import annotations

import torch

from bench.layer_list import COUNT, LEAST_S, MOST_S, Layer, distinct, invented, spread


def test_every_invented_layer_is_in_the_sweep() -> None:
    made = list(invented())
    assert len({layer.name for layer in made}) == len(made)
    assert {layer.name for layer in distinct(made)} == {layer.name for layer in made}, (
        "too short or too long to measure"
    )
    assert len({layer.key for layer in made}) == len(made), "two layers would share a folder"
    assert len(made) < COUNT / 2, "most layers should come from networks"


def test_invented_layers_have_every_trait() -> None:
    made = list(invented())
    convolutions = [layer for layer in made if layer.kind == "conv"]
    assert {layer.kh for layer in convolutions} == set(range(1, 8))
    assert {1, 2, 3} <= {layer.stride for layer in convolutions}
    assert {1, 2, 4, 8} <= {layer.n for layer in convolutions}
    assert any(layer.dilation > 1 for layer in convolutions)
    assert any(1 < layer.groups < layer.ci for layer in convolutions)
    assert any(layer.ci % 2 and layer.co % 2 for layer in convolutions)


def test_shapes_and_names() -> None:
    for layer in (
        Layer("conv", "", 2, 6, 8, 11, 9, 3, 5, 2, 1, 2, 2, 2),
        Layer("conv", "", 1, 4, 4, 7, 7, 7, 7, 3, 3, 3, 1, 4),
        Layer("linear", "", 5, 7, 3),
    ):
        output = layer.module()(torch.zeros(layer.shape()))
        assert output.numel() == layer.n * layer.co * layer.out_hw[0] * layer.out_hw[1]
    assert Layer("conv", "", 1, 4, 4, 7, 7, 7, 7, 3, 3, 3, 1, 4).name == "conv 7x7 1x4x7x7 -> 4 stride 3 depthwise"


def test_weights_are_the_same_each_time() -> None:
    layer = Layer("linear", "", 5, 7, 3)
    assert torch.equal(layer.module().weight, layer.module().weight)  # type: ignore[arg-type]


def test_distinct_drops_repeats_and_what_is_too_short_or_too_long() -> None:
    good, short, long = (
        Layer("linear", "", 64, 512, 512),
        Layer("linear", "", 1, 8, 8),
        Layer("linear", "", 4096, 4096, 4096),
    )
    assert short.nominal_s < LEAST_S
    assert long.nominal_s > MOST_S
    assert distinct([good, short, good, long]) == [good]


def test_spread_takes_every_trait_in_turn() -> None:
    rare = [Layer("conv", "", 1, 3, 16, 64, 64, 3, 3, 2, 1, 1)]
    common = [Layer("linear", "", 64, 64 * i, 64) for i in range(1, 31)]
    picked = spread(common + rare, 7)
    assert len(picked) == 7
    assert rare[0] in picked
    assert picked == spread(list(reversed(common + rare)), 7)
    sizes = sorted(layer.ci for layer in picked if layer.kind == "linear")
    assert sizes[0] == 64
    assert sizes[-1] > 64 * 20, "from all sizes alike"
