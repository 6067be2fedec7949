"""Memory for what a script's operators give while it is observed: torch takes as much as a few lines of a file ask for.

Where a result may be large, torch tells its size before it is computed; many small ones are counted as they come. More than is free ends the
observing, in words: the script is interpreted then, within the limits of a run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from penlight import limits
from penlight.errors import CaptureError

_SMALL = 64 << 20  # bytes that nobody asks about
# How many elements an operator makes where numbers in its arguments decide, which no rule of sizes looks at.
_BY_DATA: dict[str, Callable[..., Any]] = {
    "aten::repeat_interleave": lambda x, repeats=None, *_: (
        x.sum() if repeats is None else repeats.sum() * x.numel() if isinstance(repeats, torch.Tensor) else 0
    ),
    "aten::bincount": lambda x, *_: x.max() + 1 if x.numel() else 0,
    "aten::one_hot": lambda x, *_: (x.max() + 1) * x.numel() if x.numel() else 0,
}


class Room:
    def __init__(self) -> None:
        self._sizes = FakeTensorMode(allow_fallback_kernels=False, allow_non_fake_inputs=True)
        self._taken = 0  # by results since memory was last looked at

    def check(self, name: str, call: Callable[..., Any], args: Sequence[Any]) -> None:
        """Before the call. Where torch cannot tell a size, the call is in proportion to its arguments, or says itself what is wrong."""
        if _may_take(args) < _SMALL and name not in _BY_DATA:
            return
        try:
            if name in _BY_DATA:
                size = 8 * int(_BY_DATA[name](*args))
            else:
                fakes = pytree.tree_map_only(torch.Tensor, self._sizes.from_tensor, list(args))
                with self._sizes:
                    size = _bytes(call(*fakes))
        except Exception:  # any: there is no rule, data decide, or the call is wrong, as it is about to say
            return
        self._need(size)

    def note(self, made: Any) -> None:
        self._taken += _bytes(made)
        if self._taken >= _SMALL:
            self._taken = 0
            self._need(0)

    def _need(self, size: int) -> None:
        free = limits.free_memory()
        if free and size + _SMALL > free - free // 8:
            raise CaptureError(f"it asks for {size} bytes more, where {free} are free")


def _bytes(value: Any) -> int:
    return sum(t.numel() * t.element_size() for t in pytree.tree_leaves(value) if isinstance(t, torch.Tensor))


def _may_take(args: Sequence[Any]) -> float:
    """More than a call gives, but for those that data decide: each number counts as a factor."""
    leaves = pytree.tree_leaves(list(args))
    factors = (float(abs(x)) for x in leaves if type(x) in (int, float) and 1 < abs(x) < math.inf)
    return math.prod(factors) * (8 + _bytes(leaves))
