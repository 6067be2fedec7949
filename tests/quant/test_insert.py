"""Quantize and dequantize around what computes in integers: the simulated graph is torch's fake quantization, the real one becomes integers."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from penlight.ir import parse_graph
from penlight.ir.graph import Graph
from penlight.ir.verify import verify
from penlight.passes import dead_code, integer
from penlight.quant.insert import Scheme, choose, insert
from penlight.quant.observe import Observed
from penlight.quant.place import place
from tests.graphs import compiled, run
from tests.quant.test_place import CHAIN

RNG = np.random.default_rng(0)
CONSTANTS = {
    "a.weight": RNG.standard_normal((8, 3, 3, 3)).astype(np.float32),
    "b.weight": RNG.standard_normal((8, 8, 1, 1)).astype(np.float32),
}
X = RNG.standard_normal((1, 3, 8, 8)).astype(np.float32)


def quantized() -> tuple[Graph, Scheme]:
    graph = parse_graph(CHAIN, CONSTANTS)
    names = ["x", "one", "act", "two"]
    shown = parse_graph(CHAIN.replace("return %end", "return %x, %one, %act, %two"), CONSTANTS)
    observed = {}
    for name, value in zip(names, run(shown, X), strict=True):
        observed[name] = Observed()
        observed[name].take_range(value)
    return graph, choose(graph, place(graph), observed, "minmax", True, {})


def fake(x: torch.Tensor, scheme: Scheme, name: str) -> torch.Tensor:
    quant = scheme.quants[name]
    return torch.fake_quantize_per_tensor_affine(x, quant.scale, quant.zero, 0, 255)


def by_torch(scheme: Scheme) -> np.ndarray:
    def weight(name: str, node: str) -> torch.Tensor:
        scales = torch.tensor(scheme.weights[node][1].scales)
        return torch.fake_quantize_per_channel_affine(
            torch.from_numpy(CONSTANTS[name]), scales, torch.zeros(8, dtype=torch.int32), 0, -127, 127
        )

    one = fake(F.relu6(F.conv2d(fake(torch.from_numpy(X), scheme, "x"), weight("a.weight", "one"))), scheme, "one")
    act = fake(torch.sigmoid(one), scheme, "act")
    return torch.sigmoid(F.conv2d(act, weight("b.weight", "two")) + one).numpy()


def test_simulated_it_is_torchs_fake_quantization() -> None:
    graph, scheme = quantized()
    made = insert(graph, scheme, simulate=True)
    verify(made)
    (got,) = compiled(made)(X)
    assert (
        np.abs(got - by_torch(scheme)).max() < 0.01
    )  # one step of a sum that lies between two may fall to the other side
    assert np.mean(np.abs(got - by_torch(scheme)) > 1e-5) < 0.02


def test_the_real_one_is_in_integers_and_gives_the_same() -> None:
    graph, scheme = quantized()
    made = insert(graph, scheme, simulate=False)
    verify(made)
    weights = [v for v in made.constants.values() if v.dtype == "i8"]
    assert len(weights) == 2
    (got,) = compiled(made.copy())(X)
    assert np.abs(got - by_torch(scheme)).max() < 0.02
    integer.run(made)
    dead_code.run(made)
    convolutions = [node for node in made.nodes if node.op == "conv2d"]
    assert [node.inputs[0].dtype for node in convolutions if node.inputs[0] is not None] == ["u8", "u8"]
    assert [node.output.dtype for node in convolutions] == ["u8", "f32"]


def test_the_graph_itself_is_left_alone() -> None:
    graph, scheme = quantized()
    before = [node.op for node in graph.nodes]
    insert(graph, scheme, simulate=False)
    assert [node.op for node in graph.nodes] == before
    verify(graph)
