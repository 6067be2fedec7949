"""Images between operators of the VM: they lie channels-last underneath, and convolutions wait for what follows (runtime/vm/images.h). Code
must see nothing of either: numbers, strides, aliases and what is written in place are torch's, whatever comes between."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import penlight
from tests.vm.check import compare

_numbers = itertools.count()
KINDS = {"full": (3, 1, 1), "point": (1, 1, 0), "depth": (3, 0, 1), "halves": (3, 2, 1)}  # kernel, groups (0: each), padding


def module(body: str, channels: int = 8, results: str = "Tensor") -> Any:
    """`self.full(x)` and the other kinds keep the size of an image; `self.state` is an attribute."""
    generator = torch.Generator().manual_seed(3)
    weights, methods = nn.Module(), []
    for kind, (kernel, groups, padding) in KINDS.items():
        groups = min(groups, channels) or channels
        weight = torch.randn(channels, channels // groups, kernel, kernel, generator=generator) / (channels // groups) ** 0.5
        weights.register_buffer(f"w_{kind}", weight)
        weights.register_buffer(f"b_{kind}", torch.randn(channels, generator=generator))
        methods.append(
            f"def {kind}(self, x):\n"
            f"    return torch.conv2d(x, self.w_{kind}, self.b_{kind}, [1, 1], [{padding}, {padding}], [1, 1], {groups})\n"
        )
    weights.register_buffer("state", torch.zeros(1))
    weights.register_buffer(f"only_{next(_numbers)}", torch.zeros(1))  # torch has one class for all modules with the same attributes
    m = torch.jit.script(weights)
    for method in methods:
        m.define(method)
    lines = "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    m.define(f"def forward(self, x) -> {results}:\n{lines}")
    return m


def image(channels: int = 8, sides: tuple[int, int] = (6, 5), batch: int = 2) -> torch.Tensor:
    return torch.randn(batch, channels, *sides, generator=torch.Generator().manual_seed(5))


def check(body: str, x: torch.Tensor, results: str = "Tensor", runs: int = 2) -> Any:
    """Interpreted beside torch, with the strides that both give; twice, as plans and weights are kept."""
    m = module(body, x.shape[1], results)
    ours = penlight.optimize(m, plan=False)
    for _ in range(runs):
        with torch.jit.optimized_execution(False):  # torch's optimizer loses what is written into parts of a list
            expected = m(x.clone())
        got = ours(x.clone())
        compare(got, expected, 2e-5, body)
        assert strides(got) == strides(expected), body
    return got


def strides(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return [s for s, n in zip(value.stride(), value.shape, strict=True) if n > 1]
    return [strides(v) for v in value] if isinstance(value, (list, tuple)) else None


CASES = {
    "an activation after it": "return torch.relu(self.full(x))",
    "one in place": "y = self.full(x)\ntorch.relu_(y)\nreturn y",
    "one in place, seen through another name": "y = self.full(x)\nz = y\nz.clamp_(0.0, 0.5)\nreturn y",
    "relu6": "return torch.ops.aten.hardtanh(self.depth(x), 0.0, 6.0)",
    "with a function of its own": "return torch.sigmoid(self.point(x))",
    "with attributes": "return torch.ops.aten.leaky_relu(self.halves(x), 0.2)",
    "a sum": "return x + self.full(x)",
    "a sum, the other way round": "return self.full(x) + x",
    "a sum in place": "y = self.full(x)\ny += x\nreturn y",
    "a sum in place of the other": "y = x.clone()\ny += self.full(x)\nreturn y",
    "a sum and an activation": "return torch.relu(self.full(x) + x)",
    "two sums": "return self.full(x) + x + x",
    "a sum with a factor": "return torch.add(self.full(x), x, alpha=2)",
    "a sum with itself": "y = self.full(x)\nreturn y + y",
    "a sum with a channels-last one": "return self.full(x) + x.contiguous(memory_format=torch.channels_last)",
    "a sum in place with a channels-last one": "y = self.full(x)\ny += x.contiguous(memory_format=torch.channels_last)\nreturn y",
    "a sum with a permuted one": "return self.full(x) + x.transpose(2, 3).contiguous().transpose(2, 3)",
    "a sum with one that is broadcast": "return self.full(x) + x[:, :, :1, :1]",
    "a sum with a smaller one": "return self.full(x) + x[0, 0]",
    "a sum of two": "return self.full(x) + self.point(x)",
    "gates": "y = self.full(x)\nreturn y * torch.sigmoid(torch.ops.aten.adaptive_avg_pool2d(y, [1, 1]))",
    "used before the activation": "y = self.full(x)\nz = torch.relu(y)\nreturn y - z",
    "used after it": "y = self.full(x)\nz = torch.relu(y)\nz = z * 3\nreturn self.point(y) + z",
    "the input changes after it": "y = self.full(x)\nx.mul_(0.0)\nreturn y",
    "the input changes before the activation": "y = self.full(x)\nx.zero_()\nreturn torch.relu(y)",
    "an input that is an activation in place": "y = self.full(x)\nx.relu_()\nreturn y",
    "what is added changes": "y = self.full(x)\nz = x * 2\ny += z\nz.zero_()\nreturn y",
    "what is added is added to": "y = self.full(x)\nz = x * 2\ny += z\nz += y\nreturn z + y",
    "the weight changes": "w = self.w_full * 2\ny = torch.conv2d(x, w, None, [1, 1], [1, 1])\nw.zero_()\nreturn torch.relu(y)",
    "the bias changes": "b = self.b_full * 2\ny = torch.conv2d(x, self.w_full, b, [1, 1], [1, 1])\nb.zero_()\nreturn y",
    "a view": "y = self.full(x)\nz = y.view(-1)\nz[3] = 7.0\nreturn y",
    "a view of an activation": "y = torch.relu(self.full(x))\ny[:, 0].add_(1)\nreturn y",
    "a view, then in place": "y = self.full(x)\nz = y.transpose(2, 3)\ny.relu_()\nreturn z",
    "a detached one": "y = self.full(x)\nz = y.detach()\ny.mul_(2)\nreturn z",
    "a row of it in place": "y = self.full(x)\ny[0].mul_(2)\nreturn y.sum(0)",
    "in place twice": "y = self.full(x)\ny.relu_()\ny.mul_(2)\ny.add_(x)\nreturn y",
    "in place from itself": "y = self.full(x)\ny.mul_(y)\nreturn y",
    "written into": "y = self.full(x)\ntorch.mul(x, x, out=y)\nreturn y",
    "written into before it is read": "y = self.full(x)\ny.zero_()\nreturn y",
    "out takes another shape": "y = self.full(x)\ntorch.relu(x[:1], out=y)\nreturn y",
    "its sizes": "y = self.full(x)\nif y.dim() != 4 or y.size(1) == 3 or y.stride(1) == 1 or not y.is_contiguous():\n    raise ValueError('no')\nreturn torch.relu(y)",
    "its format": "y = torch.relu(self.full(x))\nif y.is_contiguous(memory_format=torch.channels_last):\n    y = y * 2\nreturn y",
    "made contiguous": "return self.point(torch.relu(self.full(x)).contiguous())",
    "made channels-last": "return self.point(torch.relu(self.full(x)).contiguous(memory_format=torch.channels_last))",
    "pooled": "return torch.max_pool2d(torch.relu(self.full(x)), [2, 2])",
    "pooled, padded": "return torch.ops.aten.avg_pool2d(self.full(x), [3, 3], [2, 2], [1, 1])",
    "pooled and back": "return torch.sigmoid(self.full(torch.max_pool2d(x, [3, 3], [1, 1], [1, 1])))",
    "its mean": "return torch.relu(self.full(x)).mean([2, 3])",
    "flat": "return torch.flatten(torch.relu(self.full(x)), 1)",
    "in a list": "y = self.full(x)\nl = [y, self.point(x)]\ny.relu_()\nreturn torch.cat(l, 1)",
    "appended": "l = [x]\nl.append(self.full(x))\nl[1].add_(l[0])\nreturn l[1]",
    "in a dict": "d = {'a': self.full(x)}\ny = d['a']\ny += 1\nreturn d['a']",
    "in a tuple": "t = (self.full(x), x)\nt[0].relu_()\nreturn t[0] + t[1]",
    "kept": "y = self.full(x)\nself.state = y\ny.relu_()\nreturn self.state * 2",
    "kept after the activation": "y = torch.relu(self.full(x))\nself.state = y\ny.mul_(2)\nreturn self.state",
    "of another dtype": "return self.full(x).double() + 1",
    "compared": "y = self.full(x)\nreturn torch.where(y > 0.5, y, x)",
    "in a loop": "y = x\nfor i in range(3):\n    y = torch.relu(self.full(y)) + y\nreturn y",
    "in a branch": "y = self.full(x)\nif x.size(0) > 1:\n    y = torch.relu(y)\nelse:\n    y = y * 2\nreturn self.point(y)",
    "dropped": "y = self.full(x)\ny = self.point(x)\nreturn y",
    "dropout": "y = torch.dropout(self.full(x), 0.5, False)\ny.relu_()\nreturn y",
    "a chain": "y = torch.relu(self.full(x))\ny = torch.ops.aten.hardtanh_(self.depth(y), 0.0, 6.0)\nreturn x + self.point(y)",
    "strides that are asked for": "y = self.full(x)\nreturn torch.as_strided(y, [3, 4], [1, 2], 5)",
    "integers of it": "v, i = torch.ops.aten.max_pool2d_with_indices(self.full(x), [2, 2])\nreturn torch.fmod(i, i + 1) + i",
}  # fmt: skip
ROW_MAJOR = ("its sizes", "a view")  # what torch refuses of a channels-last one
ROOM = ("pooled", "its format", "its sizes", "integers of it", "strides that are asked for")  # more than a pixel
SHAPES = {
    "some": (image(), ()),
    "some, channels-last": (image().contiguous(memory_format=torch.channels_last), ROW_MAJOR),
    "many channels": (image(512, (3, 5), 1), ()),  # pixels are further apart then
    "one channel": (image(1), ()),
    "one pixel": (image(8, (1, 1), 1), ROOM),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", CASES)
def test_code_sees_what_torch_has(name: str, shape: str) -> None:
    x, without = SHAPES[shape]
    if name not in without:
        check(CASES[name], x)


class Program:
    """Code at random over images of one size; every variable that is left is a result."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.names = ["x"]

    def name(self) -> str:
        return self.random.choice(self.names[-4:])

    def value(self) -> str:
        a, b, kind = self.name(), self.name(), self.random.choice(list(KINDS))
        conv = f"self.{kind}({a})"
        return self.random.choice(
            [conv, conv, conv, conv, f"torch.relu({a})", f"torch.ops.aten.hardtanh({a}, -0.5, 0.5)", f"torch.sigmoid({a})",
             f"{a} + {b}", f"{a} * {b}", f"{b} - {a}", f"{a} + {conv}", f"torch.relu({conv} + {b})", f"torch.add({a}, {b}, alpha=0.5)",
             f"{a} * torch.ops.aten.adaptive_avg_pool2d({b}, [1, 1])", f"torch.max_pool2d({a}, [3, 3], [1, 1], [1, 1])",
             f"torch.where({a} > 0, {a}, {b})", f"{a}.detach()", f"{a}.contiguous()", f"{a}.clone()", f"{a}[:]", f"torch.dropout({a}, 0.5, False)",
             f"torch.stack([{a}, {b}])[1]", f"{a}.contiguous(memory_format=torch.channels_last)", f"({a}, {b})[0]", f"[{a}][0]"])  # fmt: skip

    def statement(self) -> str:
        a, b = self.name(), self.name()
        return self.random.choice(
            [f"torch.relu_({a})", f"torch.ops.aten.hardtanh_({a}, 0.0, 1.0)", f"{a} *= 0.5", f"{a} += {b}", f"{a} -= {b}", f"{a}.copy_({b})",
             f"{a}[0].mul_(0.5)", f"{a}[:, -1:].zero_()", f"if {a}.dim() != 4 or {a}.size(1) == 7:\n    raise ValueError('no')",
             f"self.state = {a}", f"numbers.append({a}.stride(1))", f"numbers.append(int({a}.is_contiguous()))", f"torch.mul({a}, {a}, out={b})"])  # fmt: skip

    def text(self, length: int) -> str:
        for i in range(length):
            if self.random.random() < 0.6:
                self.lines.append(f"v{i} = {self.value()}")
                if self.random.random() < 0.2:
                    self.lines[-1] = self.lines[-1].replace(f"v{i}", self.name(), 1)
                else:
                    self.names.append(f"v{i}")
            else:
                self.lines.append(self.statement())
        return "\n".join(["numbers = [0]", *self.lines, f"return [{', '.join(self.names)}, self.state], numbers"])


@pytest.mark.parametrize("shape", [(2, 8, 4, 3), (1, 512, 2, 2), (1, 1, 3, 3), (3, 4, 1, 1)], ids=str)
@pytest.mark.parametrize("first", range(0, 60, 20))
def test_programs_drawn_at_random(first: int, shape: tuple[int, int, int, int]) -> None:
    for seed in range(first, first + 20):
        body = Program(seed).text(12)
        check(body, image(shape[1], shape[2:], shape[0]), "Tuple[List[Tensor], List[int]]", runs=1)
