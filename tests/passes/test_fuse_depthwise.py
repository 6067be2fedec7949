import pytest
import torch

from penlight.passes import fuse_depthwise
from tests.passes.reference import assert_same_numbers, canonical, rewritten

POINTWISE = 'stride=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=1, act="clamp", act_args=[0.0, 6.0]'
DEPTHWISE = 'stride=[2, 2], padding=[1, 1, 1, 1], dilation=[1, 1], groups=12, act="silu", act_args=[]'


def graph(pointwise: str = POINTWISE, depthwise: str = DEPTHWISE, more: str = "", channels: int = 8) -> str:
    return f"""
    graph g(%x: f32[1, {channels}, 6, 6]) {{
      @w: f32[12, {channels}, 1, 1]
      @b: f32[12]
      @w2: f32[12, 1, 3, 3]
      %e: f32[1, 12, 6, 6] = conv2d(%x, @w, @b, none, {pointwise})
      %y: f32[1, 12, 3, 3] = conv2d(%e, @w2, none, none, {depthwise})
      return %y{more}
    }}"""


def test_text() -> None:
    after = """
    graph g(%x: f32[1, 8, 6, 6]) {
      @w: f32[12, 8, 1, 1]
      @b: f32[12]
      @w2: f32[12, 1, 3, 3]
      %expand_depthwise_3: f32[1, 12, 3, 3] = expand_depthwise(%x, @w, @b, @w2, none, none, stride=[2, 2], padding=[1, 1, 1, 1], \
dilation=[1, 1], act="clamp", act_args=[0.0, 6.0], act2="silu", act2_args=[])
      return %expand_depthwise_3
    }""".replace("\\\n", "")
    assert rewritten(fuse_depthwise.run, graph()) == canonical(after)


def test_same_numbers() -> None:
    fused = assert_same_numbers(fuse_depthwise.run, graph(), [torch.randn(1, 8, 6, 6)])
    assert [n.op for n in fused.nodes] == ["expand_depthwise"]


def test_the_residual_of_the_second_stays() -> None:
    before = graph(depthwise=DEPTHWISE.replace("[2, 2]", "[1, 1]")).replace(
        "3, 3] = conv2d(%e, @w2, none, none", "6, 6] = conv2d(%e, @w2, @b, %x"
    )
    before = before.replace("f32[1, 8, 6, 6]", "f32[1, 12, 6, 6]").replace("@w: f32[12, 8", "@w: f32[12, 12")
    fused = assert_same_numbers(fuse_depthwise.run, before, [torch.randn(1, 12, 6, 6)])
    assert [n.op for n in fused.nodes] == ["expand_depthwise"]
    assert fused.nodes[0].inputs[5] is fused.inputs[0]


@pytest.mark.parametrize(
    "text",
    [
        graph(more=", %e"),  # somebody else needs the wide map
        graph(POINTWISE.replace("padding=[0, 0, 0, 0]", "padding=[1, 0, 0, 1]")).replace("%e: f32[1, 12, 6, 6]", "%e: f32[1, 12, 7, 7]").replace("3, 3] = conv2d", "4, 4] = conv2d"),
        graph(channels=4),  # the first convolution reads the image as it lies
    ],
    ids=["two users", "padded", "few channels"],
)  # fmt: skip
def test_left_alone(text: str) -> None:
    assert rewritten(fuse_depthwise.run, text) == canonical(text)
