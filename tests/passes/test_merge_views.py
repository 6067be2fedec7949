import torch

from penlight.passes import merge_views
from tests.passes.reference import assert_same_numbers, canonical, rewritten

BEFORE = """
graph g(%x: f32[2, 3, 4]) {
  %a: f32[2, 4, 3] = permute(%x, dims=[0, 2, 1])
  %b: f32[4, 2, 3] = permute(%a, dims=[1, 0, 2])
  %c: f32[3, 4, 2] = permute(%b, dims=[-1, 0, 1])
  %d: f32[6, 4] = reshape(%x, shape=[6, 4])
  %e: f32[24] = reshape(%d, shape=[24])
  return %a, %c, %e
}"""
AFTER = """
graph g(%x: f32[2, 3, 4]) {
  %a: f32[2, 4, 3] = permute(%x, dims=[0, 2, 1])
  %b: f32[4, 2, 3] = permute(%x, dims=[2, 0, 1])
  %c: f32[3, 4, 2] = permute(%x, dims=[1, 2, 0])
  %d: f32[6, 4] = reshape(%x, shape=[6, 4])
  %e: f32[24] = reshape(%x, shape=[24])
  return %a, %c, %e
}"""


def test_views_of_views() -> None:
    assert rewritten(merge_views.run, BEFORE) == canonical(AFTER)
    assert_same_numbers(merge_views.run, BEFORE, [torch.randn(2, 3, 4)], 0.0)


def test_a_reshape_with_other_users_stays() -> None:
    text = """
    graph g(%x: f32[2, 3]) {
      %p: f32[3, 2] = permute(%x, dims=[1, 0])
      %a: f32[6] = reshape(%p, shape=[6])
      %b: f32[6, 1] = reshape(%a, shape=[6, 1])
      %c: f32[6] = relu(%a)
      return %b, %c
    }"""
    assert rewritten(merge_views.run, text) == canonical(text)


def test_a_permute_of_dims_of_size_1_is_a_reshape() -> None:
    before = """
    graph g(%x: f32[1, 4, n, 1]) {
      %a: f32[4, 1, 1, n] = permute(%x, dims=[1, 0, 3, 2])
      %b: f32[4, n] = reshape(%a, shape=[4, n])
      %c: f32[1, n, 4, 1] = permute(%x, dims=[0, 2, 1, 3])
      return %b, %c
    }"""
    after = """
    graph g(%x: f32[1, 4, n, 1]) {
      %a: f32[4, 1, 1, n] = reshape(%x, shape=[4, 1, 1, n])
      %b: f32[4, n] = reshape(%x, shape=[4, n])
      %c: f32[1, n, 4, 1] = permute(%x, dims=[0, 2, 1, 3])
      return %b, %c
    }"""
    assert rewritten(merge_views.run, before) == canonical(after)
    assert_same_numbers(merge_views.run, before, [torch.randn(1, 4, 3, 1)], 0.0)
