"""Random networks, made of what passes look for in combinations nobody wrote by hand: the numbers must stay."""

import math
import random

import numpy as np
import pytest
import torch

from penlight.ir import Graph, Method, Program, SymbolRange, TensorType, Value, print_graph, symbol
from penlight.ir.verify import verify
from penlight.ops import registry
from penlight.passes import optimize, pipeline
from tests.passes.reference import run_graph

C, H, W = 8, 6, 5
N = symbol("n")
MAP = TensorType("f32", (N, C, H, W))
UNARY = ["relu", "sigmoid", "hardswish", "silu", "tanh", "gelu", "leaky_relu", "elu", "neg", "clamp"]


class Network:
    def __init__(self, seed: int) -> None:
        self.rng, self.data = random.Random(seed), np.random.default_rng(seed)
        self.graph = Graph()
        self.maps = [self.graph.add_input("x", MAP)]
        for _ in range(self.rng.randint(3, 16)):
            step = self.rng.choice([self.conv, self.conv, self.conv, self.norm, self.unary, self.unary, self.sum, self.affine, self.gate,
                                    self.squeeze, self.padded, self.split, self.turn, self.pool])  # fmt: skip
            self.maps.append(step(self.any_map()))
        self.graph.outputs = [self.any_map() for _ in range(self.rng.randint(1, 3))]
        if self.rng.random() < 0.5:
            self.graph.outputs.append(self.head(self.any_map()))

    def any_map(self) -> Value:
        return self.rng.choice(self.maps[-4:])

    def emit(self, op: str, *inputs: Value | None, type: TensorType = MAP, **attrs: object) -> Value:
        filled = {p.name: attrs.get(p.name, p.default) for p in registry.get(op).attrs}
        return self.graph.append(self.graph.node(op, inputs, filled, type, name=op)).output  # type: ignore[arg-type]

    def constant(self, *shape: int, positive: bool = False) -> Value:
        array = self.data.random(shape, np.float32) + 0.5 if positive else self.data.standard_normal(shape, np.float32)
        return self.graph.add_constant(array / np.float32(math.sqrt(math.prod(shape[1:]))))

    def conv(self, x: Value, kernel: int | None = None, padding: tuple[int, ...] | None = None) -> Value:
        kernel = kernel or self.rng.choice([1, 3])
        groups = self.rng.choice([1, 2, C])
        bias = self.constant(C) if self.rng.random() < 0.5 else None
        weight = self.constant(C, C // groups, kernel, kernel)
        padding = padding or (kernel // 2,) * 4
        return self.emit(
            "conv2d", x, weight, bias, None, stride=(1, 1), padding=padding, dilation=(1, 1), groups=groups
        )

    def norm(self, x: Value) -> Value:
        gamma, beta, mean = (self.constant(C) for _ in range(3))
        return self.emit("batch_norm", x, gamma, beta, mean, self.constant(C, positive=True), eps=1e-3)

    def unary(self, x: Value) -> Value:
        op = self.rng.choice(UNARY)
        return self.emit(op, x, **({"lo": -1.0, "hi": 2.0} if op == "clamp" else {}))

    def sum(self, x: Value) -> Value:
        return self.emit(self.rng.choice(["add", "add", "mul"]), x, self.any_map())

    def affine(self, x: Value) -> Value:
        c = self.rng.choice([self.constant(C, 1, 1), self.constant(1), self.constant(1, C, 1, 1), self.constant(H, W)])
        return self.emit(self.rng.choice(["add", "mul", "sub"]), x, c)

    def gate(self, x: Value) -> Value:
        return self.emit("mul", x, self.emit("sigmoid", x))

    def squeeze(self, x: Value) -> Value:
        small = TensorType("f32", (N, C, 1, 1))
        mean = self.emit("mean", x, type=small, dims=(2, 3), keepdim=True)
        return self.emit("mul", x, self.emit("hardsigmoid", mean, type=small))

    def padded(self, x: Value) -> Value:
        big = TensorType("f32", (N, C, H + 2, W + 2))
        return self.conv(self.emit("pad", x, type=big, padding=(1, 1, 1, 1), value=0.0), 3, (0, 0, 0, 0))

    def pool(self, x: Value) -> Value:
        pooling = {"kernel": (3, 3), "stride": (1, 1), "padding": (1, 1, 1, 1), "ceil_mode": False}
        if self.rng.random() < 0.5:
            return self.emit("max_pool2d", x, dilation=(1, 1), **pooling)
        return self.emit("avg_pool2d", x, count_include_pad=True, divisor=None, **pooling)

    def split(self, x: Value) -> Value:
        half = TensorType("f32", (N, C // 2, H, W))
        ends = [(0, C // 2), (C // 2, C)]
        parts = [self.emit("slice", x, type=half, dim=1, start=a, end=b, step=1) for a, b in ends]
        return self.emit("cat", *parts[:: self.rng.choice([1, -1])], dim=1)

    def turn(self, x: Value) -> Value:
        """There and back, with something in between that lies differently."""
        rows = TensorType("f32", (N, H * W, C))
        flat = self.emit("reshape", x, type=TensorType("f32", (N, C, H * W)), shape=(N, C, H * W))
        turned = self.emit("permute", flat, type=rows, dims=(0, 2, 1))
        if self.rng.random() < 0.7:
            turned = self.emit("linear", turned, self.constant(C, C), self.constant(C), None, type=rows)
        if self.rng.random() < 0.5:
            turned = self.emit("relu", turned, type=rows)
        back = self.emit("permute", turned, type=TensorType("f32", (N, C, H * W)), dims=(0, 2, 1))
        return self.emit("reshape", back, shape=(N, C, H, W))

    def head(self, x: Value) -> Value:
        flat = self.emit("reshape", x, type=TensorType("f32", (N, C * H * W)), shape=(N, C * H * W))
        return self.emit("linear", flat, self.constant(3, C * H * W), None, None, type=TensorType("f32", (N, 3)))


@pytest.mark.parametrize("seed", range(60))
def test_random_network(seed: int) -> None:
    graph = Network(seed).graph
    verify(graph)
    x = torch.randn(2, C, H, W)
    before, text = run_graph(graph, [x]), print_graph(graph)
    optimize(Program({"forward": Method(graph)}))
    for a, b in zip(before, run_graph(graph, [x]), strict=True):
        error = (a - b).abs().max().item() / max(a.abs().max().item(), 1e-6)
        assert error < 1e-4, f"error {error}\n{text}\n{print_graph(graph)}"
    assert "batch_norm" not in {node.op for node in graph.nodes}


@pytest.mark.parametrize("seed", range(100, 130))
def test_random_network_at_run_time(seed: int) -> None:
    """Layouts show only here: as the caller's tensors lie one way or another, in batches of 1 and 3."""
    pytest.importorskip("penlight._runtime")
    from penlight.file.writer import to_array
    from penlight.lower import lower
    from penlight.model import Model

    graph = Network(seed).graph
    inputs = {"args": [0], "kwargs": {}, "names": ["x"]}
    outputs = {"list": list(range(len(graph.outputs)))}
    program = Program({"forward": Method(graph, inputs, outputs, {"n": SymbolRange(1)})})
    cases = [torch.randn(n, C, H, W) for n in (1, 3)]
    expected = [run_graph(graph, [x]) for x in cases]
    optimize(program)
    text = print_graph(graph)
    lower(program)
    model = Model(to_array(program), threads=1)
    for x, before in zip(cases, expected, strict=True):
        cut_out = torch.empty(*x.shape[:3], W + 2)[..., 1:-1].copy_(x)
        for given in (x, x.to(memory_format=torch.channels_last), cut_out):
            for a, b in zip(before, model(given), strict=True):
                error = (a - b).abs().max().item() / max(a.abs().max().item(), 1e-6)
                assert error < 1e-4, f"error {error} at strides {given.stride()}\n{text}"


@pytest.mark.parametrize("seed", range(20))
def test_a_pass_that_reports_no_change_made_none(seed: int) -> None:
    """Only then is a graph verified between passes. The last stage counts conversions, and always says where views are; after it
    the graph is verified in any case."""
    graph = Network(seed).graph
    for run in [run for stage in pipeline.STAGES[:-1] for run in stage.passes * (1 + stage.repeat)]:
        before = print_graph(graph)
        if not run(graph):
            assert print_graph(graph) == before, run.__module__
