"""Every way in which PyTorch quantizes a model gives one plan in integers: no VM code, weights of 8 bits, and torch's numbers."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed
import torch.nn.functional as F
from torch import nn
from torch.ao import quantization
from torch.ao.quantization import quantize_fx

import penlight
from penlight.capture import capture
from penlight.compile import compile_model
from penlight.file.reader import read
from penlight.ir.graph import Graph
from penlight.ir.types import Quant
from tests.capture.lite.legacy import cases
from tests.vm.quantized import engine

pytestmark = pytest.mark.filterwarnings("ignore")
CONFIGS = ("qnnpack", "fbgemm", "x86")


class Net(nn.Module):
    """What a small network has: a stem, a depthwise block with a sum around it, branches that are joined, pooling, a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.conv, self.bn, self.relu = nn.Conv2d(3, 19, 3, stride=2, padding=1), nn.BatchNorm2d(19), nn.ReLU()
        self.deep, self.point = nn.Conv2d(19, 19, 3, padding=1, groups=19), nn.Conv2d(19, 19, 1)
        self.sum, self.join = nn.quantized.FloatFunctional(), nn.quantized.FloatFunctional()
        self.swish, self.head = nn.Hardswish(), nn.Linear(38, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.relu(self.bn(self.conv(self.quant(x))))
        x = self.swish(self.sum.add(x, self.point(self.deep(x))))
        x = self.join.cat([F.max_pool2d(x, 2), F.avg_pool2d(x, 2)], dim=1)
        return self.dequant(self.head(torch.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1)))


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return torch.randn(4, 3, 26, 22, generator=torch.Generator().manual_seed(7))


def calibrated(config: str, images: torch.Tensor) -> nn.Module:
    """As document 003 writes it: fused, prepared, calibrated, converted."""
    torch.manual_seed(3)
    model = Net().eval()
    quantization.fuse_modules(model, [["conv", "bn", "relu"]], inplace=True)
    model.qconfig = quantization.get_default_qconfig(config)
    quantization.prepare(model, inplace=True)
    model(images)
    return quantization.convert(model, inplace=True)


def scale_of(graph: Graph) -> float:
    """The scale of the graph's result, which is dequantized last."""
    (last,) = graph.outputs
    assert last.producer is not None
    assert last.producer.op == "dequantize"
    quantized = last.producer.inputs[0]
    assert quantized is not None
    assert quantized.tensor.quant is not None
    return quantized.tensor.quant.scale


def check(source: Any, args: tuple[torch.Tensor, ...], expected: torch.Tensor, steps: float = 1.0) -> Graph:
    """One plan and nothing else, whose results are at most `steps` from torch's. Gives the graph as captured."""
    program = capture(source, args)
    assert program.script is None
    assert list(program.methods) == ["forward"]
    graph = program.methods["forward"].graph
    assert all(v.dtype != "f32" or v.rank < 2 for v in graph.constants.values()), "weights became floats"
    got = penlight.optimize(source, args, strict=True)(*args)
    assert (torch.as_tensor(got) - expected).abs().max() <= steps * scale_of(graph) * 1.0001
    return graph


# ---- eager mode, as a module, scripted, traced, saved ----
@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("way", ["module", "script", "trace", "file"])
def test_eager(config: str, way: str, images: torch.Tensor) -> None:
    with engine(config), torch.no_grad():
        model, x = calibrated(config, images), images[:2]
        source: Any = model
        if way != "module":
            source = torch.jit.trace(model, (x,)) if way == "trace" else torch.jit.script(model)
        if way == "file":
            written = io.BytesIO()
            torch.jit.save(source, written)
            source = written.getvalue()
        graph = check(source, (x,), model(x), steps=2)
    products = [n for n in graph.nodes if n.op in ("conv2d", "linear")]
    assert len(products) == 4
    for node in products:
        assert [v.producer.op for v in node.inputs[:2]] == ["dequantize"] * 2  # type: ignore[union-attr]
        weight = node.inputs[1].producer.inputs[0]  # type: ignore[union-attr]
        assert weight.is_constant  # type: ignore[union-attr]
        assert weight.dtype == "i8"  # type: ignore[union-attr]
        assert weight.tensor.quant.axis == (None if config == "qnnpack" else 0)  # type: ignore[union-attr]


@pytest.mark.parametrize("config", CONFIGS)
def test_fx(config: str, images: torch.Tensor) -> None:
    torch.manual_seed(3)
    with engine(config), torch.no_grad():
        mapping = quantization.get_default_qconfig_mapping(config)
        model = quantize_fx.prepare_fx(Net().eval(), mapping, (images,))
        model(images)
        model = quantize_fx.convert_fx(model)
        check(model, (images[:2],), model(images[:2]), steps=2)


# ---- FX's reference models: float modules that round their weights, between quantize and dequantize ----
def reference(model: nn.Module, mapping: Any, *args: torch.Tensor) -> nn.Module:
    prepared = quantize_fx.prepare_fx(model.eval(), mapping, args)
    prepared(*args)
    return quantize_fx.convert_to_reference_fx(prepared)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("way", ["module", "file"])
