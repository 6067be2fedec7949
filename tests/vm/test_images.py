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
from penlight.file.writer import to_array
from tests.file.assemble import program
from tests.vm.check import compare

_numbers = itertools.count()
KINDS = {
    "full": (3, 1, 1),
    "point": (1, 1, 0),
    "depth": (3, 0, 1),
    "halves": (3, 2, 1),
}  # kernel, groups (0: each), padding


def module(body: str, channels: int = 8, results: str = "Tensor") -> Any:
    """`self.full(x)` and the other kinds keep the size of an image; `self.state` is an attribute."""
    generator = torch.Generator().manual_seed(3)
    weights, methods = nn.Module(), []
    for kind, (kernel, groups, padding) in KINDS.items():
        groups = min(groups, channels) or channels
        weight = (
            torch.randn(channels, channels // groups, kernel, kernel, generator=generator) / (channels // groups) ** 0.5
        )
        weights.register_buffer(f"w_{kind}", weight)
        weights.register_buffer(f"b_{kind}", torch.randn(channels, generator=generator))
        methods.append(
            f"def {kind}(self, x):\n"
            f"    return torch.conv2d(x, self.w_{kind}, self.b_{kind}, [1, 1], [{padding}, {padding}], [1, 1], {groups})\n"
        )
    weights.register_buffer("state", torch.zeros(1))
    weights.register_buffer(
        f"only_{next(_numbers)}", torch.zeros(1)
    )  # torch has one class for all modules with the same attributes
    m = torch.jit.script(weights)
    for method in methods:
        m.define(method)
    lines = "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    m.define(f"def forward(self, x) -> {results}:\n{lines}")
    return m


def image(channels: int = 8, sides: tuple[int, int] = (6, 5), batch: int = 2) -> torch.Tensor:
    return torch.randn(batch, channels, *sides, generator=torch.Generator().manual_seed(5))


def check(body: str, x: torch.Tensor, results: str = "Tensor", runs: int = 2, tolerance: float = 2e-5) -> Any:
    """Interpreted beside torch, with the strides that both give; twice, as plans and weights are kept."""
    m = module(body, x.shape[1], results)
    ours = penlight.optimize(m, plan=False)
    for _ in range(runs):
        with torch.jit.optimized_execution(False):  # torch's optimizer loses what is written into parts of a list
            expected = m(x.clone())
        got = ours(x.clone())
        compare(got, expected, tolerance, body)
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


PAIRS = [
    pytest.param(name, shape, marks=() if shape == "some" else pytest.mark.slow)
    for shape, (_, without) in SHAPES.items()
    for name in CASES
    if name not in without
]


@pytest.mark.parametrize(("name", "shape"), PAIRS)
def test_code_sees_what_torch_has(name: str, shape: str) -> None:
    check(CASES[name], SHAPES[shape][0])


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
             f"torch.cat([{a}, {b}])[{a}.size(0) :]", f"{a}.contiguous(memory_format=torch.channels_last)", f"({a}, {b})[0]", f"[{a}][0]"])  # fmt: skip

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
@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (20, 40))])
def test_programs_drawn_at_random(first: int, shape: tuple[int, int, int, int]) -> None:
    for seed in range(first, first + 20):
        body = Program(seed).text(12)
        check(
            body, image(shape[1], shape[2:], shape[0]), "Tuple[List[Tensor], List[int]]", 1, 2e-3
        )  # what clamps cut off was larger


