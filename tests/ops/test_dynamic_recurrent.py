"""Recurrent layers whose state is quantized at every step: torch's numbers on every instruction set, and files that do not add up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import penlight
from penlight import _runtime
from penlight.file.writer import to_array
from penlight.ir.graph import Graph, Method, Node, Program
from penlight.ir.parse import parse_graph
from penlight.ir.types import Quant, TensorType
from penlight.lower import lower
from penlight.passes.pipeline import optimize
from tests.graphs import compiled
from tests.vm.quantized import engine

pytestmark = pytest.mark.filterwarnings("ignore")
ISAS = [str(isa) for isa in _runtime.isas()]
GATES = {"lstm": 4, "gru": 3}
SHAPES = [(1, 1, 1), (3, 1, 5), (4, 3, 16), (2, 9, 33), (3, 60, 20), (2, 2, 130)]  # steps, batch, hidden units


def network(kind: str, dims: Any, w: Any, b: Any, high: int = 255, reverse: bool = False, rule: str = "torch") -> Graph:
    """A layer whose gates come from outside. The weight: integers, or a tensor of torch."""
    steps, batch, hidden = dims
    width, size = GATES.get(kind, 1) * hidden, f"f32[{batch}, {hidden}]"
    c, c_out = (f", %c: {size}", f", %d: {size}") if kind == "lstm" else ("", "")
    more = ', nonlinearity="relu"' if kind == "rnn" else ""
    graph = parse_graph(
        f"""graph forward(%x: f32[{steps}, {batch}, {width}], %h: {size}{c}) {{
      @w: i8[{width}, {hidden}] q(1.0, 0)
      @b: f32[{width}]
      %y: f32[{steps}, {batch}, {hidden}], %g: {size}{c_out} = {kind}_dynamic(%x, @w, %h{", %c" if c else ""}, @b, reverse={str(reverse).lower()}, high={high}, rule="{rule}"{more})
      return %y, %g{", %d" if c else ""}
    }}""",
        {"w": w.int_repr().numpy(), "b": b.numpy()},
    )
    per_channel = w.qscheme() == torch.per_channel_affine
    scales = w.q_per_channel_scales().tolist() if per_channel else [w.q_scale()]
    quant = Quant(tuple(scales), (0,) * len(scales), 0 if per_channel else None)
    graph.constants["w"].type = TensorType("i8", tuple(w.shape), quant)
    return graph


def weights(rng: torch.Generator, outputs: int, inputs: int, per_channel: bool) -> tuple[torch.Tensor, torch.Tensor]:
    real, bias = torch.randn(outputs, inputs, generator=rng), torch.randn(outputs, generator=rng) * 0.2
    scales = torch.rand(outputs, generator=rng).double() * 0.01 + 0.001
    if not per_channel:
        return torch.quantize_per_tensor(real / inputs**0.5, 0.01, 0, torch.qint8), bias
    zeros = torch.zeros(outputs, dtype=torch.int64)
    return torch.quantize_per_channel(real / inputs**0.5, scales, zeros, 0, torch.qint8), bias


def apart(got: Any, expected: torch.Tensor) -> float:
    return float((torch.as_tensor(got) - expected).abs().max() / expected.abs().max().clamp(min=1e-3))


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("dims", SHAPES, ids=str)
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_torch(kind: str, dims: tuple[int, int, int], per_channel: bool) -> None:
    """One layer of torch's, all of it: its input's product is torch's own linear_dynamic. The integers of each step are exact, sigmoid and tanh
    are not: with one step nothing but those differs, with more a last bit of a state may be another level in the next step."""
    steps, batch, hidden = dims
    rng = torch.Generator().manual_seed(hidden)
    width = GATES[kind] * hidden
    (w_ih, b_ih), (w_hh, b_hh) = weights(rng, width, 7, per_channel), weights(rng, width, hidden, per_channel)
    x, h, c = (torch.randn(s, generator=rng) for s in ((steps, batch, 7), (1, batch, hidden), (1, batch, hidden)))
    for name, high in (("qnnpack", 255), ("fbgemm", 127)):
        with engine(name):
            products = [torch.ops.quantized.linear_prepack(w, b) for w, b in ((w_ih, b_ih), (w_hh, b_hh))]
            zeros = torch.zeros(width)
            cell = torch.ops.quantized.make_quantized_cell_params_dynamic(*products, zeros, zeros, high == 127)
            gates = torch.ops.quantized.linear_dynamic(x, products[0], high == 127)
            states: Any = [h, c] if kind == "lstm" else h
            call = torch.ops.aten.quantized_lstm.input if kind == "lstm" else torch.ops.aten.quantized_gru.input
            expected = call(x, states, [cell], True, 1, 0.0, False, False, False)
        given = [t.numpy() for t in (gates, h[0], c[0])[: 3 if kind == "lstm" else 2]]
        for isa in ISAS if name == "qnnpack" else ISAS[-1:]:
            got = compiled(network(kind, dims, w_hh, b_hh, high), isa=isa)(*given)
            for a, b in zip(got, expected, strict=True):
                assert apart(a, b.reshape(a.shape)) <= (1e-6 if steps == 1 else 5e-3), (name, isa)


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_backwards_is_forwards_of_the_reverse(kind: str) -> None:
    rng = torch.Generator().manual_seed(3)
    dims = (5, 3, 21)
    w, b = weights(rng, GATES.get(kind, 1) * 21, 21, True)
    x = torch.randn(5, 3, GATES.get(kind, 1) * 21, generator=rng)
    states = [torch.randn(3, 21, generator=rng).numpy() for _ in range(2 if kind == "lstm" else 1)]
    forwards, backwards = (compiled(network(kind, dims, w, b, reverse=r)) for r in (False, True))
    first, second = forwards(x.numpy(), *states), backwards(x.flip(0).numpy(), *states)
    assert np.array_equal(first[0], second[0][::-1])
    assert all(np.array_equal(a, c) for a, c in zip(first[1:], second[1:], strict=True))


def relu_layer() -> tuple[Graph, list[np.ndarray], list[np.ndarray]]:
    """A graph, its inputs and qnnpack's results. There is nothing in it but products and sums: every step has torch's bits."""
    rng = torch.Generator().manual_seed(4)
    w, b = weights(rng, 37, 37, False)
    x, h = torch.randn(6, 5, 37, generator=rng), torch.randn(5, 37, generator=rng)
    ys, state = [], h
    with engine("qnnpack"):
        packed = torch.ops.quantized.linear_prepack(w, b)
        for gates in x:
            state = torch.relu(torch.ops.quantized.linear_dynamic(state, packed, False) + gates)
            ys.append(state)
    graph = network("rnn", (6, 5, 37), w, b)
    return graph, [x.numpy(), h.numpy()], [torch.stack(ys).numpy(), state.numpy()]


def test_relu_has_qnnpacks_bits() -> None:
    """On every instruction set and for any number of threads; tests/runtime/test_arm.py has the others."""
    graph, inputs, expected = relu_layer()
    for isa in ISAS:
        for threads in (1, 2):
            got = compiled(graph.copy(), isa=isa, threads=threads)(*inputs)
            assert all(map(np.array_equal, got, expected)), isa


def test_pt2e_keeps_small_numbers() -> None:
    """A state of 1e-4 has 256 levels by this rule, by torch's two."""
    rng = torch.Generator().manual_seed(5)
    w, b = weights(rng, 20, 20, True)
    x, h = torch.zeros(1, 2, 20), torch.rand(2, 20, generator=rng) * 1e-4
    expected = torch.relu(h @ w.dequantize().T + b)
    errors = []
    for rule in ("pt2e", "torch"):
        y, _ = compiled(network("rnn", (1, 2, 20), w, b, rule=rule))(x.numpy(), h.numpy())
        errors.append(float((torch.as_tensor(y[0]) - expected).abs().max()))
    assert errors[0] < 1e-6 < 1e-5 < errors[1]


