import numpy as np
import pytest
import torch

from penlight.ir import parse_graph
from penlight.passes import decompose_batch_norm, fold_batch_norm
from tests.passes.reference import assert_same_numbers, canonical, rewritten, run_graph

STATISTICS = """
      @gamma: f32[{c}]
      @beta: f32[{c}]
      @mean: f32[{c}]
      @var: f32[{c}]"""


def conv(groups: int = 1, bias: str = "@b", padding: str = "1, 1, 1, 1") -> str:
    return f'conv2d(%x, @w, {bias}, none, stride=[1, 1], padding=[{padding}], dilation=[1, 1], groups={groups}, act="", act_args=[])'


def conv_norm(groups: int = 1, bias: str = "@b", affine: str = "@gamma, @beta") -> str:
    return f"""
    graph g(%x: f32[2, 8, 5, 5]) {{
      @w: f32[6, {8 // groups}, 3, 3]
      @b: f32[6]{STATISTICS.format(c=6)}
      %c: f32[2, 6, 5, 5] = {conv(groups, bias)}
      %y: f32[2, 6, 5, 5] = batch_norm(%c, {affine}, @mean, @var, eps=0.001)
      return %y
    }}"""


def norm_conv(groups: int = 1, padding: str = "0, 0, 0, 0") -> str:
    size = 3 if padding == "0, 0, 0, 0" else 5
    return f"""
    graph g(%i: f32[2, 8, 5, 5]) {{
      @w: f32[6, {8 // groups}, 3, 3]
      @b: f32[6]{STATISTICS.format(c=8)}
      %x: f32[2, 8, 5, 5] = batch_norm(%i, @gamma, @beta, @mean, @var, eps=0.001)
      %y: f32[2, 6, {size}, {size}] = {conv(groups, "@b", padding)}
      return %y
    }}"""


def test_text() -> None:
    after = rewritten(fold_batch_norm.run, conv_norm(bias="none"))
    assert after.count("batch_norm") == 0
    assert "%c: f32[2, 6, 5, 5] = conv2d(%x, @w, @w.bias, none, stride=[1, 1]" in after
    assert after.endswith("  return %c\n}\n")


@pytest.mark.parametrize("bias", ["@b", "none"])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("affine", ["@gamma, @beta", "none, none", "none, @beta"])
def test_into_the_convolution_before(groups: int, bias: str, affine: str) -> None:
    graph = assert_same_numbers(fold_batch_norm.run, conv_norm(groups, bias, affine), [torch.randn(2, 8, 5, 5)])
    assert [n.op for n in graph.nodes] == ["conv2d"]


@pytest.mark.parametrize("groups", [1, 2])
def test_into_the_convolution_after(groups: int) -> None:
    graph = assert_same_numbers(fold_batch_norm.run, norm_conv(groups), [torch.randn(2, 8, 5, 5)])
    assert [n.op for n in graph.nodes] == ["conv2d"]


def test_a_weight_that_others_use_stays_as_it_is() -> None:
    text = conv_norm().replace("return %y", "%z: f32[2, 6, 5, 5] = " + conv() + "\n      return %y, %z")
    graph = assert_same_numbers(fold_batch_norm.run, text, [torch.randn(2, 8, 5, 5)])
    assert [repr(n) for n in graph.nodes] == ["%c = conv2d(%x, @w_1, @b_2, none)", "%z = conv2d(%x, @w, @b, none)"]


def test_weights_are_rounded_once() -> None:
    rng = np.random.default_rng(1)
    data = {
        "w": rng.standard_normal((6, 8, 3, 3), np.float32),
        "var": rng.random(6, np.float32),
        "gamma": rng.random(6, np.float32),
    }
    graph = parse_graph(conv_norm(bias="none"), data)
    fold_batch_norm.run(graph)
    scale = data["gamma"].astype(np.float64) / np.sqrt(data["var"].astype(np.float64) + 0.001)
    w = graph.nodes[0].inputs[1]
    assert w is not None
    assert w.constant is not None
    assert np.array_equal(w.constant, (data["w"] * scale.reshape(-1, 1, 1, 1)).astype(np.float32))


LINEAR = f"""
    graph g(%x: f32[3, 8]) {{
      @w: f32[6, 8]{STATISTICS.format(c=6)}
      %c: f32[3, 6] = linear(%x, @w, none, none, act="", act_args=[])
      %y: f32[3, 6] = batch_norm(%c, @gamma, @beta, @mean, @var, eps=0.001)
      return %y
    }}"""


def test_into_linears() -> None:
    assert [n.op for n in assert_same_numbers(fold_batch_norm.run, LINEAR, [torch.randn(3, 8)]).nodes] == ["linear"]
    turned = f"""
    graph g(%i: f32[3, 8]) {{
      @w: f32[6, 8]{STATISTICS.format(c=8)}
      %x: f32[3, 8] = batch_norm(%i, @gamma, @beta, @mean, @var, eps=0.001)
      %y: f32[3, 6] = linear(%x, @w, none, none, act="", act_args=[])
      return %y
    }}"""
    assert [n.op for n in assert_same_numbers(fold_batch_norm.run, turned, [torch.randn(3, 8)]).nodes] == ["linear"]


