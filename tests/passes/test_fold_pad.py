import pytest
import torch

from penlight.passes import fold_pad
from tests.passes.reference import assert_same_numbers, canonical, rewritten

CONV = 'conv2d(%p, @w, none, none, stride=[2, 2], padding=[{}], dilation=[1, 1], groups=1, act="", act_args=[])'


def conv(pad: str, before: str, type: str = "f32[1, 3, 9, 11]", value: str = "0.0", mode: str = "constant") -> str:
    return f"""
    graph g(%x: f32[1, 3, 8, 8]) {{
      @w: f32[4, 3, 3, 3]
      %p: {type} = pad(%x, padding=[{pad}], value={value}, mode="{mode}")
      %y: f32[1, 4, 4, 5] = {CONV.format(before)}
      return %y
    }}"""


def test_zeros_move_into_the_convolution() -> None:
    before = conv("1, 2, 0, 1", "0, 0, 0, 0")
    after = rewritten(fold_pad.run, before)
    assert after == canonical(before.replace("[0, 0, 0, 0]", "[0, 1, 1, 2]").replace("conv2d(%p", "conv2d(%x"))
    assert_same_numbers(fold_pad.run, before, [torch.randn(1, 3, 8, 8)])


def test_it_adds_to_what_is_there() -> None:
    before = conv("1, 0", "1, 0, 0, 1", "f32[1, 3, 8, 9]").replace("[1, 4, 4, 5]", "[1, 4, 4, 4]")
    assert "padding=[1, 1, 0, 1]" in rewritten(fold_pad.run, before)
    assert_same_numbers(fold_pad.run, before, [torch.randn(1, 3, 8, 8)])


@pytest.mark.parametrize(
    "text",
    [
        conv("1, 2, 0, 1", "0, 0, 0, 0", value="1.0"),
        conv("1, 2, 0, 1", "0, 0, 0, 0", mode="reflect"),
        conv("1, 2, -1, 2", "0, 0, 0, 0"),
        conv("1, 2, 0, 1, 1, 0", "0, 0, 0, 0", "f32[1, 4, 9, 11]"),
    ],
)
def test_other_values_modes_crops_and_channels_stay(text: str) -> None:
    assert rewritten(fold_pad.run, text) == canonical(text)


def pool(padding: str, ceil: str = "false", include: str = "false", divisor: str = "none") -> str:
    return f"""
    graph g(%x: f32[1, 3, 8, 8]) {{
      %p: f32[1, 3, 9, 9] = pad(%x, padding=[0, 1, 0, 1], value=0.0, mode="constant")
      %y: f32[1, 3, 4, 4] = avg_pool2d(%p, kernel=[3, 3], stride=[2, 2], padding=[{padding}], ceil_mode={ceil}, count_include_pad={include}, divisor={divisor})
      return %y
    }}"""


def test_averages_count_what_was_padded() -> None:
    after = rewritten(fold_pad.run, pool("0, 0, 0, 0"))
    assert "padding=[0, 0, 1, 1], ceil_mode=false, count_include_pad=true" in after
    assert "avg_pool2d(%x" in after
    for divisor in ("none", "7"):
        assert_same_numbers(fold_pad.run, pool("0, 0, 0, 0", divisor=divisor), [torch.randn(1, 3, 8, 8)])


@pytest.mark.parametrize(
    "text", [pool("0, 0, 0, 0", ceil="true"), pool("1, 1, 0, 0"), pool("0, 0, 1, 1", include="true")]
)
def test_averages_that_would_change_stay(text: str) -> None:
    assert rewritten(fold_pad.run, text) == canonical(text)


def test_maxima_stay() -> None:
    text = """
    graph g(%x: f32[1, 3, 8, 8]) {
      %p: f32[1, 3, 9, 9] = pad(%x, padding=[0, 1, 0, 1], value=0.0, mode="constant")
      %y: f32[1, 3, 4, 4] = max_pool2d(%p, kernel=[3, 3], stride=[2, 2], padding=[0, 0, 0, 0], dilation=[1, 1], ceil_mode=false)
      return %y
    }"""
    assert rewritten(fold_pad.run, text) == canonical(text)


def test_of_volumes() -> None:
    before = """
    graph g(%x: f32[1, 2, 4, 5, 6]) {
      @w: f32[4, 2, 3, 3, 3]
      %p: f32[1, 2, 5, 7, 9] = pad(%x, padding=[1, 2, 0, 2, 1, 0], value=0.0, mode="constant")
      %y: f32[1, 4, 3, 5, 7] = conv3d(%p, @w, none, none, stride=[1, 1, 1], padding=[0, 0, 0, 0, 0, 0], dilation=[1, 1, 1], groups=1, act="", act_args=[])
      return %y
    }"""
    assert "padding=[1, 0, 1, 0, 2, 2]" in rewritten(fold_pad.run, before)
    assert_same_numbers(fold_pad.run, before, [torch.randn(1, 2, 4, 5, 6)])