def test_fx_reference(config: str, way: str, images: torch.Tensor) -> None:
    """The same integers as of convert_fx, though weights are floats with a scale for each channel that are quantized in every call."""
    torch.manual_seed(3)
    with engine(config), torch.no_grad():
        model = reference(Net(), quantization.get_default_qconfig_mapping(config), images)
        x, source = images[:2], model
        if way == "file":
            written = io.BytesIO()
            torch.jit.save(torch.jit.trace(model, (x,), check_trace=False), written)
            source = written.getvalue()
        got = penlight.optimize(source, (x,), strict=True)
        graph = capture(source, (x,)).methods["forward"].graph
        assert (got(x) - model(x)).abs().max() <= scale_of(graph) * 1.0001
    assert set(read(got.to_bytes()).keys) == {
        "add.q8", "avg_pool2d.q8", "cat.b8", "conv2d.q8.depthwise", "conv2d.q8.gemm", "dequantize.u8", "linear.q8", "lookup.q8",
        "max_pool2d.q8", "mean.q8", "quantize.f32", "reshape.b8",
    }  # fmt: skip


@pytest.mark.parametrize("config", ["qnnpack", "fbgemm"])
def test_fx_reference_of_sequences(config: str) -> None:
    """1d convolutions are those of images of height 1, their weights too, whose integers take on that shape."""
    torch.manual_seed(3)
    x = torch.randn(2, 8, 21)
    layers = nn.Sequential(nn.Conv1d(8, 8, 3), nn.ReLU(), nn.AvgPool1d(2), nn.Conv1d(8, 6, 3, groups=2))
    with engine(config), torch.no_grad():
        model = reference(layers, quantization.get_default_qconfig_mapping(config), x)
        got = penlight.optimize(model, (x,), strict=True)
        graph = capture(model, (x,)).methods["forward"].graph
        assert (got(x) - model(x)).abs().max() <= 2 * scale_of(graph) * 1.0001
    assert not [k for k in read(got.to_bytes()).keys if ".f32" in k and k != "quantize.f32"]


DYNAMIC_REFERENCE: dict[str, tuple[Any, set[str]]] = {
    "one scale": (quantization.default_dynamic_qconfig, {"quantize_dynamic.f32", "columns_dynamic.i32", "linear.q8"}),
    "a scale for each channel": (quantization.per_channel_dynamic_qconfig, {"quantize_dynamic.f32", "columns_dynamic.i32", "linear.q8"}),
    "halves": (quantization.float16_dynamic_qconfig, {"cast.f32.f16", "cast.f16.f32", "linear.f32"}),
}  # fmt: skip


@pytest.mark.parametrize("name", DYNAMIC_REFERENCE)
def test_fx_reference_of_dynamic_layers(name: str) -> None:
    config, keys = DYNAMIC_REFERENCE[name]
    torch.manual_seed(3)
    x = torch.randn(5, 40)
    with engine("fbgemm"), torch.no_grad():
        layers = nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 7))
        model = reference(layers, quantization.QConfigMapping().set_global(config), x)
        got, expected = penlight.optimize(model, (x,), strict=True), model(x)
    assert (got(x) - expected).abs().max() <= 1e-6 * expected.abs().max()
    assert set(read(got.to_bytes()).keys) == keys


@pytest.mark.parametrize("bits", [8, 4])
def test_fx_reference_of_embeddings(bits: int) -> None:
    config = {
        8: quantization.float_qparams_weight_only_qconfig,
        4: quantization.float_qparams_weight_only_qconfig_4bit,
    }[bits]
    torch.manual_seed(3)
    rows = torch.randint(0, 50, (3, 4))
    mapping = quantization.QConfigMapping().set_object_type(nn.Embedding, config)
    with torch.no_grad():
        model = reference(nn.Sequential(nn.Embedding(50, 12)), mapping, rows)
        expected = model(rows)
        got = penlight.optimize(model, (rows,), strict=True)(rows)
    assert (got - expected).abs().max() <= 3e-7 * expected.abs().max()


def test_free_sizes(images: torch.Tensor) -> None:
    with engine("qnnpack"), torch.no_grad():
        model = calibrated("qnnpack", images)
        ours = penlight.optimize(model, (images[:2],), dynamic_shapes="auto", strict=True)
        step = model.head.scale
        for x in (images[:1], images, images[:, :, :14, :18].contiguous()):
            assert (ours(x) - model(x)).abs().max() <= 2 * step * 1.0001


def test_without_examples(images: torch.Tensor) -> None:
    """A script's inputs are guessed: the plan stands in front of the code."""
    with engine("qnnpack"), torch.no_grad():
        model = calibrated("qnnpack", images)
        program = compile_model(torch.jit.script(model))
    assert list(program.methods) == ["~forward"]


class Unscriptable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.quant, self.linear, self.dequant = quantization.QuantStub(), nn.Linear(8, 4), quantization.DeQuantStub()

    def forward(self, x: torch.Tensor, **options: Any) -> torch.Tensor:
        if len(x) != 3:
            raise ValueError("three rows are needed")
        return self.dequant(self.linear(self.quant(x)))


