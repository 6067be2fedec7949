"""Where values lie, which conversions are made, and that outputs belong to the caller."""

import pytest
import torch

import penlight
from penlight.ir import Graph, parse_graph, print_graph
from penlight.ir.verify import verify
from penlight.passes import dead_code, flatten_linear, layout
from tests.passes.reference import assert_same_numbers, canonical

CONV = 'conv2d({}, @w, none, none, stride=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1], groups=1, act="", act_args=[])'
SHAPE = "f32[1, 8, 6, 6]"


def laid_out(text: str) -> Graph:
    graph = parse_graph(text)
    layout.run(graph)
    verify(graph, laid_out=True)
    return graph


def graph(*lines: str, inputs: str = f"%x: {SHAPE}", returns: str = "%y") -> str:
    body = "".join(f"\n      {line}" for line in lines)
    return f"\n    graph g({inputs}) {{\n      @w: f32[8, 8, 3, 3]\n      @each: f32[8, 1, 1] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]{body}\n      return {returns}\n    }}"


def copies(g: Graph) -> list[str]:
    return [repr(n) for n in g.nodes if n.op == "copy"]


def test_text() -> None:
    before = graph(f"%c: {SHAPE} = {CONV.format('%x')}", f"%y: {SHAPE} = sigmoid(%c)")
    after = graph(
        f"%copy_1: {SHAPE} nhwc = copy(%x, force=false)",
        f"%c: {SHAPE} nhwc = {CONV.format('%copy_1')}",
        f"%y: {SHAPE} nhwc = sigmoid(%c)",
        f"%copy_2: {SHAPE} = copy(%y, force=true)",
        returns="%copy_2",
    )
    assert print_graph(laid_out(before)) == canonical(after)


def test_no_conversion_inside() -> None:
    g = laid_out(graph(
        f"%a: {SHAPE} = {CONV.format('%x')}",
        f"%b: {SHAPE} = mul(%a, @each)",
        "%m: f32[1, 8, 1, 1] = mean(%b, dims=[2, 3], keepdim=true)",
        "%s: f32[1, 8, 1, 1] = sigmoid(%m)",
        f"%c: {SHAPE} = mul(%s, %b)",
        f"%d: {SHAPE} = {CONV.format('%c')}",
        f"%e: {SHAPE} = max_pool2d(%d, kernel=[3, 3], stride=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1], ceil_mode=false)",
        "%f: f32[1, 16, 6, 6] = cat(%d, %e, dim=1)",
        f"%h: {SHAPE} = slice(%f, dim=1, start=0, end=8, step=1)",
        f"%i: {SHAPE} = {CONV.format('%h')}",
        "%y: f32[1, 8] = mean(%i, dims=[2, 3], keepdim=false)",
    ))  # fmt: skip
    assert copies(g) == ["%copy_1 = copy(%x)"]
    layouts = {o.name: o.layout for n in g.nodes for o in n.outputs}
    assert layouts.pop("y") == "plain"
    assert layouts.pop("h") == "strided"
    assert set(layouts.values()) == {"nhwc"}


def test_what_comes_before_the_first_convolution_is_nhwc_too() -> None:
    g = laid_out(
        graph(
            f"%n: {SHAPE} = sub(%x, @each)",
            f"%c: {SHAPE} = {CONV.format('%n')}",
            "%y: f32[1, 8] = mean(%c, dims=[2, 3], keepdim=false)",
        )
    )
    assert copies(g) == ["%copy_1 = copy(%x)"]
    assert g.nodes[1].inputs[0] is g.nodes[0].output
    assert g.nodes[1].output.layout == "nhwc"


def test_an_input_is_converted_once_and_residuals_use_it() -> None:
    g = laid_out(graph(f"%a: {SHAPE} = {CONV.format('%x')}", f"%b: {SHAPE} = {CONV.format('%x')}", f"%s: {SHAPE} = add(%a, %x)",
                       f"%t: {SHAPE} = mul(%s, %b)", "%y: f32[1, 8] = mean(%t, dims=[2, 3], keepdim=false)"))  # fmt: skip
    assert copies(g) == ["%copy_1 = copy(%x)"]
    assert g.inputs[0].users == [g.nodes[0]]


