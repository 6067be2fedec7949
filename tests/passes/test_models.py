"""What is left of real models: batch_norm, activations, residual sums and conversions are gone from their insides."""

from collections import Counter

import pytest

from penlight.ir import parse_program, print_program
from penlight.ops import registry
from penlight.passes import optimize
from penlight.passes.layout import Layouts

torch = pytest.importorskip("torch")

SQUEEZE_EXCITE = {"mean", "mul"}
LEFT = {  # operators besides convolutions, linears and views
    "mobilenet_v2": {"mean"},
    "mobilenet_v3_large": SQUEEZE_EXCITE,
    "efficientnet_b0": SQUEEZE_EXCITE,
    "efficientnet_lite0": {"mean"},
    "squeezenet1_1": {"max_pool2d", "cat", "mean"},
    "resnet18": {"max_pool2d", "mean"},
    "resnet50": {"max_pool2d", "mean"},
    "deeplabv3_mobilenet_v3_large": SQUEEZE_EXCITE | {"resize", "cat"},
    "deeplabv3_resnet50": {"max_pool2d", "mean", "resize", "cat"},
    "vit_b_16": {"cat", "add", "layer_norm", "attention"},  # add: the position embedding
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LEFT)
def test_model(name: str) -> None:
    from penlight.capture import capture
    from tests import models

    auto = torch.export.Dim.AUTO
    dynamic = {0: auto, 2: auto, 3: auto} if models.MODELS[name].any_size else {0: auto}
    program = capture(models.build(name), models.example(name, batch=2), dynamic_shapes=[dynamic])
    optimize(program)
    graph = program.methods["forward"].graph
    counts = Counter(node.op for node in graph.nodes)
    assert (
        set(counts) - {"copy", "conv2d", "expand_depthwise", "linear", "reshape", "permute", "expand", "select"}
        == LEFT[name]
    )
    assert counts["add"] <= 1

    copies = [node for node in graph.nodes if node.op == "copy"]
    assert [node for node in copies if node.inputs[0] not in graph.inputs and node.output not in graph.outputs] == []
    assert len(copies) <= 2
    layouts = Layouts(graph)
    for node in graph.nodes:
        if node.op in ("conv2d", "expand_depthwise", "max_pool2d", "resize"):
            value, reads_any = node.inputs[0], registry.get(node.op).reads_any
            assert value is not None
            if reads_any is not None and reads_any(node):
                continue
            assert layouts.is_nhwc(value), f"{node!r} would have to convert its input"

    text = print_program(program)
    assert print_program(parse_program(text)) == text