def test_images_of_any_size_without_examples() -> None:
    """Document 003 gives none to optimize_for_mobile: where the first convolution tells what images are, the plan is all that is kept."""

    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
            self.first, self.second = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 2, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.dequant(self.second(self.first(self.quant(x))))

    with engine("qnnpack"):
        model = Small().eval()
        model.qconfig = quantization.get_default_qconfig("qnnpack")
        quantization.prepare(model, inplace=True)
        model(torch.randn(1, 3, 32, 32))
        quantization.convert(model, inplace=True)
        planned = penlight.optimize(torch.jit.script(model))
        assert planned.planned_methods == planned.methods == ["forward"]
        for shape in ((1, 3, 5, 7), (3, 3, 33, 1)):
            x = torch.randn(shape)
            torch.testing.assert_close(planned(x), model(x), rtol=0, atol=0)


def test_what_cannot_be_scripted_is_traced() -> None:
    with engine("qnnpack"), torch.no_grad():
        model = Unscriptable().eval()
        model.qconfig = quantization.get_default_qconfig("qnnpack")
        x = torch.randn(3, 8)
        quantization.prepare(model, inplace=True)(x)
        quantization.convert(model, inplace=True)
        said: list[str] = []
        program = compile_model(model, (x,), progress=said.append)
        assert program.script is None
        assert any("cannot be scripted: it is traced" in text for text in said)
        with pytest.raises(
            penlight.CaptureError, match=r"can neither script nor trace it[^$]*scripting:[^$]*tracing: three rows"
        ):
            penlight.optimize(model, (torch.randn(4, 8),))