def test_one_channel_lies_both_ways() -> None:
    text = graph(
        'f', inputs="%x: f32[1, 1, 6, 6]"
    ).replace("\n      f", '\n      %c: f32[1, 8, 6, 6] = conv2d(%x, @v, none, none, stride=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1], groups=1, act="", act_args=[])\n      %y: f32[1, 8] = mean(%c, dims=[2, 3], keepdim=false)').replace("@w: f32[8, 8, 3, 3]", "@v: f32[8, 1, 3, 3]")  # fmt: skip
    assert copies(laid_out(text)) == []


def test_graphs_without_channels_stay_plain() -> None:
    g = laid_out(
        """
    graph g(%q: f32[2, 4, 9, 8], %k: f32[2, 9, 4, 8]) {
      %p: f32[2, 4, 9, 8] = permute(%k, dims=[0, 2, 1, 3])
      %s: f32[2, 4, 9, 8] = add(%q, %p)
      %y: f32[2, 4, 9, 8] = softmax(%s, dim=3)
      return %y
    }"""
    )
    assert copies(g) == []
    assert [n.output.layout for n in g.nodes] == ["strided", "plain", "plain"]


def test_permuted_rows_are_channels_already() -> None:
    """Swin and ConvNeXt: linears on [N, H, W, C] between convolutions on [N, C, H, W]."""
    g = laid_out(
        """
    graph g(%x: f32[1, 6, 6, 8]) {
      @w: f32[8, 8, 3, 3]
      @v: f32[8, 8]
      %a: f32[1, 6, 6, 8] = linear(%x, @v, none, none, act="", act_args=[])
      %p: f32[1, 8, 6, 6] = permute(%a, dims=[0, 3, 1, 2])
      %c: f32[1, 8, 6, 6] = CONV
      %q: f32[1, 6, 6, 8] = permute(%c, dims=[0, 2, 3, 1])
      %y: f32[1, 6, 6, 8] = linear(%q, @v, none, none, act="", act_args=[])
      return %y
    }""".replace("CONV", CONV.format("%p"))
    )
    assert copies(g) == []


def test_patches_of_a_vision_transformer() -> None:
    g = laid_out(
        graph(
            f"%c: {SHAPE} = {CONV.format('%x')}",
            "%r: f32[1, 8, 36] = reshape(%c, shape=[1, 8, 36])",
            "%p: f32[1, 36, 8] = permute(%r, dims=[0, 2, 1])",
            "%y: f32[1, 36, 8] = softmax(%p, dim=2)",
        )
    )
    assert copies(g) == ["%copy_1 = copy(%x)"]


def test_a_plain_value_is_converted_once_for_all_its_convolutions() -> None:
    g = laid_out(
        """
    graph g(%x: f32[1, 288]) {
      @w: f32[8, 8, 3, 3]
      %r: f32[1, 8, 6, 6] = reshape(%x, shape=[1, 8, 6, 6])
      %a: f32[1, 8, 6, 6] = CONV
      %b: f32[1, 8, 6, 6] = CONV
      %s: f32[1, 8, 6, 6] = add(%a, %b)
      %y: f32[1, 8] = mean(%s, dims=[2, 3], keepdim=false)
      return %y
    }""".replace("CONV", CONV.format("%r"))
    )
    assert copies(g) == ["%copy_1 = copy(%r)"]


def test_most_of_the_data_decides() -> None:
    lines = [
        f"%a: {SHAPE} = {CONV.format('%x')}",
        "%big: f32[4, 8, 6, 6] = add(%z, %a)",
        "%y: f32[4, 8] = mean(%big, dims=[2, 3], keepdim=false)",
    ]
    g = laid_out(graph(*lines, inputs=f"%x: {SHAPE}, %z: f32[4, 8, 6, 6]"))
    assert g.nodes[2].output.layout == "plain"


