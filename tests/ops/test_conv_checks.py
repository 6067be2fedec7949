"""Files whose convolutions and linears do not add up: attributes and weights changed after lowering, as a damaged or
hostile file would have them. The runtime must answer in words, whatever the numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

import penlight
from penlight.capture import capture
from penlight.file.writer import to_array
from penlight.ir.graph import Node, Value
from penlight.ir.types import TensorType
from penlight.lower import lower
from penlight.passes.pipeline import optimize as run_passes

HUGE = 1 << 60


def set_attr(name: str, value: object) -> Callable[[Node], None]:
    def change(node: Node) -> None:
        node.attrs[name] = value  # type: ignore[assignment]

    return change


def shrink_weight(node: Node) -> None:
    weight = node.inputs[1]
    assert weight is not None
    assert weight.constant is not None
    weight.constant = np.ascontiguousarray(weight.constant.reshape(-1)[:-16])


def reshape_weight(*shape: int) -> Callable[[Node], None]:
    def change(node: Node) -> None:
        weight = node.inputs[1]
        assert weight is not None
        weight.type = TensorType("f32", shape)

    return change


def drop_layout(node: Node) -> None:
    weight = node.inputs[1]
    assert weight is not None
    weight.layout = "plain"


def other_bias(node: Node) -> None:
    node.inputs[2] = Value("short", TensorType("f32", (5,)), constant=np.zeros(5, np.float32))


def broken(module: nn.Module, x: torch.Tensor, op: str, change: Callable[[Node], None]) -> bytes:
    """The file of a module whose one `op` has been changed."""
    program = capture(module.eval(), (x,))
    run_passes(program)
    lower(program)
    nodes = [n for m in program.methods.values() for n in m.graph.walk() if n.op == op]
    assert nodes
    change(nodes[0])
    for method in program.methods.values():  # a constant that was swapped in must be in the file
        for value in nodes[0].inputs:
            if value is not None and value.constant is not None:
                method.graph.constants[value.name] = value
    return bytes(to_array(program))


CONV = {
    "stride 0": set_attr("stride", (0, 1)),
    "negative stride": set_attr("stride", (-1, 1)),
    "huge stride": set_attr("stride", (HUGE, HUGE)),
    "one stride": set_attr("stride", (1,)),
    "negative padding": set_attr("padding", (-1, 0, 0, 0)),
    "huge padding": set_attr("padding", (HUGE, HUGE, HUGE, HUGE)),
    "large padding": set_attr("padding", (1 << 24, 1 << 24, 1 << 24, 1 << 24)),
    "dilation 0": set_attr("dilation", (0, 0)),
    "huge dilation": set_attr("dilation", (HUGE, 1)),
    "no groups": set_attr("groups", 0),
    "negative groups": set_attr("groups", -4),
    "other groups": set_attr("groups", 3),
    "huge groups": set_attr("groups", HUGE),
    "unknown activation": set_attr("act", "explode"),
    "activation of two operands": set_attr("act", "add"),
    "clamp without bounds": set_attr("act", "clamp"),
    "too many arguments": set_attr("act_args", (1.0,) * 9),
    "short weight": shrink_weight,
    "weight said to be larger": reshape_weight(400, 12, 3, 3),
    "weight of rank 2": reshape_weight(24, 108),
    "kernel of size 0": reshape_weight(24, 12, 0, 3),
    "weight not packed": drop_layout,
    "bias too short": other_bias,
}


VARIANTS = {
    "gemm": (12, 24, 1),
    "direct": (3, 24, 1),
    "depthwise": (12, 12, 12),
    "multiplier": (12, 24, 12),
    "grouped": (12, 24, 6),
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("case", CONV)
def test_conv2d(case: str, variant: str) -> None:
    inputs, outputs, groups = VARIANTS[variant]
    x = torch.randn(1, inputs, 7, 9)
    data = broken(nn.Conv2d(inputs, outputs, 3, padding=1, groups=groups), x, "conv2d", CONV[case])
    with pytest.raises(penlight.PenlightError) as error:
        penlight.load(data)(x)
    assert str(error.value)


WIDER = {
    "conv3d": nn.Conv3d(12, 24, 3, padding=1),
    "conv3d, depthwise": nn.Conv3d(12, 12, 3, padding=1, groups=12),
    "conv3d, grouped": nn.Conv3d(12, 24, 3, padding=1, groups=6),
    "conv_transpose2d": nn.ConvTranspose2d(12, 24, 3, stride=2),
    "conv_transpose2d, grouped": nn.ConvTranspose2d(12, 24, 3, stride=2, groups=6),
}


@pytest.mark.parametrize("variant", WIDER)
@pytest.mark.parametrize("case", [case for case in CONV if "large" not in case])
def test_volumes_and_transposed(case: str, variant: str) -> None:
    op = variant.partition(",")[0]
    x = torch.randn(1, 12, 5, 7, 9) if op == "conv3d" else torch.randn(1, 12, 7, 9)

    def change(node: Node) -> None:
        CONV[case](node)
        for name in ("stride", "padding", "dilation"):
            value = node.attrs[name]
            if op == "conv3d" and isinstance(value, tuple) and len(value) in (2, 4):  # the same for depth
                node.attrs[name] = (value[0], *value) if len(value) == 2 else (*value, *value[:2])

    with pytest.raises(penlight.PenlightError) as error:
        penlight.load(broken(WIDER[variant], x, op, change))(x)
    assert str(error.value)


def expand() -> nn.Module:
    return nn.Sequential(nn.Conv2d(12, 24, 1), nn.Conv2d(24, 24, 3, padding=2, groups=24)).eval()


@pytest.mark.parametrize("case", [case for case in CONV if "groups" not in case])
def test_expand_depthwise(case: str) -> None:
    x = torch.randn(1, 12, 7, 9)
    data = broken(expand(), x, "expand_depthwise", CONV[case])
    with pytest.raises(penlight.PenlightError) as error:
        penlight.load(data)(x)
    assert str(error.value)


@pytest.mark.parametrize("width", [3, 4, 5, 7])
def test_every_depthwise_kernel_is_right_for_every_width(width: int) -> None:
    """Lowering names the one with the code for its width. A file may name any; files from before there were widths name `depthwise`."""
    conv = nn.Conv2d(40, 40, width, padding=width // 2, groups=40)
    for op, module, channels in (
        ("conv2d", conv, 40),
        ("expand_depthwise", nn.Sequential(nn.Conv2d(9, 40, 1), conv), 9),
    ):
        x = torch.randn(2, channels, 9, 23)
        expected = module(x).detach()
        chosen: list[str] = []
        broken(module, x, op, lambda node, chosen=chosen: chosen.append(node.kernel))  # type: ignore[misc]
        assert chosen == [f"{op}.f32.depthwise{'_other' if width == 4 else width}"]
        for variant in (".depthwise", ".depthwise3", ".depthwise5", ".depthwise7", ".depthwise_other", ""):
            if op == "conv2d" and not variant:
                continue
            key = f"{op}.f32{variant}"
            data = broken(module, x, op, lambda node, key=key: setattr(node, "kernel", key))  # type: ignore[misc]
            torch.testing.assert_close(penlight.load(data)(x), expected, rtol=1e-5, atol=1e-5)


def test_expand_depthwise_of_nothing() -> None:
    auto = torch.export.Dim.AUTO
    model = penlight.optimize(expand(), (torch.randn(1, 12, 9, 9),), dynamic_shapes=[{2: auto, 3: auto}])
    with pytest.raises(penlight.RunError, match=r"expected an image of at least one pixel, got 4 x 0"):
        model(torch.randn(1, 12, 4, 0))


LINEAR = {
    "short weight": shrink_weight,
    "weight said to be larger": reshape_weight(4000, 12),
    "weight of rank 1": reshape_weight(12),
    "other K": reshape_weight(9, 16),
    "weight not packed": drop_layout,
    "bias too short": other_bias,
    "unknown activation": set_attr("act", "explode"),
}


@pytest.mark.parametrize("case", LINEAR)
def test_linear(case: str) -> None:
    x = torch.randn(3, 12)
    data = broken(nn.Linear(12, 18), x, "linear", LINEAR[case])
    with pytest.raises(penlight.PenlightError) as error:
        penlight.load(data)(x)
    assert str(error.value)