def test_a_quantized_result_is_interpreted() -> None:
    class Quantize(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.quantize_per_tensor(x, 0.1, 3, torch.quint8)

    with pytest.raises(penlight.CaptureError, match="result is a quantized tensor"):
        penlight.optimize(torch.jit.script(Quantize()), (torch.randn(3),), strict=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["static_qnnpack", "tables_8bit", "tables_4bit"])
def test_legacy_files(name: str) -> None:
    """PyTorch Mobile's own files, and what its runtime computed."""
    found = list(cases(only=name))
    assert found
    for case in found:
        args = tuple(torch.from_numpy(np.array(a)) for a in case.args)
        for path in (case.path, case.source):
            program = compile_model(str(path), args, strict=True)
            assert program.script is None
            got = np.asarray(penlight.optimize(str(path), args)(*case.args))
            bound = 0 if name.startswith("static") else 2e-7 * np.abs(case.expected).max()
            assert np.abs(got - case.expected).max() <= bound


# ---- single operators: each between quantize and dequantize, in the scales that torch gives its result ----
def q(x: torch.Tensor, scale: float = 0.04, zero: int = 120, dtype: torch.dtype = torch.quint8) -> torch.Tensor:
    return torch.quantize_per_tensor(x, scale, zero, dtype)


def conv(rank: int, transposed: bool = False, relu: bool = False, **options: Any) -> nn.Module:
    """A quantized convolution of 6 channels into 8, by the module that torch makes of a float one."""
    kinds: dict[Any, Any] = {(1, False): nn.Conv1d, (2, False): nn.Conv2d, (3, False): nn.Conv3d, (1, True): nn.ConvTranspose1d,
                             (2, True): nn.ConvTranspose2d, (3, True): nn.ConvTranspose3d}  # fmt: skip
    layers = [kinds[rank, transposed](6, 8, 3, **options)]
    model = nn.Sequential(quantization.QuantStub(), *layers, *([nn.ReLU()] if relu else []), quantization.DeQuantStub())
    model.eval()
    if relu:
        quantization.fuse_modules(model, [["1", "2"]], inplace=True)
    weight = quantization.default_weight_observer if transposed else quantization.default_per_channel_weight_observer
    model.qconfig = quantization.QConfig(quantization.default_observer, weight)
    return model


CONVOLUTIONS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "conv1d": (lambda: conv(1, stride=2, padding=1), (2, 6, 17)),
    "conv1d_relu": (lambda: conv(1, relu=True), (2, 6, 17)),
    "conv2d": (lambda: conv(2, stride=2, padding=1, groups=2), (2, 6, 9, 10)),
    "conv2d_relu": (lambda: conv(2, relu=True, dilation=2), (2, 6, 9, 10)),
    "conv3d": (lambda: conv(3, padding=1), (1, 6, 4, 5, 6)),
    "conv_transpose1d": (lambda: conv(1, True, stride=2), (2, 6, 9)),
    "conv_transpose2d": (lambda: conv(2, True, stride=2, padding=1, output_padding=1), (2, 6, 5, 4)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    make, shape = CONVOLUTIONS[name]
    torch.manual_seed(len(name))
    # qnnpack has no conv3d, and fbgemm's transposed ones read past what they have
    with engine("fbgemm" if "3d" in name else "qnnpack"), torch.no_grad():
        model, x = make(), torch.randn(*shape)
        quantization.prepare(model, inplace=True)(x)
        quantization.convert(model, inplace=True)
        check(model, (x,), model(x))


ops = torch.ops.quantized
OPERATORS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": lambda x: F.relu(q(x)),
    "relu in place": lambda x: F.relu(q(x), inplace=True),
    "relu6": lambda x: F.relu6(q(x)),
    "quantized relu6": lambda x: ops.relu6(q(x)),
    "clamp": lambda x: torch.clamp(q(x), -0.5, 1.5),
    "hardtanh": lambda x: F.hardtanh(q(x), -0.7, 0.7),
    "sigmoid": lambda x: torch.sigmoid(q(x)),
    "sigmoid of i8": lambda x: torch.sigmoid(q(x, 0.04, 3, torch.qint8)),
    "tanh": lambda x: torch.tanh(q(x)),
    "tanh of i8": lambda x: torch.tanh(q(x, 0.04, 3, torch.qint8)),
    "hardsigmoid": lambda x: F.hardsigmoid(q(x)),
    "hardswish": lambda x: ops.hardswish(q(x), 0.03, 20),
    "leaky_relu": lambda x: ops.leaky_relu(q(x), 0.1, False, 0.03, 20),
    "leaky_relu in the same scale": lambda x: F.leaky_relu(q(x), 0.1),
    "elu": lambda x: ops.elu(q(x), 0.03, 40),
    "elu with numbers": lambda x: ops.elu(q(x), 0.03, 60, 0.7, 1.1, 0.9),
    "celu": lambda x: ops.celu(q(x), 0.03, 40, 0.6),
    "prelu": lambda x: ops.prelu(q(x), q(torch.tensor([0.1, 0.2, 0.3, -0.4]), 0.01), 0.03, 40),
    "threshold": lambda x: ops.threshold(q(x), 0.21, -1.0),
    "softmax": lambda x: ops.softmax(q(x), 1, 1 / 256, 0),
    "add": lambda x: ops.add(q(x), q(x.flip(3), 0.02, 100), 0.05, 118),
    "add_relu": lambda x: ops.add_relu(q(x), q(x.flip(3), 0.02, 100), 0.05, 3),
    "add of another shape": lambda x: ops.add(q(x), q(x[:, :, :1]), 0.05, 118),
    "mul": lambda x: ops.mul(q(x), q(x.flip(3), 0.02, 100), 0.05, 118),
    "mul_relu": lambda x: ops.mul_relu(q(x), q(x.flip(3), 0.02, 100), 0.05, 3),
    "add_scalar": lambda x: ops.add_scalar(q(x), 0.61),
    "add_scalar beyond": lambda x: ops.add_scalar(q(x), 9.0),
    "add_scalar below": lambda x: ops.add_scalar(q(x), -9.0),
    "add_scalar_relu": lambda x: ops.add_scalar_relu(q(x), -0.2),
    "mul_scalar": lambda x: ops.mul_scalar(q(x), 0.61),
    "mul_scalar below": lambda x: ops.mul_scalar(q(x), -1.7),
    "mul_scalar_relu": lambda x: ops.mul_scalar_relu(q(x), -1.7),
    "cat": lambda x: ops.cat([q(x), q(x, 0.02, 100)], 1, 0.04, 110),
    "cat in the first's scale": lambda x: ops.cat([q(x), q(x, 0.02, 100)], 1, None, None),
    "cat_relu": lambda x: ops.cat_relu([q(x), q(x, 0.02, 100)], 1, 0.04, 11),
    "aten cat": lambda x: torch.cat([q(x), q(x.flip(2))], 2),
    "aten cat of other scales": lambda x: torch.cat([q(x), q(x.flip(2), 0.02, 100)], 2),
    "stack": lambda x: torch.stack([q(x), q(x.flip(2))], 1),
    "stack of other scales": lambda x: torch.stack([q(x), q(x.flip(2), 0.02, 100)], -1),
    "stacks": lambda x: torch.hstack([torch.vstack([q(x), q(x, 0.02, 100)]), torch.column_stack([q(x), q(x)]).flip(1).repeat(2, 1, 1, 1)]),
    "dstack": lambda x: torch.dstack([q(x), q(x, 0.02, 100)]),
    "matmul": lambda x: ops.matmul(q(x), q(x.transpose(2, 3), 0.02, 100), 0.3, 128),
    "max_pool2d": lambda x: F.max_pool2d(q(x), 3, 2, 1),
    "max_pool1d": lambda x: F.max_pool1d(q(x[0]), 3, 2, 1),
    "avg_pool2d": lambda x: F.avg_pool2d(q(x), 3, 2, 1),
    "avg_pool2d that is told to leave padding out": lambda x: F.avg_pool2d(q(x), 3, 2, 1, count_include_pad=False),
    "avg_pool1d": lambda x: F.avg_pool1d(q(x[0]), 3, 2, 1, count_include_pad=False),
    "avg_pool1d of i8": lambda x: F.avg_pool1d(q(x[0], 0.04, 3, torch.qint8), 2),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(q(x[0]), 3),
    "avg_pool2d with a divisor": lambda x: F.avg_pool2d(q(x), 3, 2, 1, divisor_override=5),
    "avg_pool2d of what is there": lambda x: F.avg_pool2d(q(x), 3, 2, 1, ceil_mode=True, count_include_pad=False),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(q(x), (2, 3)),
    "mean": lambda x: q(x).mean((2, 3)),
    "nearest": lambda x: F.interpolate(q(x), scale_factor=2.0, mode="nearest"),
    "bilinear": lambda x: F.interpolate(q(x), size=(9, 11), mode="bilinear", align_corners=False),
    "batch_norm": lambda x: ops.batch_norm2d(
        q(x), torch.tensor([1.0, 2, -1, 0.5]), torch.ones(4), torch.zeros(4), torch.full((4,), 2.0), 1e-5, 0.05, 110
    ),
    "batch_norm_relu": lambda x: ops.batch_norm2d_relu(
        q(x), torch.ones(4), torch.ones(4), torch.zeros(4), torch.full((4,), 2.0), 1e-5, 0.05, 0
    ),
    "layer_norm": lambda x: ops.layer_norm(q(x), [7], torch.full((7,), 0.7), torch.ones(7), 1e-5, 0.03, 90),
    "group_norm": lambda x: ops.group_norm(q(x), 2, torch.ones(4), torch.ones(4), 1e-5, 0.03, 90),
    "instance_norm": lambda x: ops.instance_norm(q(x), torch.ones(4), torch.ones(4), 1e-5, 0.03, 90),
    "views": lambda x: q(x).permute(0, 2, 3, 1)[:, 1:, ::2].reshape(2, -1).unsqueeze(1).transpose(1, 2).contiguous(),
    "chunks": lambda x: torch.chunk(q(x), 2, 1)[1].flatten(1),
    "channel_shuffle": lambda x: F.channel_shuffle(q(x), 2),
    "zero padding": lambda x: F.pad(q(x), [1, 2, 0, 1]),
    "reflected": lambda x: F.pad(q(x), [1, 2, 2, 1], mode="reflect"),
    "gelu": lambda x: F.gelu(q(x)),
    "gelu by tanh": lambda x: F.gelu(q(x), approximate="tanh"),
    "std": lambda x: torch.std(q(x), 1),
    "masked_fill": lambda x: q(x).masked_fill(torch.arange(7) > 4, 0.3),
    "masked_fill in place": lambda x: q(x).masked_fill_(torch.arange(7) > 4, 0.3),
    "indices": lambda x: q(x)[:, [2, 0]],
    "more views": lambda x: torch.tensor_split(torch.hsplit(q(x).movedim(1, 3), 2)[1], 2, 2)[0].ravel(),
    "repeats": lambda x: torch.repeat_interleave(torch.tile(q(x), (1, 2)), 2, 1).broadcast_to(2, 2, 8, 6, 14),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(q(x[..., :6]), 2),
    "windows": lambda x: torch.diagonal(torch.rot90(q(x), 1, (2, 3)).unfold(3, 2, 2), 0, 2, 3),
    "max": lambda x: torch.max(q(x)),
    "min": lambda x: torch.min(q(x)),
    "max along a dim": lambda x: torch.max(q(x), 1)[0],
    "min along a dim": lambda x: torch.min(q(x), -1, keepdim=True)[0],
    "topk": lambda x: torch.topk(q(x), 3)[0],
    "sort": lambda x: torch.sort(q(x), 2, descending=True)[0],
}  # fmt: skip


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(1)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name: str) -> None:
    function = OPERATORS[name]
    x = torch.randn(2, 4, 6, 7, generator=torch.Generator().manual_seed(len(name))) * 2

    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x).dequantize()

    with engine("qnnpack"), torch.no_grad():
        expected = function(x)
        graph = check(torch.jit.trace(Model(), (x,)), (x,), expected.dequantize())
    last = graph.outputs[0].producer.inputs[0].tensor  # type: ignore[union-attr]
    assert last.dtype == {torch.quint8: "u8", torch.qint8: "i8"}[expected.dtype]
    assert last.quant is not None
    assert np.isclose(last.quant.scale, expected.q_scale(), rtol=1e-6)
    assert last.quant.zero == expected.q_zero_point()


