import numpy as np
import pytest
import torch

from penlight.ir import parse_graph
from penlight.passes import fold_affine
from tests.passes.reference import assert_same_numbers, canonical, rewritten


def after_conv(call: str, bias: str = "@b") -> str:
    return f"""
    graph g(%x: f32[2, 8, 5, 5]) {{
      @w: f32[6, 8, 3, 3]
      @b: f32[6]
      @each: f32[6, 1, 1]
      @row: f32[1, 6, 1, 1]
      @one: f32[]
      @pixel: f32[3, 3]
      @wide: f32[2, 6, 1, 1]
      %c: f32[2, 6, 3, 3] = conv2d(%x, @w, {bias}, none, stride=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=1, act="", act_args=[])
      %y: f32[2, 6, 3, 3] = {call}
      return %y
    }}"""


@pytest.mark.parametrize("bias", ["@b", "none"])
@pytest.mark.parametrize(
    "call", ["mul(%c, @each)", "mul(@row, %c)", "add(@one, %c)", "add(%c, @row)", "sub(%c, @each)", "div(%c, @one)"]
)
def test_constants_for_each_channel_fold(call: str, bias: str) -> None:
    graph = assert_same_numbers(fold_affine.run, after_conv(call, bias), [torch.randn(2, 8, 5, 5)])
    assert [n.op for n in graph.nodes] == ["conv2d"]


def test_into_linears() -> None:
    text = """
    graph g(%x: f32[2, 5, 8]) {
      @w: f32[6, 8]
      @s: f32[6]
      @b: f32[1, 1, 6]
      %c: f32[2, 5, 6] = linear(%x, @w, none, none, act="", act_args=[])
      %m: f32[2, 5, 6] = mul(%c, @s)
      %y: f32[2, 5, 6] = add(%m, @b)
      return %y
    }"""
    graph = assert_same_numbers(fold_affine.run, text, [torch.randn(2, 5, 8)])
    assert [n.op for n in graph.nodes] == ["linear"]


@pytest.mark.parametrize(
    "call", ["mul(%c, @pixel)", "mul(%c, @wide)", "sub(@each, %c)", "div(@one, %c)", "maximum(%c, @one)"]
)
def test_what_does_not_fold(call: str) -> None:
    assert rewritten(fold_affine.run, after_conv(call)) == canonical(after_conv(call))


def test_infinite_constants_stay() -> None:
    graph = parse_graph(after_conv("mul(%c, @row)"), {"row": np.full((1, 6, 1, 1), np.inf, np.float32)})
    assert fold_affine.run(graph) == 0


def test_weights_that_would_overflow_stay() -> None:
    """1e37 fits in f32, and so does its product with a small sum: its product with a weight need not."""
    weights = {"row": np.full((1, 6, 1, 1), 1e37, np.float32), "w": np.full((6, 8, 3, 3), 100, np.float32)}
    assert fold_affine.run(parse_graph(after_conv("mul(%c, @row)"), weights)) == 0
