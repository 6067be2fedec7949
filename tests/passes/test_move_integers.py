import pytest

from penlight.ir.graph import Graph
from penlight.passes import dead_code, move_integers
from tests.passes.reference import canonical, rewritten


def run(graph: Graph) -> int:
    return move_integers.run(graph) + dead_code.run(graph)


POOL = "max_pool2d({}, kernel=[2, 2], stride=[2, 2], padding=[0, 0, 0, 0], dilation=[1, 1], ceil_mode=false)"


def test_what_was_dequantized_is_moved_as_integers() -> None:
    before = f"""
graph g(%x: u8[1, 8, 6, 6] q(0.1, 3)) {{
  %a: f32[1, 8, 6, 6] = dequantize(%x)
  %m: f32[1, 8, 3, 3] = {POOL.format("%a")}
  %r: f32[72] = reshape(%m, shape=[72])
  return %r
}}"""
    after = f"""
graph g(%x: u8[1, 8, 6, 6] q(0.1, 3)) {{
  %max_pool2d_1: u8[1, 8, 3, 3] q(0.1, 3) = {POOL.format("%x")}
  %reshape_3: u8[72] q(0.1, 3) = reshape(%max_pool2d_1, shape=[72])
  %dequantize_4: f32[72] = dequantize(%reshape_3)
  return %dequantize_4
}}"""
    assert rewritten(run, before) == canonical(after)


def test_views_too() -> None:
    before = """
graph g(%x: u8[4, 8] q(0.1, 3)) {
  %a: f32[4, 8] = dequantize(%x)
  %p: f32[8, 4] = permute(%a, dims=[1, 0])
  %s: f32[2, 4] = slice(%p, dim=0, start=2, end=6, step=2)
  return %s
}"""
    after = """
graph g(%x: u8[4, 8] q(0.1, 3)) {
  %permute_1: u8[8, 4] q(0.1, 3) = permute(%x, dims=[1, 0])
  %slice_3: u8[2, 4] q(0.1, 3) = slice(%permute_1, dim=0, start=2, end=6, step=2)
  %dequantize_4: f32[2, 4] = dequantize(%slice_3)
  return %dequantize_4
}"""
    assert rewritten(run, before) == canonical(after)


def test_what_is_quantized_is_moved_as_integers() -> None:
    before = """
graph g(%x: f32[1, 8, 6, 6], %z: u8[1, 4, 6, 6] q(0.1, 3)) {
  %a: f32[1, 8, 6, 6] = exp(%x)
  %b: f32[1, 4, 6, 6] = dequantize(%z)
  %c: f32[1, 20, 6, 6] = cat(%a, %b, %a, dim=1)
  %p: f32[1, 20, 8, 8] = pad(%c, padding=[1, 1, 1, 1], value=0.5, mode="constant")
  %q: u8[1, 20, 8, 8] q(0.2, 5) = quantize(%p, low=0, high=200)
  return %q
}"""
    after = """
graph g(%x: f32[1, 8, 6, 6], %z: u8[1, 4, 6, 6] q(0.1, 3)) {
  %a: f32[1, 8, 6, 6] = exp(%x)
  %b: f32[1, 4, 6, 6] = dequantize(%z)
  %quantize_3: u8[1, 8, 6, 6] q(0.2, 5) = quantize(%a, low=0, high=200)
  %quantize_4: u8[1, 4, 6, 6] q(0.2, 5) = quantize(%b, low=0, high=200)
  %cat_5: u8[1, 20, 6, 6] q(0.2, 5) = cat(%quantize_3, %quantize_4, %quantize_3, dim=1)
  %pad_2: u8[1, 20, 8, 8] q(0.2, 5) = pad(%cat_5, padding=[1, 1, 1, 1], value=0.5, mode="constant")
  return %pad_2
}"""
    assert rewritten(run, before) == canonical(after)


STAYS = {
    "padding beyond the limits of a quantize": """
graph g(%x: f32[1, 8]) {
  %a: f32[1, 8] = exp(%x)
  %p: f32[1, 10] = pad(%a, padding=[1, 1], value=100.0, mode="constant")
  %q: u8[1, 10] q(0.5, 10) = quantize(%p, low=0, high=127)
  return %q
}""",
    "padding that no integer stands for": """
graph g(%x: u8[1, 8] q(0.1, 3)) {
  %a: f32[1, 8] = dequantize(%x)
  %p: f32[1, 10] = pad(%a, padding=[1, 1], value=0.5, mode="constant")
  return %p
}""",
    "two scales": """
graph g(%x: u8[1, 8] q(0.1, 3), %z: u8[1, 8] q(0.2, 3)) {
  %a: f32[1, 8] = dequantize(%x)
  %b: f32[1, 8] = dequantize(%z)
  %c: f32[2, 8] = cat(%a, %b, dim=0)
  return %c
}""",
    "weights, with a scale for each channel": """
graph g(%x: f32[1, 2]) {
  @w: i8[2, 4] q([0.1, 0.2], 0, axis=0)
  %a: f32[2, 4] = dequantize(@w)
  %p: f32[4, 2] = permute(%a, dims=[1, 0])
  return %p
}""",
    "a view that gives more than it reads": """
graph g(%x: u8[1, 8] q(0.1, 3)) {
  %a: f32[1, 8] = dequantize(%x)
  %e: f32[9, 8] = expand(%a, shape=[9, 8])
  return %e
}""",
    "read by others too": """
graph g(%x: f32[1, 8]) {
  %r: f32[8] = reshape(%x, shape=[8])
  %q: u8[8] q(0.1, 3) = quantize(%r, low=0, high=255)
  return %q, %r
}""",
    "a small part of what others read": """
graph g(%x: f32[100, 8]) {
  %e: f32[100, 8] = exp(%x)
  %s: f32[8] = select(%e, dim=0, index=3)
  %q: u8[8] q(0.1, 3) = quantize(%s, low=0, high=255)
  return %q, %e
}""",
}


@pytest.mark.parametrize("text", STAYS)
def test_what_would_change_numbers_or_cost_more_stays(text: str) -> None:
    assert rewritten(run, STAYS[text]) == canonical(STAYS[text])


def test_weights_take_on_another_shape() -> None:
    """Integers of a constant, with a scale for each channel, as a 1d convolution reshapes its weights; the channels stay a dim."""
    before = """
graph g() {
  @w: i8[2, 1, 3] q([0.5, 0.25], 0, axis=0) = [1, -2, 3, -4, 5, -6]
  %a: f32[2, 1, 3] = dequantize(@w)
  %b: f32[2, 1, 1, 3] = reshape(%a, shape=[2, 1, 1, 3])
  return %b
}"""
    after = """
graph g() {
  @w_1: i8[2, 1, 1, 3] q([0.5, 0.25], 0, axis=0) = [1, -2, 3, -4, 5, -6]
  %dequantize_2: f32[2, 1, 1, 3] = dequantize(@w_1)
  return %dequantize_2
}"""
    assert rewritten(run, before) == canonical(after)
    inner = before.replace("axis=0", "axis=2").replace("[0.5, 0.25]", "[0.5, 0.25, 1.0]")
    assert "q([0.5, 0.25, 1.0], 0, axis=3)" in rewritten(run, inner)
    assert "reshape" in rewritten(run, inner.replace("2, 1, 1, 3]", "6]"))