def test_nothing() -> None:
    """No steps: the states as they were. No rows: none."""
    w, b = weights(torch.Generator().manual_seed(6), 24, 6, False)
    h, c = np.ones((2, 6), np.float32), np.full((2, 6), 3, np.float32)
    y, last, memory = compiled(network("lstm", (0, 2, 6), w, b))(np.zeros((0, 2, 24), np.float32), h, c)
    assert y.shape == (0, 2, 6)
    assert np.array_equal(last, h)
    assert np.array_equal(memory, c)
    results = compiled(network("lstm", (3, 0, 6), w, b))(np.zeros((3, 0, 24), np.float32), h[:0], c[:0])
    assert [r.shape for r in results] == [(3, 0, 6), (0, 6), (0, 6)]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_state_that_is_not_finite(value: float) -> None:
    """torch finds no scale for it either."""
    w, b = weights(torch.Generator().manual_seed(7), 18, 6, False)
    x, h = np.zeros((2, 3, 18), np.float32), np.zeros((3, 6), np.float32)
    h[2, 5] = value
    with pytest.raises(penlight.RunError, match="a finite state"):
        compiled(network("gru", (2, 3, 6), w, b))(x, h)
    x[0, 1, 17], h[2, 5] = float("nan"), 0  # found at the next step
    with pytest.raises(penlight.RunError, match="before step 1"):
        compiled(network("gru", (2, 3, 6), w, b))(x, h)