def test_comparisons() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return q(x) > 0.5, q(x) == q(x.flip(3), 0.02, 100)

    x = torch.randn(2, 4, 6, 7, generator=seeded())
    got = penlight.optimize(torch.jit.trace(Model(), (x,)), (x,), strict=True)(x)
    for ours, theirs in zip(got, Model()(x), strict=True):
        assert torch.equal(ours, theirs)


def test_limits_after_a_sum_are_integers() -> None:
    """add_relu, as torchvision's quantized ResNets have it, is no sum in floats, whoever else reads it."""

    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = ops.add_relu(q(x), q(x.flip(3), 0.02, 100), 0.05, 3)
            return ops.mul(y, F.max_pool2d(y, 3, 1, 1), 0.1, 5).dequantize()

    x = torch.randn(2, 4, 6, 7, generator=seeded()) * 2
    with engine("qnnpack"), torch.no_grad():
        model = penlight.optimize(torch.jit.trace(Model(), (x,)), (x,))
        np.testing.assert_array_equal(model(x), Model()(x))
    keys = read(model.to_bytes()).keys
    assert "add.q8" in keys
    assert "add.f32" not in keys


def test_a_module_that_asks_whether_its_input_is_quantized() -> None:
    """As torch's quantized ELU does: no number decides that, though the scale before it was read from a tensor."""
    model = nn.Sequential(quantization.QuantStub(), nn.Conv2d(3, 8, 3), nn.ELU(), quantization.DeQuantStub()).eval()
    x = torch.randn(2, 3, 9, 7, generator=seeded())
    with engine("qnnpack"), torch.no_grad():
        model.qconfig = quantization.get_default_qconfig("qnnpack")
        quantization.prepare(model, inplace=True)
        model(x)
        quantization.convert(model, inplace=True)
        check(torch.jit.script(model), (x,), model(x))


