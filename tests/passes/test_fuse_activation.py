import pytest

from penlight.passes import fuse_activation
from tests.passes.reference import canonical, rewritten

ACTIVATIONS = {
    "relu(%c)": ("clamp", "0.0, inf"),
    "clamp(%c, lo=0.0, hi=6.0)": ("clamp", "0.0, 6.0"),
    "clamp(%c, lo=-inf, hi=2.5)": ("clamp", "-inf, 2.5"),
    "hardswish(%c)": ("hardswish", ""),
    "hardsigmoid(%c)": ("hardsigmoid", ""),
    "silu(%c)": ("silu", ""),
    "sigmoid(%c)": ("sigmoid", ""),
    "tanh(%c)": ("tanh", ""),
    "gelu(%c)": ("gelu", ""),
    "gelu_tanh(%c)": ("gelu_tanh", ""),
    "leaky_relu(%c, negative_slope=0.1)": ("leaky_relu", "0.1"),
    "elu(%c, alpha=1.5, scale=1.0, input_scale=2.0)": ("elu", "1.5, 1.0, 2.0"),
}


def graph(call: str, act: str = "", args: str = "", bias: str = "none", result: str = "%y") -> str:
    last = f"      %y: f32[1, 4, 3, 3] = {call}\n" if call else ""
    return f"""
    graph g(%x: f32[1, 2, 3, 3]) {{
      @w: f32[4, 2, 1, 1]
      %c: f32[1, 4, 3, 3] = conv2d(%x, @w, none, {bias}, stride=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=1, act="{act}", act_args=[{args}])
{last}      return {result}
    }}"""


@pytest.mark.parametrize("call", ACTIVATIONS)
def test_activations_become_the_last_step(call: str) -> None:
    assert rewritten(fuse_activation.run, graph(call)) == canonical(graph("", *ACTIVATIONS[call], result="%c"))


def test_after_linears() -> None:
    before = """
    graph g(%x: f32[2, 4]) {
      @w: f32[8, 4]
      %c: f32[2, 8] = linear(%x, @w, none, none, act="", act_args=[])
      %y: f32[2, 8] = gelu(%c)
      return %y
    }"""
    after = (
        before.replace('act=""', 'act="gelu"')
        .replace("      %y: f32[2, 8] = gelu(%c)\n", "")
        .replace("return %y", "return %c")
    )
    assert rewritten(fuse_activation.run, before) == canonical(after)


STAYS = {
    "has one already": graph("relu(%c)", act="silu"),
    "two users": graph("relu(%c)").replace("return %y", "return %y, %c"),
    "two inputs": graph("add(%c, %c)"),
}


@pytest.mark.parametrize("text", STAYS.values(), ids=STAYS.keys())
def test_what_does_not_fuse(text: str) -> None:
    assert rewritten(fuse_activation.run, text) == canonical(text)
