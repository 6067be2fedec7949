"""Equalizing changes no result in floats and brings rounded ones nearer; corrected biases take the mean error away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from penlight.ir import parse_graph
from penlight.ir.graph import Graph
from penlight.quant.correct import correct_biases
from penlight.quant.equalize import equalize
from penlight.quant.execute import with_outputs
from penlight.quant.insert import choose, insert
from penlight.quant.observe import observe
from penlight.quant.place import place
from tests.graphs import compiled

TEXT = """
graph forward(%x: f32[2, 16, 8, 8]) {
  @a.weight: f32[32, 16, 1, 1]
  @a.bias: f32[32]
  @b.weight: f32[32, 1, 3, 3]
  @c.weight: f32[16, 32, 1, 1]
  %a: f32[2, 32, 8, 8] = conv2d(%x, @a.weight, @a.bias, none, stride=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=1, act="clamp", act_args=[0.0, LIMIT])
  %b: f32[2, 32, 8, 8] = conv2d(%a, @b.weight, none, none, stride=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1], groups=32, act="clamp", act_args=[0.0, LIMIT])
  %c: f32[2, 16, 8, 8] = conv2d(%b, @c.weight, none, none, stride=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=1, act="", act_args=[])
  return %c
}
"""


def network(limit: str) -> Graph:
    """Channels of sizes from 1 to 300 between the layers."""
    rng = np.random.default_rng(1)
    sizes = np.logspace(-2, 0.5, 32).astype(np.float32)
    weights = {
        "a.weight": rng.standard_normal((32, 16, 1, 1)) * sizes[:, None, None, None] / 4,
        "a.bias": rng.standard_normal(32) * sizes,
        "b.weight": rng.standard_normal((32, 1, 3, 3)) / 3,
        "c.weight": rng.standard_normal((16, 32, 1, 1)) / sizes[None, :, None, None] / 6,
    }
    return parse_graph(TEXT.replace("LIMIT", limit), {k: v.astype(np.float32) for k, v in weights.items()})


def batches() -> list[list[np.ndarray]]:
    rng = np.random.default_rng(2)
    return [[rng.standard_normal((2, 16, 8, 8)).astype(np.float32)] for _ in range(6)]


def execute(graph: Graph) -> Any:
    model = compiled(graph.copy())
    return lambda leaves: list(model(*leaves))


def seen(graph: Graph) -> Any:
    return observe(graph, ["x", "a", "b", "c"], batches(), execute, True, lambda *_: None)


def outputs(graph: Graph) -> np.ndarray:
    run = execute(graph)
    return np.concatenate([run(batch)[0] for batch in batches()])


def sqnr(got: np.ndarray, expected: np.ndarray) -> float:
    return float(10 * np.log10((expected**2).sum() / ((got - expected) ** 2).sum()))


def rounded(graph: Graph, correct: bool = False) -> np.ndarray:
    observed = seen(graph)
    scheme = choose(graph, place(graph), observed, "minmax", True, {})
    if correct:
        correct_biases(graph, scheme, observed)
    return outputs(insert(graph, scheme, simulate=True))


@pytest.mark.parametrize("limit", ["inf", "6.0"])
def test_floats_stay_and_integers_gain(limit: str) -> None:
    graph = network(limit)
    expected = outputs(graph)
    before = sqnr(rounded(graph), expected)
    assert equalize(graph, seen(graph), True) >= 1
    assert np.abs(outputs(graph) - expected).max() < 1e-5 * np.abs(expected).max()
    assert sqnr(rounded(graph), expected) > before + 3


def test_what_is_equal_is_left_alone() -> None:
    graph = network("inf")
    for constant in graph.constants.values():
        assert constant.constant is not None
        constant.constant[:] = constant.constant[:1] if constant.name != "c.weight" else 0.5
    assert equalize(graph, seen(graph), True) == 0


def _mean_errors(graph: Graph, correct: bool) -> np.ndarray:
    expected, got = outputs(graph), rounded(graph, correct)
    error: np.ndarray = np.abs((got - expected).mean((0, 2, 3)))
    return error


def test_corrected_biases_take_the_mean_error() -> None:
    rng = np.random.default_rng(5)
    graph = network("inf")
    weight = graph.constants["c.weight"]
    assert weight.constant is not None
    weight.constant[:, :, 0, 0] *= rng.uniform(0.01, 1, (16, 1)).astype(np.float32)
    weight.constant[:, 0] = 40.0  # coarse steps for all others
    plain, corrected = _mean_errors(graph, False), _mean_errors(graph, True)
    assert corrected.mean() < 0.5 * plain.mean()


def test_names_of_values_can_be_shown() -> None:
    graph = network("inf")
    shown: Sequence[np.ndarray] = execute(with_outputs(graph, ["a", "c"]))(batches()[0])
    assert [x.shape[1] for x in shown] == [32, 16]
