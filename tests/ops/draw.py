"""What a case is drawn from: sizes, mostly tiny; tensors that lie in every way a caller's or an inner one may; and what comes
before and after the operator in the graph.

Floats are small multiples of a quarter, so that sums and products of them are exact and a wrong element stands out. Memory
around a strided tensor is filled with NaN (integers: with large numbers), so that reading outside shows.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tests.ops.tape import Tape

F32, F64, I64, I32, U8, BOOL = torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool
NUMBERS = (F32, F32, F32, I64, I32, torch.int16, U8, F64)
POISON = {F32: math.nan, F64: math.nan, torch.complex64: math.nan, BOOL: True}

FAMILIES: dict[str, Family] = {}


@dataclass(frozen=True)
class Family:
    """How cases of some operators are drawn: `draw(d)` computes with what it draws, and returns tensors."""

    draw: Callable[[Draw], Any]
    operators: frozenset[str]
    special: bool
    share: int


def family(
    operators: str, special: bool = False, share: int = 1
) -> Callable[[Callable[[Draw], Any]], Callable[[Draw], Any]]:
    """Registers a function as a family. `special`: NaN and inf have one meaning in all of its operators. `share`: so many
    times the cases of others, for operators with many kernels."""

    def register(draw: Callable[[Draw], Any]) -> Callable[[Draw], Any]:
        FAMILIES[draw.__name__] = Family(draw, frozenset(operators.split()), special, share)
        return draw

    return register


class Draw(random.Random):
    """Random choices of one case, and the tape that it goes on. `special`: there may be NaN and inf among the numbers."""

    def __init__(self, seed: int, special: bool = False) -> None:
        super().__init__(seed)
        self.special = special and self.chance(0.2)
        self.generator = torch.Generator().manual_seed(seed)
        self.tape = Tape()
        self.chance_of_view = self.choice((0.0, 0.3))

    def name(self, names: str) -> str:
        return self.choice(names.split())

    def one_of(self, *ways: Callable[[], Any]) -> Any:
        return self.choice(ways)()

    def chance(self, share: float) -> bool:
        return self.random() < share

    def size(self, most: int = 40) -> int:
        return min(most, self.choice((1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 15, 16, 17, self.randint(18, 40))))

    def sizes(self, count: int, elements: int = 4000, empty: float = 0.0) -> list[int]:
        while True:
            found = [0 if self.chance(empty) else self.size() for _ in range(count)]
            if math.prod(found) <= elements:
                return found

    def dim(self, x: torch.Tensor) -> int:
        return self.randrange(-x.dim(), x.dim()) if x.dim() else 0

    def dims(self, x: torch.Tensor) -> list[int]:
        return self.sample(range(x.dim()), self.randint(1, x.dim()))

    def optional(self, value: Any, share: float = 0.5) -> Any:
        return value if self.chance(share) else None

    # --- tensors ---
    def numbers(self, shape: Any, dtype: torch.dtype = F32, low: int = -8, high: int = 8) -> torch.Tensor:
        if dtype == torch.complex64:
            return torch.complex(self.numbers(shape), self.numbers(shape))
        if dtype == BOOL:
            return torch.rand(tuple(shape), generator=self.generator) < 0.5
        whole = torch.randint(low, high + 1, tuple(shape), generator=self.generator).to(dtype)
        if dtype == F32 and self.special and whole.numel():
            whole.view(-1)[self.randrange(whole.numel())] = self.choice((math.nan, math.inf, -math.inf))
        return whole / 4 if dtype.is_floating_point else whole

    def distinct(self, shape: Any, dtype: torch.dtype = F32) -> torch.Tensor:
        """Numbers that differ from each other, where a tie would leave the answer open."""
        count = math.prod(shape)
        return (torch.randperm(count, generator=self.generator) - count // 2).to(dtype).reshape(tuple(shape))

    def indices(self, shape: Any, size: int, dtype: torch.dtype = I64, negative: bool = False) -> torch.Tensor:
        """Of a dim with `size` elements."""
        found = torch.randint(-size if negative else 0, size, tuple(shape), generator=self.generator)
        return self.tape.input(self.laid(found.to(dtype)))

    def tensor(self, *shape: int, dtype: torch.dtype = F32, **bounds: int) -> torch.Tensor:
        """An input of the graph that lies somehow, or something made of one there."""
        if self.chance(self.chance_of_view) and shape and not dtype.is_complex:
            return self.made(shape, dtype, **bounds)
        return self.tape.input(self.laid(self.numbers(shape, dtype, **bounds)))

    def plain(self, *shape: int, dtype: torch.dtype = F32, **bounds: int) -> torch.Tensor:
        """Like tensor, of finite numbers, where torch itself has no say in what comes of others."""
        special, self.special = self.special, False
        made = self.tensor(*shape, dtype=dtype, **bounds)
        self.special = special
        return made

    def weight(self, *shape: int, dtype: torch.dtype = F32) -> torch.Tensor:
        """Mostly a constant."""
        return self.numbers(shape, dtype) if self.chance(0.7) else self.tensor(*shape, dtype=dtype)

    def values(self, x: torch.Tensor) -> torch.Tensor:
        """These numbers as an input, however they lie (their own strides may be a surprise, their values may not)."""
        return self.tape.input(self.laid(x, keep=True))

    def made(self, shape: Any, dtype: torch.dtype, **bounds: int) -> torch.Tensor:
        rank, d = len(shape), self.randrange(len(shape))
        kind = self.choice(("slice", "permute", "expand", "select", "cat", "neg", "pool", "flip", "reshape"))
        given = list(shape)
        if kind == "slice":
            step, start, more = self.randint(1, 2), self.randint(0, 2), self.randint(0, 2)
            given[d] = start + step * given[d] + more
            whole = self.tape.input(self.laid(self.numbers(given, dtype, **bounds)))
            return whole.narrow(d, start, step * shape[d])[(slice(None),) * d + (slice(None, None, step),)]
        if kind == "permute":
            order = self.sample(range(rank), rank)
            for i, o in enumerate(order):
                given[o] = shape[i]
            return self.tape.input(self.laid(self.numbers(given, dtype, **bounds))).permute(order)
        if kind == "expand":
            given[d] = 1
            return self.tape.input(self.laid(self.numbers(given, dtype, **bounds))).expand(tuple(shape))
        if kind == "select":
            given.insert(d, self.randint(1, 3))
            return self.tape.input(self.laid(self.numbers(given, dtype, **bounds))).select(d, self.randrange(given[d]))
        if kind == "cat" and shape[d] > 1:
            cut = self.randint(1, shape[d] - 1)
            parts = []
            for length in (cut, shape[d] - cut):
                given[d] = length
                parts.append(self.tape.input(self.laid(self.numbers(given, dtype, **bounds))))
            return torch.cat(parts, d)
        whole = self.tape.input(self.laid(self.numbers(given, dtype, **bounds)))
        if kind == "neg" and dtype.is_floating_point and not bounds:
            return -whole
        if kind == "pool" and rank == 4 and dtype == F32 and not bounds:  # which lies with channels innermost
            return torch.nn.functional.max_pool2d(whole, (2, 1), 1, (1, 0))[:, :, : shape[2]]
        if kind == "flip":
            return whole.flip(d)
        if kind == "reshape" and rank > 1:
            return whole.flatten(d - 1 if d else 0, d or 1).reshape(tuple(shape))
        return whole

    def laid(self, x: torch.Tensor, keep: bool = False) -> torch.Tensor:
        """x in memory as it may come; unless it must keep its numbers, also with elements that share memory."""
        rank = x.dim()
        kind = self.choice(("plain", "plain", "channels", "permuted", "sliced", "sliced", "expanded", "overlapping"))
        if kind == "channels" and rank in (4, 5):
            x = x.contiguous(memory_format=torch.channels_last if rank == 4 else torch.channels_last_3d)
        elif kind in ("permuted", "channels") and rank:
            order = self.sample(range(rank), rank)
            x = x.permute(order).contiguous().permute([order.index(i) for i in range(rank)])
        elif kind == "expanded" and rank and x.numel() and not keep:
            for d in self.dims(x):
                x = x.narrow(d, 0, 1).expand(x.shape)
        elif kind == "overlapping" and rank and x.numel() and not keep:
            strides = [self.randint(0, 3) for _ in range(rank)]
            room = 1 + sum(s * (n - 1) for s, n in zip(strides, x.shape, strict=True))
            line = x.flatten().repeat(room // x.numel() + 1)
            x = line.as_strided(x.shape, strides, 0)
        if kind == "sliced" or self.chance(0.1):
            x = self._sliced(x)
        if self.chance(0.3):  # where a dim has one element, its stride means nothing, and may be anything
            strides = [self.randint(0, 9) if n == 1 else s for n, s in zip(x.shape, x.stride(), strict=True)]
            x = x.as_strided(x.shape, strides, x.storage_offset())
        return x

    def _sliced(self, x: torch.Tensor) -> torch.Tensor:
        order = self.sample(range(x.dim()), x.dim()) if self.chance(0.5) else list(range(x.dim()))
        turned = x.permute(order)
        steps, starts = ([self.randint(low, 2) for _ in order] for low in (1, 0))
        room = [a + s * n + self.randint(0, 2) for a, s, n in zip(starts, steps, turned.shape, strict=True)]
        buffer = torch.full(room, POISON.get(x.dtype, 99), dtype=x.dtype)
        cut = tuple(slice(a, a + s * n, s) for a, s, n in zip(starts, steps, turned.shape, strict=True))
        view = buffer[cut].copy_(turned)
        return view.permute([order.index(i) for i in range(x.dim())])

    # --- what comes after ---
    def after(self, y: torch.Tensor) -> torch.Tensor:
        """Often y itself; else something that passes and plans combine with it."""
        if y.dtype != F32 or not y.dim() or y.numel() == 0 or self.chance(0.5):
            return y
        kind = self.choice(("relu", "add", "cat", "permute", "slice", "hardswish", "mul"))
        d = self.randrange(y.dim())
        if kind == "relu":
            return y.relu()
        if kind == "hardswish":
            return torch.nn.functional.hardswish(y)
        if kind == "add":
            return y + self.tensor(*y.shape)
        if kind == "mul":
            return y * self.tensor(*(n if self.chance(0.5) else 1 for n in y.shape))
        if kind == "cat":
            return torch.cat([self.tensor(*y.shape), y], d)
        if kind == "permute":
            return y.permute(self.sample(range(y.dim()), y.dim()))
        return y.narrow(d, 0, self.randint(1, y.shape[d]))