@pytest.mark.slow
def test_embeddings() -> None:
    class Tables(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.bag = nn.Embedding(50, 12), nn.EmbeddingBag(30, 8, mode="sum", include_last_offset=True)

        def forward(
            self, words: torch.Tensor, bag: torch.Tensor, offsets: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor]:
            return self.words(words), self.bag(bag, offsets)

    torch.manual_seed(5)
    args = (torch.randint(0, 50, (3, 4)), torch.randint(0, 30, (9,)), torch.tensor([0, 2, 5, 9]))
    for words, bag in ((8, 4), (4, 8)):
        kinds = {
            8: quantization.float_qparams_weight_only_qconfig,
            4: quantization.float_qparams_weight_only_qconfig_4bit,
        }
        model = Tables().eval()
        floats = model.words.weight.detach().clone()
        model.words.qconfig, model.bag.qconfig = kinds[words], kinds[bag]
        quantization.convert(quantization.prepare(model, inplace=True), inplace=True)
        program = compile_model(model, args, strict=True)
        assert program.script is None
        constants = program.methods["forward"].graph.constants.values()
        assert sum(v.constant.nbytes for v in constants) <= 50 * 12 + 30 * 8 + 4 * 2 * 80 + 1000  # type: ignore[union-attr]
        ours, theirs = penlight.optimize(model, args)(*args), model(*args)
        assert (ours[1] - theirs[1]).abs().max() <= 3e-7 * theirs[1].abs().max()
        if words == 8:
            assert (ours[0] - theirs[0]).abs().max() <= 3e-7 * theirs[0].abs().max()
        else:  # torch 2.13 reads these as bytes, and gives rows of a few of them
            step = (floats.amax(1) - floats.amin(1)).max() / 15
            assert (ours[0] - floats[args[0]]).abs().max() <= 0.51 * step


@pytest.mark.parametrize("config", CONFIGS)
def test_dynamic_modules(config: str) -> None:
    torch.manual_seed(1)
    with engine(config), torch.no_grad():
        layers = nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 7)).eval()
        model, x = quantization.quantize_dynamic(layers, {nn.Linear}), torch.randn(5, 40)
        expected = model(x)
        got = penlight.optimize(model, (x,), strict=True)(x)
    assert (got - expected).abs().max() <= 1e-6 * expected.abs().max()


# ---- PT2E: graphs of quantized_decomposed operators ----
decomposed = torch.ops.quantized_decomposed


class Signed(nn.Module):
    """As XNNPACK's quantizer has it: i8 for everything, one scale for each channel of the weights."""

    def __init__(self) -> None:
        super().__init__()
        g = seeded()
        self.register_buffer("w", torch.randint(-127, 128, (8, 3, 3, 3), generator=g, dtype=torch.int8))
        self.register_buffer("scales", torch.rand(8, generator=g) * 0.01 + 0.001)
        self.register_buffer("zeros", torch.zeros(8, dtype=torch.int64))
        self.bias = nn.Parameter(torch.randn(8, generator=g))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pair(x, 0.03, -7)
        w = decomposed.dequantize_per_channel(self.w, self.scales, self.zeros, 0, -127, 127, torch.int8)
        y = self.pair(F.relu(F.conv2d(x, w, self.bias, padding=1)), 0.02, -128)
        flat = decomposed.quantize_per_tensor(F.max_pool2d(y, 2), 0.02, -128, -128, 127, torch.int8).flatten(1)
        return decomposed.dequantize_per_tensor(flat, 0.02, -128, -128, 127, torch.int8)

    def pair(self, x: torch.Tensor, scale: float, zero: int) -> torch.Tensor:
        x = decomposed.quantize_per_tensor(x, scale, zero, -128, 127, torch.int8)
        return decomposed.dequantize_per_tensor(x, scale, zero, -128, 127, torch.int8)


