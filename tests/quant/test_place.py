"""Which nodes compute in integers: the way between two convolutions, and nothing that integers do not go on from."""

from __future__ import annotations

from penlight.ir import parse_graph
from penlight.quant.place import layer_name, place

CHAIN = """
graph forward(%x: f32[1, 3, 8, 8]) {
  @a.weight: f32[8, 3, 3, 3]
  @b.weight: f32[8, 8, 1, 1]
  %one: f32[1, 8, 6, 6] = conv2d(%x, @a.weight, none, none, stride=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=1, act="clamp", act_args=[0.0, 6.0])
  %act: f32[1, 8, 6, 6] = sigmoid(%one)
  %two: f32[1, 8, 6, 6] = conv2d(%act, @b.weight, none, %one, stride=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=1, act="", act_args=[])
  %end: f32[1, 8, 6, 6] = sigmoid(%two)
  return %end
}
"""
STREAM = """
graph forward(%x: f32[4, 8]) {
  @a.weight: f32[8, 8]
  @b.weight: f32[8, 8]
  @g: f32[8]
  %n1: f32[4, 8] = softmax(%x, dim=1)
  %y1: f32[4, 8] = linear(%n1, @a.weight, none, %x, act="", act_args=[])
  %n2: f32[4, 8] = softmax(%y1, dim=1)
  %y2: f32[4, 8] = linear(%n2, @b.weight, none, %y1, act="", act_args=[])
  return %y2
}
"""


def test_between_convolutions() -> None:
    graph = parse_graph(CHAIN)
    found = place(graph)
    assert found.integer == {"one", "act", "two"}
    assert found.stored == {"x", "one", "act"}
    assert [layer_name(node) for node in graph.nodes] == ["a", "act", "b", "end"]


def test_what_is_kept_feeds_nothing() -> None:
    found = place(parse_graph(CHAIN), ["a"])
    assert found.integer == {"two"}
    assert found.stored == {"act"}
    assert place(parse_graph(CHAIN), ["sigmoid"]).integer == {"one", "two"}
    assert place(parse_graph(CHAIN), ["*"]).integer == set()


def test_a_stream_of_residuals_between_floats_stays_real() -> None:
    found = place(parse_graph(STREAM))
    assert found.integer == {"y1", "y2"}
    assert found.stored == {"n1", "n2"}


def test_products_that_integers_cannot_hold_stay_in_floats() -> None:
    """Sums beyond 32 bits; a bias that only a run tells."""
    text = """
    graph forward(%x: f32[1, DEPTH], %b: f32[2]) {
      @a.weight: f32[2, DEPTH]
      %y: f32[1, 2] = linear(%x, @a.weight, BIAS, none, act="", act_args=[])
      return %y
    }
    """
    ways = {(1000, "none"): {"y"}, (70_000, "none"): set(), (1000, "%b"): set()}
    for (depth, bias), expected in ways.items():
        assert place(parse_graph(text.replace("DEPTH", str(depth)).replace("BIAS", bias))).integer == expected


def test_what_integer_kernels_refuse_stays_in_floats() -> None:
    """A mean of more bytes than 32 bits can sum; resizing by cubics."""
    text = """
    graph forward(%x: f32[1, 1, SIZE, SIZE]) {
      @a.weight: f32[2, 1, 1, 1]
      @b.weight: f32[3, 2, 1, 1]
      %a: f32[1, 2, SIZE, SIZE] = conv2d(%x, @a.weight, none, none, stride=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=1, act="", act_args=[])
      %m: f32[1, 2, 1, 1] = MEAN
      %b: f32[1, 3, 1, 1] = conv2d(%m, @b.weight, none, none, stride=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=1, act="", act_args=[])
      return %b
    }
    """
    mean = "mean(%a, dims=[2, 3], keepdim=true)"
    resize = 'resize(%a, size=[1, 1], mode="MODE", align_corners=false, antialias=false, scales=[])'
    ways = {
        (2000, mean): True,
        (3000, mean): False,
        (9, resize.replace("MODE", "linear")): True,
        (9, resize.replace("MODE", "cubic")): False,
    }
    for (size, call), expected in ways.items():
        graph = parse_graph(text.replace("SIZE", str(size)).replace("MEAN", call))
        assert ("m" in place(graph).integer) == expected, call


def products(right: str) -> str:
    return f"""
graph forward(%x: f32[4, 8]) {{
  @a.weight: f32[16, 8]
  @b.weight: f32[8, 4]
  %a: f32[4, 16] = linear(%x, @a.weight, none, none, act="", act_args=[])
  %left: f32[4, 8] = slice(%a, dim=1, start=0, end=8, step=1)
  %part: f32[4, 8] = slice(%a, dim=1, start=8, end=16, step=1)
  %right: f32[8, 4] = {right}
  %product: f32[4, 4] = matmul(%left, %right)
  %b: f32[4, 8] = linear(%product, @b.weight, none, none, act="", act_args=[])
  return %b
}}"""


def test_products_of_integers_through_views() -> None:
    found = place(parse_graph(products("permute(%part, dims=[1, 0])")))
    assert found.integer == {"a", "left", "part", "right", "product", "b"}
    assert found.stored == {"x", "a", "left", "part", "right", "product"}
    assert {found.root(name) for name in ("a", "left", "part", "right")} == {"a"}
    assert found.root("product") == "product"


def test_products_with_floats_stay_floats() -> None:
    text = products("softmax(%turned, dim=1)").replace(
        "  %right", "  %turned: f32[8, 4] = permute(%part, dims=[1, 0])\n  %right"
    )
    found = place(parse_graph(text))
    assert found.integer == {"a", "b"}
    assert found.stored == {"x", "product"}


def test_attention_of_integers() -> None:
    text = """
graph forward(%x: f32[4, 8], %m: f32[4, 4]) {
  @a.weight: f32[24, 8]
  @b.weight: f32[8, 8]
  %a: f32[4, 24] = linear(%x, @a.weight, none, none, act="", act_args=[])
  %q: f32[4, 8] = slice(%a, dim=1, start=0, end=8, step=1)
  %k: f32[4, 8] = slice(%a, dim=1, start=8, end=16, step=1)
  %v: f32[4, 8] = slice(%a, dim=1, start=16, end=24, step=1)
  %y: f32[4, 8] = attention(%q, %k, %v, %m, scale=0.5, causal=false)
  %b: f32[4, 8] = linear(%y, @b.weight, none, none, act="", act_args=[])
  return %b
}"""
    found = place(parse_graph(text))
    assert found.integer == {"a", "q", "k", "v", "y", "b"}
    assert found.stored == {"x", "a", "q", "k", "v", "y"}
    found = place(parse_graph(text.replace("linear(%y", "linear(%x")))
    assert "y" not in found.integer
