from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from penlight.ir import parse_graph
from penlight.ir.graph import Graph
from penlight.ir.types import Quant
from penlight.passes import dead_code, tables
from tests.ops.integers import quantized, stored
from tests.passes.reference import canonical, rewritten
from tests.vm import check
from tests.vm.quantized import engine


def run(graph: Graph) -> int:
    return tables.run(graph) + dead_code.run(graph)


def table(text: str) -> np.ndarray:
    graph = parse_graph(text)
    assert run(graph)
    (constant,) = graph.constants.values()
    assert constant.constant is not None
    return constant.constant


UNARY = """
graph g(%x: u8[2, 8] q(0.05, 100)) {{
  %a: f32[2, 8] = dequantize(%x)
  %h: f32[2, 8] = {}
  %q: u8[2, 8] q({}, {}) = quantize(%h, low={}, high={})
  return %q
}}"""


def test_a_function_of_one_number() -> None:
    after = """
graph g(%x: u8[2, 8] q(0.05, 100)) {
  @table: u8[256]
  %lookup_1: u8[2, 8] q(0.03, 7) = lookup(%x, @table)
  return %lookup_1
}"""
    assert rewritten(run, UNARY.format("hardswish(%a)", 0.03, 7, 0, 255)) == canonical(after)


def test_a_change_of_scale_and_none() -> None:
    text = """
graph g(%x: u8[2, 8] q(0.05, 100)) {{
  %a: f32[2, 8] = dequantize(%x)
  %q: u8[2, 8] q({}, 100) = quantize(%a, low=0, high=255)
  %y: u8[16] q({}, 100) = reshape(%q, shape=[16])
  return %y
}}"""
    assert "%lookup_1: u8[2, 8] q(0.1, 100) = lookup(%x, @table)" in rewritten(run, text.format(0.1, 0.1))
    x = quantized(np.arange(256, dtype=np.uint8).reshape(1, 64, 2, 2), 0.05, 100).contiguous(
        memory_format=torch.channels_last
    )
    got = table(text.format(0.1, 0.1))
    np.testing.assert_array_equal(got, stored(check.run("quantized::cat", [x, x], 1, 0.1, 100))[:, :64].reshape(256))
    theirs = stored(torch.ops.quantized.cat([x, x], 1, 0.1, 100))[:, :64].reshape(
        256
    )  # rounding depends on the processor
    assert abs(got.astype(int) - theirs).max() <= 1
    same = "graph g(%x: u8[2, 8] q(0.05, 100)) {\n%y: u8[16] q(0.05, 100) = reshape(%x, shape=[16])\nreturn %y\n}"
    assert rewritten(run, text.format(0.05, 0.05)) == canonical(same)


def test_a_chain_longer_than_python_may_recurse() -> None:
    """Stays in floats, like all beyond MOST_OPERATORS."""
    chain = "\n".join(f"  %v{i + 1}: f32[2, 8] = sin(%v{i})" for i in range(1500))
    graph = parse_graph(f"""
graph g(%x: u8[2, 8] q(0.05, 100)) {{
  %v0: f32[2, 8] = dequantize(%x)
{chain}
  %q: u8[2, 8] q(0.03, 7) = quantize(%v1500, low=0, high=255)
  return %q
}}""")
    assert run(graph) == 0


def test_several_operators_of_one_value() -> None:
    """x * sigmoid(x + 3) / 2, and its limits."""
    text = """
graph g(%x: u8[2, 8] q(0.05, 100)) {
  @three: f32[1] = [3.0]
  @two: f32[1] = [2.0]
  %a: f32[2, 8] = dequantize(%x)
  %b: f32[2, 8] = dequantize(%x)
  %s: f32[2, 8] = add(%b, @three)
  %t: f32[2, 8] = sigmoid(%s)
  %m: f32[2, 8] = mul(%a, %t)
  %d: f32[2, 8] = div(%m, @two)
  %q: u8[2, 8] q(0.02, 30) = quantize(%d, low=10, high=200)
  return %q
}"""
    x = (torch.arange(256).double() - 100) * 0.05
    steps = (x * torch.sigmoid(x + 3) / 2 / 0.02 + 30).clamp(10, 200).numpy()
    graph = parse_graph(text)
    assert run(graph)
    (constant,) = graph.constants.values()
    assert constant.constant is not None
    assert abs(constant.constant - steps).max() < 0.5001
    assert [n.op for n in graph.nodes] == ["lookup"]


