import torch

from penlight.passes import matmul_to_linear
from tests.passes.reference import assert_same_numbers, canonical, rewritten


def test_products_with_a_constant_matrix() -> None:
    before = """
    graph g(%x: f32[2, 5, 3]) {
      @w: f32[3, 2] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
      %y: f32[2, 5, 2] = matmul(%x, @w)
      return %y
    }"""
    after = """
    graph g(%x: f32[2, 5, 3]) {
      @w: f32[3, 2] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
      @w_1: f32[2, 3] = [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]
      %linear_2: f32[2, 5, 2] = linear(%x, @w_1, none, none, act="", act_args=[])
      return %linear_2
    }"""
    assert rewritten(matmul_to_linear.run, before) == canonical(after)
    assert_same_numbers(matmul_to_linear.run, before, [torch.randn(2, 5, 3)])


def test_batches_of_matrices_and_constants_on_the_left_stay() -> None:
    text = """
    graph g(%x: f32[2, 5, 3]) {
      @w: f32[2, 3, 5]
      @v: f32[6, 5]
      %y: f32[2, 5, 5] = matmul(%x, @w)
      %z: f32[2, 6, 3] = matmul(@v, %x)
      return %y, %z
    }"""
    assert rewritten(matmul_to_linear.run, text) == canonical(text)
