import pytest
import torch

from penlight.passes import fold_batch_norm, fuse_activation, fuse_residual, merge_views, remove_identity, sink_reshape
from tests.passes.reference import assert_same_numbers, canonical, rewritten

REST = 'stride=[1, 1], padding=[0, 1, 0, 1], dilation=[1, 1], groups=1, act="", act_args=[]'


def conv1d(lines: str, result: str = "%y") -> str:
    return f"""
    graph g(%x: f32[2, 6, n]) {{
      @w: f32[6, 6, 1, 3]
      @mean: f32[6]
      @var: f32[6]
      %i: f32[2, 6, 1, n] = reshape(%x, shape=[2, 6, 1, n])
      %c: f32[2, 6, 1, n] = conv2d(%i, @w, none, none, {REST})
      %r: f32[2, 6, n] = reshape(%c, shape=[2, 6, n])
      {lines}
      return {result}
    }}"""


def test_text() -> None:
    after = f"""
    graph g(%x: f32[2, 6, n]) {{
      @w: f32[6, 6, 1, 3]
      @mean: f32[6]
      @var: f32[6]
      %i: f32[2, 6, 1, n] = reshape(%x, shape=[2, 6, 1, n])
      %c: f32[2, 6, 1, n] = conv2d(%i, @w, none, none, {REST})
      %relu_1: f32[2, 6, 1, n] = relu(%c)
      %reshape_2: f32[2, 6, n] = reshape(%relu_1, shape=[2, 6, n])
      return %reshape_2
    }}"""
    assert rewritten(sink_reshape.run, conv1d("%y: f32[2, 6, n] = relu(%r)")) == canonical(after)


def test_everything_fuses_into_a_conv1d() -> None:
    lines = """
      %b: f32[2, 6, n] = batch_norm(%r, none, none, @mean, @var, eps=0.001)
      %s: f32[2, 6, n] = add(%b, %x)
      %y: f32[2, 6, n] = hardswish(%s)"""

    def passes(g):  # type: ignore[no-untyped-def]
        for _ in range(3):
            for each in (sink_reshape, fold_batch_norm, fuse_residual, merge_views, remove_identity):
                each.run(g)
        fuse_activation.run(g)
        return 1

    graph = assert_same_numbers(passes, conv1d(lines), [torch.randn(2, 6, 9)])
    assert [n.op for n in graph.nodes if n.op != "reshape"] == ["conv2d"]
    conv = next(n for n in graph.nodes if n.op == "conv2d")
    assert conv.attrs["act"] == "hardswish"
    assert conv.inputs[3] is not None


STAYS = {
    "other user": conv1d("%y: f32[2, 6, n] = relu(%r)", "%y, %r"),
    "other shape": conv1d("%y: f32[2, 2, 6, n] = add(%r, %z)").replace("%x: f32[2, 6, n])", "%x: f32[2, 6, n], %z: f32[2, 1, 6, n])"),
    "channels elsewhere": conv1d("%y: f32[n, 6, 2] = batch_norm(%r, none, none, @mean, @var, eps=0.001)").replace("%r: f32[2, 6, n] = reshape(%c, shape=[2, 6, n])", "%r: f32[6, 2, n] = reshape(%c, shape=[6, 2, n])"),
}  # fmt: skip


@pytest.mark.parametrize("text", STAYS.values(), ids=STAYS.keys())
def test_what_stays(text: str) -> None:
    assert rewritten(sink_reshape.run, text) == canonical(text)
