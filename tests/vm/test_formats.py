"""Memory formats in the VM: views, joins and layers give torch's strides, whatever lies channels-last, in whole or as a part. Single calls
on parts of images, and programs drawn at random."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import penlight
from tests.vm.check import check, compare
from tests.vm.test_images import strides

LAST = torch.channels_last
BIG = torch.randn(2, 6, 8, 9, generator=torch.Generator().manual_seed(0)).contiguous(memory_format=LAST)
PARTS = {
    "channels": BIG[:, :3],
    "columns": BIG[:, :, :, 1:6],
    "rows": BIG[:, :3, 2:7],
    "every other row": BIG[:, :3, ::2],
    "batch": BIG[::2, :3],
}
LAYERS: dict[str, Callable[[int], tuple[Any, ...]]] = {
    "aten::upsample_nearest2d": lambda channels: ([5, 7], None, None),
    "aten::upsample_bilinear2d": lambda channels: ([5, 7], False, None, None),
    "aten::avg_pool2d": lambda channels: ([2, 2], [2, 2], [0, 0], False, True, None),
    "aten::max_pool2d": lambda channels: ([2, 2], [2, 2], [0, 0], [1, 1], False),
    "aten::adaptive_avg_pool2d": lambda channels: ([2, 3],),
    "aten::conv2d": lambda channels: (torch.ones(4, channels, 3, 3), None, [1, 1], [0, 0], [1, 1], 1),
    "aten::batch_norm": lambda channels: (None, None, torch.zeros(channels), torch.ones(channels), False, 0.1, 1e-5, False),
    "aten::group_norm": lambda channels: (3, None, None, 1e-5, False),
    "aten::roll": lambda channels: ([1], [1]),
    "aten::to.dtype": lambda channels: (6, False, False, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_parts_of_images(name: str) -> None:
    """torch looks at strides alone: what is computed of a part of a channels-last image lies channels-last."""
    for x in PARTS.values():
        check(name, x, *LAYERS[name](x.shape[1]), layout=True, tolerance=1e-5)


def test_stack() -> None:
    """It joins along a dim and splits that, so images stay channels-last; only behind the last dim are there views to join."""
    images = [torch.randn(2, 3, 4, 5).contiguous(memory_format=LAST) for _ in range(2)]
    volumes = [torch.randn(2, 3, 4, 5, 2).contiguous(memory_format=torch.channels_last_3d) for _ in range(2)]
    for tensors in (images, volumes, [images[0], images[0].contiguous()], [torch.zeros(0), torch.zeros(0)]):
        for dim in range(-1 - tensors[0].dim(), tensors[0].dim() + 1):
            check("aten::stack", tensors, dim, layout=True)
    assert check("aten::stack", images, 0).stride() == (120, 60, 1, 15, 3)


@pytest.mark.parametrize("shape", [(2, 4, 1, 3), (2, 4, 3, 1), (1, 4, 2, 3), (2, 1, 3, 4)], ids=str)
def test_strides_of_ones_arrive(shape: tuple[int, ...]) -> None:
    """A dim of one has a stride too, by which torch tells whether an image lies channels-last."""
    x = torch.randn(shape).contiguous(memory_format=LAST)
    assert tuple(check("aten::stride", x)) == x.stride()
    for name in ("cat", "hstack", "vstack", "dstack", "column_stack"):
        check(f"aten::{name}", [x, x], *([2] if name == "cat" else []), layout=True)


class Program:
    """Code that torch can run on a tensor of any rank, drawn line by line; what it gives is looked at by drawing the next."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        shape = [self.random.choice([1, 2, 3, 4, 5]) for _ in range(self.random.choice([3, 4, 4, 4, 5]))]
        x = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
        if len(shape) > 3 and self.random.random() < 0.5:
            x = x.contiguous(memory_format=LAST if len(shape) == 4 else torch.channels_last_3d)
        self.values, self.lines = {"x": x}, [""]

    def line(self) -> str:
        a = self.random.choice(list(self.values)[-4:])
        n = self.values[a].dim()
        b = self.random.choice([k for k, v in self.values.items() if v.shape == self.values[a].shape])
        d, e = (self.random.randrange(-n, n) if n else 0 for _ in range(2))
        new, order = self.random.randrange(-n - 1, n + 1), self.random.sample(range(n), n)
        last = "torch.channels_last" if n == 4 else "torch.channels_last_3d"
        return self.random.choice(
            [f"torch.stack([{a}, {b}], {new})", f"torch.stack([{a}, {b}, {a}], {new})", f"torch.stack([{a}], {new})", f"torch.cat([{a}, {b}], {d})",
             f"torch.cat([{a}, {b}, {a}], {d})", f"torch.hstack([{a}, {b}])", f"torch.vstack([{a}, {b}])", f"torch.dstack([{a}, {b}])",
             f"{a}.permute({order})", f"{a}.transpose({d}, {e})", f"{a}.contiguous()", f"{a}.contiguous(memory_format={last})",
             f"{a}.to(memory_format={last})", f"{a}.clone()", f"{a}.unsqueeze({d})", f"{a}.squeeze({d})", f"{a}.select({d}, -1)",
             f"{a}.narrow({d}, 0, 1)", f"{a}[..., ::2]", f"{a}[:, 1:]", f"{a}[:1]", f"{a} * 2", f"torch.relu({a})", f"{a} + {b}",
             f"torch.where({a} > 0, {a}, {b})", f"{a}.flatten({d})", f"{a}.flip([{d}])", f"{a}.sum({d})", f"torch.softmax({a}, {d})",
             f"torch.chunk({a}, 2, {d})[0]", f"torch.split({a}, 1, {d})[0]", f"torch.unbind({a}, {d})[-1]", f"torch.empty_like({a}).copy_({b})",
             f"torch.roll({a}, 1, {d})", f"torch.max_pool2d({a}, [1, 1])", f"torch.ops.aten.upsample_nearest2d({a}, [3, 4])",
             f"torch.ops.aten.avg_pool2d({a}, [1, 1])", f"torch.ops.aten.constant_pad_nd({a}, [1, 0])", f"torch.channel_shuffle({a}, 1)",
             f"torch.index_select({a}, {d}, torch.tensor([0]))", f"torch.sort({a}, {d})[0]", f"{a}.movedim({d}, {e})", f"torch.tril({a})"])  # fmt: skip

    def text(self, length: int) -> str:
        while len(self.values) <= length:
            drawn = self.line()
            try:
                value = eval(drawn, {"torch": torch, **self.values})
            except (RuntimeError, IndexError):
                continue  # torch takes no such arguments
            if 0 < value.numel() < 3000 and value.dim() < 7:
                name = f"v{len(self.values)}"
                self.values[name] = value
                self.lines.append(f"{name} = {drawn}")
        return "\n    ".join(self.lines)


@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (100, 200))])
def test_programs_drawn_at_random(first: int) -> None:
    for seed in range(first, first + 40):
        program = Program(seed)
        text, names = program.text(7), ", ".join(program.values)
        weights = nn.Module()
        weights.register_buffer(f"program_{seed}", torch.zeros(1))  # one class each
        m = torch.jit.script(weights)
        m.define(f"def forward(self, x) -> List[Tensor]:{text}\n    return [{names}]\n")
        with torch.jit.optimized_execution(False):
            expected = m(program.values["x"])
        got = penlight.optimize(m, plan=False)(program.values["x"])
        compare(got, expected, 2e-6, text)
        for name, ours, theirs in zip(program.values, got, expected, strict=True):
            assert strides(ours) == strides(theirs), f"{name} of{text}"