# --- by hand-written code, which no compiler would make ---
CONV = "aten::conv2d(r1, r2, None, [1, 1], [1, 1], [1, 1], 1)"
X, W = image(8).numpy(), (torch.randn(8, 8, 3, 3, generator=torch.Generator().manual_seed(1)) * 0.2).numpy()
Y = torch.conv2d(torch.tensor(X), torch.tensor(W), padding=1)
HAND = {
    "dropped and used again": (f"r3 = {CONV}\n r4 = aten::relu(r3)\n drop(r3)\n r5 = tuple(r3, r4)", lambda: (None, Y.relu())),
    "dropped twice": (f"r3 = {CONV}\n r4 = aten::add.Tensor(r3, r3, 1)\n drop(r3, r3)\n r5 = move(r4)", lambda: Y * 2),
    "dropped by another": (f"r3 = {CONV}\n r4 = move(r3)\n r5 = aten::relu(r3)\n drop(r3)\n r5 = tuple(r4, r5)", lambda: (Y, Y.relu())),
    "its own register": (f"r3 = {CONV}\n r3 = aten::relu(r3)\n r3 = aten::add.Tensor(r3, r1, 1)\n drop(r1)\n r5 = move(r3)", lambda: Y.relu() + torch.tensor(X)),
    "waits for nothing": (f"r3 = {CONV}\n r5 = move(7)", lambda: 7),
    "waits in an attribute": (f"r3 = {CONV}\n set_attr 0 (r0, r3)\n r4 = aten::relu_(r3)\n r5 = get_attr 0 (r0)", lambda: Y.relu()),
    "a list of one": (f"r3 = {CONV}\n r6 = list(r3)\n r5 = aten::cat(r6, 1)", lambda: Y),
    "a list for two": (f"r3 = {CONV}\n r6 = list(r3, r3)\n r4 = aten::cat(r6, 1)\n r5 = tuple(r4, r6)", lambda: (torch.cat([Y, Y], 1), [Y, Y])),
    "a list that is given back": (f"r3 = {CONV}\n r6 = list(r3)\n r5 = prim::unchecked_cast(r6)", lambda: [Y]),
    "a list of all kinds": (f"r3 = {CONV}\n r6 = list(r3, r1)\n r5 = aten::cat(r6, 0)", lambda: torch.cat([Y, torch.tensor(X)])),
    "in a list in a list": (f"r3 = {CONV}\n r6 = list(r3)\n r6 = list(r6)\n r5 = move(r6)", lambda: [[Y]]),
    "through a call": (f"r3 = {CONV}\n r4 = call __torch__.M.twice(r0, r3)\n r5 = aten::relu(r4)", lambda: (Y * 2).relu()),
}  # fmt: skip


@pytest.mark.parametrize("slots", [False, True])
@pytest.mark.parametrize("name", HAND)
def test_hand_written(name: str, slots: bool) -> None:
    body, expected = HAND[name]
    text = f"forward(self, x, w):\n r6 = move(0)\n {body}\n return(r5)"
    if "twice" in body:
        text += "\ntwice(self, x):\n r6 = aten::add_.Tensor(r1, r1, 1)\n return(r1)"
    options = {"first_slot": 6} if slots and "r4, r6" not in body else {}
    model = penlight.Model(to_array(program(text, {"a": None}, **options)), threads=1)
    for _ in range(2):
        compare(as_torch(model(X, W)), expected(), 1e-5, text)


def as_torch(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return torch.tensor(value)
    return type(value)(as_torch(v) for v in value) if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (f"r3 = {CONV}\n r4 = aten::relu(r3, r3)", "as many arguments"),
        (f"r3 = {CONV}\n r4 = aten::add.Tensor(r3, 'a', 1)", "a Tensor for other"),
        (f"r3 = {CONV}\n r6 = list(r3, 5)\n r4 = aten::cat(r6, 1)", "a list of Tensors"),
        (f"r3 = {CONV}\n r6 = list(r3)\n r4 = aten::cat(r6, 9)", "a dim from"),
        (f"r3 = {CONV}\n r4 = aten::view(r3, [7])", "aten::view"),
        ("r3 = aten::conv2d(r1, r2, None, [1, 1], [1, 1], [1, 1], 3)", "groups"),
        ("r3 = aten::conv2d(r1, r2, None, [0, 1], [1, 1], [1, 1], 1)", "stride"),
        ("r3 = aten::conv2d(r1, r2, None, [1, 1], [4611686018427387904, 1], [1, 1], 1)", "padding"),
        ("r3 = aten::conv2d(r1, r2, None, [1, 1], [0, 0], [4, 4], 1)", "as large as the kernel"),
        (f"r3 = {CONV}\na:\n jump() -> a", "max_steps"),
    ],
)
def test_an_error_while_one_waits(body: str, words: str) -> None:
    """It is told in words, and the module is as before."""
    text = f"forward(self, x, w):\n r6 = move(0)\n {body}\n return(r3)\ngood(self, x, w):\n r6 = {CONV}\n return(r6)"
    model = penlight.Model(to_array(program(text, {}, first_slot=6)), threads=1, max_steps=10_000)
    for _ in range(2):
        with pytest.raises(penlight.RunError, match=words):
            model(X, W)
        compare(as_torch(model.good(X, W)), Y, 1e-5, text)


