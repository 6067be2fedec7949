import pytest
import torch

from penlight.passes import fuse_activation, fuse_residual
from tests.passes.reference import assert_same_numbers, canonical, rewritten

REST = 'stride=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1], groups=1, act="", act_args=[]'


def test_text() -> None:
    before = f"""
    graph g(%x: f32[1, 4, 3, 3]) {{
      @w: f32[4, 4, 3, 3]
      %c: f32[1, 4, 3, 3] = conv2d(%x, @w, none, none, {REST})
      %y: f32[1, 4, 3, 3] = add(%x, %c)
      return %y
    }}"""
    after = f"""
    graph g(%x: f32[1, 4, 3, 3]) {{
      @w: f32[4, 4, 3, 3]
      %c: f32[1, 4, 3, 3] = conv2d(%x, @w, none, %x, {REST})
      return %c
    }}"""
    assert rewritten(fuse_residual.run, before) == canonical(after)


def test_the_later_convolution_takes_it_and_relu_follows() -> None:
    before = f"""
    graph g(%x: f32[1, 4, 3, 3]) {{
      @v: f32[4, 4, 3, 3]
      @w: f32[4, 4, 3, 3]
      %a: f32[1, 4, 3, 3] = conv2d(%x, @v, none, none, {REST})
      %b: f32[1, 4, 3, 3] = conv2d(%x, @w, none, none, {REST})
      %s: f32[1, 4, 3, 3] = add(%b, %a)
      %y: f32[1, 4, 3, 3] = relu(%s)
      return %y
    }}"""
    after = f"""
    graph g(%x: f32[1, 4, 3, 3]) {{
      @v: f32[4, 4, 3, 3]
      @w: f32[4, 4, 3, 3]
      %a: f32[1, 4, 3, 3] = conv2d(%x, @v, none, none, {REST})
      %b: f32[1, 4, 3, 3] = conv2d(%x, @w, none, %a, {REST.replace('act="", act_args=[]', 'act="clamp", act_args=[0.0, inf]')})
      return %b
    }}"""
    both = lambda g: fuse_residual.run(g) + fuse_activation.run(g)  # noqa: E731
    assert rewritten(both, before) == canonical(after)
    assert_same_numbers(both, before, [torch.randn(1, 4, 3, 3)])


def test_a_convolution_moves_down_to_what_it_adds() -> None:
    before = f"""
    graph g(%x: f32[1, 4, 3, 3]) {{
      @w: f32[4, 4, 3, 3]
      %c: f32[1, 4, 3, 3] = conv2d(%x, @w, none, none, {REST})
      %e: f32[1, 4, 3, 3] = exp(%x)
      %y: f32[1, 4, 3, 3] = add(%c, %e)
      return %y
    }}"""
    graph = assert_same_numbers(fuse_residual.run, before, [torch.randn(1, 4, 3, 3)])
    assert [n.op for n in graph.nodes] == ["exp", "conv2d"]


def test_chains_of_sums() -> None:
    before = f"""
    graph g(%x: f32[1, 4, 3, 3], %z: f32[1, 4, 3, 3]) {{
      @v: f32[4, 4, 3, 3]
      @w: f32[4, 4, 3, 3]
      %a: f32[1, 4, 3, 3] = conv2d(%x, @v, none, none, {REST})
      %b: f32[1, 4, 3, 3] = conv2d(%z, @w, none, none, {REST})
      %s: f32[1, 4, 3, 3] = add(%a, %b)
      %e: f32[1, 4, 3, 3] = exp(%z)
      %t: f32[1, 4, 3, 3] = add(%s, %e)
      return %t
    }}"""
    graph = assert_same_numbers(fuse_residual.run, before, [torch.randn(1, 4, 3, 3), torch.randn(1, 4, 3, 3)])
    assert [n.op for n in graph.nodes] == ["conv2d", "conv2d", "exp", "add"]


def test_linears() -> None:
    before = """
    graph g(%x: f32[2, 5, 4]) {
      @w: f32[4, 4]
      @position: f32[2, 5, 4]
      %c: f32[2, 5, 4] = linear(%x, @w, none, none, act="", act_args=[])
      %y: f32[2, 5, 4] = add(%c, @position)
      return %y
    }"""
    graph = assert_same_numbers(fuse_residual.run, before, [torch.randn(2, 5, 4)])
    assert [n.op for n in graph.nodes] == ["linear"]


def sum_of(call: str, other: str = "f32[1, 4, 3, 3]", result: str = "%y", act: str = "") -> str:
    return f"""
    graph g(%x: f32[1, 4, 3, 3], %z: {other}) {{
      @w: f32[4, 4, 3, 3]
      @k: f32[1, 4, 3, 3]
      %c: f32[1, 4, 3, 3] = conv2d(%x, @w, none, none, {REST.replace('act=""', f'act="{act}"')})
      %y: f32[1, 4, 3, 3] = {call}
      return {result}
    }}"""


STAYS = {
    "broadcast": sum_of("add(%c, %z)", "f32[1, 4, 1, 1]"),
    "two users": sum_of("add(%c, %z)", result="%y, %c"),
    "itself": sum_of("add(%c, %c)"),
    "activation before": sum_of("add(%c, %z)", act="silu"),
    "constant in plain order": sum_of("add(%c, @k)"),
    "difference": sum_of("sub(%c, %z)"),
}


@pytest.mark.parametrize("text", STAYS.values(), ids=STAYS.keys())
def test_what_does_not_fuse(text: str) -> None:
    assert rewritten(fuse_residual.run, text) == canonical(text)