STAYS = {
    "padded convolution after": norm_conv(padding="1, 1, 1, 1"),
    "two users": conv_norm().replace("return %y", "return %y, %c"),
    "activation between": conv_norm().replace('act=""', 'act="relu"'),
    "residual": conv_norm()
    .replace("@b, none, stride", "@b, %r, stride")
    .replace("5, 5]) {", "5, 5], %r: f32[2, 6, 5, 5]) {"),
    "sequence after linear": LINEAR.replace("f32[3, 8]", "f32[3, 6, 8]").replace("f32[3, 6] =", "f32[3, 6, 6] ="),
}


@pytest.mark.parametrize("text", STAYS.values(), ids=STAYS.keys())
def test_what_does_not_fold(text: str) -> None:
    assert rewritten(fold_batch_norm.run, text) == canonical(text)


def test_the_rest_becomes_a_product_and_a_sum() -> None:
    graph = assert_same_numbers(decompose_batch_norm.run, norm_conv(padding="1, 1, 1, 1"), [torch.randn(2, 8, 5, 5)])
    assert [n.op for n in graph.nodes] == ["mul", "add", "conv2d"]
    assert all(c.shape == (8, 1, 1) for n, c in graph.constants.items() if n in ("scale", "shift"))


@pytest.mark.parametrize("affine", ["%gamma, %beta", "none, none"])
def test_statistics_that_are_not_constants(affine: str) -> None:
    text = f"""
    graph g(%x: f32[2, n, 5], %gamma: f32[n], %beta: f32[n], %mean: f32[n], %var: f32[n]) {{
      %y: f32[2, n, 5] = batch_norm(%x, {affine}, %mean, %var, eps=0.001)
      return %y
    }}"""
    inputs = [torch.randn(2, 4, 5), torch.randn(4), torch.randn(4), torch.randn(4), torch.rand(4) + 0.5]
    assert_same_numbers(decompose_batch_norm.run, text, inputs)
    graph = parse_graph(text)
    fold_batch_norm.run(graph)
    assert [n.op for n in graph.nodes] == ["batch_norm"]
    assert run_graph(graph, inputs)[0].shape == (2, 4, 5)


VOLUME = f"""
    graph g(%x: f32[2, 4, 3, 5, 5]) {{
      @w: f32[6, 4, 3, 3, 3]
      @b: f32[6]{STATISTICS.format(c=6)}
      %c: f32[2, 6, 3, 5, 5] = conv3d(%x, @w, @b, none, stride=[1, 1, 1], padding=[1, 1, 1, 1, 1, 1], dilation=[1, 1, 1], groups=1, act="", act_args=[])
      %y: f32[2, 6, 3, 5, 5] = batch_norm(%c, @gamma, @beta, @mean, @var, eps=0.001)
      return %y
    }}"""
TRANSPOSED = 'conv_transpose2d(%x, @w, @b, none, stride=[2, 2], padding=[1, 1, 0, 0], dilation=[1, 1], groups=2, act="", act_args=[])'
UP = f"""
    graph g(%x: f32[2, 4, 5, 5]) {{
      @w: f32[6, 2, 3, 3]
      @b: f32[6]{STATISTICS.format(c=6)}
      %c: f32[2, 6, 10, 10] = {TRANSPOSED}
      %y: f32[2, 6, 10, 10] = batch_norm(%c, @gamma, @beta, @mean, @var, eps=0.001)
      return %y
    }}"""


@pytest.mark.parametrize(("text", "shape"), [(VOLUME, (2, 4, 3, 5, 5)), (UP, (2, 4, 5, 5))])
def test_into_volumes_and_transposed_convolutions(text: str, shape: tuple[int, ...]) -> None:
    graph = assert_same_numbers(fold_batch_norm.run, text, [torch.randn(shape)])
    assert len(graph.nodes) == 1


def test_a_transposed_convolution_takes_none_before_it() -> None:
    """Outputs at the border see less of the kernel, so less of a shift."""
    text = f"""
    graph g(%i: f32[2, 4, 5, 5]) {{
      @w: f32[6, 2, 3, 3]
      @b: f32[6]{STATISTICS.format(c=4)}
      %x: f32[2, 4, 5, 5] = batch_norm(%i, @gamma, @beta, @mean, @var, eps=0.001)
      %y: f32[2, 6, 11, 11] = {TRANSPOSED.replace("1, 1, 0, 0", "0, 0, 0, 0")}
      return %y
    }}"""
    assert rewritten(fold_batch_norm.run, text) == canonical(text)