def test_signed_pairs() -> None:
    x = torch.randn(2, 3, 8, 6, generator=seeded())
    model = Signed().eval()
    with torch.no_grad():
        graph = check(model, (x,), model(x))
    values = [v for n in graph.nodes for v in n.outputs if v.tensor.quant is not None]
    assert [str(v.tensor.quant) for v in values] == ["q(0.03, -7)", "q(0.02, -128)", "q(0.02, -128)", "q(0.02, -128)"]
    assert {v.dtype for v in values} == {"i8"}
    weight = graph.constants["w"].tensor
    assert weight.quant == Quant(tuple(model.scales.tolist()), (0,) * 8, 0)
    compiled = compile_model(model, (x,)).methods["forward"].graph
    assert {v.dtype for n in compiled.walk() for v in n.outputs if v.tensor.quant is not None} == {"u8"}


def test_scales_in_tensors_and_weights_that_are_not_folded() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.randn(5, 8, generator=seeded()))
            self.register_buffer("scales", self.w.detach().abs().amax(1) / 127)
            self.register_buffer("zeros", torch.zeros(5, dtype=torch.int64))
            self.register_buffer("scale", torch.tensor([0.03]))
            self.register_buffer("zero", torch.tensor([11]))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            w = decomposed.quantize_per_channel(self.w, self.scales, self.zeros, 0, -127, 127, torch.int8)
            w = decomposed.dequantize_per_channel(w, self.scales, self.zeros, 0, -127, 127, torch.int8)
            x = decomposed.quantize_per_tensor.tensor(x, self.scale, self.zero, 0, 127, torch.uint8)
            y = F.linear(decomposed.dequantize_per_tensor.tensor(x, self.scale, self.zero, 0, 127, torch.uint8), w)
            y = decomposed.quantize_per_tensor(y, 0.05, 128, 0, 255, torch.uint8)
            return decomposed.dequantize_per_tensor(y, 0.05, 128, 0, 255, torch.uint8)

    x, model = torch.randn(4, 8, generator=seeded()) * 3, Model().eval()
    with torch.no_grad():
        check(model, (x,), model(x))