STAYS = {
    "two values": """
graph g(%x: u8[2, 8] q(0.05, 100), %z: u8[2, 8] q(0.05, 100)) {
  %a: f32[2, 8] = dequantize(%x)
  %b: f32[2, 8] = dequantize(%z)
  %m: f32[2, 8] = maximum(%a, %b)
  %q: u8[2, 8] q(0.02, 30) = quantize(%m, low=0, high=255)
  return %q
}""",
    "numbers of their own for each place": """
graph g(%x: u8[2, 8] q(0.05, 100)) {
  @w: f32[8]
  %a: f32[2, 8] = dequantize(%x)
  %m: f32[2, 8] = mul(%a, @w)
  %q: u8[2, 8] q(0.02, 30) = quantize(%m, low=0, high=255)
  return %q
}""",
    "not of eight bits": """
graph g(%x: i32[2, 8] q(0.05, 100)) {
  %a: f32[2, 8] = dequantize(%x)
  %m: f32[2, 8] = relu(%a)
  %q: u8[2, 8] q(0.02, 30) = quantize(%m, low=0, high=255)
  return %q
}""",
    "repeated": """
graph g(%x: u8[1, 8] q(0.05, 100)) {
  @ones: f32[1, 1] = [1.0]
  %a: f32[1, 8] = dequantize(%x)
  %r: f32[2, 8] = expand(%a, shape=[2, 8])
  %m: f32[2, 8] = mul(%r, @ones)
  %q: u8[2, 8] q(0.02, 30) = quantize(%m, low=0, high=255)
  return %q
}""",
}


@pytest.mark.parametrize("text", STAYS)
def test_what_is_no_function_of_one_number_stays(text: str) -> None:
    assert rewritten(run, STAYS[text]) == canonical(STAYS[text])


LIMITED = """
graph g(%x: u8[2, 8] q(0.05, 100), %z: u8[2, 8] q(0.05, 100)) {{
  %a: f32[2, 8] = dequantize(%x)
  %b: f32[2, 8] = dequantize(%z)
  %s: f32[2, 8] = add(%a, %b)
  {}
  %q: u8[2, 8] q(0.1, {}) = quantize({}, low=0, high=255)
  return %q
}}"""


def test_a_relu_at_the_lowest_level_goes() -> None:
    text = LIMITED.format("%r: f32[2, 8] = relu(%s)", 0, "%r")
    after = LIMITED.format("", 0, "%s").replace("%q", "%quantize_1")
    assert rewritten(run, text) == canonical(after)


def test_limits_of_a_sum_are_taken_on_its_integers() -> None:
    text = LIMITED.format("%r: f32[2, 8] = clamp(%s, lo=0.0, hi=6.0)", 30, "%r")
    after = rewritten(run, text)
    assert "%quantize_1: u8[2, 8] q(0.1, 30) = quantize(%s, low=0, high=255)" in after
    assert "= lookup(%quantize_1, @table)" in after
    np.testing.assert_array_equal(table(text), np.arange(256).clip(30, 90))


ACTIVATIONS = {
    "hardswish(%a)": lambda x, s, z: torch.ops.quantized.hardswish(x, s, z),
    "leaky_relu(%a, negative_slope=0.1)": lambda x, s, z: torch.ops.quantized.leaky_relu(x, 0.1, False, s, z),
    "elu(%a, alpha=1.1, scale=1.0, input_scale=1.0)": lambda x, s, z: torch.ops.quantized.elu(x, s, z, 1.1),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_tables_are_torchs(name: str) -> None:
    """qnnpack's to the bit; those that torch computes in loops of its own, whose rounding depends on the processor, to a step."""
    rng = np.random.default_rng(0)
    exact = name.startswith("hardswish")
    x = np.arange(256, dtype=np.uint8)
    for _ in range(100):
        (a, b), (za, zb) = rng.uniform(0.001, 0.1, 2).tolist(), rng.integers(0, 256, 2).tolist()
        node = next(
            n for n in parse_graph(UNARY.format(name, b, zb, 0, 255)).nodes if n.op not in ("quantize", "dequantize")
        )
        with engine("qnnpack"):
            expected = stored(ACTIVATIONS[name](quantized(x, a, za), b, zb))  # type: ignore[no-untyped-call]
        got = tables.table_of(node, Quant.of(a, za), Quant.of(b, zb))
        assert abs(got.astype(int) - expected).max() <= (0 if exact else 1), (a, za, b, zb)
        assert (got != expected).mean() < 0.02


FIXED: dict[str, tuple[Any, float | None, int]] = {  # torch chooses the scale
    "tanh(%a)": (torch.tanh, 1 / 128, 128),
    "hardsigmoid(%a)": (F.hardsigmoid, 1 / 256, 0),
    "sigmoid(%a)": (torch.sigmoid, 1 / 256, 0),
    "relu(%a)": (torch.relu, None, 0),
    "clamp(%a, lo=0.0, hi=6.0)": (F.relu6, None, 0),
    "clamp(%a, lo=-0.73, hi=1.21)": (lambda x: torch.clamp(x, -0.73, 1.21), None, 0),
}


@pytest.mark.parametrize("name", FIXED)
def test_tables_of_functions_whose_scale_is_fixed(name: str) -> None:
    rng = np.random.default_rng(1)
    function, scale, zero = FIXED[name]
    x = np.arange(256, dtype=np.uint8)
    for _ in range(100):
        a, za = float(rng.uniform(0.001, 0.1)), int(rng.integers(0, 256))
        b, zb = (a, za) if scale is None else (scale, zero)
        node = next(
            n for n in parse_graph(UNARY.format(name, b, zb, 0, 255)).nodes if n.op not in ("quantize", "dequantize")
        )
        with engine("qnnpack"):
            expected = stored(function(quantized(x, a, za)))
        np.testing.assert_array_equal(tables.table_of(node, Quant.of(a, za), Quant.of(b, zb)), expected)
