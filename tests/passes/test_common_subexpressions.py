import numpy as np

from penlight.passes import common_subexpressions
from tests.passes.reference import canonical, rewritten


def test_equal_nodes_and_equal_constants_merge() -> None:
    before = """
    graph g(%x: f32[2, 3]) {
      @w: f32[6, 3]
      @same: f32[6, 3]
      @other: f32[6, 3]
      @one: f32[] = [1.0]
      @one_i: i32[] = [1]
      @uno: f32[] = [1.0]
      %a: f32[2, 6] = linear(%x, @w, none, none, act="", act_args=[])
      %b: f32[2, 6] = linear(%x, @same, none, none, act="", act_args=[])
      %c: f32[2, 6] = linear(%x, @other, none, none, act="", act_args=[])
      %d: f32[2, 6] = add(%a, @one)
      %e: f32[2, 6] = add(%b, @uno)
      return %d, %e, %c
    }"""
    after = """
    graph g(%x: f32[2, 3]) {
      @w: f32[6, 3]
      @other: f32[6, 3]
      @one: f32[] = [1.0]
      @one_i: i32[] = [1]
      %a: f32[2, 6] = linear(%x, @w, none, none, act="", act_args=[])
      %c: f32[2, 6] = linear(%x, @other, none, none, act="", act_args=[])
      %d: f32[2, 6] = add(%a, @one)
      return %d, %d, %c
    }"""
    data = {"other": np.ones((6, 3), np.float32)}
    assert rewritten(common_subexpressions.run, before, data) == canonical(after)


def test_attributes_that_only_look_equal_differ() -> None:
    text = """
    graph g(%x: f32[2]) {
      @zero: f32[] = [0.0]
      @minus: f32[] = [-0.0]
      %a: f32[2] = clamp(%x, lo=0.0, hi=6.0)
      %b: f32[2] = clamp(%x, lo=-0.0, hi=6.0)
      %c: f32[2] = add(%x, @zero)
      %d: f32[2] = add(%x, @minus)
      %e: f32[1, 2] = reshape(%x, shape=[1, 2])
      %f: f32[2, 1] = reshape(%x, shape=[2, 1])
      return %a, %b, %c, %d, %e, %f
    }"""
    assert rewritten(common_subexpressions.run, text) == canonical(text)


def test_inner_blocks_use_what_is_there_and_branches_share_nothing() -> None:
    before = """
    graph g(%x: f32[2], %c: bool[]) {
      %a: f32[2] = exp(%x)
      %y: f32[2] = if(%c) () {
        %b: f32[2] = exp(%x)
        %p: f32[2] = neg(%b)
        return %p
      } () {
        %q: f32[2] = neg(%a)
        return %q
      }
      %z: f32[2] = neg(%a)
      return %y, %z
    }"""
    after = before.replace("        %b: f32[2] = exp(%x)\n", "").replace("neg(%b)", "neg(%a)")
    assert rewritten(common_subexpressions.run, before) == canonical(after)