@pytest.mark.parametrize(
    ("lines", "returns", "expected"),
    [
        ([], "%x", ["%copy_1 = copy(%x)"]),
        ([], "@each", ["%copy_1 = copy(@each)"]),
        ([f"%y: {SHAPE} = relu(%x)"], "%y", []),
        ([f"%y: {SHAPE} = relu(%x)"], "%y, %y", ["%copy_1 = copy(%y)"]),
        (["%y: f32[288] = reshape(%x, shape=[288])"], "%y", ["%copy_1 = copy(%y)"]),
        ([f"%y: {SHAPE} = copy(%x, force=false)"], "%y", ["%y = copy(%x)", "%copy_1 = copy(%y)"]),
    ],
)
def test_outputs_are_values_of_their_own(lines: list[str], returns: str, expected: list[str]) -> None:
    g = laid_out(graph(*lines, returns=returns))
    assert copies(g) == expected
    assert all(n.attrs["force"] for n in g.nodes if n.op == "copy" and n.output in g.outputs)


def test_symbolic_sizes() -> None:
    text = graph(f"%c: {SHAPE} = {CONV.format('%x')}", "%r: f32[1, 8, 36] = reshape(%c, shape=[1, 8, 36])", "%p: f32[1, 36, 8] = permute(%r, dims=[0, 2, 1])",
                 "%t: f32[1, 8, 36] = permute(%p, dims=[0, 2, 1])", f"%u: {SHAPE} = reshape(%t, shape=[1, 8, 6, 6])", f"%y: {SHAPE} = {CONV.format('%u')}")  # fmt: skip
    dynamic = (
        text.replace("f32[1, 8, 6, 6]", "f32[n, 8, h, w]")
        .replace("f32[1, 8, 36]", "f32[n, 8, h * w]")
        .replace("f32[1, 36, 8]", "f32[n, h * w, 8]")
    )
    dynamic = dynamic.replace("shape=[1, 8, 36]", "shape=[n, 8, h * w]").replace(
        "shape=[1, 8, 6, 6]", "shape=[n, 8, h, w]"
    )
    for each in (text, dynamic):
        assert copies(laid_out(each)) == ["%copy_1 = copy(%x)", "%copy_2 = copy(%y)"]


def test_flatten_then_linear_needs_no_transpose() -> None:
    import torch

    text = """
    graph g(%x: f32[n, 8, 6, 6]) {
      @w: f32[8, 8, 3, 3]
      @v: f32[10, 288]
      %c: f32[n, 8, 6, 6] = CONV
      %f: f32[n, 288] = reshape(%c, shape=[n, 288])
      %y: f32[n, 10] = linear(%f, @v, none, none, act="", act_args=[])
      return %y
    }""".replace("CONV", CONV.format("%x"))
    clean = lambda g: flatten_linear.run(g) and 1 + dead_code.run(g)  # noqa: E731
    g = assert_same_numbers(clean, text, [torch.randn(3, 8, 6, 6)])
    shown = [line for line in print_graph(g).split("\n") if "permute" in line or "reshape" in line or "linear" in line]
    assert shown == [
        "  %permute_1: f32[n, 6, 6, 8] = permute(%c, dims=[0, 2, 3, 1])",
        "  %reshape_2: f32[n, 288] = reshape(%permute_1, shape=[n, 288])",
        '  %y: f32[n, 10] = linear(%reshape_2, @v_3, none, none, act="", act_args=[])',
    ]
    layout.run(g)
    assert copies(g) == ["%copy_4 = copy(%x)"]


def test_flatten_of_a_plain_value_or_of_single_pixels_stays() -> None:
    text = """
    graph g(%x: f32[2, 8, 6, 6], %z: f32[2, 8, 1, 1]) {
      @v: f32[10, 288]
      @u: f32[10, 8]
      %f: f32[2, 288] = reshape(%x, shape=[2, 288])
      %y: f32[2, 10] = linear(%f, @v, none, none, act="", act_args=[])
      %h: f32[2, 8] = reshape(%z, shape=[2, 8])
      %i: f32[2, 10] = linear(%h, @u, none, none, act="", act_args=[])
      return %y, %i
    }"""
    g = parse_graph(text)
    assert flatten_linear.run(g) == 0