# ---- files that do not add up: changed after lowering ----
def attribute(name: str, value: Any) -> Callable[[Node], None]:
    return lambda node: node.attrs.__setitem__(name, value)


def constant(index: int, type: TensorType, array: np.ndarray | None = None, layout: str = "") -> Callable[[Node], None]:
    def change(node: Node) -> None:
        value = node.inputs[index]
        assert value is not None
        value.type, value.constant = type, value.constant if array is None else array
        value.layout = layout or value.layout

    return change


def left_out(node: Node) -> None:
    node.inputs[-1] = None


I8 = Quant.of(0.1, 0)
BROKEN: dict[str, tuple[Callable[[Node], None], str]] = {
    "levels 0": (attribute("high", 0), "highest level"),
    "levels 256": (attribute("high", 256), "highest level"),
    "huge levels": (attribute("high", 1 << 40), "highest level"),
    "unknown rule": (attribute("rule", "fixed"), "torch or pt2e"),
    "no rule": (attribute("rule", ""), "torch or pt2e"),
    "short weight": (constant(1, TensorType("i8", (24, 6), I8), np.zeros(100, np.int8)), "."),
    "weight said to be larger": (constant(1, TensorType("i8", (24, 4000), I8)), "fits the gates"),
    "of more gates": (constant(1, TensorType("i8", (2400, 6), I8)), "fits the gates"),
    "of two weights, with the bytes of one": (constant(1, TensorType("i8", (24, 12), I8)), "as many bytes"),
    "of rank 1": (constant(1, TensorType("i8", (24,), I8)), "."),
    "not packed": (constant(1, TensorType("i8", (24, 6), I8), np.zeros((24, 6), np.int8), "plain"), "quads16"),
    "of floats": (constant(1, TensorType("f32", (24, 6)), np.zeros((24, 6), np.float32), "plain"), "dtype"),
    "no columns": (left_out, "four numbers"),
    "few columns": (constant(4, TensorType("i32", (4, 16)), np.zeros((4, 16), np.int32)), "four numbers"),
    "three rows of columns": (constant(4, TensorType("i32", (3, 32)), np.zeros((3, 32), np.int32)), "four numbers"),
    "columns of floats": (constant(4, TensorType("f32", (4, 32)), np.zeros((4, 32), np.float32)), "four numbers"),
    "columns to no panel": (constant(4, TensorType("i32", (4, 24)), np.zeros((4, 24), np.int32)), "four numbers"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files(case: str) -> None:
    w, b = weights(torch.Generator().manual_seed(8), 24, 6, False)
    graph = network("lstm", (2, 3, 6), w, b)
    spec = {"args": [0, 1, 2], "kwargs": {}, "names": ["x", "h", "c"]}
    program = Program({"forward": Method(graph, spec, {"tuple": [0, 1, 2]})})
    optimize(program)
    lower(program)
    change, words = BROKEN[case]
    (node,) = (n for n in program.methods["forward"].graph.walk() if n.op == "lstm_dynamic")
    change(node)
    inputs = [torch.zeros(2, 3, 24), torch.zeros(3, 6), torch.zeros(3, 6)]
    with pytest.raises(penlight.PenlightError, match=words):
        penlight.load(bytes(to_array(program)))(*inputs)


@pytest.mark.parametrize("which", ["x", "h", "c"])
def test_sizes_that_do_not_fit(which: str) -> None:
    """Of a graph whose types say so: only the runtime's rule looks at them."""
    w, b = weights(torch.Generator().manual_seed(9), 24, 6, False)
    graph = network("lstm", (2, 3, 6), w, b)
    (value,) = (v for v in graph.inputs if v.name == which)
    value.type = TensorType("f32", (2, 3, 26) if which == "x" else (3, 7))
    given = [np.zeros(v.shape, np.float32) for v in graph.inputs]
    with pytest.raises(penlight.PenlightError, match="gates|a state"):
        compiled(graph)(*given)