def test_training_with_fake_quantization() -> None:
    """What QAT gives before convert: quantized and back in one call."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.randn(5, 8, generator=seeded()))
            self.register_buffer("scales", self.w.detach().abs().amax(1) / 127)
            self.register_buffer("zeros", torch.zeros(5, dtype=torch.int32))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            w = torch.fake_quantize_per_channel_affine(self.w, self.scales, self.zeros, 0, -127, 127)
            y = F.linear(torch.fake_quantize_per_tensor_affine(x, 0.03, 11, 0, 127), w)
            return torch.fake_quantize_per_tensor_affine(y, 0.05, 128, 0, 255)

    x, model = torch.randn(4, 8, generator=seeded()) * 3, Model().eval()
    with torch.no_grad():
        check(model, (x,), model(x))


@pytest.mark.parametrize("trained", [False, True])
def test_a_model_that_was_not_converted(trained: bool) -> None:
    """prepare's observers and prepare_qat's fake quantization change their ranges when they run: the error says what is missing."""
    model = nn.Sequential(quantization.QuantStub(), nn.Linear(8, 4), quantization.DeQuantStub()).train(trained)
    model.qconfig = (quantization.get_default_qat_qconfig if trained else quantization.get_default_qconfig)("qnnpack")
    (quantization.prepare_qat if trained else quantization.prepare)(model, inplace=True)
    model(x := torch.randn(3, 8, generator=seeded()))
    with pytest.raises(penlight.CaptureError, match="not quantized yet.*torch.ao.quantization.convert"):
        penlight.optimize(model, (x,))


def test_weights_of_torchao() -> None:
    """quantize_ exchanges weights for tensors of its own: the error says what to give instead."""
    torchao = pytest.importorskip("torchao.quantization")
    torchao.quantize_(model := nn.Sequential(nn.Linear(64, 32)), torchao.Int8WeightOnlyConfig())
    with pytest.raises(penlight.CaptureError, match='torchao.*weights="i8"'):
        penlight.optimize(model, (torch.randn(3, 64, generator=seeded()),))


def test_integers_that_code_computes_with() -> None:
    """Quantized integers are plain ones for operators that know nothing of scales, and torch may read them by other scales."""

    class Model(nn.Module):
        def forward(self, x: torch.Tensor, given: torch.Tensor) -> tuple[torch.Tensor, ...]:
            a = decomposed.quantize_per_tensor(x, 0.03, -5, -128, 127, torch.int8)
            b = decomposed.quantize_per_tensor(x, 0.02, 3, -128, 127, torch.int8)
            wide = decomposed.quantize_per_tensor(x, 0.001, 3, -30000, 30000, torch.int16)
            return (
                a.to(torch.int32) * 3 + 1,
                torch.cat([a, b]),
                decomposed.dequantize_per_tensor(a.flatten(), 0.1, 2, -128, 127, torch.int8),
                decomposed.dequantize_per_tensor(given, 0.1, 2, -128, 127, torch.int8),
                decomposed.dequantize_per_tensor(wide, 0.001, 3, -30000, 30000, torch.int16),
                b,
            )

    x = torch.randn(5, 40, generator=seeded()) * 2
    given = torch.randint(-128, 128, (17,), generator=seeded(), dtype=torch.int8)
    for got, expected in zip(penlight.optimize(Model(), (x, given))(x, given), Model()(x, given), strict=True):
        assert got.dtype == expected.dtype
        assert torch.equal(got, expected)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
def test_scales_from_the_data(symmetric: bool, dtype: torch.dtype) -> None:
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    choose = (decomposed.choose_qparams_symmetric if symmetric else decomposed.choose_qparams).tensor

    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            scale, zero = choose(x, low, high, 1e-6, dtype)
            y = decomposed.quantize_per_tensor.tensor(x, scale, zero, low, high, dtype)
            return scale, zero, decomposed.dequantize_per_tensor.tensor(y, scale, zero, low, high, dtype)

    examples = torch.randn(5, 9, generator=seeded())
    ours = penlight.optimize(Model(), (examples,))
    for x in (examples * 3, examples.abs() + 1, -examples.abs() - 2, examples * 0, examples * 1e-7):
        for got, expected in zip(ours(x), Model()(x), strict=True):
            assert got.dtype == expected.dtype
            assert torch.allclose(got, expected, rtol=1e-6, atol=0)


def pt2e(quantizer: Any, model: nn.Module, x: torch.Tensor, **options: Any) -> nn.Module:
    steps = pytest.importorskip("torchao.quantization.pt2e.quantize_pt2e", reason="torchao has prepare_pt2e")
    prepared = steps.prepare_pt2e(torch.export.export(model, (x,)).module(), quantizer)
    prepared(x)
    return steps.convert_pt2e(prepared, **options)  # type: ignore[no-any-return]


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm(self.conv(x)))
        return self.head(F.max_pool2d(y + torch.sigmoid(y), 3).mean((2, 3)))


def quantizers() -> Iterator[tuple[str, Callable[[], Any]]]:
    def x86(**options: Any) -> Any:
        path = "torchao.quantization.pt2e.quantizer.x86_inductor_quantizer"
        module = pytest.importorskip(path, reason="torchao has the quantizer for x86")
        return module.X86InductorQuantizer().set_global(module.get_default_x86_inductor_quantization_config(**options))

    def xnnpack(**options: Any) -> Any:
        path = "executorch.backends.xnnpack.quantizer.xnnpack_quantizer"
        module = pytest.importorskip(path, reason="executorch has XNNPACK's quantizer")
        return module.XNNPACKQuantizer().set_global(module.get_symmetric_quantization_config(**options))

    yield "x86", x86
    yield "x86, reduced range", lambda: x86(reduce_range=True)
    yield "x86, dynamic", lambda: x86(is_dynamic=True)
    yield "xnnpack, per tensor", xnnpack
    yield "xnnpack, per channel", lambda: xnnpack(is_per_channel=True)
    yield "xnnpack, dynamic", lambda: xnnpack(is_per_channel=True, is_dynamic=True)


@pytest.mark.parametrize("name", dict(quantizers()))
@pytest.mark.parametrize("folded", [True, False])
def test_pt2e(name: str, folded: bool) -> None:
    quantizer = dict(quantizers())[name]()
    torch.manual_seed(0)
    x = torch.randn(2, 3, 9, 9)
    with torch.no_grad():
        model = pt2e(quantizer, Classifier().eval(), x, fold_quantize=folded)
        expected = model(x)
        for source, args in ((model, (x,)), (torch.export.export(model, (x,)), None)):
            program = compile_model(copy.deepcopy(source), args, strict=True)
            assert program.script is None
            got = penlight.optimize(source, args)(x)
            assert (got - expected).abs().max() <= 0.02 * expected.abs().max()


class Heads(nn.Module):
    """Attention as older models have it."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.out = nn.Linear(24, 72), nn.Linear(24, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.project(x).view(*x.shape[:2], 3, 3, 8).permute(2, 0, 3, 1, 4).unbind(0)
        weights = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) / 8**0.5, -1)
        return self.out(torch.matmul(weights, v).transpose(1, 2).reshape(x.shape))


def test_pt2e_matmul() -> None:
    """Products of two activations compute in integers too, where the quantizer says so."""
    path = "torchao.quantization.pt2e.quantizer.x86_inductor_quantizer"
    module = pytest.importorskip(path, reason="torchao has the quantizer for x86")
    config = module.get_default_x86_inductor_quantization_config()
    quantizer = module.X86InductorQuantizer().set_global(config).set_function_type_qconfig(torch.matmul, config)
    torch.manual_seed(0)
    x = torch.randn(2, 7, 24)
    with torch.no_grad():
        model = pt2e(quantizer, Heads().eval(), x)
        ours = penlight.optimize(model, (x,))
        kernels = [node.kernel for node in compile_model(model, (x,)).methods["forward"].graph.walk()]
        assert kernels.count("matmul.q8") == 2
        assert "matmul.f32" not in kernels
        expected = model(x)
        assert (ours(x) - expected).abs().max() <= 0.02 * expected.abs().max()
