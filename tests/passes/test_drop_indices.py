import pytest
import torch

from penlight.passes import drop_indices
from tests.passes.reference import assert_same_numbers, canonical, rewritten

WINDOW = "kernel=[2, 2], stride=[2, 2], padding=[0, 0, 0, 0], dilation=[1, 1], ceil_mode=false"


def graph(outputs: str, call: str, returns: str = "%y") -> str:
    return f"""
    graph g(%x: f32[2, 3, 6, 6]) {{
      {outputs} = {call}
      return {returns}
    }}"""


BOTH = "%y: f32[2, 3, {0}, {0}], %i: i64[2, 3, {0}, {0}]"


def test_text() -> None:
    before = graph(BOTH.format(3), f"max_pool_indices(%x, {WINDOW})")
    after = graph("%y: f32[2, 3, 3, 3]", f"max_pool2d(%x, {WINDOW})")
    assert rewritten(drop_indices.run, before) == canonical(after)
    assert_same_numbers(drop_indices.run, before, [torch.randn(2, 3, 6, 6)])


def test_of_a_whole_image() -> None:
    before = graph(BOTH.format(1), "adaptive_max_pool_indices(%x, size=[1, 1])")
    after = graph("%y: f32[2, 3, 1, 1]", "amax(%x, dims=[2, 3], keepdim=true)")
    assert rewritten(drop_indices.run, before) == canonical(after)
    assert_same_numbers(drop_indices.run, before, [torch.randn(2, 3, 6, 6)])


@pytest.mark.parametrize("returns", ["%i", "%y, %i"])
def test_indices_that_are_used_stay(returns: str) -> None:
    text = graph(BOTH.format(3), f"max_pool_indices(%x, {WINDOW})", returns)
    assert rewritten(drop_indices.run, text) == canonical(text)