def test_volumes_lie_channels_last_too() -> None:
    shape, conv = "f32[1, 8, 4, 6, 6]", CONV.replace("conv2d", "conv3d").replace("@w", "@v")
    conv = conv.replace("1, 1, 1, 1", "1, 1, 1, 1, 1, 1").replace("[1, 1]", "[1, 1, 1]")
    text = graph(f"%a: {shape} = {conv.format('%x')}", f"%b: {shape} = silu(%a)", f"%c: {shape} = {conv.format('%b')}", "%y: f32[1, 8] = mean(%c, dims=[2, 3, 4], keepdim=false)", inputs=f"%x: {shape}")  # fmt: skip
    g = laid_out(text.replace("@w: f32[8, 8, 3, 3]", "@v: f32[8, 8, 3, 3, 3]"))
    assert copies(g) == ["%copy_1 = copy(%x)"]
    assert [n.output.layout for n in g.nodes] == ["nhwc"] * 4 + ["plain"]


SHUFFLE = ["%r: f32[1, 2, 4, 6, 6] = reshape(%a, shape=[1, 2, 4, 6, 6])", "%p: f32[1, 4, 2, 6, 6] = permute(%r, dims=[0, 2, 1, 3, 4])",
           f"%s: {SHAPE} = reshape(%p, shape=[1, 8, 6, 6])"]  # fmt: skip


def test_a_shuffle_is_one_copy() -> None:
    g = laid_out(graph(f"%a: {SHAPE} = {CONV.format('%x')}", *SHUFFLE, f"%y: {SHAPE} = {CONV.format('%s')}"))
    assert copies(g) == ["%copy_1 = copy(%x)", "%copy_2 = copy(%y)"]
    assert g.nodes[4].output.layout == "nhwc"
    symbolic = graph(f"%a: {SHAPE} = {CONV.format('%x')}", *SHUFFLE, f"%y: {SHAPE} = {CONV.format('%s')}")
    symbolic = symbolic.replace("[1, 2, 4, 6, 6]", "[n, 2, 4, h, 6]").replace("[1, 4, 2, 6, 6]", "[n, 4, 2, h, 6]")
    assert laid_out(symbolic.replace("[1, 8, 6, 6]", "[n, 8, h, 6]")).nodes[4].output.layout == "nhwc"


def test_a_shuffle_that_is_returned_is_one_copy() -> None:
    g = laid_out(graph(*[line.replace("%a", "%x") for line in SHUFFLE], returns="%s"))
    assert copies(g) == []
    assert g.nodes[2].output.layout == "plain"


@pytest.mark.parametrize(
    ("dims", "layout"),
    [([0, 2, 1, 3], "strided"), ([2, 0, 1, 3], "strided"), ([0, 1, 2, 3], "plain"), ([0, 3, 2, 1], "plain")],
)
def test_heads_lie_side_by_side_where_they_are_put_together(dims: list[int], layout: str) -> None:
    shape = [(2, 4, 9, 8)[d] for d in dims]
    g = laid_out(
        f"""
    graph g(%q: f32[2, 4, 9, 8]) {{
      %a: f32[2, 4, 9, 8] = attention(%q, %q, %q, none, scale=1.0, causal=false)
      %p: f32{shape} = permute(%a, dims={dims})
      %y: f32{shape} = sigmoid(%p)
      return %y
    }}"""
    )
    assert g.nodes[0].output.layout == layout


def test_heads_are_put_together_without_a_copy() -> None:
    class Heads(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.nn.functional.scaled_dot_product_attention(x, x, x)
            return y.transpose(1, 2).reshape(2, 9, 32).sigmoid()

    x = torch.rand(2, 4, 9, 8, generator=torch.Generator().manual_seed(0))
    model = penlight.optimize(Heads().eval(), (x,))
    assert [s.bytes for s in model.profile(x) if s.key == "reshape.b32"] == [0]
    torch.testing.assert_close(model(x), Heads()(x))