def test_memory_is_counted_once() -> None:
    """An image that waits, lies channels-last, is settled and goes: what was taken is given back."""
    limit = 40 * X.nbytes  # values, and the convolution's arena
    text = f"""forward(self, x, w, n):
 r4 = list(0)
a:
 r5 = {CONV}
 r6 = aten::relu(r5)
 r7 = aten::view(r6, [-1])
 r8 = aten::append.t(r4, 1)
 r9 = aten::len.t(r4)
 r10 = aten::lt.int(r9, r3)
 branch(r10) -> b
 jump() -> a
b:
 return(r7)"""
    model = penlight.Model(to_array(program(text, {})), threads=1, memory_limit=limit)
    for _ in range(3):
        compare(as_torch(model(X, W, 400)), Y.relu().flatten(), 1e-5, text)
    text = f"forward(self, x, w):\n r3 = list()\na:\n r4 = {CONV}\n r5 = aten::append.t(r3, r4)\n jump() -> a"
    hoard = penlight.Model(to_array(program(text, {})), threads=1, memory_limit=limit, max_steps=1_000_000)
    for _ in range(3):
        with pytest.raises(penlight.RunError, match="memory_limit"):
            hoard(X, W)


def test_the_same_bits_for_any_number_of_threads() -> None:
    body = (
        CASES["a chain"].replace("return", "y =")
        + "\ny = torch.cat([y, x], 1)[:, 3:11]\nreturn torch.relu(self.halves(y)) * y"
    )
    x = image(8, (33, 41), 3)
    m = module(body)
    one, three = (penlight.optimize(m, plan=False, threads=threads)(x) for threads in (1, 3))
    assert torch.equal(one, three)


def test_state_is_kept_as_torch_keeps_it() -> None:
    m = module("self.state = torch.relu(self.full(x)) + self.state\nreturn self.full(self.state)")
    m.define("def last(self):\n    return self.state.view(-1), self.state.stride()\n")
    ours = penlight.optimize(m, plan=False, methods=["forward", "last"])
    x = image()
    for _ in range(3):
        compare(ours(x), m(x), 1e-4, "state")
        compare(ours.last(), m.last(), 1e-4, "state")


def test_in_an_object_that_is_the_result() -> None:
    text = f"forward(self, x, w):\n r3 = create __torch__.Box ()\n r4 = {CONV}\n set_attr 0 (r3, r4)\n r5 = aten::relu_(r4)\n return(r3)"
    model = penlight.Model(to_array(program(text, {}, classes={"__torch__.Box": ["value"]})), threads=1)
    compare(as_torch(model(X, W).value), Y.relu(), 1e-5, text)


def test_the_object_of_a_convolution_changes_while_it_waits() -> None:
    """Weights that were packed are attributes of an object, which code may set."""
    text = """forward(self, x, w, other):
 r4 = prepacked::conv2d_clamp_prepack(r2, None, [1, 1], [1, 1], [1, 1], 1, None, None)
 r5 = prepacked::conv2d_clamp_run(r1, r4)
 set_attr 0 (r4, r3)
 r6 = aten::relu(r5)
 return(r6)"""
    model = penlight.Model(to_array(program(text, {})), threads=1)
    for other in (np.zeros((64, 8, 3, 3), np.float32), np.zeros((8, 8, 1, 1), np.float32), np.zeros(3), None):
        compare(as_torch(model(X, W, other)), Y.relu(), 1e-5, text)


def test_nothing_is_turned_round() -> None:
    """A chain of operators that all take images as they lie: none is copied. (The first takes a row-major one, having few channels.)"""
    body = """
y = torch.ops.aten.hardtanh_(self.full(x), 0.0, 6.0)
y = y + torch.relu(self.depth(torch.max_pool2d(y, [3, 3], [1, 1], [1, 1])))
y = torch.relu_(self.point(y)) + y
return torch.ops.aten.adaptive_avg_pool2d({}, [1, 1])"""
    for last, copies in (("y * 2", False), ("y[:, 1:]", True)):  # a view is made of what is settled
        ours = penlight.optimize(module(body.format(last), 4), plan=False)
        used = ours.trace()
        ours(image(4))
        assert any(key.startswith("copy") for key in used.kernels) == copies, used.kernels
