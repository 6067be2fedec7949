import pytest

from penlight.passes import unsigned
from tests.passes.reference import canonical, rewritten

BEFORE = """
graph g(%x: f32[1, 8]) {
  @w: i8[1, 8] q(0.5, 0) = [1, -2, 3, -4, 5, -6, 7, -128]
  %q: i8[1, 8] q(0.02, -3) = quantize(%x, low=-127, high=127)
  %v: i8[8] q(0.02, -3) = reshape(%q, shape=[8])
  %c: i8[16] q(0.02, -3) = cat(%v, %v, dim=0)
  %u: u8[1, 8] q(0.02, 7) = quantize(%x, low=0, high=127)
  %y: f32[16] = dequantize(%c)
  %z: f32[1, 8] = dequantize(%w)
  %t: f32[1, 8] = dequantize(%u)
  %s: f32[1, 8] = add(%z, %t)
  return %y, %s
}""".replace("%w)", "@w)")
AFTER = """
graph g(%x: f32[1, 8]) {
  @w: i8[1, 8] q(0.5, 0) = [1, -2, 3, -4, 5, -6, 7, -128]
  %q: u8[1, 8] q(0.02, 125) = quantize(%x, low=1, high=255)
  %v: u8[8] q(0.02, 125) = reshape(%q, shape=[8])
  %c: u8[16] q(0.02, 125) = cat(%v, %v, dim=0)
  %u: u8[1, 8] q(0.02, 7) = quantize(%x, low=0, high=127)
  %y: f32[16] = dequantize(%c)
  %z: f32[1, 8] = dequantize(@w)
  %t: f32[1, 8] = dequantize(%u)
  %s: f32[1, 8] = add(%z, %t)
  return %y, %s
}"""

STAYS = {
    "an output": """
graph g(%x: f32[1, 8]) {
  %q: i8[1, 8] q(0.02, -3) = quantize(%x, low=-128, high=127)
  %y: f32[1, 8] = dequantize(%q)
  return %y, %q
}""",
    "moved to an output": """
graph g(%x: f32[1, 8]) {
  %q: i8[1, 8] q(0.02, -3) = quantize(%x, low=-128, high=127)
  %v: i8[8] q(0.02, -3) = reshape(%q, shape=[8])
  %y: f32[1, 8] = dequantize(%q)
  return %y, %v
}""",
    "an input": """
graph g(%x: i8[1, 8] q(0.02, -3)) {
  %v: i8[8] q(0.02, -3) = reshape(%x, shape=[8])
  %y: f32[8] = dequantize(%v)
  return %y
}""",
    "joined with a constant": """
graph g(%x: f32[2]) {
  @w: i8[2] q(0.02, -3) = [1, -2]
  %q: i8[2] q(0.02, -3) = quantize(%x, low=-128, high=127)
  %c: i8[4] q(0.02, -3) = cat(%q, @w, dim=0)
  %y: f32[4] = dequantize(%c)
  return %y
}""",
}


def test_values_become_unsigned():
    assert rewritten(unsigned.run, BEFORE) == canonical(AFTER)
    assert rewritten(unsigned.run, AFTER) == canonical(AFTER)


@pytest.mark.parametrize("text", STAYS.values(), ids=STAYS.keys())
def test_what_callers_see_stays(text):
    assert rewritten(unsigned.run, text) == canonical(text)
