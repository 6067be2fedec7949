import pytest

from penlight.passes import dynamic
from tests.passes.reference import canonical, rewritten

BEFORE = """
graph g(%x: f32[3, 4]) {
  @w: i8[2, 4] q([0.5, 0.25], 0, axis=0) = [1, -2, 3, -4, 5, -6, 7, -127]
  @b: f32[2] = [1.0, 2.0]
  %s: u8[3, 4] q(1.0, 0), %t: f32[2] = quantize_dynamic(%x, high=255, rule="torch", eps=0.0)
  %a: f32[3, 4] = dequantize_dynamic(%s, %t)
  %v: f32[2, 4] = dequantize(@w)
  %y: f32[3, 2] = linear(%a, %v, @b, none, act="gelu", act_args=[])
  return %y
}"""
AFTER = """
graph g(%x: f32[3, 4]) {
  @w: i8[2, 4] q([0.5, 0.25], 0, axis=0) = [1, -2, 3, -4, 5, -6, 7, -127]
  @b: f32[2] = [1.0, 2.0]
  %s: u8[3, 4] q(1.0, 0), %t: f32[2] = quantize_dynamic(%x, high=255, rule="torch", eps=0.0)
  %a: f32[3, 4] = dequantize_dynamic(%s, %t)
  %v: f32[2, 4] = dequantize(@w)
  %columns_dynamic_1: f32[2] = columns_dynamic(@b, %t, none, groups=1, zero=0)
  %y: f32[3, 2] = linear(%s, @w, %columns_dynamic_1, none, act="gelu", act_args=[])
  return %y
}"""

CONV = """
graph g(%x: f32[1, 2, 3, 3]) {{
  @w: i8[1, 2, 1, 1] q(0.5, 0) = [1, -2]
  @b: f32[1] = [1.0]
  %s: u8[1, 2, 3, 3] q(1.0, {zero}), %t: f32[2] = quantize_dynamic(%x, high=255, rule="{rule}", eps=0.0)
  %a: f32[1, 2, 3, 3] = dequantize_dynamic(%s, %t)
  %v: f32[1, 2, 1, 1] = dequantize(@w)
  %y: f32[1, 1, 5, 5] = conv2d(%a, %v, @b, none, stride=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1], groups=1, act="", act_args=[])
  return %y
}}"""


def test_before_after() -> None:
    assert rewritten(dynamic.run, BEFORE) == canonical(AFTER)


def test_padding_needs_a_zero_point_that_is_known() -> None:
    stays = CONV.format(zero=0, rule="torch")
    assert rewritten(dynamic.run, stays) == canonical(stays)
    assert "columns_dynamic" in rewritten(dynamic.run, CONV.format(zero=128, rule="fixed"))


@pytest.mark.parametrize(
    ("what", "instead"),
    [
        ("[0.5, 0.25], 0, axis=0", "[0.5, 0.25], [3, 0], axis=0"),
        ("[0.5, 0.25], 0, axis=0", "[1.0, 1.0, 0.5, 0.5], 0, axis=1"),
    ],
)
def test_weights_that_kernels_do_not_take_stay(what: str, instead: str) -> None:
    stays = BEFORE.replace(what, instead)
    assert rewritten(dynamic.run, stays) == canonical(stays)
